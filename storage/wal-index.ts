/**
 * Reads the state of a database: what its write-ahead log's index begins with. Every commit, of whatever process, has changed
 * it before it returns, and no two states have the same bytes (sqlite.org/walformat.html, "The WAL-Index Header").
 */
import { closeSync, openSync, readSync } from 'node:fs';

/** Bytes of a state. */
export const STATE_BYTES = 48;

/** Whether nothing was committed between the two; false where one of them is not known. */
export function isSameState(one: Uint8Array | null, other: Uint8Array | null): boolean {
  if (one === null || other === null) return false;
  for (let at = 0; at < STATE_BYTES; at++) if (one[at] !== other[at]) return false;
  return true;
}

export class WalIndex {
  readonly #file: string;
  #handle = -1;

  /** `file` is that of the database. */
  constructor(file: string) {
    this.#file = `${file}-shm`;
  }

  /** Reads the state as it is now; null where the database is not open in anybody's hands, or has no such log. */
  read(): Uint8Array | null {
    const state = Buffer.allocUnsafe(STATE_BYTES);
    return this.readInto(state) ? state : null;
  }

  /** The same into `state`; false instead of null. */
  readInto(state: Uint8Array): boolean {
    try {
      if (this.#handle < 0) this.#handle = openSync(this.#file, 'r');
      return readSync(this.#handle, state, 0, STATE_BYTES, 0) === STATE_BYTES;
    } catch {
      return false;
    }
  }

  /** In a process that opens the database, only after it closed it: SQLite's locks end when any handle of the file is closed. */
  close(): void {
    if (this.#handle >= 0) closeSync(this.#handle);
    this.#handle = -1;
  }
}
