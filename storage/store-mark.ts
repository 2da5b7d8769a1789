/** `_store.json`, beside the apps: their code is on a git store, and where. Missing on the tarball backend. */
import { isAbsolute, join, relative } from 'node:path';
import { clearPlace, isNoFile, mkdirDurable, readJson, writeFileAtomic } from './atomic-file.ts';
import type { Layout } from './layout.ts';

/** Taken from the data directory where it is relative. */
type StoreMark = { appsStoreRoot: string };

/** The absolute `appsStoreRoot`, and whether the mark says it: one that is damaged stands for the usual place. Null without a mark. */
export async function readStoreMark(layout: Layout): Promise<{ root: string; isWhole: boolean } | null> {
  let mark: unknown;
  try {
    mark = await readJson(layout.storeMark);
  } catch (error) {
    // Only a hand that edits it leaves it unreadable: it still says that there is a store.
    if (!(error instanceof SyntaxError || isNoFile(error))) throw error;
    mark = null;
  }
  if (mark === undefined) return null;
  const named = (mark as { appsStoreRoot?: unknown } | null)?.appsStoreRoot;
  const isWhole = typeof named === 'string' && named !== '';
  const root = isWhole ? named : 'code-store';
  return { root: isAbsolute(root) ? root : join(layout.dataDir, root), isWhole };
}

export async function writeStoreMark(layout: Layout, root: string): Promise<void> {
  await mkdirDurable(layout.appsDir);
  const inside = relative(layout.dataDir, root);
  // A data directory can be moved as a whole.
  const isInside = inside !== '' && !inside.startsWith('..') && !isAbsolute(inside);
  const mark: StoreMark = { appsStoreRoot: isInside ? inside : root };
  await clearPlace(layout.storeMark);
  await writeFileAtomic(layout.storeMark, `${JSON.stringify(mark)}\n`);
}
