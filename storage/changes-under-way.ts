/**
 * The changes of apps that the git store is about to make or has not made final: one file each, `publishing/<id>.json`. A crash
 * leaves the file, and the next gateway finishes or forgets the change.
 */
import { readdir } from 'node:fs/promises';
import { isAppId } from '../protocol/ids.ts';
import { exists, isMissing, mkdirDurable, readJson, removeDurable, writeFileAtomic } from './atomic-file.ts';
import type { CodeStorePaths } from './layout.ts';
import { sweepTemporary } from './trash.ts';

/**
 * `publish`: a new version becomes the active one. `store`: it is only kept. `activate`: an older one becomes active, and
 * `commit` makes main say so too. `remove`: the app goes.
 */
export type ChangeUnderWay =
  | { kind: 'publish' | 'store' | 'activate'; versionId: string; commit: string }
  | { kind: 'remove' };

/** Null when there is none. What cannot be read was never whole: the file is written atomically. */
export async function readChange(store: CodeStorePaths, app: string): Promise<ChangeUnderWay | null> {
  try {
    return ((await readJson(store.publishing(app))) as ChangeUnderWay | undefined) ?? null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

export async function writeChange(store: CodeStorePaths, app: string, change: ChangeUnderWay): Promise<void> {
  await mkdirDurable(store.publishingDir);
  await writeFileAtomic(store.publishing(app), `${JSON.stringify(change)}\n`);
}

export async function removeChange(store: CodeStorePaths, app: string): Promise<void> {
  if (await exists(store.publishing(app))) await removeDurable(store.publishing(app));
}

/** Ids of the apps that have one, after a crash. */
export async function listChanges(store: CodeStorePaths): Promise<string[]> {
  await sweepTemporary(store.publishingDir);
  try {
    const names = await readdir(store.publishingDir);
    return names.flatMap((name) => (name.endsWith('.json') ? [name.slice(0, -5)] : [])).filter(isAppId);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}
