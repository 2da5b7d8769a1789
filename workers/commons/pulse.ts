/**
 * Shows in shared memory which resident's code the thread of the commons runs, so that the host finds one that stalls it, or was
 * running when it ended.
 */

const RESIDENT = 0;
const BEAT = 1;
const CELLS = 2;

/** `resident` is 0 while no code of an app runs; `beat` moves with every turn. */
export type Turn = { resident: number; beat: number };

/** Of ES2024, which Node 20 has. */
type WithWaitAsync = {
  waitAsync(cells: Int32Array, index: number, value: number): { value: Promise<string> | string };
};

export class TurnPulse {
  readonly memory: SharedArrayBuffer;
  readonly #cells: Int32Array;

  /** The thread passes the memory that the host made. */
  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(CELLS * Int32Array.BYTES_PER_ELEMENT)) {
    this.memory = memory;
    this.#cells = new Int32Array(memory);
  }

  enter(resident: number): void {
    Atomics.add(this.#cells, BEAT, 1);
    Atomics.store(this.#cells, RESIDENT, resident);
    Atomics.notify(this.#cells, BEAT);
  }

  leave(): void {
    Atomics.store(this.#cells, RESIDENT, 0);
  }

  /** Resolves once there was a turn after that with this beat. */
  async after(beat: number): Promise<void> {
    await (Atomics as unknown as WithWaitAsync).waitAsync(this.#cells, BEAT, beat).value;
  }

  read(): Turn {
    return { resident: Atomics.load(this.#cells, RESIDENT), beat: Atomics.load(this.#cells, BEAT) };
  }
}
