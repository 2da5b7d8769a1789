/** `svc export`: the code of all apps, as a git bundle or as plain folders. */
import {
  createWriteStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { rename } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { LIMITS } from '../../protocol/limits.ts';
import type { CommandContext } from '../command.ts';
import { CommandError } from '../failure.ts';
import type { SessionFile } from '../gateway/api.ts';
import type { Client } from '../gateway/client.ts';
import { shortPath } from '../gateway/data-directory.ts';
import { allApps } from '../gateway/lists.ts';
import { filesPath, sessionPath } from '../gateway/paths.ts';
import { interruptible } from '../interrupt.ts';
import { shellPath } from '../terminal/shell.ts';
import { formatBytes, plural } from '../terminal/units.ts';

export async function run(context: CommandContext): Promise<void> {
  const { args, terminal, cwd, connect } = context;
  const target = resolve(cwd, args.at(0));
  const shown = shortPath(target, context);
  const client = connect();
  const tick = terminal.style('green', '✓');
  if (target.endsWith('.bundle')) {
    if (existsSync(target)) throw new CommandError(`${shown} already exists.`, 'Name another file, or move it away.');
    await saveBundle(client, target);
    const bytes = statSync(target).size;
    terminal.answer({ file: target, bytes }, () => {
      terminal.line(`${tick} ${terminal.style('bold', shown)} is written, ${formatBytes(bytes)}`);
      terminal.line(terminal.style('dim', `  git clone ${shellPath(shown)}  shows what is in it`));
    });
    return;
  }
  if (existsSync(target) && !statSync(target).isDirectory())
    throw new CommandError(`${shown} is a file.`, 'Name a new folder, or a file that ends in .bundle.');
  if (existsSync(target) && readdirSync(target).length > 0)
    throw new CommandError(`${shown} is not empty.`, 'Name a new folder.');
  const { apps, skipped } = await saveFolders(client, target);
  terminal.answer({ folder: target, apps, skipped }, () => {
    const names = apps.length === 0 ? '' : `: ${apps.join(', ')}`;
    terminal.line(`${tick} ${plural(apps.length, 'app')} in ${terminal.style('bold', shown)}${names}`);
    if (skipped.length > 0)
      terminal.line(terminal.style('yellow', `  left out, for no version is live: ${skipped.join(', ')}`));
  });
}

/** A file has its name only when all of it has come. */
async function saveBundle(client: Client, target: string): Promise<void> {
  const unfinished = `${target}.tmp`;
  await interruptible(async (signal) => {
    try {
      const answer = await client.download('/svc/_code/export', LIMITS.backupWaitMs, signal);
      await pipeline(answer, createWriteStream(unfinished, { mode: 0o600 }), { signal });
      await rename(unfinished, target);
    } finally {
      rmSync(unfinished, { force: true });
    }
  });
}

/** As they are published; `skipped` are those of which nothing is. */
async function saveFolders(client: Client, target: string): Promise<{ apps: string[]; skipped: string[] }> {
  const records = await allApps(client);
  const apps = records.filter(({ activeVersion }) => activeVersion !== null).map(({ id }) => id);
  const skipped = records.filter(({ activeVersion }) => activeVersion === null).map(({ id }) => id);
  await interruptible((signal) => fillFolder(target, (folder) => readApps(client, apps, folder, signal)));
  return { apps, skipped };
}

/** Through a session that goes again. */
async function readApps(client: Client, apps: string[], folder: string, signal: AbortSignal): Promise<void> {
  const { sessionId } = await client.post<{ sessionId: string }>('/svc/_sessions', {});
  try {
    for (const app of apps) {
      const { body } = await client.call('GET', filesPath(sessionId, app), { signal });
      for (const { path } of body as SessionFile[]) {
        const file = join(folder, app, path);
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, await client.getBytes(filesPath(sessionId, app, path), signal));
      }
    }
  } finally {
    await client.delete(sessionPath(sessionId));
  }
}

/** `target` is missing or empty, and stays so when `fill` fails; what `fill` writes into the folder it gets comes there when it is done. */
async function fillFolder(target: string, fill: (folder: string) => Promise<void>): Promise<void> {
  const isThere = existsSync(target);
  // A folder that is there is kept, not replaced: it may be a mount, a link, or where somebody's shell is.
  const place = isThere ? target : nearestFolder(dirname(target));
  const unfinished = mkdtempSync(join(place, `.${basename(target)}.tmp-`));
  try {
    // With the rights that new folders have here; the one above is its owner's only.
    const filled = join(unfinished, 'filled');
    mkdirSync(filled);
    await fill(filled);
    if (isThere) for (const name of readdirSync(filled)) renameSync(join(filled, name), join(target, name));
    else {
      mkdirSync(dirname(target), { recursive: true });
      renameSync(filled, target);
    }
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
}

/** The folder itself, or the first above it that exists. */
function nearestFolder(folder: string): string {
  return existsSync(folder) ? folder : nearestFolder(dirname(folder));
}
