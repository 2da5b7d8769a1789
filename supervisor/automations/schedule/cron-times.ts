/**
 * When a cron trigger fires. The rule for changes of the clocks (daylight saving):
 *
 * - Times that repeat by the length of the change (every 15 minutes, every hour) go by the time that passes: they fire in
 *   both passes of an hour that comes twice, and nothing is made up for an hour that is left out.
 * - All others name a time of day, which comes once a day: in the first pass of an hour that comes twice; and where it is left
 *   out, when the clocks have gone forward (several of them once together).
 */
import type { CronTrigger } from '../../../protocol/automation.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { CronDays } from './cron-days.ts';
import { Recent } from './recent.ts';
import { WallPattern } from './wall-pattern.ts';
import { Zones } from './zones.ts';

/** More than any offset, and more than any change takes. */
const DAY = LIMITS.dayMs;
const FIRST_STEP_MS = 1000;

export type CronTime = Pick<CronTrigger, 'expr' | 'tz'>;

export class CronTimes {
  readonly #hostZone: string;
  readonly #zones = new Zones();
  readonly #days = new Recent<CronDays>(LIMITS.cronCache, (expr) => new CronDays(expr));
  readonly #patterns = new Recent<WallPattern>(
    LIMITS.cronCache,
    (expr) => new WallPattern(expr, (days) => this.#days.get(days)),
  );

  /** `hostZone` is for triggers without a zone of their own. */
  constructor(hostZone = Intl.DateTimeFormat().resolvedOptions().timeZone) {
    this.#hostZone = hostZone;
  }

  /**
   * The first fire after `after`, in milliseconds since the epoch; null when there is none any more. Throws when the
   * expression or the zone cannot be understood.
   */
  next({ expr, tz = this.#hostZone }: CronTime, after: number): number | null {
    const zones = this.#zones;
    const pattern = this.#patterns.get(expr);
    const offset = zones.offsetAt(tz, after);
    let wall = pattern.after(after + offset);
    if (wall === null) return null;
    const again = this.#secondPass(pattern, tz, after, wall);
    if (again !== null) return again;
    while (wall !== null) {
      // The moments at which a clock may show `wall` lie within a day of where UTC shows it.
      const before = zones.offsetAt(tz, wall - DAY);
      const change = zones.changeWithin(tz, wall - DAY, wall + DAY);
      if (change === null) return wall - before;
      const later = zones.offsetAt(tz, change);
      const [first, second] = [wall - before, wall - later];
      if (first < change) {
        if (first > after) return first;
        if (pattern.repeatsEvery(later - before)) return second;
        // `after` is in the second pass: on to what comes once.
        wall = pattern.after(change + before - 1);
      } else if (second >= change) {
        return second;
      } else {
        if (!pattern.repeatsEvery(later - before)) return change;
        wall = pattern.after(change + later - 1);
      }
    }
    return null;
  }

  /** The last fire up to `now`, given one that is not after it. Takes few looks however many lie between. */
  latest(time: CronTime, fire: number, now: number): number {
    const nextUpToNow = (after: number): number | null => {
      const next = this.next(time, after);
      return next !== null && next <= now ? next : null;
    };
    let latest = fire;
    let none = now;
    for (let step = FIRST_STEP_MS; now - step > latest; step *= 2) {
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

  /**
   * The clocks go back before they show `wall`: what they show once more in between, for times that repeat by the length of
   * the change; else null.
   */
  #secondPass(pattern: WallPattern, tz: string, after: number, wall: number): number | null {
    const offset = this.#zones.offsetAt(tz, after);
    const change = this.#zones.changeWithin(tz, after, after + DAY);
    if (change === null || wall - offset < change) return null;
    const later = this.#zones.offsetAt(tz, change);
    if (later > offset || !pattern.repeatsEvery(offset - later)) return null;
    const again = pattern.after(change + later - 1);
    return again !== null && again < change + offset ? again - later : null;
  }
}
