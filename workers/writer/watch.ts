/**
 * Watches the writer's main thread, which shows its current statement and the progress of each client in shared memory. If it
 * is stuck in a statement, or the supervisor ends one that is slow, no other begins, and the supervisor gets a report and replaces
 * the writer.
 */

import { LIMITS } from '../../protocol/limits.ts';
import { type ConnectionProgress, Kind } from '../../protocol/wire/frames.ts';
import { openLink } from '../../protocol/wire/link.ts';

const BUSY = 0;
const BEAT = 1;
const PLACE_LENGTH = 2;
const HALT = 3;
const MIGRATIONS = 4;
const PULSE_CELLS = 5;
const PLACE_OFFSET = PULSE_CELLS * Int32Array.BYTES_PER_ELEMENT;
/** A path is up to 4 KiB, the key of a draft two ids and what is between them. */
const PLACE_BYTES = 4096 + 256;

/** The database that is worked on: its app's name or the gateway's own, and its file; as `Pulse.enter` takes it. */
export function placeOf(name: string, file: string): Uint8Array {
  return Buffer.from(`${name}\0${file}`);
}

/**
 * Whether the main thread is inside SQLite, for whose database, and a counter that moves with every statement. It costs a store of
 * a few bytes, and no look at the clock.
 */
export class Pulse {
  readonly memory: SharedArrayBuffer;
  readonly #cells: Int32Array;
  readonly #place: Uint8Array;

