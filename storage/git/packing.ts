/**
 * Packs loose objects, and joins small packs, while others read and write and a git program may tidy up (docs/performance.md).
 *
 * All objects are packed, unreachable ones too, so that no object is lost: a loose object is removed when a durable pack has
 * it, a pack when a larger one has all of it. Until what it replaces is removed, a new pack has a `.keep` file: git programs
 * leave it alone, and after a crash the next run finishes what the file says.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { existsSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { inflateSync } from 'node:zlib';
import { LIMITS } from '../../protocol/limits.ts';
import type { PackLooseResult } from '../../protocol/wire/git-jobs.ts';
import { namesInSync, syncDir } from '../files/atomic-file.ts';
import { writeDurable } from './durable-fs.ts';
import { isObjectId, objectId, unwrapObject } from './object.ts';
import { idsInIndex, makePack, type PackEntry, packEntry, readPlainPack } from './pack-format.ts';

export type PackLimits = {
  /** Number of loose objects that starts packing. */
  looseObjects: number;
  /** The most objects in one pack of them. */
  packObjects: number;
  packBytes: number;
  /** A larger object stays loose. */
  objectBytes: number;
  /** How many small packs become one, and how large that may be. */
  joinedPacks: number;
  joinedBytes: number;
};

export const PACK_LIMITS: PackLimits = {
  looseObjects: LIMITS.gitLooseObjects,
  packObjects: LIMITS.gitPackObjects,
  packBytes: LIMITS.gitPackBytes,
  objectBytes: LIMITS.gitPackedObjectBytes,
  joinedPacks: LIMITS.gitJoinedPacks,
  joinedBytes: LIMITS.gitJoinedPackBytes,
};

/** The first word in our `.keep` files; the names of the replaced packs follow, one per line. */
const OURS = 'svc\n';
/** Without an extension: git programs take every file with that of an index for one. */
const TEMPORARY = 'tmp_svc_';

/** One run, of bounded time and memory: one pack of loose objects, or one of small packs. The caller lets no two run at a time. */
export async function packLoose(repository: string, limits: PackLimits): Promise<PackLooseResult> {
  const objectsDir = join(repository, 'objects');
  const dir = join(objectsDir, 'pack');
  await finishCutOff(objectsDir, dir);
  const loose = listLoose(objectsDir);
  if (loose.length >= limits.looseObjects) {
    const entries = takeLoose(objectsDir, loose, limits);
    if (entries.length > 0) {
      await install(objectsDir, dir, entries, []);
      return { loose: loose.length - entries.length, packed: entries.length, joined: 0 };
    }
  }
  return { loose: loose.length, packed: 0, joined: await joinSmall(objectsDir, dir, limits) };
}

/** Whether a run may find something to do, by the names and sizes of the files. */
export function isPackable(repository: string, limits: PackLimits): boolean {
  const objectsDir = join(repository, 'objects');
  const dir = join(objectsDir, 'pack');
  const names = namesInSync(dir);
  if (names.some((name) => name.startsWith(TEMPORARY) || name.endsWith('.keep'))) return true;
  return smallPacks(dir, names, limits).length >= limits.joinedPacks || hasLoose(objectsDir, limits.looseObjects);
}

/** Loose objects of the repository. */
export function countLoose(repository: string): number {
  return listLoose(join(repository, 'objects')).length;
}

function listLoose(objectsDir: string): string[] {
  return foldersOfLoose(objectsDir).flatMap((folder) => looseIn(objectsDir, folder));
}

/** Whether there are that many. Reads no more folders than it takes to see them. */
function hasLoose(objectsDir: string, many: number): boolean {
  let count = 0;
  return foldersOfLoose(objectsDir).some((folder) => {
    count += looseIn(objectsDir, folder).length;
    return count >= many;
  });
}

function foldersOfLoose(objectsDir: string): string[] {
  return namesInSync(objectsDir).filter((name) => /^[0-9a-f]{2}$/.test(name));
}

function looseIn(objectsDir: string, folder: string): string[] {
  return namesInSync(join(objectsDir, folder))
    .map((name) => folder + name)
    .filter(isObjectId);
}

/** As many as one pack may have. Leaves out damaged, too large and vanished ones. */
function takeLoose(
  objectsDir: string,
  loose: string[],
  { packObjects, packBytes, objectBytes }: PackLimits,
): PackEntry[] {
  const entries: PackEntry[] = [];
  let bytes = 0;
  for (const id of loose) {
    if (entries.length === packObjects || bytes > packBytes) break;
    const entry = readLoose(loosePath(objectsDir, id), id, objectBytes);
    if (entry === null) continue;
    entries.push(entry);
    bytes += entry.bytes.length;
  }
  return entries;
}

function readLoose(path: string, id: string, maxOutputLength: number): PackEntry | null {
  try {
    const object = unwrapObject(inflateSync(readFileSync(path), { maxOutputLength }));
    return objectId(object.type, object.content) === id ? packEntry(id, object) : null;
  } catch {
    return null;
  }
}

