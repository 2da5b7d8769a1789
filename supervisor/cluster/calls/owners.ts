/** Says which node a request about a bucket goes to (specification, "Calls between nodes"). */

import { BucketSet } from './bucket-set.ts';
import { UnderWay } from './under-way.ts';

/** `address` is the origin at which the node is reached, such as `http://10.0.0.5:8787`. A higher epoch is a later owner. */
export type Owner = { readonly node: string; readonly address: string; readonly epoch: number };

/** What the node knows of the directory of the cluster. */
export type KnownOwners = {
  /** As the directory said last; undefined for none. */
  ownerOf(bucket: number): Owner | undefined;
  /** Whether this node answers for the bucket at this moment. */
  isServed(bucket: number): boolean;
};

export class Owners {
  readonly #self: string;
  readonly #known: KnownOwners;
  /** What other nodes said, where the directory was not asked since. */
  readonly #heard = new Map<number, Owner>();
  /** What this node does for requests about its buckets. Whoever begins it has just seen `isOwn`. */
  readonly underWay = new UnderWay();

  /** `self` is the name of this node. */
  constructor(self: string, known: KnownOwners) {
    this.#self = self;
    this.#known = known;
  }

  /** The latest owner that is known; undefined for none. */
  of(bucket: number): Owner | undefined {
    const owner = this.#known.ownerOf(bucket);
    const heard = this.#heard.get(bucket);
    if (heard === undefined) return owner;
    if (owner === undefined || owner.epoch < heard.epoch) return heard;
    this.#heard.delete(bucket);
    return owner;
  }

  isOwn(bucket: number): boolean {
    return this.#known.isServed(bucket);
  }

  /** Whether the owner is this node, which may not serve yet, or serve no more, what it owns. */
  isHere({ node }: Owner): boolean {
    return node === this.#self;
  }

  /** What this node answers for at this moment. */
  get own(): BucketSet {
    return BucketSet.of((bucket) => this.#known.isServed(bucket));
  }

  /** Takes what another node says. False: as much or more was known. Only the directory makes this node an owner. */
  hear(bucket: number, owner: Owner): boolean {
    const known = this.of(bucket);
    if (owner.node === this.#self || (known !== undefined && known.epoch >= owner.epoch)) return false;
    this.#heard.set(bucket, owner);
    return true;
  }
}
