/** Gives app code timers that are objects of its realm. What they throw moves the app: in a thread it would end that. */
import { effect } from '../handler/effects.ts';
import { across } from './crossing.ts';
import type { Given, NodeTimer, TimerKind } from './given.ts';
import { leave } from './leaving.ts';

type Callback = (...args: unknown[]) => unknown;

/** The numbers that app code took of its timers. */
const byNumber = new Map<number, Timeout>();
let nodesTimer: (timer: Timer) => NodeTimer;
let isTimer: (value: unknown) => value is Timer;

class Timer {
  readonly #timer: NodeTimer;

  static {
    nodesTimer = (timer) => timer.#timer;
    isTimer = (value): value is Timer => typeof value === 'object' && value !== null && #timer in value;
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

/** As Node's: the callback is a method of its timer, and named so in stacks. */
class Immediate extends Timer {
  readonly _onImmediate: Callback;

  constructor(timer: NodeTimer, callback: Callback) {
    super(timer);
    this._onImmediate = callback;
  }
}

class Timeout extends Timer {
  readonly _onTimeout: Callback;
  readonly #stop: (timer: unknown) => void;

  constructor(timer: NodeTimer, callback: Callback, stop: (timer: unknown) => void) {
    super(timer);
    this._onTimeout = callback;
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
export const TIMER_CLASSES = [Timer, Immediate, Timeout];

/** Puts them on `globalThis`. */
export function installTimers(given: Given): void {
  const run = (callback: () => unknown): void => {
    try {
      callback();
    } catch {
      given.leave('failed', 'It threw from a timer.');
    }
  };
  /** `fire` calls the callback of the timer that `make` gives. */
  const start = <T>(
    kind: TimerKind,
    [callback, ms]: [callback: unknown, ms: unknown],
    make: (timer: NodeTimer, callback: Callback) => T,
    fire: (timer: T) => unknown,
  ): T => {
    effect();
    if (typeof callback !== 'function') leave('failed', 'It set a timer without a function.');
    // Converted as Node does it.
    const node = given.startTimer(kind, (ms as number) * 1, () => run(() => fire(timer)));
    const timer = make(node, callback as Callback);
    return timer;
  };
  const startTimeout = (kind: 'timeout' | 'interval', callback: unknown, ms: unknown, args: unknown[]): Timeout =>
    start(
      kind,
      [callback, ms],
      (timer, called) => new Timeout(timer, called, stop),
      (timer) => timer._onTimeout(...args),
    );
  const stop = (timer: unknown): void => {
    const isNumber = typeof timer === 'number' || typeof timer === 'string';
    const found = isTimer(timer) ? timer : isNumber ? byNumber.get(Number(timer)) : undefined;
    if (found === undefined) return;
    for (const [number, one] of byNumber) if (one === found) byNumber.delete(number);
    given.stopTimer(nodesTimer(found));
  };
  const timers = {
    setTimeout: (callback: unknown, ms?: unknown, ...args: unknown[]) => startTimeout('timeout', callback, ms, args),
    setInterval: (callback: unknown, ms?: unknown, ...args: unknown[]) => startTimeout('interval', callback, ms, args),
    setImmediate: (callback: unknown, ...args: unknown[]) =>
      start(
        'immediate',
        [callback, 0],
        (timer, called) => new Immediate(timer, called),
        (timer) => timer._onImmediate(...args),
      ),
    clearTimeout: (timer: unknown) => stop(timer),
    clearInterval: (timer: unknown) => stop(timer),
    clearImmediate: (timer: unknown) => stop(timer),
    queueMicrotask: (callback: unknown) => {
      if (typeof callback !== 'function') leave('failed', 'It queued no function.');
      given.queueMicrotask(() => run(callback as () => unknown));
    },
  };
  for (const [name, value] of Object.entries(timers))
    Object.defineProperty(globalThis, name, { value, writable: true, enumerable: true, configurable: true });
}
