/** Reads the cron expressions of automations: croner's grammar of five or six fields (specification, "Schedules"). */
import { Cron, CronPattern } from 'croner';
import { LIMITS } from '../limits.ts';

/** Valid expressions, and zones by name: a start checks all of them, and few differ. */
const valid = new Map<string, true>();
const zones = new Map<string, string>();
const KEPT = 1000;

/**
 * Parses an expression, for the check and the scheduler alike, so that a valid one also fires. Throws an `Error` whose message
 * is for the author.
 */
export function parseCron(expression: string): CronPattern {
  if (expression.length > LIMITS.cronChars) throw new Error(`is longer than ${LIMITS.cronChars} characters`);
  // croner would take a date for a job that runs once.
  if (expression.includes(':')) throw new Error('is no cron expression, for it has a colon');
  try {
    return new CronPattern(expression, undefined, { mode: '5-or-6-parts' });
  } catch (error) {
    throw new Error(`is no cron expression: ${(error as Error).message.replace(/^CronPattern: /, '')}`);
  }
}

/** Throws what `parseCron` throws, and for an expression that does not fire after the time given, in milliseconds. */
export function checkExpression(expression: string, firesAfter: number | null): void {
  if (firesAfter === null && valid.has(expression)) return;
  parseCron(expression);
  if (
    firesAfter !== null &&
    new Cron(expression, { paused: true, utcOffset: 0 }).nextRun(new Date(firesAfter)) === null
  )
    throw new Error('never fires again');
  keep(valid, expression, true);
}

/** Intl's name of a time zone, given in any case or as an alias. Throws an `Error` when it knows none. */
export function canonicalZone(zone: string): string {
  const known = zones.get(zone);
  if (known !== undefined) return known;
  try {
    if (zone.length > LIMITS.cronChars) throw new RangeError('too long');
    return keep(zones, zone, new Intl.DateTimeFormat('en', { timeZone: zone }).resolvedOptions().timeZone);
  } catch {
    throw new Error('is no time zone that this computer knows; use a name such as "Europe/Berlin"');
  }
}

function keep<T>(map: Map<string, T>, key: string, value: T): T {
  if (map.size >= KEPT) map.clear();
  map.set(key, value);
  return value;
}
