/**
 * Places buckets on nodes by rendezvous hashing with bounded loads and few moves (specification, "Cluster: nodes and buckets").
 * Pure: nodes that know the same find the same.
 */

/** How far the buckets of a node may be from the mean before some of them move. */
const UNEVEN = 0.1;

/**
 * The owner that each bucket should have, by bucket; `owners` has those of now, `nodes` those that may own. A bucket stays
 * where it is unless its owner is none of the nodes, or has over 1.1 × the mean, or another node has under 0.9 × the mean. All
 * null without nodes.
 */
export function place(owners: readonly (string | null)[], nodes: readonly string[]): (string | null)[] {
  if (nodes.length === 0) return owners.map(() => null);
  return new Placement(owners, [...nodes].sort()).placed();
}

const NOBODY = -1;

class Placement {
  readonly #nodes: readonly string[];
  readonly #seeds: readonly number[];
  /** By bucket, the index of its node. */
  readonly #owners: number[];
  readonly #loads: number[];
  readonly #mean: number;
  readonly #least: number;
  readonly #most: number;

  constructor(owners: readonly (string | null)[], nodes: readonly string[]) {
    const indexes = new Map(nodes.map((name, index) => [name, index]));
    this.#nodes = nodes;
    this.#seeds = nodes.map(seedOf);
    this.#owners = owners.map((owner) => (owner === null ? NOBODY : (indexes.get(owner) ?? NOBODY)));
    this.#loads = nodes.map(() => 0);
    for (const owner of this.#owners) if (owner !== NOBODY) this.#loads[owner]!++;
    this.#mean = owners.length / nodes.length;
    this.#least = Math.floor(this.#mean * (1 - UNEVEN));
    this.#most = Math.max(Math.ceil(this.#mean), Math.floor(this.#mean * (1 + UNEVEN)));
  }

  placed(): (string | null)[] {
    this.#takeExcess();
    this.#placeOrphans();
    this.#fillUp();
    return this.#owners.map((owner) => this.#nodes[owner] as string);
  }

  /** Takes what is over the bound from its nodes, the lowest scores first. */
  #takeExcess(): void {
    if (!this.#loads.some((load) => load > this.#most)) return;
    const ofNodes: number[][] = this.#nodes.map(() => []);
    for (const [bucket, node] of this.#owners.entries()) if (node !== NOBODY) ofNodes[node]!.push(bucket);
    for (const [node, buckets] of ofNodes.entries()) {
      const excess = this.#loads[node]! - this.#most;
      if (excess > 0) for (const bucket of this.#byScore(buckets, node).slice(-excess)) this.#give(bucket, NOBODY);
    }
  }

  /** Nodes that have too few come first, so that nothing else has to move to them. */
  #placeOrphans(): void {
    let poor = this.#loads.filter((load) => load < this.#least).length;
    for (let bucket = 0; bucket < this.#owners.length; bucket++) {
      if (this.#owners[bucket] !== NOBODY) continue;
      const node = this.#favourite(bucket, poor > 0 ? this.#least : this.#most);
      this.#give(bucket, node);
      if (poor > 0 && this.#loads[node] === this.#least) poor--;
    }
  }

  /** Those that still have too few take from those over the mean. There is always one: the mean of all others is over it. */
  #fillUp(): void {
    for (let node = 0; node < this.#nodes.length; node++) {
      if (this.#loads[node]! >= this.#least) continue;
      const buckets: number[] = [];
      for (const [bucket, owner] of this.#owners.entries()) if (this.#loads[owner]! > this.#mean) buckets.push(bucket);
      for (const bucket of this.#byScore(buckets, node)) {
        if (this.#loads[node]! >= this.#least) break;
        if (this.#loads[this.#owners[bucket]!]! > this.#mean) this.#give(bucket, node);
      }
    }
  }

  #give(bucket: number, node: number): void {
    const before = this.#owners[bucket]!;
    if (before !== NOBODY) this.#loads[before]!--;
    if (node !== NOBODY) this.#loads[node]!++;
    this.#owners[bucket] = node;
  }

  /** Of the nodes with less than `bound`, the one with the highest score. */
  #favourite(bucket: number, bound: number): number {
    let best = NOBODY;
    let highest = -1;
    const hash = hashOf(bucket);
    for (let node = 0; node < this.#nodes.length; node++) {
      if (this.#loads[node]! >= bound) continue;
      const score = mixed(this.#seeds[node]! ^ hash);
      if (score > highest) [best, highest] = [node, score];
    }
    return best;
  }

  /** The highest first; of equal ones the lowest bucket. Numbers alone sort in half the time. */
  #byScore(buckets: number[], node: number): number[] {
    const seed = this.#seeds[node]!;
    const keys = new Float64Array(buckets.length);
    for (const [i, bucket] of buckets.entries()) keys[i] = (2 ** 32 - mixed(seed ^ hashOf(bucket))) * 2 ** 20 + bucket;
    return Array.from(keys.sort(), (key) => key % 2 ** 20);
  }
}

function hashOf(bucket: number): number {
  return mixed(bucket + 1);
}

/** FNV-1a of the name. */
function seedOf(name: string): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(name)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}

/** The end of MurmurHash3: every bit of the number changes every bit of the result. */
function mixed(number: number): number {
  let hash = number;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
