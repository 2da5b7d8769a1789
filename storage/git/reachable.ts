/** Everything that names of the repository lead to. */
import { parseCommit, parseTag } from './commit.ts';
import { damagedObject } from './object.ts';
import type { ObjectStore } from './object-store.ts';
import { readTree } from './tree.ts';

const SUBMODULE_MODE = '160000';
const FOLDER_MODE = '40000';

/** Ids of all objects below these. Rejects with `STORE_DAMAGED` when one is missing; the content of files is not read. */
export async function reachable(objects: ObjectStore, from: Iterable<string>): Promise<Set<string>> {
  const found = new Set<string>();
  const waiting = [...from];
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    if (found.has(id)) continue;
    found.add(id);
    const { type, content } = await objects.read(id);
    if (type === 'tag') waiting.push(parseTag(id, content).target);
    if (type !== 'commit') continue;
    const { tree, parents } = parseCommit(id, content);
    waiting.push(...parents);
    await addTree(objects, tree, found);
  }
  return found;
}

async function addTree(objects: ObjectStore, id: string, found: Set<string>): Promise<void> {
  if (found.has(id)) return;
  found.add(id);
  for (const { mode, id: child } of await readTree(objects, id)) {
    if (mode === FOLDER_MODE) await addTree(objects, child, found);
    else if (mode !== SUBMODULE_MODE && !found.has(child)) {
      if (!(await objects.has(child))) throw damagedObject(child, 'is missing');
      found.add(child);
    }
  }
}
