/** Keeps file descriptors free from connections. Without any, the supervisor cannot open a file or reach its children. */
import { closeSync, openSync, readFileSync } from 'node:fs';
import { LIMITS } from '../../protocol/limits.ts';

/** The file descriptors that this process may have. They are Infinity where the system does not say. */
export function descriptorLimit(): number {
  try {
    const [, soft] = /^Max open files +(\d+|unlimited)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return soft === undefined || soft === 'unlimited' ? Number.POSITIVE_INFINITY : Number(soft);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** The connections that may be open at once where the process may have `descriptors`. */
export function connectionLimit(descriptors: number): number {
  return Math.min(LIMITS.connections, descriptors - Math.min(LIMITS.descriptorReserve, Math.ceil(descriptors / 2)));
}

/** Takes and releases descriptors. `take` gives the lowest free one, or null when there is none. */
const DEV_NULL = {
  take: (): number | null => {
    try {
      return openSync('/dev/null', 'r');
    } catch {
      return null;
    }
  },
  release: closeSync,
};

/**
 * Tells an edge that cannot count its connections when to stop taking any, and when to go on. Descriptors are given out from
 * the lowest free number, so that number says how many are in use at least. Hundreds of connections can arrive in one turn of
 * the event loop, so the check may come too late. It then releases spare descriptors for the supervisor.
 */
export class DescriptorGuard {
  readonly #most: number;
  readonly #onChange: (isFull: boolean) => void;
  readonly #system: typeof DEV_NULL;
  #spares: number[] = [];
  #isFull = false;
  #timer: NodeJS.Timeout | undefined;

  /** Descriptors from number `most` on are left to others. */
  constructor(
    onChange: (isFull: boolean) => void,
    most: number = connectionLimit(descriptorLimit()),
    system: typeof DEV_NULL = DEV_NULL,
  ) {
    this.#onChange = onChange;
    this.#most = most;
    this.#system = system;
  }

  start(): void {
    this.#check();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#freeSpares();
  }

  readonly #check = (): void => {
    const left = this.#most - this.#lowestFree();
    const isFull = left <= 0;
    if (isFull !== this.#isFull) {
      this.#isFull = isFull;
      this.#onChange(isFull);
    }
    if (isFull) this.#freeSpares();
    const isShort = !isFull && left < 3 * LIMITS.descriptorReserve;
    this.#timer = setTimeout(this.#check, isShort ? LIMITS.descriptorShortMs : LIMITS.descriptorCheckMs).unref();
  };

  /** The lowest free descriptor once all spare ones are taken. It is Infinity where there is none. */
  #lowestFree(): number {
    while (this.#spares.length < LIMITS.spareDescriptors) {
      const spare = this.#system.take();
      if (spare === null) return Number.POSITIVE_INFINITY;
      this.#spares.push(spare);
    }
    const lowest = this.#system.take();
    if (lowest === null) return Number.POSITIVE_INFINITY;
    this.#system.release(lowest);
    return lowest;
  }

  #freeSpares(): void {
    for (const spare of this.#spares) this.#system.release(spare);
    this.#spares = [];
  }
}
