/** Keeps what a node knows of who owns which bucket (specification, "Calls between nodes"). */

/** `address` is the origin at which the node is reached, such as `http://10.0.0.5:8787`. A higher epoch is a later owner. */
export type Owner = { readonly node: string; readonly address: string; readonly epoch: bigint };

export class Owners {
  readonly #self: string;
  readonly #owners = new Map<number, Owner>();

  /** `self` is the name of this node. */
  constructor(self: string) {
    this.#self = self;
  }

  /** The latest owner that is known; undefined for none. */
  of(bucket: number): Owner | undefined {
    return this.#owners.get(bucket);
  }

  isOwn(bucket: number): boolean {
    return this.#owners.get(bucket)?.node === this.#self;
  }

  /** Takes what the directory says. False: as much or more was known. */
  learn(bucket: number, owner: Owner): boolean {
    const known = this.#owners.get(bucket);
    if (known !== undefined && known.epoch >= owner.epoch) return false;
    this.#owners.set(bucket, owner);
    return true;
  }

  /** Takes what another node says. Only the directory makes this node an owner. */
  hear(bucket: number, owner: Owner): boolean {
    return owner.node !== this.#self && this.learn(bucket, owner);
  }
}
