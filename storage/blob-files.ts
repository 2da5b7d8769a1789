/**
 * Stores the files that an app keeps beside its database, by the SHA-256 of their content. A draft also sees those of the live
 * app, except the ones that it deleted.
 */
import { constants } from 'node:fs';
import { type FileHandle, lstat, open, opendir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { appOfKey, isDraftKey } from '../protocol/ids.ts';
import type { FILE, FILE_ROW } from '../protocol/routes/apps/files-rows.ts';
import type { Of } from '../protocol/shapes/schema.ts';
import { exists, inParallel, isMissing, namesIn } from './files/atomic-file.ts';
import type { Layout } from './layout.ts';

export type BlobRecord = Of<typeof FILE>;

export type BlobRow = Of<typeof FILE_ROW>;

/** `newest`: what was stored last comes first. */
export type BlobOrder = 'newest' | 'largest';

/** Only names that begin with `prefix`, at most `limit`, after the row that `after` (an earlier `next`) stands for. */
export type BlobQuery = { order: BlobOrder; prefix: string; limit: number; after: string | null };

/** `next` is for the `after` of the following page; null after the last one. */
export type BlobPage = { files: BlobRow[]; next: string | null };

/** `live` is where a draft finds what it has not stored itself; null for a live app. */
export type BlobFolders = { own: string; live: string | null };

/** Type of files stored without one. */
export const UNTYPED = 'application/octet-stream';

const SHA256 = /^[0-9a-f]{64}$/;
const MEDIA_TYPE = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}(?:;[\x20-\x7e]{0,200})?$/i;
const CURSOR = /^(\d{1,16})-([0-9a-f]{64})$/;
const STATS_AT_ONCE = 32;
const NAMES_AT_ONCE = 256;
/** Pages of rows that a list holds in memory while it reads a folder. */
const KEPT_PAGES = 4;

/** Where the blobs of an app or draft are, by its id or key. */
export function blobFolders(layout: Layout, key: string): BlobFolders {
  return {
    own: layout.app(key).blobsDir,
    live: isDraftKey(key) ? layout.app(appOfKey(key)).blobsDir : null,
  };
}

export function isSha256(text: unknown): text is string {
  return typeof text === 'string' && SHA256.test(text);
}

/** Whether it is a media type that can be a header, such as `image/png` or `text/plain; charset=utf-8`. */
export function isMediaType(text: unknown): text is string {
  return typeof text === 'string' && MEDIA_TYPE.test(text);
}

/** Holds the type of a blob; missing for one without. */
export function typeFile(folder: string, sha256: string): string {
  return join(folder, `${sha256}.type`);
}

/** In the folder of a draft: it has deleted this blob of the live app. */
export function deletedMark(folder: string, sha256: string): string {
  return join(folder, `${sha256}.deleted`);
}

/** The blob, its file open for the caller to close; null when there is none. */
export async function openBlob(
  folders: BlobFolders,
  sha256: string,
): Promise<{ record: BlobRecord; file: FileHandle } | null> {
  if (!isSha256(sha256)) return null;
  const own = await openIn(folders.own, sha256);
  if (own !== null || folders.live === null) return own;
  return (await exists(deletedMark(folders.own, sha256))) ? null : await openIn(folders.live, sha256);
}

/** Null when there is none. */
export async function statBlob(folders: BlobFolders, sha256: string): Promise<BlobRecord | null> {
  const found = await openBlob(folders, sha256);
  await found?.file.close();
  return found === null ? null : found.record;
}

/** Counts what a folder holds; removes types whose blob is missing after a crash. */
export async function countBlobs(folder: string): Promise<{ files: number; bytes: number }> {
  const names = new Set(await namesIn(folder));
  let files = 0;
  let bytes = 0;
  await inParallel(names, STATS_AT_ONCE, async (name) => {
    const [sha256 = '', suffix] = name.split('.');
    if (suffix === 'type' && !names.has(sha256)) await rm(join(folder, name), { force: true });
    if (!isSha256(name)) return;
    // Many are read at once: what the others added meanwhile counts.
    const { size } = await lstat(join(folder, name));
    files += 1;
    bytes += size;
  });
  return { files, bytes };
}

export function isBlobCursor(text: string): boolean {
  return CURSOR.test(text);
}

/**
 * A page of the files in a folder. It reads all of them, in turns and with the memory of a few pages: the folder is the only
 * index, so a crash cannot make it wrong.
 */
export async function listBlobs(folder: string, { order, prefix, limit, after }: BlobQuery): Promise<BlobPage> {
  const [, value, name = ''] = CURSOR.exec(after ?? '') ?? [];
  const last = value === undefined ? null : { sha256: name, rank: Number(value) };
  const found: Ranked[] = [];
  const keepFirst = (): void => {
    found.sort(compareRanked);
    found.length = Math.min(found.length, limit + 1);
  };
  for await (const names of nameBatches(folder, prefix)) {
    await inParallel(names, STATS_AT_ONCE, async (sha256) => {
      const stats = await unlessMissing(lstat(join(folder, sha256)));
      if (stats === null) return;
      const blob = { sha256, size: stats.size, storedAt: Math.floor(stats.mtimeMs) };
      const ranked = { ...blob, rank: order === 'newest' ? blob.storedAt : blob.size };
      if (last === null || compareRanked(last, ranked) < 0) found.push(ranked);
    });
    if (found.length > KEPT_PAGES * limit) keepFirst();
  }
  keepFirst();
  const files = found.slice(0, limit).map(async ({ sha256, size, storedAt }) => {
    return { sha256, size, type: await typeIn(folder, sha256), storedAt };
  });
  const end = found[limit - 1];
  const next = found.length > limit && end !== undefined ? `${end.rank}-${end.sha256}` : null;
  return { files: await Promise.all(files), next };
}

type Ranked = Omit<BlobRow, 'type'> & { rank: number };

/** The highest rank first; names tell apart what is equal. */
function compareRanked(a: Pick<Ranked, 'rank' | 'sha256'>, b: Pick<Ranked, 'rank' | 'sha256'>): number {
  return b.rank - a.rank || (a.sha256 < b.sha256 ? -1 : a.sha256 > b.sha256 ? 1 : 0);
}

/** Names of blobs that begin with `prefix`, some at a time. */
async function* nameBatches(folder: string, prefix: string): AsyncGenerator<string[]> {
  const entries = await unlessMissing(opendir(folder, { bufferSize: NAMES_AT_ONCE }));
  if (entries === null) return;
  let names: string[] = [];
  for await (const { name } of entries) {
    if (!isSha256(name) || !name.startsWith(prefix)) continue;
    names.push(name);
    if (names.length < NAMES_AT_ONCE) continue;
    yield names;
    names = [];
  }
  yield names;
}

async function unlessMissing<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

async function openIn(folder: string, sha256: string): Promise<{ record: BlobRecord; file: FileHandle } | null> {
  let file: FileHandle;
  try {
    file = await open(join(folder, sha256), constants.O_RDONLY | constants.O_NOFOLLOW);
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
  try {
    const { size } = await file.stat();
    return { record: { sha256, size, type: await typeIn(folder, sha256) }, file };
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function typeIn(folder: string, sha256: string): Promise<string> {
  try {
    const text = await readFile(typeFile(folder, sha256), 'utf8');
    return isMediaType(text) ? text : UNTYPED;
  } catch (error) {
    if (isMissing(error)) return UNTYPED;
    throw error;
  }
}
