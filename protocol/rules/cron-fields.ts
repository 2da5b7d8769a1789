/**
 * The times of day of a cron expression apart from its days. Ten thousand expressions have few kinds of days between them, and
 * croner makes 80 KiB of each expression that it is given: so it is asked about the days only, which hold all that is intricate.
 */

/** Rising numbers of each field; they fire on the days of `days`, three fields as croner reads them. */
export type CronFields = { hours: number[]; minutes: number[]; seconds: number[]; days: string };

const NUMBER = /^\d{1,2}$/;
const RANGE = /^(\d{1,2})-(\d{1,2})(?:\/(\d{1,2}))?$/;
const STEPS = /^\*\/(\d{1,2})$/;
/** Of a nickname (`@daily`), or of a date, which croner takes as well. */
const NO_FIELDS = /[@:]/;

/**
 * Null when croner has to judge the whole: the times of day are not valid, or are written in a way that is not read here.
 * Whether `days` are valid is not looked at.
 */
export function cronFields(expr: string): CronFields | null {
  if (NO_FIELDS.test(expr)) return null;
  const parts = expr.match(/\S+/g) ?? [];
  if (parts.length === 5) parts.unshift('0');
  const [second, minute, hour, ...days] = parts;
  if (second === undefined || minute === undefined || hour === undefined || days.length !== 3) return null;
  const [seconds, minutes, hours] = [numbers(second, 60), numbers(minute, 60), numbers(hour, 24)];
  if (seconds === null || minutes === null || hours === null) return null;
  return { hours, minutes, seconds, days: days.join(' ') };
}

function numbers(field: string, length: number): number[] | null {
  const found: number[] = [];
  for (const item of field.split(',')) {
    const span = spanOf(item, length);
    if (span === null) return null;
    for (let at = span.from; at <= span.to; at += span.step) if (!found.includes(at)) found.push(at);
  }
  return found.sort((one, other) => one - other);
}

function spanOf(item: string, length: number): { from: number; to: number; step: number } | null {
  const last = length - 1;
  if (item === '*' || item === '?') return { from: 0, to: last, step: 1 };
  const [from, to, step] = bounds(item, last);
  const isValid = from <= to && to <= last && step >= 1 && step <= length;
  return isValid ? { from, to, step } : null;
}

/** Not numbers where it is none of the forms. */
function bounds(item: string, last: number): [from: number, to: number, step: number] {
  if (NUMBER.test(item)) return [Number(item), Number(item), 1];
  const steps = STEPS.exec(item);
  if (steps !== null) return [0, last, Number(steps[1])];
  const [, from, to, step = 1] = RANGE.exec(item) ?? [];
  return [Number(from), Number(to), Number(step)];
}
