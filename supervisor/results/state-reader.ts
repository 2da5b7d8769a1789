/** Reads the state of an app's database while other processes open, write, close and replace it. */
import { statSync } from 'node:fs';
import { isEmptyLog, mixInFile, STATE_BYTES, WalIndex } from '../../storage/wal-index.ts';

export class StateReader {
  readonly #file: string;
  readonly #index: WalIndex;
  readonly #state = Buffer.alloc(STATE_BYTES);
  /** The turn of the event loop in which the state was last read, and whether it could be told. */
  #readIn = -1;
  #isKnown = false;

  /** `file` is that of the database. */
  constructor(file: string) {
    this.#file = file;
    this.#index = new WalIndex(file);
  }

  /**
   * The state in this turn of the event loop, in memory that the next turn reuses; null when unreadable. Read once per turn: no
   * client can commit after that, get the answer and send a request within the same turn.
   */
  read(turn: number): Uint8Array | null {
    if (this.#readIn !== turn) {
      this.#readIn = turn;
      this.#isKnown = this.#look();
    }
    return this.#isKnown ? this.#state : null;
  }

  #look(): boolean {
    const state = this.#state;
    if (!this.#index.isInPlace()) this.#index.close();
    if (!this.#index.readInto(state)) return false;
    if (!isEmptyLog(state)) return true;
    // Such states do not differ: the file was not written in between.
    const found = statSync(this.#file, { throwIfNoEntry: false });
    if (found === undefined) return false;
    mixInFile(state, found.mtimeMs, found.size);
    return true;
  }

  close(): void {
    this.#index.close();
  }
}
