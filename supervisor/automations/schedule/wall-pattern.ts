/**
 * A cron expression as times of a clock on the wall, without any time zone: moments are milliseconds since the epoch of a
 * clock that is never set. What becomes of them in a time zone is told elsewhere.
 */
import { CronPattern } from 'croner';
import { LIMITS } from '../../../protocol/limits.ts';
import { type CronFields, cronFields } from '../../../protocol/rules/cron-fields.ts';
import { CronDays } from './cron-days.ts';

const DAY = LIMITS.dayMs;
const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const MINUTES = 24 * 60;

export class WallPattern {
  readonly #fields: CronFields;
  readonly #days: CronDays;

  /** Throws croner's error when it is no cron expression. `daysOf` may answer the same days for the same expression again. */
  constructor(expr: string, daysOf: (expr: string) => CronDays = (days) => new CronDays(days)) {
    this.#fields = cronFields(expr) ?? parsed(expr);
    this.#days = daysOf(this.#fields.days === expr ? expr : `0 0 0 ${this.#fields.days}`);
  }

  /** The first of its times after `wall`; null when there is none any more. */
  after(wall: number): number | null {
    const today = Math.floor(wall / DAY) * DAY;
    const day = this.#days.from(today);
    if (day === null) return null;
    const time = this.#timeFrom(day === today ? wall - today + 1 : 0);
    if (time !== null) return day + time;
    const next = this.#days.from(day + DAY);
    return next === null ? null : next + (this.#timeFrom(0) as number);
  }

  /**
   * Whether its times of day stay the same when all of them are moved by this many milliseconds: every 15 minutes are, by an
   * hour or half of one; 02:30 is not.
   */
  repeatsEvery(ms: number): boolean {
    const { hours, minutes } = this.#fields;
    const by = Math.abs(ms) / MINUTE_MS;
    if (!Number.isInteger(by)) return false;
    const has = (at: number): boolean => hours.includes(Math.floor(at / 60) % 24) && minutes.includes(at % 60);
    for (let at = 0; at < MINUTES; at++) if (has(at) !== has(at + by)) return false;
    return true;
  }

  /** The first of its times of day from `from` on, both in milliseconds since midnight; null for the next day. */
  #timeFrom(from: number): number | null {
    for (const hour of this.#fields.hours) {
      const atHour = hour * HOUR_MS;
      if (atHour + HOUR_MS <= from) continue;
      for (const minute of this.#fields.minutes) {
        const atMinute = atHour + minute * MINUTE_MS;
        if (atMinute + MINUTE_MS <= from) continue;
        for (const second of this.#fields.seconds) {
          const at = atMinute + second * SECOND_MS;
          if (at >= from) return at;
        }
      }
    }
    return null;
  }
}

/** By croner itself; its days are those on which the whole of it fires. */
function parsed(expr: string): CronFields {
  // Unlike a job of croner's, a pattern cannot be a date, which is none of the times of a clock.
  const { hour, minute, second } = new CronPattern(expr);
  const numbers = (field: number[]): number[] => field.flatMap((has, at) => (has ? [at] : []));
  return { hours: numbers(hour), minutes: numbers(minute), seconds: numbers(second), days: expr };
}
