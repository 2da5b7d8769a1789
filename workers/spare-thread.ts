/** Keeps a started thread ready, so that what needs one does not wait for its start. */
import type { Worker } from 'node:worker_threads';

export class SpareThread {
  readonly #start: () => Worker;
  readonly #hasRoom: () => boolean;
  #thread: Worker | null = null;
  #timer: NodeJS.Timeout | undefined;

  /** `start` makes a blank one; it may throw. Without room, what needs a thread starts one, and there is none in reserve. */
  constructor(start: () => Worker, hasRoom: () => boolean) {
    this.#start = start;
    this.#hasRoom = hasRoom;
  }

  /** The one that is ready, or a new one. Throws where none can be started. */
  take(): Worker {
    const thread = this.#thread;
    this.#thread = null;
    thread?.removeAllListeners();
    return thread ?? this.#start();
  }

  /** Starts the next one after a while: an answer needs the processor first. */
  soon(delayMs: number): void {
    this.#timer ??= setTimeout(() => this.now(), delayMs);
  }

  now(): void {
    this.later();
    if (this.#thread !== null || !this.#hasRoom()) return;
    try {
      const thread = this.#start();
      // Without a spare one, `take` makes its own.
      thread.on('error', () => {});
      thread.on('exit', () => {
        if (this.#thread === thread) this.#thread = null;
      });
      this.#thread = thread;
    } catch {
      this.#thread = null;
    }
  }

  /** Not yet: it is asked for again. */
  later(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
