/** Ids of runs: UUIDs of version 7 (RFC 9562), so that runs sort by the time at which they were asked for. Pure. */

/** Random bytes asked for at a time: one question costs as much as these bytes do. */
const POOL_BYTES = 4096;
/** Values of the twelve bits behind the time. */
const COUNTS = 0x1000;

/** Each id is greater than the one before it, also within one millisecond and when the clock is set back. */
export class RunIds {
  readonly #now: () => number;
  readonly #random: (bytes: number) => Buffer;
  #pool: Buffer = Buffer.alloc(0);
  #taken = 0;
  #time = 0;
  #count = 0;

  /** `now` gives milliseconds since the epoch; `random` that many random bytes. */
  constructor(now: () => number, random: (bytes: number) => Buffer) {
    this.#now = now;
    this.#random = random;
  }

  next(): string {
    const now = this.#now();
    if (now > this.#time) {
      this.#time = now;
      this.#count = this.#seed();
    } else if (++this.#count === COUNTS) {
      this.#time += 1;
      this.#count = this.#seed();
    }
    const rest = this.#take(8);
    rest[0] = ((rest[0] as number) & 0x3f) | 0x80;
    const tail = rest.toString('hex');
    const time = this.#time.toString(16).padStart(12, '0');
    const count = this.#count.toString(16).padStart(3, '0');
    return `${time.slice(0, 8)}-${time.slice(8)}-7${count}-${tail.slice(0, 4)}-${tail.slice(4)}`;
  }

  /** From the lower half, so that at least half of the counts are left. */
  #seed(): number {
    return this.#take(2).readUInt16BE() % (COUNTS / 2);
  }

  /** Bytes that nobody else gets. */
  #take(bytes: number): Buffer {
    if (this.#taken + bytes > this.#pool.length) {
      this.#pool = this.#random(POOL_BYTES);
      this.#taken = 0;
    }
    this.#taken += bytes;
    return this.#pool.subarray(this.#taken - bytes, this.#taken);
  }
}
