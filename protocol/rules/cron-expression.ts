/** Cron expressions as automations may have them: croner's grammar of five or six fields (decisions, section 6). */
import { Cron } from 'croner';
import { LIMITS } from '../limits.ts';
import { cronFields } from './cron-fields.ts';

/** Canonical names by the names that were asked for: making a formatter is slow, and croner keeps one for each name. */
const zones = new Map<string, string>();
const ZONES_KEPT = 1000;

/** Days of expressions that were found valid. */
const validDays = new Set<string>();
const DAYS_KEPT = 1000;

/**
 * The one way in which expressions are read, by their check as by the scheduler, so that what is valid also fires. `zone` is an
 * IANA time zone, by default the host's. Nothing is scheduled. Throws an `Error` whose message is for the author.
 */
export function parseCron(expression: string, zone?: string): Cron {
  if (expression.length > LIMITS.cronChars) throw new Error(`is longer than ${LIMITS.cronChars} characters`);
  // croner would take a date for a job that runs once.
  if (expression.includes(':')) throw new Error('is no cron expression, for it has a colon');
  const timezone = zone === undefined ? undefined : canonicalZone(zone);
  try {
    return new Cron(expression, {
      mode: '5-or-6-parts',
      paused: true,
      ...(timezone === undefined ? {} : { timezone }),
    });
  } catch (error) {
    throw new Error(`is no cron expression: ${(error as Error).message.replace(/^CronPattern: /, '')}`);
  }
}

/** Throws what `parseCron` throws. A start checks every expression that there is, and few of them have days of their own. */
export function checkExpression(expression: string): void {
  const days = expression.length > LIMITS.cronChars ? undefined : cronFields(expression)?.days;
  if (days !== undefined && validDays.has(days)) return;
  parseCron(expression);
  if (days === undefined) return;
  if (validDays.size >= DAYS_KEPT) validDays.clear();
  validDays.add(days);
}

/** The name under which Intl knows a time zone, whatever its case or alias. Throws an `Error` when it knows none. */
export function canonicalZone(zone: string): string {
  const known = zones.get(zone);
  if (known !== undefined) return known;
  let name: string;
  try {
    if (zone.length > LIMITS.cronChars) throw new RangeError('too long');
    name = new Intl.DateTimeFormat('en', { timeZone: zone }).resolvedOptions().timeZone;
  } catch {
    throw new Error('is no time zone that this computer knows; use a name such as "Europe/Berlin"');
  }
  if (zones.size >= ZONES_KEPT) zones.clear();
  zones.set(zone, name);
  return name;
}
