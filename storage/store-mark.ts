/** `_store.json`, beside the apps: their code is on a git store, and where. Missing on the tarball backend. */
import { isAbsolute, join, relative } from 'node:path';
import { mkdirDurable, readJson, writeFileAtomic } from './atomic-file.ts';
import type { Layout } from './layout.ts';

/** Taken from the data directory where it is relative. */
type StoreMark = { appsStoreRoot: string };

/** The absolute `appsStoreRoot`; null without a mark. */
export async function readStoreMark(layout: Layout): Promise<string | null> {
  let mark: Partial<StoreMark> | undefined;
  try {
    mark = (await readJson(layout.storeMark)) as Partial<StoreMark> | undefined;
  } catch (error) {
    // Only a hand that edits it leaves it unreadable: it still says that there is a store.
    if (!(error instanceof SyntaxError)) throw error;
    mark = {};
  }
  if (mark === undefined) return null;
  const root = mark.appsStoreRoot ?? 'code-store';
  return isAbsolute(root) ? root : join(layout.dataDir, root);
}

export async function writeStoreMark(layout: Layout, root: string): Promise<void> {
  await mkdirDurable(layout.appsDir);
  const inside = relative(layout.dataDir, root);
  // A data directory can be moved as a whole.
  const isInside = inside !== '' && !inside.startsWith('..') && !isAbsolute(inside);
  const mark: StoreMark = { appsStoreRoot: isInside ? inside : root };
  await writeFileAtomic(layout.storeMark, `${JSON.stringify(mark)}\n`);
}