  /** The watch thread passes the memory of the main thread. */
  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(PLACE_OFFSET + PLACE_BYTES)) {
    this.memory = memory;
    this.#cells = new Int32Array(memory, 0, PULSE_CELLS);
    this.#place = new Uint8Array(memory, PLACE_OFFSET, PLACE_BYTES);
  }

  /** Before work on a database, see `placeOf`. */
  enter(place: Uint8Array): void {
    const length = Math.min(place.length, PLACE_BYTES);
    this.#place.set(place.subarray(0, length));
    this.#cells[PLACE_LENGTH] = length;
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
  place(): { name: string; file: string } {
    const text = Buffer.from(this.#place.slice(0, Atomics.load(this.#cells, PLACE_LENGTH))).toString();
    const end = text.indexOf('\0');
    return { name: text.slice(0, end), file: text.slice(end + 1) };
  }

  /** A migration begins in a thread (1), or has ended (-1). */
  migrations(change: 1 | -1): void {
    Atomics.add(this.#cells, MIGRATIONS, change);
  }

  /** A migration is under way, which the end of the process would break off. */
  get isMigrating(): boolean {
    return Atomics.load(this.#cells, MIGRATIONS) > 0;
  }
}

/** The first cell says that connections found no place, of which nothing is known. */
const HEAD = 1;
/** Cells of a connection: its members of `ConnectionProgress`. */
const CELLS = 3;
const NO_PLACE = -1;

/**
 * How far each client has come: the next writer does what cannot be stored. A connection is kept for a while after its end, because
 * its client may ask on a new connection.
 */
export class Progress {
  readonly memory: SharedArrayBuffer;
  readonly #cells: Float64Array;
  readonly #now: () => number;
  readonly #places = new Map<number, number>();
  #used = 0;
  /** Places of connections that ended, oldest first. */
  readonly #ended: { connectionId: number; place: number; at: number }[] = [];
  /** Connections without a place, and when the last of them ended. */
  #without = 0;
  #withoutUntil = 0;

  /** `now` in milliseconds. The watch thread passes the memory of the main thread. */
  constructor(now: () => number, memory?: SharedArrayBuffer) {
    this.#now = now;
    this.memory =
      memory ?? new SharedArrayBuffer((HEAD + CELLS * LIMITS.writerConnections) * Float64Array.BYTES_PER_ELEMENT);
    this.#cells = new Float64Array(this.memory);
  }

  /** Answers the connection's place, for `operation`, `commit` and `close`. */
  open(connectionId: number): number {
    if (this.#without === 0 && this.#now() - this.#withoutUntil > LIMITS.handoverMs) this.#cells[0] = 0;
    const place = this.#free();
    if (place === NO_PLACE) {
      this.#without++;
      this.#cells[0] = 1;
      return NO_PLACE;
    }
    this.#cells[place] = connectionId;
    this.#cells[place + 1] = 0;
    this.#cells[place + 2] = 0;
    this.#places.set(connectionId, place);
    return place;
  }

  /** The operation outside a transaction may be stored from now on. One of a group that failed runs again, which changes nothing here. */
  operation(place: number, id: number): void {
    if (place !== NO_PLACE && id > (this.#cells[place + 1] as number)) this.#cells[place + 1] = id;
  }

  /** The transaction that this commit ends may be stored from now on. */
  commit(place: number, id: number): void {
    if (place !== NO_PLACE) this.#cells[place + 2] = id;
  }

  close(connectionId: number, place: number): void {
    if (place !== NO_PLACE) this.#ended.push({ connectionId, place, at: this.#now() });
    else {
      this.#without--;
      this.#withoutUntil = this.#now();
    }
  }

  /** Whether it is one of this writer's, of now or of a while ago. */
  knows(connectionId: number): boolean {
    return this.#cells[0] !== 0 || this.#places.has(connectionId);
  }

  /** All connections; null when there were too many. */
  read(): ConnectionProgress[] | null {
    if (this.#cells[0] !== 0) return null;
    const all: ConnectionProgress[] = [];
    for (let place = HEAD; place < this.#cells.length; place += CELLS) {
      const [connectionId, operation, commit] = this.#cells.subarray(
        place,
        place + CELLS,
      ) as unknown as ConnectionProgress;
      if (connectionId !== 0) all.push([connectionId, operation, commit]);
    }
    return all;
  }

  #free(): number {
    const [oldest] = this.#ended;
    if (oldest && this.#now() - oldest.at > LIMITS.handoverMs) {
      this.#ended.shift();
      this.#places.delete(oldest.connectionId);
      return oldest.place;
    }
    return this.#used < LIMITS.writerConnections ? HEAD + CELLS * this.#used++ : NO_PLACE;
  }
}

/**
 * Decides how long the main thread is in a statement: it sees the same one at every look. It counts looks, not time, so that a
 * machine that was suspended does not wake up to a verdict.
 */
export class StuckDetector {
  readonly #stuckLooks: number;
  readonly #slowLooks: number;
  #last: number | null = null;
  #looks = 0;

  constructor(everyMs: number, stuckMs: number, slowMs: number) {
    this.#stuckLooks = Math.ceil(stuckMs / everyMs);
    this.#slowLooks = Math.ceil(slowMs / everyMs);
  }

  /** Takes what `Pulse.read` says. Answers `stuck` once for a statement, and `slow` at each look before for a brief one. */
  look(beat: number | null): 'slow' | 'stuck' | null {
    this.#looks = beat !== null && beat === this.#last ? this.#looks + 1 : 0;
    this.#last = beat;
    if (beat === null) return null;
    if (this.#looks === this.#stuckLooks) return 'stuck';
    return beat % 2 === 1 && this.#looks >= this.#slowLooks && this.#looks < this.#stuckLooks ? 'slow' : null;
  }
}

/** The shared memory of `Pulse` and `Progress`. */
export type WatchedMemory = { pulse: SharedArrayBuffer; progress: SharedArrayBuffer };

/** At a slow statement. */
const LOOKS = 4;

/** The work of the watch thread. It also ends an orphan whose main thread is stuck. */
export function watch(memory: WatchedMemory, supervisorSocket: string, ticket: string): void {
  const everyMs = LIMITS.writerSlowMs / LOOKS;
  const pulse = new Pulse(memory.pulse);
  const progress = new Progress(() => performance.now(), memory.progress);
  const detector = new StuckDetector(everyMs, LIMITS.writerStuckMs, LIMITS.writerSlowMs);
  /** The statement that was last said to be slow. */
  let slow: number | null = null;
  const halt = (beat: number, ms: number): void => {
    if (!pulse.halt(beat)) return;
    const { name, file } = pulse.place();
    link.send([Kind.stuck, name, file, ms, progress.read()]);
  };
  const link = openLink(supervisorSocket, ticket, {
    onFrame: ([kind]) => {
      if (kind === Kind.halt && slow !== null) halt(slow, LIMITS.writerSlowMs);
    },
    // The main thread ends by itself when the supervisor is gone, unless it cannot.
    onClose: () => setTimeout(() => process.kill(process.pid, 'SIGKILL'), LIMITS.terminateMs),
  });
  setInterval(() => {
    const beat = pulse.read();
    const verdict = detector.look(beat);
    if (beat === null || verdict === null) return;
    if (verdict === 'stuck') halt(beat, LIMITS.writerStuckMs);
    else if (!pulse.isMigrating) {
      slow = beat;
      link.send([Kind.slow]);
    }
  }, everyMs);
}
