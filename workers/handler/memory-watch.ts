/**
 * Bounds the memory of actors outside their JavaScript heaps (buffers, shared memory, WebAssembly), which V8's limits do not
 * count. When the resident memory of the process has grown, each thread is asked for its share. A thread that does not answer
 * while memory still grows is judged by its page faults, which come with new memory.
 */
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { LIMITS } from '../../protocol/limits.ts';

/** A thread as the watch sees it. */
export type Watched = {
  /** Its answer goes to `MemoryWatch.measured`. */
  ask(): void;
  /** Page faults so far; null where the system does not report them. */
  faults(): number | null;
  /** Ends it for its use of memory. */
  end(): void;
};

export class MemoryWatch {
  readonly #budget: number;
  readonly #rss: () => number;
  readonly #threads = new Set<Watched>();
  /** Resident memory at which no thread was over its budget. */
  #calm = Number.POSITIVE_INFINITY;
  /** Threads that were asked and have not answered. */
  readonly #silent = new Set<Watched>();
  /** The faults that each thread had when it was asked. */
  readonly #before = new Map<Watched, number>();
  #askedAt = 0;
  #timer: NodeJS.Timeout | null = null;

  /** `budget` is what one thread may hold outside its heap, `rss` the resident memory of the process, both in bytes. */
  constructor(budget: number, rss: () => number = () => process.memoryUsage.rss()) {
    this.#budget = budget;
    this.#rss = rss;
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
    if (bytes > this.#budget) thread.end();
  }

  look(): void {
    const now = this.#rss();
    if (this.#silent.size === 0) {
      if (this.#askedAt > 0) this.#calm = now;
      this.#askedAt = 0;
      this.#calm = Math.min(this.#calm, now);
      if (now > this.#calm + this.#budget / 2) this.#ask(now);
    } else if (now > this.#askedAt + this.#budget) {
      const worst = this.#greediest();
      if (worst && this.#silent.has(worst)) worst.end();
      // Ending takes a while; the next thread ends only if memory still grows.
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

  /** The thread with the most page faults since it was asked; among equals, one that has not answered. */
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

/** Bytes that this thread holds in buffers and the like; over the budget, garbage is collected first. */
export function bytesOutsideHeap(budget: number): number {
  const bytes = getHeapStatistics().external_memory;
  if (bytes <= budget) return bytes;
  collectGarbage();
  return getHeapStatistics().external_memory;
}

/**
 * With the flag, which is the whole process's, V8 adds its `gc` to new contexts. It is set for no longer: a thread that starts meanwhile
 * takes twice as long. Another thread that does the same may unset it too early for this one.
 */
function collectGarbage(): void {
  let gc: (() => void) | undefined;
  while (gc === undefined) {
    setFlagsFromString('--expose-gc');
    gc = runInNewContext('globalThis.gc') as typeof gc;
    setFlagsFromString('--no-expose-gc');
  }
  gc();
}

/** Linux's id of this thread; 0 elsewhere. */
export function osThreadNumber(): number {
  try {
    return Number.parseInt(readFileSync('/proc/thread-self/stat', 'utf8'), 10);
  } catch {
    return 0;
  }
}
