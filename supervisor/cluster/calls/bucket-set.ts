/** Says of which buckets an answer is, so that those of several nodes are known to be whole (specification, "Calls between nodes"). */
import { BUCKETS } from '../../../protocol/buckets.ts';

/** The header of a node's answer to what all nodes are asked: the buckets that it answered for, a bit each, in base64url. */
export const ANSWERED_FOR = 'svc-answered-for';

const BYTES = BUCKETS / 8;

export class BucketSet {
  readonly #bits: Uint8Array;

  private constructor(bits: Uint8Array) {
    this.#bits = bits;
  }

  static of(has: (bucket: number) => boolean): BucketSet {
    const bits = new Uint8Array(BYTES);
    for (let bucket = 0; bucket < BUCKETS; bucket++)
      if (has(bucket)) bits[bucket >> 3] = (bits[bucket >> 3] as number) | (1 << (bucket & 7));
    return new BucketSet(bits);
  }

  /** Null for what no set is written as. */
  static read(text: string): BucketSet | null {
    const bits = Buffer.from(text, 'base64url');
    return bits.length === BYTES ? new BucketSet(bits) : null;
  }

  /** Whether each bucket is in exactly one of the sets: nothing is missing and nothing is there twice. */
  static makeWhole(sets: readonly BucketSet[]): boolean {
    const all = new Uint8Array(BYTES);
    for (const set of sets) {
      for (let at = 0; at < BYTES; at++) {
        const bits = set.#bits[at] as number;
        if (((all[at] as number) & bits) !== 0) return false;
        all[at] = (all[at] as number) | bits;
      }
    }
    return all.every((bits) => bits === 0xff);
  }

  /** Those that are in both. */
  and(other: BucketSet): BucketSet {
    return new BucketSet(this.#bits.map((bits, at) => bits & (other.#bits[at] as number)));
  }

  toString(): string {
    return Buffer.from(this.#bits).toString('base64url');
  }
}
