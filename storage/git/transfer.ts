/**
 * Takes objects out of one repository and puts them into another, by a file between them: each as its id, the length of its compressed
 * form, and that.
 */
import { closeSync, openSync, writeSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { deflateSync, inflateSync, constants as zlib } from 'node:zlib';
import { damagedObject, FOLDER_MODE, parseTag, type TreeEntry, unwrapObject, wrapObject } from './object.ts';
import type { ObjectStore } from './object-store.ts';
import { type Repository, readTree } from './repository.ts';

const ID_BYTES = 20;
const HEAD_BYTES = ID_BYTES + 4;
const SUBMODULE_MODE = '160000';

/**
 * Writes what these objects and all below them have that the `known` ones and all below those do not; a few of the latter may be
 * among them. Answers the ids. Rejects with `STORE_DAMAGED`.
 */
export async function writeNew(repository: Repository, tips: string[], known: string[], to: string): Promise<string[]> {
  const { objects } = repository;
  const found = new Set<string>();
  const commits: string[] = [];
  for (const tip of tips) {
    for (let id = tip; ; ) {
      const { type, content } = await objects.read(id);
      if (type !== 'tag') {
        commits.push(id);
        break;
      }
      found.add(id);
      id = parseTag(id, content).target;
    }
  }
  const seen = new Set<string>();
  const below = await Promise.all(known.map((id) => repository.peel(id)));
  for (const id of await newCommits(repository, commits, below)) {
    found.add(id);
    const { tree, parents } = await repository.commit(id);
    const before = await Promise.all(parents.map(async (parent) => (await repository.commit(parent)).tree));
    await addTree(objects, tree, before, { found, seen });
  }
  const file = openSync(to, 'w', 0o600);
  try {
    for (const id of found) {
      const { type, content } = await objects.read(id);
      const packed = deflateSync(wrapObject(type, content), { level: zlib.Z_BEST_SPEED });
      writeSync(file, recordOf(id, packed));
    }
  } finally {
    closeSync(file);
  }
  return [...found];
}

/** One object as the file has it; `packed` is its compressed form. */
export function recordOf(id: string, packed: Uint8Array): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.write(id, 'hex');
  head.writeUInt32BE(packed.length, ID_BYTES);
  return Buffer.concat([head, packed]);
}

/** The objects of such a file, one after the other. */
export async function* recordsIn(path: string): AsyncGenerator<{ id: string; packed: Buffer }> {
  const file = await open(path);
  try {
    const head = Buffer.alloc(HEAD_BYTES);
    for (let at = 0; (await file.read(head, 0, HEAD_BYTES, at)).bytesRead === HEAD_BYTES; ) {
      const packed = Buffer.alloc(head.readUInt32BE(ID_BYTES));
      await file.read(packed, 0, packed.length, at + HEAD_BYTES);
      yield { id: head.toString('hex', 0, ID_BYTES), packed };
      at += HEAD_BYTES + packed.length;
    }
  } finally {
    await file.close();
  }
}

/** Puts the objects of such a file into the repository, durably. Rejects with `STORE_DAMAGED` for one that is not what its id says. */
export async function takeAll(objects: ObjectStore, from: string): Promise<number> {
  let taken = 0;
  for await (const { id, packed } of recordsIn(from)) {
    const { type, content } = unwrapObject(inflateSync(packed));
    if ((await objects.put(type, content)) !== id) throw damagedObject(id, 'is not what its name says');
    taken++;
  }
  await objects.sync();
  return taken;
}

/** Those that lead from the tips to what is known: the youngest first, until only known ones are left. */
async function newCommits(repository: Repository, tips: string[], known: string[]): Promise<Set<string>> {
  const isKnown = new Map<string, boolean>();
  const waiting: { id: string; at: number; parents: string[] }[] = [];
  const add = async (id: string, known: boolean): Promise<void> => {
    const before = isKnown.get(id);
    if (before === true || before === known) return;
    isKnown.set(id, known);
    const { at, parents } = await repository.commit(id);
    waiting.push({ id, at, parents });
  };
  for (const id of known) await add(id, true);
  for (const id of tips) await add(id, false);
  const found = new Set<string>();
  while (waiting.some(({ id }) => isKnown.get(id) === false)) {
    waiting.sort((one, other) => one.at - other.at);
    const { id, parents } = waiting.pop() as (typeof waiting)[number];
    const known = isKnown.get(id) === true;
    if (known) found.delete(id);
    else found.add(id);
    for (const parent of parents) await add(parent, known);
  }
  return found;
}

/**
 * Adds what is below a tree and at the same place in none of the trees `before` to `found`. A tree that comes back has less to add after
 * other ones: `seen` are those after which it was looked at.
 */
async function addTree(
  objects: ObjectStore,
  id: string,
  before: string[],
  { found, seen }: { found: Set<string>; seen: Set<string> },
): Promise<void> {
  const key = `${id} ${before.join(' ')}`;
  if (before.includes(id) || seen.has(key)) return;
  seen.add(key);
  found.add(id);
  const old = await Promise.all(before.map((tree) => readTree(objects, tree)));
  const idsAt = ({ name, mode }: TreeEntry): string[] =>
    old.flatMap((entries) => entries.find((entry) => entry.name === name && entry.mode === mode)?.id ?? []);
  for (const entry of await readTree(objects, id)) {
    if (entry.mode === FOLDER_MODE) await addTree(objects, entry.id, idsAt(entry), { found, seen });
    else if (entry.mode !== SUBMODULE_MODE && !idsAt(entry).includes(entry.id)) found.add(entry.id);
  }
}
