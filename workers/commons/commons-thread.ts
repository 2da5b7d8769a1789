/** Starts the thread of a host's commons, and gives it up when the code of an app keeps it busy. */
import { readFileSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { LIMITS } from '../../protocol/limits.ts';
import type { CommonsEnd } from '../../protocol/wire/commons.ts';
import type { CommonsStart } from './commons.ts';
import { type Turn, TurnPulse } from './pulse.ts';

/** A turn that uses no processor time, such as one that waits for a disk, has this many times as long. */
const WAITING = 10;
/** After so many looks without a turn, the next one begins with the next turn. */
const QUIET_LOOKS = 50;
/** Linux counts processor time in hundredths of a second. */
const TICK_MS = 10;

type CommonsThreadEvents = {
  onReady(): void;
  /** It has its first resident. */
  onWorks(): void;
  /** Called once, and again where it does not end: `actorId` is the app whose turn it was, 0 for none. */
  onEnded(actorId: number, end: CommonsEnd, detail: string): void;
};

/** A blank one, with our code loaded. */
export function startCommonsThread(): Worker {
  const resourceLimits = {
    maxOldGenerationSizeMb: LIMITS.commonsMemoryMb,
    maxYoungGenerationSizeMb: LIMITS.commonsYoungMb,
  };
  return new Worker(new URL('./commons.cjs', import.meta.url), { env: {}, argv: [], resourceLimits });
}

export class CommonsThread {
  readonly #worker: Worker;
  readonly #pulse = new TurnPulse();
  readonly #events: CommonsThreadEvents;
  #timer: NodeJS.Timeout | undefined;
  #quietLooks = 0;
  #osThread = 0;
  /** The turn that was under way at the last look, since when, and the processor time that the thread had used. */
  #turn: Turn = { resident: 0, beat: -1 };
  #since = 0;
  #usedMs = 0;
  #outOfMemory = false;
  #ended = false;

  /** `worker` is blank, and becomes the thread of the commons with this ticket. */
  constructor(worker: Worker, supervisorSocket: string, ticket: string, events: CommonsThreadEvents) {
    this.#worker = worker;
    this.#events = events;
    this.#worker.on('message', (osThread: number) => {
      this.#osThread = osThread;
      events.onReady();
    });
    this.#worker.on('error', (error: NodeJS.ErrnoException) => {
      this.#outOfMemory = error.code === 'ERR_WORKER_OUT_OF_MEMORY';
    });
    this.#worker.on('exit', () =>
      this.#end(this.#pulse.read().resident, this.#outOfMemory ? 'memory' : 'crash', 'It ended.'),
    );
    const start: CommonsStart = { supervisorSocket, ticket, pulse: this.#pulse.memory };
    worker.postMessage(start);
    this.#watch();
  }

  /** Without a word about it. */
  stop(): void {
    this.#ended = true;
    clearInterval(this.#timer);
    void this.#worker.terminate();
  }

  #watch(): void {
    if (this.#ended) return;
    this.#quietLooks = 0;
    this.#timer = setInterval(() => this.#look(performance.now()), LIMITS.commonsLookMs).unref();
  }

  #look(now: number): void {
    const turn = this.#pulse.read();
    if (turn.beat !== this.#turn.beat) this.#quietLooks = 0;
    else if (turn.resident === 0 && this.#quietLooks++ === QUIET_LOOKS) {
      clearInterval(this.#timer);
      void this.#pulse.after(turn.beat).then(() => this.#watch());
    }
    if (turn.resident === 0 || turn.beat !== this.#turn.beat) {
      if (this.#turn.beat <= 0 && turn.beat > 0) this.#events.onWorks();
      this.#turn = turn;
      this.#since = now;
      if (turn.resident !== 0) this.#usedMs = this.#processorMs();
      return;
    }
    const ms = now - this.#since;
    if (ms < LIMITS.commonsStallMs) return;
    // On a busy machine it may have stood still itself.
    const used = this.#processorMs() - this.#usedMs;
    if (used + TICK_MS < LIMITS.commonsStallMs && ms < LIMITS.commonsStallMs * WAITING) return;
    this.#end(turn.resident, 'stalled', `It ran for ${Math.round(ms)} ms without a pause.`);
    void this.#worker.terminate();
    // In native code it ends only when that returns.
    const timer = setTimeout(() => this.#events.onEnded(turn.resident, 'stuck', ''), LIMITS.terminateMs);
    this.#worker.once('exit', () => clearTimeout(timer));
  }

  /** Infinite where the system does not say it. */
  #processorMs(): number {
    try {
      const stat = readFileSync(`/proc/self/task/${this.#osThread}/stat`, 'utf8');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
    } catch {
      return Number.POSITIVE_INFINITY;
    }
  }

  #end(actorId: number, end: CommonsEnd, detail: string): void {
    if (this.#ended) return;
    this.#ended = true;
    clearInterval(this.#timer);
    this.#events.onEnded(actorId, end, detail);
  }
}
