/**
 * Gives the residents of the commons their turns: what an app is sent waits here, and one app's code runs in each turn of the event
 * loop.
 */
import { type Frame, Kind } from '../../protocol/wire/frames.ts';
import type { TurnPulse } from './pulse.ts';

type TurnEvents = {
  /** What others have said does not wait for this turn. */
  flush(): void;
  receive(actorId: number, frame: Frame): void;
  /** The code that follows from the turn in promises has run, too. */
  onEnded(actorId: number, ms: number): void;
  /** Nothing waits. */
  onIdle(): void;
};

export class Turns {
  readonly #pulse: TurnPulse;
  readonly #events: TurnEvents;
  /** Whose turn it is, and when it began. */
  #current = 0;
  #began = 0;
  #count = 0;
  /** Of residents, in order; and those of each one that is to start, by its number. */
  readonly #frames: [actorId: number, frame: Frame][] = [];
  readonly #starts = new Map<number, Frame[]>();
  #isIdle = true;

  constructor(pulse: TurnPulse, events: TurnEvents) {
    this.#pulse = pulse;
    this.#events = events;
  }

  /** The actor whose turn it is, 0 for none. */
  get current(): number {
    return this.#current;
  }

  /** Frames of residents that are to start wait until those of the others are done: the calls that an earlier thread left come first. */
  enqueue(actorId: number, frame: Frame): void {
    const start = this.#starts.get(actorId);
    if (start !== undefined) start.push(frame);
    else if (frame[0] === Kind.start) this.#starts.set(actorId, [frame]);
    else this.#frames.push([actorId, frame]);
    if (this.#isIdle) setImmediate(this.#next);
    this.#isIdle = false;
  }

  /** Runs code of a resident. Its turn lasts until the code that follows from it in promises has run: so each needs a turn of the event loop. */
  take(actorId: number, run: () => void): void {
    this.end();
    this.#events.flush();
    const turn = ++this.#count;
    this.#began = performance.now();
    this.#current = actorId;
    this.#pulse.enter(actorId);
    setImmediate(() => {
      if (turn === this.#count) this.end();
    });
    run();
  }

  /** Ends the one that may be under way. */
  end(): void {
    if (this.#current === 0) return;
    this.#pulse.leave();
    const actorId = this.#current;
    this.#current = 0;
    this.#events.onEnded(actorId, performance.now() - this.#began);
  }

  /** One turn in each turn of the event loop, so that what comes meanwhile is read before the next. */
  readonly #next = (): void => {
    if (this.#frames.length === 0) this.#takeStart();
    const first = this.#frames.shift();
    this.#isIdle = first === undefined;
    if (first === undefined) {
      this.end();
      this.#events.flush();
      this.#events.onIdle();
      return;
    }
    setImmediate(this.#next);
    const [actorId] = first;
    this.take(actorId, () => {
      let next: [number, Frame] | undefined = first;
      while (next !== undefined) {
        this.#events.receive(...next);
        // What only tells it something runs none of its code.
        next = isTold(next[1]) && this.#frames[0]?.[0] === actorId ? this.#frames.shift() : undefined;
      }
    });
  };

  #takeStart(): void {
    for (const [actorId, frames] of this.#starts) {
      this.#starts.delete(actorId);
      for (const frame of frames) this.#frames.push([actorId, frame]);
      return;
    }
  }
}

function isTold([kind]: Frame): boolean {
  return kind === Kind.start || kind === Kind.secrets || kind === Kind.caller || kind === Kind.schemaChanged;
}
