/**
 * The changes of apps that the git store is about to make or has not made final: one file each, `publishing/<id>.json`. A crash
 * leaves the file, and the next gateway finishes or forgets the change.
 */
import { isAppId } from '../protocol/ids.ts';
import {
  clearPlace,
  isNoFile,
  isThere,
  mkdirDurable,
  namesIn,
  readJson,
  removeDurable,
  writeFileAtomic,
} from './atomic-file.ts';
import { isObjectId } from './git/object.ts';
import type { CodeStorePaths } from './layout.ts';
import { sweepTemporary } from './trash.ts';

/**
 * `publish`: a new version becomes the active one. `store`: it is only kept. `activate`: an older one becomes active, and
 * `commit` makes main say so too. `remove`: the app goes.
 */
export type ChangeUnderWay =
  | { kind: 'publish' | 'store' | 'activate'; versionId: string; commit: string }
  | { kind: 'remove' };

/** Null when there is none; `damaged` when what is there says nothing: as it is written atomically, somebody changed it. */
export async function readChange(store: CodeStorePaths, app: string): Promise<ChangeUnderWay | 'damaged' | null> {
  let value: unknown;
  try {
    value = await readJson(store.publishing(app));
  } catch (error) {
    if (error instanceof SyntaxError || isNoFile(error)) return 'damaged';
    throw error;
  }
  return value === undefined ? null : (parseChange(value) ?? 'damaged');
}

function parseChange(value: unknown): ChangeUnderWay | null {
  const { kind, versionId, commit } = (value ?? {}) as Partial<Record<string, unknown>>;
  if (kind === 'remove') return { kind };
  if (kind !== 'publish' && kind !== 'store' && kind !== 'activate') return null;
  if (typeof versionId !== 'string' || typeof commit !== 'string' || !isObjectId(commit)) return null;
  return { kind, versionId, commit };
}

export async function writeChange(store: CodeStorePaths, app: string, change: ChangeUnderWay): Promise<void> {
  await mkdirDurable(store.publishingDir);
  await clearPlace(store.publishing(app));
  await writeFileAtomic(store.publishing(app), `${JSON.stringify(change)}\n`);
}

export async function removeChange(store: CodeStorePaths, app: string): Promise<void> {
  const path = store.publishing(app);
  if (!(await isThere(path))) return;
  await clearPlace(path);
  await removeDurable(path);
}

/** Ids of the apps that have one, after a crash. */
export async function listChanges(store: CodeStorePaths): Promise<string[]> {
  await sweepTemporary(store.publishingDir);
  const names = await namesIn(store.publishingDir);
  return names.flatMap((name) => (name.endsWith('.json') ? [name.slice(0, -5)] : [])).filter(isAppId);
}
