/** On which days of a calendar a cron expression fires: croner finds them, in UTC, which has no changes. */
import { Cron, CronPattern } from 'croner';
import { LIMITS } from '../../../protocol/limits.ts';

const DAY = LIMITS.dayMs;
/** Of each month, in a leap year. */
const LONGEST = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/** What names a day that some months do not have, among others. */
const LATE_DAY = /3[01]/;

export class CronDays {
  readonly #cron: Cron;
  readonly #never: boolean;
  /** What was found last: `found` is the first of the days from `asked` on. Expressions with the same days ask it one after another. */
  #asked = Number.NaN;
  #found: number | null = null;

  /** Throws croner's error when it is no cron expression. */
  constructor(expr: string) {
    this.#cron = new Cron(expr, { utcOffset: 0, paused: true });
    this.#never = LATE_DAY.test(expr) && !hasDate(new CronPattern(expr));
  }

  /** The first of its days from `day` on, both in milliseconds since the epoch at midnight; null when there is none any more. */
  from(day: number): number | null {
    if (this.#never) return null;
    if (day >= this.#asked && (this.#found === null || day <= this.#found)) return this.#found;
    const fire = this.#cron.nextRun(new Date(day - 1))?.getTime() ?? null;
    this.#asked = day;
    this.#found = fire === null ? null : Math.floor(fire / DAY) * DAY;
    return this.#found;
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
