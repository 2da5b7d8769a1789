/**
 * Watches the writer's main thread, which shows its current statement and the progress of each client in shared memory. If it
 * is stuck in a statement, no other begins, and the supervisor gets a report and replaces the writer.
 */

import { LIMITS } from '../../protocol/limits.ts';
import { Kind, type SessionBegun } from '../../protocol/wire/frames.ts';
import { openLink } from '../../protocol/wire/link.ts';

const BUSY = 0;
const BEAT = 1;
const NAME_LENGTH = 2;
const HALT = 3;
const PULSE_CELLS = 4;
const NAME_OFFSET = PULSE_CELLS * Int32Array.BYTES_PER_ELEMENT;
/** The key of a draft: two ids and what is between them. */
const NAME_BYTES = 256;

/**
 * Whether the main thread is inside SQLite, for whose database, and a counter that moves with every statement. It costs a store of
 * a few bytes, and no look at the clock.
 */
export class Pulse {
  readonly memory: SharedArrayBuffer;
  readonly #cells: Int32Array;
  readonly #name: Uint8Array;

  /** The watch thread passes the memory of the main thread. */
  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(NAME_OFFSET + NAME_BYTES)) {
    this.memory = memory;
    this.#cells = new Int32Array(memory, 0, PULSE_CELLS);
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

  /**
   * Before each statement and each commit; `brief` ones have less time. Does not return after `halt`: the process is about to be
   * killed.
   */
  beat(brief = false): void {
    // Only this thread writes it. The lowest bit says whether it is a brief one.
    const beat = ((this.#cells[BEAT] as number) & ~1) + 2;
    // This order makes sure that either the watch thread counts this statement, or this statement does not begin.
    Atomics.store(this.#cells, BEAT, brief ? beat + 1 : beat);
    if (Atomics.load(this.#cells, HALT) !== 0) Atomics.wait(this.#cells, HALT, 1);
  }

  leave(): void {
    Atomics.store(this.#cells, BUSY, 0);
  }

  /** The watch thread takes the statement of this beat for stuck: nothing begins after it. False when it has ended by now. */
  halt(beat: number): boolean {
    Atomics.store(this.#cells, HALT, 1);
    if (this.read() === beat) return true;
    Atomics.store(this.#cells, HALT, 0);
    Atomics.notify(this.#cells, HALT);
    return false;
  }

  /** A number of its own for the statement under way, odd for a brief one; null while there is no work. */
  read(): number | null {
    return Atomics.load(this.#cells, BUSY) === 1 ? Atomics.load(this.#cells, BEAT) : null;
  }

  /** Whose database is worked on. */
  name(): string {
    return Buffer.from(this.#name.slice(0, Atomics.load(this.#cells, NAME_LENGTH))).toString();
  }
}

/** The first cell says whether there was a session too many, of which nothing is known. */
const HEAD = 1;
/** Cells of a session: its number, and the highest id of its operations that has begun. */
const CELLS = 2;
const NO_PLACE = -1;

/**
 * How far each client has come: the next writer does what had not begun. A session is kept for a while after its end, because its
 * client may ask on a new connection.
 */
export class Begun {
  readonly memory: SharedArrayBuffer;
  readonly #cells: Float64Array;
  readonly #now: () => number;
  readonly #places = new Map<number, number>();
  #used = 0;
  /** Places of sessions that ended, oldest first. */
  readonly #ended: { session: number; place: number; at: number }[] = [];

  /** `now` in milliseconds. The watch thread passes the memory of the main thread. */
  constructor(now: () => number, memory?: SharedArrayBuffer) {
    this.#now = now;
    this.memory =
      memory ?? new SharedArrayBuffer((HEAD + CELLS * LIMITS.writerSessions) * Float64Array.BYTES_PER_ELEMENT);
    this.#cells = new Float64Array(this.memory);
  }

  /** Answers the session's place, for `mark` and `close`. */
  open(session: number): number {
    const place = this.#free();
    if (place === NO_PLACE) {
      this.#cells[0] = 1;
      return NO_PLACE;
    }
    this.#cells[place] = session;
    this.#cells[place + 1] = 0;
    this.#places.set(session, place);
    return place;
  }

  /** The operation is about to begin. One of a group that failed begins again, which changes nothing here. */
  mark(place: number, id: number): void {
    if (place !== NO_PLACE && id > (this.#cells[place + 1] as number)) this.#cells[place + 1] = id;
  }

  close(session: number, place: number): void {
    if (place !== NO_PLACE) this.#ended.push({ session, place, at: this.#now() });
  }

  /** Whether it is one of this writer's, of now or of a while ago. */
  knows(session: number): boolean {
    return this.#cells[0] !== 0 || this.#places.has(session);
  }

  /** All sessions; null when there were too many. */
  read(): SessionBegun[] | null {
    if (this.#cells[0] !== 0) return null;
    const all: SessionBegun[] = [];
    for (let place = HEAD; place < this.#cells.length; place += CELLS) {
      const session = this.#cells[place] as number;
      if (session !== 0) all.push([session, this.#cells[place + 1] as number]);
    }
    return all;
  }

  #free(): number {
    const [oldest] = this.#ended;
    if (oldest && this.#now() - oldest.at > LIMITS.handoverMs) {
      this.#ended.shift();
      this.#places.delete(oldest.session);
      return oldest.place;
    }
    return this.#used < LIMITS.writerSessions ? HEAD + CELLS * this.#used++ : NO_PLACE;
  }
}

/**
 * Decides that the main thread is stuck: it sees the same statement at every look for as long as that may take. It counts looks, not
 * time, so that a machine that was suspended does not wake up to a verdict.
 */
export class StuckDetector {
  readonly #everyMs: number;
  readonly #limitMs: number;
  readonly #briefMs: number;
  #last: number | null = null;
  #looks = 0;

  constructor(everyMs: number, limitMs: number, briefMs: number) {
    this.#everyMs = everyMs;
    this.#limitMs = limitMs;
    this.#briefMs = briefMs;
  }

  /** Takes what `Pulse.read` says. Once for each statement that is stuck, answers the milliseconds that it was allowed; else null. */
  look(beat: number | null): number | null {
    this.#looks = beat !== null && beat === this.#last ? this.#looks + 1 : 0;
    this.#last = beat;
    if (beat === null) return null;
    const allowedMs = beat % 2 === 0 ? this.#limitMs : this.#briefMs;
    return this.#looks === Math.ceil(allowedMs / this.#everyMs) ? allowedMs : null;
  }
}

/** The shared memory of `Pulse` and `Begun`. */
export type WatchedMemory = { pulse: SharedArrayBuffer; begun: SharedArrayBuffer };

/** At a statement that may take the least time. */
const LOOKS = 4;

/** The work of the watch thread. It also ends an orphan whose main thread is stuck. */
export function watch(memory: WatchedMemory, supervisorSocket: string, ticket: string): void {
  const everyMs = LIMITS.sqlWriterMs / LOOKS;
  const pulse = new Pulse(memory.pulse);
  const begun = new Begun(() => performance.now(), memory.begun);
  const detector = new StuckDetector(everyMs, LIMITS.writerStuckMs, LIMITS.sqlWriterMs);
  const link = openLink(supervisorSocket, ticket, {
    onFrame: () => {},
    // The main thread ends by itself when the supervisor is gone, unless it cannot.
    onClose: () => setTimeout(() => process.kill(process.pid, 'SIGKILL'), LIMITS.terminateMs),
  });
  setInterval(() => {
    const beat = pulse.read();
    const allowedMs = detector.look(beat);
    if (allowedMs === null || beat === null || !pulse.halt(beat)) return;
    link.send([Kind.stuck, pulse.name(), allowedMs, begun.read()]);
  }, everyMs);
}
