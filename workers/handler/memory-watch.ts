/**
 * Bounds what actors hold outside their JavaScript heaps (buffers, shared memory, WebAssembly), which V8's own limits do not
 * count. The process's resident memory is looked at from outside; when it has grown, each thread is asked for its share. One
 * that does not answer while memory goes on growing is judged by its page faults: who touches new memory has them.
 */
import { LIMITS } from '../../protocol/limits.ts';

/** A thread, as far as its memory is concerned. */
export type Watched = {
  /** It answers by `MemoryWatch.measured`, when it gets to it. */
  ask(): void;
  /** Page faults so far; null where the system does not tell. */
  faults(): number | null;
  /** Ends it, for its memory. */
  end(): void;
};

export type MemoryWatchOptions = {
  /** What one thread may hold outside its heap, in bytes. */
  budget: number;
  /** Resident memory of the whole process, in bytes. */
  rss(): number;
};

export class MemoryWatch {
  readonly #options: MemoryWatchOptions;
  readonly #threads = new Set<Watched>();
  /** Memory that was found to be nobody's fault. */
  #calm = Number.POSITIVE_INFINITY;
  /** Threads that were asked and have not answered. */
  readonly #silent = new Set<Watched>();
  /** The faults that each thread had when it was asked. */
  readonly #before = new Map<Watched, number>();
  #askedAt = 0;
  #timer: NodeJS.Timeout | null = null;

  constructor(options: MemoryWatchOptions) {
    this.#options = options;
  }

  add(thread: Watched): void {
    this.#threads.add(thread);
    this.#timer ??= setInterval(() => this.look(), LIMITS.memoryLookMs).unref();
  }

  remove(thread: Watched): void {
    this.#threads.delete(thread);
    this.#silent.delete(thread);
    this.#before.delete(thread);
    if (this.#threads.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
    this.#calm = Number.POSITIVE_INFINITY;
  }

  /** The thread's answer: bytes that it holds outside its heap. */
  measured(thread: Watched, bytes: number): void {
    this.#silent.delete(thread);
    if (bytes > this.#options.budget) thread.end();
  }

  look(): void {
    const { budget, rss } = this.#options;
    const now = rss();
    if (this.#silent.size === 0) {
      if (this.#askedAt > 0) this.#calm = now;
      this.#askedAt = 0;
      this.#calm = Math.min(this.#calm, now);
      if (now > this.#calm + budget / 2) this.#ask(now);
    } else if (now > this.#askedAt + budget) {
      const worst = this.#greediest();
      if (worst && this.#silent.has(worst)) worst.end();
      // Ending takes its time; the next one is due only if memory goes on growing.
      this.#ask(now);
    }
  }

  #ask(now: number): void {
    this.#askedAt = now;
    for (const thread of this.#threads) {
      this.#before.set(thread, thread.faults() ?? 0);
      if (this.#silent.has(thread)) continue;
      this.#silent.add(thread);
      thread.ask();
    }
  }

  /** Who touched most new memory since the threads were asked; among equals, one that has not answered. */
  #greediest(): Watched | null {
    let worst: Watched | null = null;
    let most = -1;
    for (const thread of new Set([...this.#silent, ...this.#threads])) {
      const before = this.#before.get(thread);
      if (before === undefined) continue;
      const faults = (thread.faults() ?? 0) - before;
      if (faults > most) [worst, most] = [thread, faults];
    }
    return worst;
  }
}
