/** The clock of a test: it stands still until the test moves it, and then fires the timers that are due. */
import type { SimulatedClock } from '../../supervisor/simulation.ts';

const UNIT_MS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
const DURATION = /^\s*(?:\d+(?:\.\d+)?\s*(?:ms|[smhdw])\s*)+$/;

type Timer = { at: number; wake: () => void };

export class TestClock implements SimulatedClock {
  #now: number;
  readonly #timers = new Set<Timer>();
  readonly #listeners: (() => void)[] = [];

  constructor(now: number) {
    this.#now = now;
  }

  readonly now = (): number => this.#now;

  readonly setTimer = (ms: number, wake: () => void): (() => void) => {
    const timer = { at: this.#now + ms, wake };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  };

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** It never goes back. */
  moveTo(at: number): void {
    this.#now = at;
    for (const listener of this.#listeners) listener();
    for (const timer of [...this.#timers].filter((one) => one.at <= at)) {
      this.#timers.delete(timer);
      timer.wake();
    }
  }
}

/** Milliseconds of `90_000`, `'90s'` or `'1h 30m'`: units are ms, s, m, h, d and w. Throws `TypeError` for anything else. */
export function durationOf(value: number | string): number {
  if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return Math.round(value);
  if (typeof value !== 'string' || !DURATION.test(value))
    throw new TypeError(`A duration is milliseconds or a text such as "1h 30m", not ${JSON.stringify(value)}.`);
  const parts = value.matchAll(/(\d+(?:\.\d+)?)\s*(ms|[smhdw])/g);
  return Math.round([...parts].reduce((sum, [, count, unit = '']) => sum + Number(count) * (UNIT_MS[unit] ?? 0), 0));
}

/** Milliseconds since the epoch of a number, a `Date`, or a text such as `2026-01-05T18:00:00Z`. Throws `TypeError`. */
export function timeOf(value: number | string | Date): number {
  const at = new Date(value).getTime();
  if (Number.isNaN(at))
    throw new TypeError(`A time is milliseconds, a Date or a text such as "2026-01-05T18:00:00Z", not "${value}".`);
  return at;
}
