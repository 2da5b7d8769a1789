/**
 * Computes when a cron trigger fires. croner (11.0) knows the calendar and the time zones. The rule for changes of the clocks
 * (daylight saving):
 *
 * - Intervals (every 15 minutes, every hour) follow elapsed time: they fire in both passes of a repeated hour and skip a
 *   missing one.
 * - All others are times of day, which fire once a day: in the first pass of a repeated hour, and right after a missing one
 *   (several of them once together).
 *
 * This file corrects croner's errors; cron-times.test.ts has the cases:
 *
 * 1. It treats both kinds by the rule, but distinguishes them by their spelling: by default only a single time of day is of the
 *    second kind. So a step of two hours fires twice at 02:00 in autumn, and not at all in spring. It gets the kind explicitly.
 * 2. It keeps 80 KiB for each expression, nearly all of it a list of years, which is the same for all of ours. They share one.
 * 3. It keeps a formatter for every spelling of a time zone. It gets one spelling.
 */
import { Cron, CronPattern } from 'croner';
import { LIMITS } from '../limits.ts';
import type { CronTrigger } from './automation.ts';
import { canonicalZone, parseCron } from './cron-expression.ts';

const SECOND = 1000;
const MINUTES_OF_DAY = 24 * 60;
/** As `Intl` writes it: `GMT`, `GMT+02:00`. */
const OFFSET = /GMT(?:([+-])(\d\d):(\d\d))?/;
const YEARS = new CronPattern('* * * * *').year;

type CronTime = Pick<CronTrigger, 'expr' | 'tz'>;

export class CronTimes {
  #hostZone: string | undefined;
  /** By expression and time zone; begun anew when full. Not one map whose items are deleted: V8 chains its outgrown tables. */
  #jobs = new Map<string, Cron>();

  /** `hostZone` is for triggers without a zone; by default the zone of this machine. */
  constructor(hostZone?: string) {
    this.#hostZone = hostZone;
  }

  /**
   * The first fire after `after`, in milliseconds since the epoch; null after the last one. Throws when the
   * expression or the zone cannot be understood.
   */
  next({ expr, tz = this.zone }: CronTime, after: number): number | null {
    const key = `${tz}\0${expr}`;
    let job = this.#jobs.get(key);
    if (job === undefined) {
      job = jobOf(expr, canonicalZone(tz));
      if (this.#jobs.size >= LIMITS.cronCache) this.#jobs = new Map();
      this.#jobs.set(key, job);
    }
    return job.nextRun(new Date(after))?.getTime() ?? null;
  }

  /** Of triggers without one. Looked up on first use: `Intl` takes 14 ms for it, which few starts need. */
  get zone(): string {
    this.#hostZone ??= Intl.DateTimeFormat().resolvedOptions().timeZone;
    return this.#hostZone;
  }

  /** The last fire up to `now`, given one that is not after it. Takes few looks however many lie between. */
  latest(time: CronTime, fire: number, now: number): number {
    const nextUpToNow = (after: number): number | null => {
      const next = this.next(time, after);
      return next !== null && next <= now ? next : null;
    };
    let latest = fire;
    let none = now;
    for (let step = SECOND; now - step > latest; step *= 2) {
      const found = nextUpToNow(now - step);
      if (found !== null) {
        latest = found;
        break;
      }
      none = now - step;
    }
    for (let next = nextUpToNow(latest); next !== null; next = nextUpToNow(latest)) {
      latest = next;
      const middle = latest + (none - latest) / 2;
      const found = nextUpToNow(middle);
      if (found === null) none = middle;
      else latest = found;
    }
    return latest;
  }
}

function jobOf(expr: string, timezone: string): Cron {
  const pattern = parseCron(expr);
  const names = !repeatsEvery(pattern, changeOf(timezone));
  const job = new Cron(names ? spelledOut(expr, pattern) : expr, {
    timezone,
    paused: true,
    fixedTimeRule: names ? 'no-wildcard' : 'single-value',
  });
  // No public member has it; should it move, only memory is lost, which scheduler.test.ts notices.
  const { _states } = job as unknown as { _states?: { pattern?: { year: number[] } } };
  if (_states?.pattern) _states.pattern.year = YEARS;
  return job;
}

/** The same expression with its times of day as lists; a nickname has none but single ones. */
function spelledOut(expr: string, { second, minute, hour }: CronPattern): string {
  const days = expr.trim().split(/\s+/).slice(-3);
  if (days.length < 3) return expr;
  const lists = [second, minute, hour].map((field) => field.flatMap((has, at) => (has ? [at] : [])).join(','));
  return [...lists, ...days].join(' ');
}

/**
 * Whether the times of day stay the same when all of them are moved by this many minutes: every 15 minutes are, by an hour or
 * half of one; 02:30 is not.
 */
function repeatsEvery({ hour, minute }: CronPattern, minutes: number): boolean {
  const has = (at: number): boolean => hour[Math.floor(at / 60) % 24] === 1 && minute[at % 60] === 1;
  for (let at = 0; at < MINUTES_OF_DAY; at++) if (has(at) !== has(at + minutes)) return false;
  return true;
}

/** By how many minutes the clocks of a zone change this year; an hour where summer and winter are alike. */
function changeOf(timeZone: string): number {
  const format = new Intl.DateTimeFormat('en-US', { timeZone, timeZoneName: 'longOffset' });
  const [winter, summer] = [0, 6].map((month) => {
    const [, sign, hours = '0', minutes = '0'] =
      OFFSET.exec(format.format(Date.UTC(new Date().getUTCFullYear(), month))) ?? [];
    return (Number(hours) * 60 + Number(minutes)) * (sign === '-' ? -1 : 1);
  }) as [number, number];
  return Math.abs(winter - summer) || 60;
}
