/**
 * Reads the state of a database: the first bytes of its write-ahead log's index. Every commit of any process changes them
 * before it returns, and no two states have the same bytes (sqlite.org/walformat.html, "The WAL-Index Header").
 */
import { closeSync, fstatSync, openSync, readSync, statSync } from 'node:fs';
import { LITTLE_ENDIAN, pageBytesOf, SALT_BYTES } from './wal-format.ts';

/** Bytes of a state. */
export const STATE_BYTES = 48;

/** Where the fields lie. */
const COUNT = 8;
const PAGE_SIZE = 14;
const LAST_FRAME = 16;
const PAGES = 20;
const CHECKSUM = 24;
const SALT = 32;

/** What a state says of the log: how many frames of commits it has, and its salt; and the size of the database in pages. */
export type LogState = { salt: Buffer; frames: number; pages: number; pageBytes: number };

export function logState(state: Uint8Array): LogState {
  const view = new DataView(state.buffer, state.byteOffset);
  return {
    salt: Buffer.from(state.subarray(SALT, SALT + SALT_BYTES)),
    frames: view.getUint32(LAST_FRAME, LITTLE_ENDIAN),
    pages: view.getUint32(PAGES, LITTLE_ENDIAN),
    pageBytes: pageBytesOf(view.getUint16(PAGE_SIZE, LITTLE_ENDIAN)),
  };
}

/** Whether nothing was committed between the two; false when one is unknown. */
export function isSameState(one: Uint8Array | null, other: Uint8Array | null): boolean {
  if (one === null || other === null) return false;
  for (let at = 0; at < STATE_BYTES; at++) if (one[at] !== other[at]) return false;
  return true;
}

/** Whether exactly one commit led from one state to the other, of two of the same log: SQLite counts them. */
export function isNextState(before: Uint8Array, after: Uint8Array): boolean {
  return countOf(after) === (countOf(before) + 1) >>> 0;
}

/** `iChange`, in the byte order of the machine. */
function countOf(state: Uint8Array): number {
  return new DataView(state.buffer, state.byteOffset).getUint32(COUNT, LITTLE_ENDIAN);
}

/** Whether it is that of a log to which nothing was written yet: it has no salt, and all such states are the same. */
function isEmptyLog(state: Uint8Array): boolean {
  for (let at = SALT; at < SALT + SALT_BYTES; at++) if (state[at] !== 0) return false;
  return true;
}

/** Writes the state of the database file into that of an empty log. */
function mixInFile(state: Uint8Array, modifiedMs: number, size: number): void {
  const view = new DataView(state.buffer, state.byteOffset);
  view.setFloat64(CHECKSUM, modifiedMs);
  view.setFloat64(SALT, size);
}

export class WalIndex {
  readonly #file: string;
  #handle = -1;

  /** `file` is that of the database. */
  constructor(file: string) {
    this.#file = `${file}-shm`;
  }

  /** Reads the state as it is now; null where no process has the database open, or it has no such log. */
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

  /** False once the file is deleted: the next process that opens the database makes a new one. */
  isInPlace(): boolean {
    return this.#handle >= 0 && fstatSync(this.#handle).nlink > 0;
  }

  /** In a process that opens the database, only after it closed it: SQLite's locks end when any handle of the file is closed. */
  close(): void {
    if (this.#handle >= 0) closeSync(this.#handle);
    this.#handle = -1;
  }
}

/** Reads the state of a database while other processes open, write, close and replace it. */
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
