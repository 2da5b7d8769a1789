/** Reads the state of an app's database while other processes open, write, close and replace it. */
import { statSync } from 'node:fs';
import { isEmptyLog, mixInFile, STATE_BYTES, WalIndex } from '../../storage/wal-index.ts';

export class StateReader {
  readonly #file: string;
  readonly #index: WalIndex;
  readonly #state = Buffer.alloc(STATE_BYTES);
  /** The turn of the event loop in which the index was last seen to be the one of its name. */
  #seenIn = -1;

  /** `file` is that of the database. */
  constructor(file: string) {
    this.#file = file;
    this.#index = new WalIndex(file);
  }

  /**
   * The state as it is now, in memory that the next call uses again; null when it cannot be told. `turn` numbers the turns of the
   * event loop: whether the file of the index was replaced is looked at once in each. Between two looks nobody can have replaced
   * it, committed, been answered, and made a request that this turn has.
   */
  read(turn: number): Uint8Array | null {
    if (this.#seenIn !== turn) {
      if (!this.#index.isInPlace()) this.#index.close();
      this.#seenIn = turn;
    }
    const state = this.#state;
    if (!this.#index.readInto(state)) return null;
    if (!isEmptyLog(state)) return state;
    // Nothing in it tells one such state from another: then the file was not written in between.
    const found = statSync(this.#file, { throwIfNoEntry: false });
    if (found === undefined) return null;
    mixInFile(state, found.mtimeMs, found.size);
    return state;
  }

  close(): void {
    this.#index.close();
  }
}
