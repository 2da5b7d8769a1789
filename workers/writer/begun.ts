/**
 * How far each client has come, in memory that the watch thread reads too: when the writer has to be replaced because one
 * statement keeps it busy, what had not begun is done by the next writer. Two cells a session: its number, and the highest id of
 * its operations that has begun. A session is kept for a while after its end, because its client may ask on a new connection.
 */
import type { SessionBegun } from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Clock } from './clock.ts';

/** Before the sessions: whether there was one too many, of which nothing is known. */
const HEAD = 1;
const CELLS = 2;

/** What a session gets when there is no place left. */
const NO_PLACE = -1;

export class Begun {
  readonly memory: SharedArrayBuffer;
  readonly #cells: Float64Array;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #places = new Map<number, number>();
  #used = 0;
  /** Places of sessions that ended, oldest first. */
  readonly #ended: { session: number; place: number; at: number }[] = [];

  /** Without `memory` a new one is made; the watch thread is given that of the main thread. */
  constructor(clock: Pick<Clock, 'now'>, memory?: SharedArrayBuffer) {
    this.#clock = clock;
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

  /** The operation is about to begin. A group that failed runs again in parts: what has begun stays so. */
  mark(place: number, id: number): void {
    if (place !== NO_PLACE && id > (this.#cells[place + 1] as number)) this.#cells[place + 1] = id;
  }

  close(session: number, place: number): void {
    if (place !== NO_PLACE) this.#ended.push({ session, place, at: this.#clock.now() });
  }

  /** Whether it is one of this writer's, of now or of a while ago. */
  knows(session: number): boolean {
    return this.#cells[0] !== 0 || this.#places.has(session);
  }

  /** All sessions, for whoever takes over; null when there were too many. */
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
    if (oldest && this.#clock.now() - oldest.at > LIMITS.handoverMs) {
      this.#ended.shift();
      this.#places.delete(oldest.session);
      return oldest.place;
    }
    return this.#used < LIMITS.writerSessions ? HEAD + CELLS * this.#used++ : NO_PLACE;
  }
}
