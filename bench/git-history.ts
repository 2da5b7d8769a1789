/** A long history for the git store, written by `git fast-import`: publishing ten thousand times would take an hour. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { EDITED } from './author.ts';
import { benchApp } from './bench-app.ts';

const BY = 'svc <svc@localhost>';
/** Seconds since the epoch of the first commit; a minute lies between two. */
const BEGAN = 1_700_000_000;
const MINUTE = 60;

/** Whether the `git` program is there. */
export function hasGit(): boolean {
  return spawnSync('git', ['--version'], { stdio: 'ignore' }).status === 0;
}

/**
 * Adds so many commits to `main` of a bare repository that the gateway made: each app's first has all its files, the others
 * change one of them, app after app. Each is tagged as the version that it would be.
 */
export async function writeHistory(
  repository: string,
  { apps, commits }: { apps: string[]; commits: number },
): Promise<void> {
  const child = spawn('git', ['-C', repository, 'fast-import', '--quiet'], { stdio: ['pipe', 'ignore', 'inherit'] });
  const ended = once(child, 'exit');
  for (let i = 0; i < commits; i++) {
    const app = apps[i % apps.length] as string;
    const version = 1 + Math.floor(i / apps.length);
    const changed = version === 1 ? benchApp(app) : { [EDITED]: `/* Version ${version} of ${app} */\n` };
    const parts = [
      `commit refs/heads/main\nmark :${i + 1}\n${signed('committer', i)}${data(`Publish ${app} ${version}\n`)}`,
      i === 0 ? 'from refs/heads/main^0\n' : '',
      ...Object.entries(changed).map(([path, text]) => `M 100644 inline apps/${app}/${path}\n${data(String(text))}`),
      `tag ${app}/v${version}\nfrom :${i + 1}\n${signed('tagger', i)}${data(`Bench ${version}\n`)}`,
    ];
    if (!child.stdin.write(parts.join(''))) await once(child.stdin, 'drain');
  }
  child.stdin.end('done\n');
  const [code] = (await ended) as [number | null];
  if (code !== 0) throw new Error(`git fast-import ended with ${code}.`);
}

function signed(who: 'committer' | 'tagger', at: number): string {
  return `${who} ${BY} ${BEGAN + at * MINUTE} +0000\n`;
}

function data(text: string): string {
  return `data ${Buffer.byteLength(text)}\n${text}\n`;
}
