/**
 * A cron expression as times of a clock on the wall, without any time zone: moments are milliseconds since the epoch of a
 * clock that is never set. croner finds them, in UTC, which has no changes; ours is what becomes of them in a time zone.
 */
import { Cron, CronPattern } from 'croner';

const MINUTE_MS = 60_000;
const MINUTES = 24 * 60;
/** Of each month, in a leap year. */
const LONGEST = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/** What names a day that some months do not have, among others. */
const LATE_DAY = /3[01]/;

export class WallPattern {
  readonly #expr: string;
  readonly #cron: Cron;
  readonly #never: boolean;
  #parsed: CronPattern | null = null;

  /** Throws croner's error when it is no cron expression. */
  constructor(expr: string) {
    this.#expr = expr;
    this.#cron = new Cron(expr, { utcOffset: 0, paused: true });
    // croner takes a date as well, which is none of the times of a clock: parsed as an expression it is refused.
    if (this.#cron.getOnce()) this.#parse();
    this.#never = LATE_DAY.test(expr) && !hasDate(this.#parse());
  }

  /** The first of its times after `wall`; null when there is none any more. */
  after(wall: number): number | null {
    return this.#never ? null : (this.#cron.nextRun(new Date(wall))?.getTime() ?? null);
  }

  /**
   * Whether its times of day stay the same when all of them are moved by this many milliseconds: every 15 minutes are, by an
   * hour or half of one; 02:30 is not.
   */
  repeatsEvery(ms: number): boolean {
    const { hour, minute } = this.#parse();
    const by = Math.abs(ms) / MINUTE_MS;
    if (!Number.isInteger(by)) return false;
    const has = (at: number): boolean => hour[Math.floor(at / 60) % 24] === 1 && minute[at % 60] === 1;
    for (let at = 0; at < MINUTES; at++) if (has(at) !== has(at + by)) return false;
    return true;
  }

  /** Only where its fields are needed: each takes 80 KiB, like the one that croner keeps to itself. */
  #parse(): CronPattern {
    this.#parsed ??= new CronPattern(this.#expr);
    return this.#parsed;
  }
}

/** False for days that no month has, such as 30 February: croner would look for them for hundreds of years. */
function hasDate({
  month,
  day,
  nearestWeekdays,
  lastDayOfMonth,
  lastWeekday,
  starDOW,
  useAndLogic,
}: CronPattern): boolean {
  if (lastDayOfMonth || lastWeekday || !(starDOW || useAndLogic)) return true;
  return LONGEST.some((length, i) => {
    const days = [...day.slice(0, length), ...nearestWeekdays.slice(0, length)];
    return month[i] === 1 && days.includes(1);
  });
}
