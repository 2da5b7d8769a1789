/** Decides how the values of a column are shown: as times, or as they are. Pure. */
import type { Cell } from './tables.ts';

/** What a time is stored as: seconds or milliseconds since the epoch, or a text of ISO 8601 that names its zone. */
export type TimeUnit = 's' | 'ms' | 'iso';

/** Words in the name or type of a column that holds times. A number alone may be anything. */
const TIME_WORDS = new Set(
  `at changed completed created date datetime deleted due ended expires expiry finished modified published scheduled seen
   since started time timestamp ts until updated when`.split(/\s+/),
);
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)$/;
/** Numbers that stand for another year are hardly times. */
const FIRST = Date.UTC(2000);
const LAST = Date.UTC(2100);

/** Null unless all of these values are plausibly times. 0 stands for none in many tables, and decides nothing. */
export function timeUnitOf({ name, type }: { name: string; type: string }, values: Iterable<Cell>): TimeUnit | null {
  const known = [...values].filter((value) => value !== null && value !== 0);
  if (known.length === 0) return null;
  const units: TimeUnit[] = isTimeName(`${name} ${type}`) ? ['iso', 's', 'ms'] : ['iso'];
  return units.find((unit) => known.every((value) => timeOf(value, unit) !== null)) ?? null;
}

/** In milliseconds since the epoch; null for a value that is no time of this unit. */
export function timeOf(value: Cell, unit: TimeUnit | null): number | null {
  if (unit === null) return null;
  const isText = typeof value === 'string';
  const at =
    unit === 'iso'
      ? isText && ISO.test(value)
        ? Date.parse(value)
        : Number.NaN
      : typeof value === 'number'
        ? value * (unit === 's' ? 1000 : 1)
        : Number.NaN;
  const isPlausible = unit === 'iso' ? Number.isFinite(at) : at >= FIRST && at < LAST;
  return isPlausible ? at : null;
}

/** The value as it is stored, and for a number the time in UTC that it stands for. */
export function exactly(value: Cell, at: number): string {
  return typeof value === 'string' ? value : `${value} (${new Date(at).toISOString()})`;
}

/** Whether a column of this declared type holds numbers. */
export const isNumeric = (type: string): boolean => /INT|REAL|FLOA|DOUB|NUM|DEC/.test(type);

/** The width of a column that nobody has changed: room for what it mostly holds, and its share of the rest. */
export function trackOf({ type }: { type: string }, unit: TimeUnit | null): string {
  if (unit !== null) return 'minmax(14.5rem, 1fr)';
  if (/INT/.test(type)) return 'minmax(6.5rem, 0.5fr)';
  return isNumeric(type) ? 'minmax(12.5rem, 1fr)' : 'minmax(9rem, 1fr)';
}

/** `createdAt`, `created_at` and `CREATED AT` have the same words. */
function isTimeName(text: string): boolean {
  const words = text
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z]+/);
  return words.some((word) => TIME_WORDS.has(word));
}
