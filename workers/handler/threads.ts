/** The actor threads of one handler host: started, stopped, and reported when they end, whatever ended them. */
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { Worker } from 'node:worker_threads';
import type { ActorSpec, ExitedFrame } from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { MemoryWatch, type Watched } from './memory-watch.ts';

/** What a handler host and the threads in it say to each other. */
export type ToActor = { type: 'start'; spec: ActorSpec } | { type: 'stop' } | { type: 'measure'; budget: number };

/**
 * `ready`: `osThread` is the system's number of the thread, 0 where it is not known. `measured`: the bytes that it holds outside
 * its heap. `failed`: it could not start. `crashed`: an error that app code let go unhandled is about to end the thread.
 */
export type FromActor =
  | { type: 'ready'; osThread: number }
  | { type: 'measured'; bytes: number }
  | { type: 'failed' | 'crashed'; detail: string };

const MiB = 1024 * 1024;

type ExitReason = ExitedFrame[2];

export type ThreadsOptions = {
  /** The actor's bundle. */
  file: URL;
  /** Bound of one actor's heap, and of what it holds outside of it. */
  memoryMb: number;
  /** Keep one blank thread started, so that a cold start need not wait for it. */
  spare: boolean;
  onExited(actorId: number, reason: ExitReason, detail: string): void;
};

type Actor = {
  worker: Worker;
  ready: boolean;
  stopping: boolean;
  detail: string;
  /** It was ended because of its memory. */
  outOfMemory: boolean;
  /** The system's number of its thread; 0 where that is not known. */
  osThread: number;
};

export class Threads {
  readonly #options: ThreadsOptions;
  readonly #actors = new Map<number, Actor>();
  readonly #memory: MemoryWatch;
  #spare: Worker | null = null;
  #spareTimer: NodeJS.Timeout | null = null;

  constructor(options: ThreadsOptions) {
    this.#options = options;
    this.#memory = new MemoryWatch({ budget: options.memoryMb * MiB, rss: () => process.memoryUsage.rss() });
    if (options.spare) this.#startSpare();
  }

  get count(): number {
    return this.#actors.size;
  }

  start(spec: ActorSpec): void {
    let worker: Worker;
    try {
      worker = this.#takeSpare() ?? this.#startThread();
    } catch (error) {
      this.#options.onExited(spec.actorId, 'failed_to_start', (error as Error).message);
      return;
    }
    const actor: Actor = { worker, ready: false, stopping: false, detail: '', outOfMemory: false, osThread: 0 };
    this.#actors.set(spec.actorId, actor);
    const watched = this.#watch(actor);
    worker.on('message', (message: FromActor) => {
      if (message.type === 'measured') this.#memory.measured(watched, message.bytes);
      else if (message.type === 'ready') Object.assign(actor, { ready: true, osThread: message.osThread });
      else actor.detail = message.detail;
    });
    worker.on('error', (error: NodeJS.ErrnoException) => {
      actor.outOfMemory ||= error.code === 'ERR_WORKER_OUT_OF_MEMORY';
      actor.detail ||= actor.outOfMemory
        ? `The app needed more than ${this.#options.memoryMb} MiB of memory.`
        : error.message;
    });
    worker.on('exit', () => {
      this.#memory.remove(watched);
      this.#actors.delete(spec.actorId);
      this.#options.onExited(spec.actorId, exitReason(actor), actor.detail);
    });
    post(worker, { type: 'start', spec });
  }

  /** Without `force` the actor finishes its calls first. A thread in native code ends only when that returns. */
  stop(actorId: number, force: boolean): void {
    const actor = this.#actors.get(actorId);
    if (actor === undefined) return;
    actor.stopping = true;
    if (force) void actor.worker.terminate();
    else post(actor.worker, { type: 'stop' });
  }

  #watch(actor: Actor): Watched {
    const { memoryMb } = this.#options;
    const watched: Watched = {
      ask: () => post(actor.worker, { type: 'measure', budget: memoryMb * MiB }),
      faults: () => pageFaults(actor.osThread),
      end: () => {
        actor.outOfMemory = true;
        actor.detail ||= `The app needed more than ${memoryMb} MiB of memory outside of its heap, in buffers and the like.`;
        void actor.worker.terminate();
      },
    };
    this.#memory.add(watched);
    return watched;
  }

  #takeSpare(): Worker | null {
    const spare = this.#spare;
    this.#spare = null;
    spare?.removeAllListeners();
    if (this.#options.spare) this.#replaceSpareLater();
    return spare;
  }

  /** Not now: whoever starts an actor waits for it, and a burst of starts wants the processor for itself. */
  #replaceSpareLater(): void {
    if (this.#spareTimer !== null) clearTimeout(this.#spareTimer);
    this.#spareTimer = setTimeout(() => this.#startSpare(), LIMITS.spareDelayMs);
  }

  #startSpare(): void {
    try {
      const spare = this.#startThread();
      // One that ends by itself is not missed: the next start makes its own thread.
      spare.on('error', () => {});
      spare.on('exit', () => {
        if (this.#spare === spare) this.#spare = null;
      });
      this.#spare = spare;
    } catch {
      this.#spare = null;
    }
  }

  #startThread(): Worker {
    const { file, memoryMb } = this.#options;
    const resourceLimits = { maxOldGenerationSizeMb: memoryMb, maxYoungGenerationSizeMb: LIMITS.actorYoungMb };
    return new Worker(file, { env: {}, argv: [], resourceLimits });
  }
}

function exitReason({ ready, stopping, outOfMemory }: Actor): ExitReason {
  if (outOfMemory) return 'memory';
  if (stopping) return 'stopped';
  return ready ? 'crash' : 'failed_to_start';
}

/** Of one of our threads, as Linux counts them; null elsewhere. */
function pageFaults(osThread: number): number | null {
  try {
    const stat = readFileSync(`/proc/self/task/${osThread}/stat`, 'utf8');
    // The name in parentheses may hold spaces; the numbered fields start after it, at field 3.
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[7]);
  } catch {
    return null;
  }
}

function post(worker: Worker, message: ToActor): void {
  worker.postMessage(message);
}
