/** By how much the clocks of a time zone are ahead of UTC, and when that changes. Times are milliseconds since the epoch. */
import { LIMITS } from '../../../protocol/limits.ts';
import { Recent } from './recent.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = LIMITS.dayMs;

/** As `Intl` writes it: `GMT`, `GMT+02:00`, `GMT-00:44:30`. */
const OFFSET = /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/;

type Zone = {
  name: string;
  /** Offsets at the midnights of UTC, by day since the epoch. */
  days: Map<number, number>;
  /** The change found last; expressions are asked about it again and again on the days around it. */
  change: number;
};

export class Zones {
  readonly #zones = new Recent<Zone>(LIMITS.cronZones, (name) => ({ name, days: new Map(), change: Number.NaN }));
  /** Kept apart from the offsets, since each is large and offsets are asked for far more often than a new day begins. */
  readonly #formatters = new Recent<Intl.DateTimeFormat>(
    LIMITS.cronCache,
    (timeZone) => new Intl.DateTimeFormat('en-US', { timeZone, timeZoneName: 'longOffset' }),
  );

  /** Milliseconds to add to UTC. Throws a RangeError for a zone that there is not. */
  offsetAt(name: string, at: number): number {
    const zone = this.#zones.get(name);
    const day = Math.floor(at / DAY);
    const offset = this.#offsetOfDay(zone, day);
    return offset === this.#offsetOfDay(zone, day + 1) ? offset : this.#read(name, at);
  }

  /** The first moment after `from`, up to `to`, at which another offset holds; null for none. Two days hold one change at most. */
  changeWithin(name: string, from: number, to: number): number | null {
    const offset = this.offsetAt(name, from);
    if (offset === this.offsetAt(name, to)) return null;
    const zone = this.#zones.get(name);
    if (zone.change > from && zone.change <= to) return zone.change;
    let before = Math.floor(from / SECOND);
    let changed = Math.ceil(to / SECOND);
    while (changed - before > 1) {
      const middle = Math.floor((before + changed) / 2);
      if (this.offsetAt(name, middle * SECOND) === offset) before = middle;
      else changed = middle;
    }
    zone.change = changed * SECOND;
    return zone.change;
  }

  #offsetOfDay(zone: Zone, day: number): number {
    const known = zone.days.get(day);
    if (known !== undefined) return known;
    const offset = this.#read(zone.name, day * DAY);
    if (zone.days.size >= LIMITS.cronZoneDays) zone.days.clear();
    zone.days.set(day, offset);
    return offset;
  }

  #read(name: string, at: number): number {
    const text = this.#formatters.get(name).format(at);
    const match = OFFSET.exec(text);
    if (!match) throw new RangeError(`The offset of ${name} cannot be read from "${text}".`);
    const [, sign, hours = '0', minutes = '0', seconds = '0'] = match;
    const size = Number(hours) * HOUR + Number(minutes) * MINUTE + Number(seconds) * SECOND;
    return sign === '-' ? -size : size;
  }
}
