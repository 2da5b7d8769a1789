/**
 * What the writer's main thread shows of itself to the watch thread, through shared memory: whether it is inside SQLite,
 * for whose database, and a counter that moves with every statement. A store of a few bytes; no clock is read. The watch thread
 * can have it begin nothing more: what the next writer is told must stay true.
 */
const BUSY = 0;
const BEAT = 1;
const NAME_LENGTH = 2;
const HALT = 3;
const CELLS = 4;
const NAME_OFFSET = CELLS * Int32Array.BYTES_PER_ELEMENT;
/** The key of a draft: two ids and what is between them. */
const NAME_BYTES = 256;

export class Pulse {
  readonly memory: SharedArrayBuffer;
  readonly #cells: Int32Array;
  readonly #name: Uint8Array;

  /** Without `memory` a new one is made; the watch thread is given that of the main thread. */
  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(NAME_OFFSET + NAME_BYTES)) {
    this.memory = memory;
    this.#cells = new Int32Array(memory, 0, CELLS);
    this.#name = new Uint8Array(memory, NAME_OFFSET, NAME_BYTES);
  }

  /** Before work on the database of `name`, in UTF-8. */
  enter(name: Uint8Array): void {
    const length = Math.min(name.length, NAME_BYTES);
    this.#name.set(name.subarray(0, length));
    this.#cells[NAME_LENGTH] = length;
    this.beat();
    Atomics.store(this.#cells, BUSY, 1);
  }

  /** Before each statement. Does not return once the watch thread has said `halt`: the process is about to be killed. */
  beat(): void {
    // In this order, and seen so by the other thread: either it counts this statement, or this statement does not begin.
    Atomics.add(this.#cells, BEAT, 1);
    if (Atomics.load(this.#cells, HALT) !== 0) Atomics.wait(this.#cells, HALT, 1);
  }

  leave(): void {
    Atomics.store(this.#cells, BUSY, 0);
  }

  /**
   * The watch thread has decided that the statement of this beat does not end: nothing begins after it. False when it has ended by
   * now, and all goes on.
   */
  halt(beat: number): boolean {
    Atomics.store(this.#cells, HALT, 1);
    if (this.read() === beat) return true;
    Atomics.store(this.#cells, HALT, 0);
    Atomics.notify(this.#cells, HALT);
    return false;
  }

  /** The count of statements so far while there is work, else null. */
  read(): number | null {
    return Atomics.load(this.#cells, BUSY) === 1 ? Atomics.load(this.#cells, BEAT) : null;
  }

  /** Whose database is worked on. */
  name(): string {
    return Buffer.from(this.#name.slice(0, Atomics.load(this.#cells, NAME_LENGTH))).toString();
  }
}

/**
 * Decides that the main thread is stuck: the same statement seen at every look for `limitMs`. It counts looks, not
 * time, so that a machine that was suspended does not wake up to a verdict.
 */
export class StuckDetector {
  readonly #limit: number;
  #last: number | null = null;
  #looks = 0;

  constructor(everyMs: number, limitMs: number) {
    this.#limit = Math.ceil(limitMs / everyMs);
  }

  /** Takes what `Pulse.read` says; true once for each statement that is stuck. */
  look(beat: number | null): boolean {
    this.#looks = beat !== null && beat === this.#last ? this.#looks + 1 : 0;
    this.#last = beat;
    return this.#looks === this.#limit;
  }
}
