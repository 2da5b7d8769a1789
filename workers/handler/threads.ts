/** The actor threads of one handler host: started, stopped, and reported when they end, whatever ended them. */
import { Worker } from 'node:worker_threads';
import type { ActorSpec, ExitedFrame } from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { FromActor, ToActor } from './messages.ts';

type ExitReason = ExitedFrame[2];

export type ThreadsOptions = {
  /** The actor's bundle. */
  file: URL;
  /** Bound of one actor's heap. */
  memoryMb: number;
  /** Keep one blank thread started, so that a cold start need not wait for it. */
  spare: boolean;
  onExited(actorId: number, reason: ExitReason, detail: string): void;
};

type Actor = { worker: Worker; ready: boolean; stopping: boolean; detail: string };

export class Threads {
  readonly #options: ThreadsOptions;
  readonly #actors = new Map<number, Actor>();
  #spare: Worker | null = null;
  #spareTimer: NodeJS.Timeout | null = null;

  constructor(options: ThreadsOptions) {
    this.#options = options;
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
    const actor: Actor = { worker, ready: false, stopping: false, detail: '' };
    this.#actors.set(spec.actorId, actor);
    worker.on('message', (message: FromActor) => {
      if (message.type === 'ready') actor.ready = true;
      else actor.detail = message.detail;
    });
    let outOfMemory = false;
    worker.on('error', (error: NodeJS.ErrnoException) => {
      outOfMemory = error.code === 'ERR_WORKER_OUT_OF_MEMORY';
      actor.detail ||= outOfMemory
        ? `The app needed more than ${this.#options.memoryMb} MiB of memory.`
        : error.message;
    });
    worker.on('exit', () => {
      this.#actors.delete(spec.actorId);
      this.#options.onExited(spec.actorId, exitReason(actor, outOfMemory), actor.detail);
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

function exitReason({ ready, stopping }: Actor, outOfMemory: boolean): ExitReason {
  if (stopping) return 'stopped';
  if (outOfMemory) return 'memory';
  return ready ? 'crash' : 'failed_to_start';
}

function post(worker: Worker, message: ToActor): void {
  worker.postMessage(message);
}
