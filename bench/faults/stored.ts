/** What is stored, read without the gateway: the repository of the git store, and what was left behind. */
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { Layout } from '../../storage/layout.ts';
import { eventually } from '../../testing/waiting.ts';

/** A start clears away what a dead daemon left, within this. */
const SWEEP_MS = 5000;

/** What a command of git says of the repository. */
export function git(repository: string, ...args: string[]): string {
  return execFileSync('git', ['-C', repository, ...args], { encoding: 'utf8' });
}

/** Temporary files of uploads and writes that were refused, which are removed before the answer. */
export function leftovers(dataDir: string): string[] {
  const { tmpDir, appsDir } = new Layout(dataDir);
  const half = readdirSync(appsDir, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.tmp'));
  return [...readdirSync(tmpDir).map((name) => `tmp/${name}`), ...half].map((name) => `${name} was left behind.`);
}

/** Those of a dead daemon, wherever they are, once the next one had time to clear them away. */
export async function leftoversOfTheDead(dataDir: string): Promise<string[]> {
  const find = () =>
    readdirSync(dataDir, { recursive: true, encoding: 'utf8' }).filter((name) => /\.tmp$|^tmp\/./.test(name));
  await eventually(SWEEP_MS, () => find().length === 0);
  return find().map((name) => `${name} was left behind.`);
}
