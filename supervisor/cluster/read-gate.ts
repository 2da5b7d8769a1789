/** Holds back answers that may show what the log of pages has not (specification, "Log of pages"). */
import { statSync } from 'node:fs';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { isSameState, StateReader } from '../../storage/wal-index.ts';

/** A way to the writer of one database. */
export type Confirmation = {
  /** Resolves when the log has what the database has at the call; rejects with `STORAGE_UNAVAILABLE` when it will not have it. */
  confirm(): Promise<unknown>;
  end(): void;
};

export type ReadGateOptions = {
  /** The database of an app or draft. */
  file(app: string): string;
  open(app: string): Confirmation;
};

type Known = {
  readonly app: string;
  readonly file: string;
  /** Tells it from one that takes its place; 0 until there is one. */
  inode: number;
  readonly reader: StateReader;
  looks: number;
  /** For which it was looked last; undefined for none. */
  piece: number | undefined;
  readonly writer: Confirmation;
  /** A state that the log has. */
  confirmed: Uint8Array | null;
  /** The question that is under way, and the one that begins after it. */
  asking: Promise<void>;
  next: Promise<void> | null;
};

export class ReadGate {
  readonly #options: ReadGateOptions;
  /** The one that was used first comes first. */
  readonly #known = new Map<string, Known>();

  constructor(options: ReadGateOptions) {
    this.#options = options;
  }

  /**
   * Null when the log has everything that a handler can have read until now. Else it resolves when that is so, or rejects with
   * `STORAGE_UNAVAILABLE`. What was read by answers of one `piece` was read before that came (`receivedPiece`): one look at the database
   * is enough for all of them.
   */
  settled(app: string, piece?: number): Promise<void> | null {
    const known = this.#known.get(app) ?? this.#open(app);
    const state = this.#stateOf(known, piece);
    if (isSameState(known.confirmed, state)) return null;
    // Without a file nothing was read.
    if (state === null && known.inode === 0 && inodeOf(known.file) === 0) return null;
    known.next ??= known.asking.then(() => this.#ask(known));
    return known.next;
  }

  /** The log has a commit that led to this state. */
  committed(app: string, state: Uint8Array | null): void {
    const known = this.#known.get(app);
    if (known !== undefined && state !== null) known.confirmed = Uint8Array.from(state);
  }

  /** There are other files now, or the app is not here any more. */
  forget(app: string): void {
    const known = this.#known.get(app);
    if (known === undefined) return;
    this.#known.delete(app);
    known.reader.close();
    known.writer.end();
  }

  close(): void {
    for (const app of [...this.#known.keys()]) this.forget(app);
  }

  #ask(known: Known): Promise<void> {
    known.next = null;
    const state = this.#stateOf(known);
    const before = state === null ? null : Uint8Array.from(state);
    const answered = known.writer.confirm().then(() => {
      // The writer says what the log has of this file, and the handler may have read another one.
      const inode = inodeOf(known.file);
      if (known.inode === 0) known.inode = inode;
      if (known.inode !== inode) {
        if (this.#known.get(known.app) === known) this.forget(known.app);
        throw replaced(known.app);
      }
      known.confirmed = before;
    });
    known.asking = answered.catch(() => {});
    return answered;
  }

  /** Anew, but for the same piece: a handler may have read later than one whose answer came before in this turn of the event loop. */
  #stateOf(known: Known, piece?: number): Uint8Array | null {
    if (piece === undefined || known.piece !== piece) known.looks++;
    known.piece = piece;
    return known.reader.read(known.looks);
  }

  #open(app: string): Known {
    const [oldest] = this.#known.keys();
    if (this.#known.size >= LIMITS.histories && oldest !== undefined) this.forget(oldest);
    const file = this.#options.file(app);
    const known = {
      app,
      file,
      inode: inodeOf(file),
      reader: new StateReader(file),
      looks: 0,
      piece: undefined,
      writer: this.#options.open(app),
      confirmed: null,
      asking: Promise.resolve(),
      next: null,
    };
    this.#known.set(app, known);
    return known;
  }
}

/** Of a file; 0 without one. */
function inodeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.ino ?? 0;
}

function replaced(app: string): SvcError {
  const message = `The data of ${app} was fetched again while it was read. Try again.`;
  return new SvcError('STORAGE_UNAVAILABLE', message);
}