/** How many packs became one. Those that a git program made, or keeps, stay. */
async function joinSmall(objectsDir: string, dir: string, limits: PackLimits): Promise<number> {
  const small = smallPacks(dir, namesInSync(dir), limits);
  if (small.length < limits.joinedPacks) return 0;
  const joined: string[] = [];
  const entries: PackEntry[] = [];
  for (const name of small) {
    if (joined.length === limits.joinedPacks) break;
    const found = readPlainPack(join(dir, name));
    if (found === null) continue;
    joined.push(name);
    for (const entry of found) entries.push(entry);
  }
  if (joined.length < limits.joinedPacks) return 0;
  await install(objectsDir, dir, entries, joined);
  return joined.length;
}

/** Names without extensions. Joins none where one index spans all packs. */
function smallPacks(dir: string, names: string[], limits: PackLimits): string[] {
  if (names.includes('multi-pack-index')) return [];
  return names.filter((name) => isSmall(dir, name, names, limits)).map((name) => name.slice(0, -'.pack'.length));
}

/** Our packs consist of a pack and an index only, and the joined ones together are not too large. */
function isSmall(dir: string, name: string, names: string[], { joinedBytes, joinedPacks }: PackLimits): boolean {
  if (!/^pack-[0-9a-f]{40}\.pack$/.test(name)) return false;
  const files = names.filter((other) => other.startsWith(name.slice(0, -'pack'.length)));
  if (files.length !== 2 || !files.includes(name.replace(/pack$/, 'idx'))) return false;
  const size = statSync(join(dir, name), { throwIfNoEntry: false })?.size;
  return size !== undefined && size <= joinedBytes / joinedPacks;
}

async function install(objectsDir: string, dir: string, entries: PackEntry[], replaced: string[]): Promise<void> {
  const { pack, index } = makePack(entries);
  // Not named after its content: a git program that removes a pack of the same objects would remove this one.
  const name = `pack-${randomBytes(20).toString('hex')}`;
  const keep = Buffer.from(OURS + replaced.map((one) => `${one}\n`).join(''));
  const temporary = join(dir, TEMPORARY + randomUUID());
  const staged = { keep: `${temporary}_keep`, pack: `${temporary}_pack`, idx: `${temporary}_idx` };
  const place = (end: keyof typeof staged): Promise<void> => {
    renameSync(staged[end], join(dir, `${name}.${end}`));
    return syncDir(dir);
  };
  try {
    await writeDurable(staged.keep, keep);
    await writeDurable(staged.pack, pack);
    await writeDurable(staged.idx, index);
    // In this order: after a crash the `.keep` file is there, and whoever sees the index finds the pack.
    await place('keep');
    await place('pack');
    await place('idx');
  } finally {
    for (const path of Object.values(staged)) rmSync(path, { force: true });
  }
  await finish(objectsDir, dir, name);
}

/** Removes what the pack replaces, then its `.keep` file. */
async function finish(objectsDir: string, dir: string, name: string): Promise<void> {
  const keep = join(dir, `${name}.keep`);
  const replaced = readFileSync(keep, 'utf8').slice(OURS.length).split('\n').filter(Boolean);
  // The index first, as git does: a reader without an index looks elsewhere.
  for (const one of replaced) for (const end of ['idx', 'pack']) rmSync(join(dir, `${one}.${end}`), { force: true });
  if (replaced.length === 0)
    for (const id of idsInIndex(join(dir, `${name}.idx`))) rmSync(loosePath(objectsDir, id), { force: true });
  rmSync(keep, { force: true });
  await syncDir(dir);
}

/** What an interrupted run left. */
async function finishCutOff(objectsDir: string, dir: string): Promise<void> {
  for (const file of namesInSync(dir)) {
    const path = join(dir, file);
    if (file.startsWith(TEMPORARY)) rmSync(path, { force: true });
    if (!/^pack-[0-9a-f]{40}\.keep$/.test(file) || !isOurs(path)) continue;
    const name = file.slice(0, -'.keep'.length);
    const isPlaced = existsSync(join(dir, `${name}.idx`)) && existsSync(join(dir, `${name}.pack`));
    if (isPlaced && readPlainPack(join(dir, name)) !== null) await finish(objectsDir, dir, name);
    else {
      // Without its index it was never used. A damaged one replaces nothing, and stays for the objects that are whole.
      for (const end of isPlaced ? ['keep'] : ['pack', 'keep']) rmSync(join(dir, `${name}.${end}`), { force: true });
      await syncDir(dir);
    }
  }
}

/** git programs write another text into the file, users leave it empty. */
function isOurs(keep: string): boolean {
  return readFileSync(keep, 'utf8').startsWith(OURS);
}

function loosePath(objectsDir: string, id: string): string {
  return join(objectsDir, id.slice(0, 2), id.slice(2));
}
