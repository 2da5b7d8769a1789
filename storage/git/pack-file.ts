/** Files of packs, made fit for isomorphic-git, which trusts an index and refuses a pack as a whole when one byte of it is wrong. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { damaged } from './object.ts';

const SUM_BYTES = 20;

/**
 * The file as it is on disk. With `salvages` the sums in a pack and its index are those of the pack as it is, so that its objects
 * are read one by one: who reads them checks each. Throws `STORE_DAMAGED` for an index that is not whole.
 */
export function readPackFile(path: string, salvages: boolean): Buffer {
  const content = readFileSync(path);
  const isIndex = path.endsWith('.idx');
  // Its count of objects, when it is wrong, would let the reader run for ever.
  if (isIndex && !sumOf(content).equals(content.subarray(-SUM_BYTES))) {
    throw damaged(`the index ${basename(path)} of a pack is not whole ("git index-pack" makes it again)`);
  }
  if (!salvages) return content;
  const sum = sumOf(isIndex ? readFileSync(path.replace(/idx$/, 'pack')) : content);
  // In an index the sum of the pack stands before its own.
  content.set(sum, Math.max(0, content.length - (isIndex ? 2 : 1) * SUM_BYTES));
  return content;
}

function sumOf(content: Buffer): Buffer {
  return createHash('sha1').update(content.subarray(0, -SUM_BYTES)).digest();
}
