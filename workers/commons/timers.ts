/** Gives app code timers that are objects of its realm. What they throw moves the app: in a thread it would end that. */
import { effect } from '../handler/effects.ts';
import { across } from './crossing.ts';
import type { Given, NodeTimer, TimerKind } from './given.ts';
import { leave } from './leaving.ts';

type Callback = (...args: unknown[]) => unknown;

/** The numbers that app code took of its timers. */
const byNumber = new Map<number, Timeout>();
let nodesTimer: (timer: Immediate) => NodeTimer;

class Immediate {
  readonly #timer: NodeTimer;

  static {
    nodesTimer = (timer) => timer.#timer;
  }

  constructor(timer: NodeTimer) {
    this.#timer = timer;
  }

  ref(): this {
    across(() => this.#timer.ref());
    return this;
  }

  unref(): this {
    across(() => this.#timer.unref());
    return this;
  }

  hasRef(): boolean {
    return across(() => this.#timer.hasRef());
  }
}

class Timeout extends Immediate {
  readonly #stop: (timer: unknown) => void;

  constructor(timer: NodeTimer, stop: (timer: unknown) => void) {
    super(timer);
    this.#stop = stop;
  }

  refresh(): this {
    across(() => nodesTimer(this).refresh?.());
    return this;
  }

  close(): this {
    this.#stop(this);
    return this;
  }

  [Symbol.toPrimitive](): number {
    const number = across(() => nodesTimer(this)[Symbol.toPrimitive]?.()) ?? 0;
    byNumber.set(number, this);
    return number;
  }
}

/** Classes that app code sees. */
export const TIMER_CLASSES = [Immediate, Timeout];

/** Puts them on `globalThis`. */
export function installTimers(given: Given): void {
  const run = (callback: Callback, args: unknown[]): void => {
    try {
      callback(...args);
    } catch {
      given.leave('failed', 'It threw from a timer.');
    }
  };
  const start = (kind: TimerKind, callback: unknown, ms: unknown, args: unknown[]): NodeTimer => {
    effect();
    if (typeof callback !== 'function') leave('failed', 'It set a timer without a function.');
    return given.startTimer(kind, Number(ms), () => run(callback as Callback, args));
  };
  const stop = (timer: unknown): void => {
    const found = timer instanceof Immediate ? timer : byNumber.get(Number(timer));
    if (found === undefined) return;
    for (const [number, one] of byNumber) if (one === found) byNumber.delete(number);
    given.stopTimer(nodesTimer(found));
  };
  const timers = {
    setTimeout: (callback: unknown, ms?: unknown, ...args: unknown[]) =>
      new Timeout(start('timeout', callback, ms, args), stop),
    setInterval: (callback: unknown, ms?: unknown, ...args: unknown[]) =>
      new Timeout(start('interval', callback, ms, args), stop),
    setImmediate: (callback: unknown, ...args: unknown[]) => new Immediate(start('immediate', callback, 0, args)),
    clearTimeout: (timer: unknown) => stop(timer),
    clearInterval: (timer: unknown) => stop(timer),
    clearImmediate: (timer: unknown) => stop(timer),
    queueMicrotask: (callback: unknown) => {
      if (typeof callback !== 'function') leave('failed', 'It queued no function.');
      given.queueMicrotask(() => run(callback as Callback, []));
    },
  };
  for (const [name, value] of Object.entries(timers))
    Object.defineProperty(globalThis, name, { value, writable: true, enumerable: true, configurable: true });
}
