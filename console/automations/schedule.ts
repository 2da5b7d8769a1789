/** Turns a cron trigger into the choices of a form and back, and finds when it fires next. Pure. */
import type { CronTrigger } from '../../protocol/automations/automation.ts';
import { CronTimes } from '../../protocol/automations/cron-times.ts';

export const FREQUENCIES = {
  hour: 'Every hour',
  day: 'Every day',
  week: 'On days of the week',
  cron: 'By a cron expression',
} as const;
export type Frequency = keyof typeof FREQUENCIES;

/**
 * What a form shows of a schedule. `minute` counts from the hour, `time` is `HH:MM`, `days` are the places of the days in `DAYS`; `expr`
 * counts for the frequency `cron` only. An empty `tz` is the time zone of the gateway.
 */
export type Schedule = {
  frequency: Frequency;
  minute: number;
  time: string;
  days: readonly number[];
  expr: string;
  tz: string;
  catchUp: boolean;
};

/** As cron names them, the week beginning on Monday. */
export const DAYS = ['MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT', 'SUN'] as const;
const WORKDAYS = [0, 1, 2, 3, 4];

export function newSchedule(tz: string): Schedule {
  return { frequency: 'day', minute: 0, time: '09:00', days: WORKDAYS, expr: '0 9 * * *', tz, catchUp: false };
}

const AT = /^(\d{1,2}) (\d{1,2}|\*) \* \* (\S+)$/;

/** Any expression that no other frequency can say is of the frequency `cron`. */
export function scheduleOf({ expr, tz = '', catchUp = false }: CronTrigger): Schedule {
  const own = { ...newSchedule(tz), catchUp, expr };
  const [, minute = '', hour = '', week = ''] = AT.exec(expr.trim().replace(/\s+/g, ' ')) ?? [];
  const isTime = minute !== '' && Number(minute) < 60 && (hour === '*' || Number(hour) < 24);
  const days = week === '*' ? [] : daysOf(week);
  if (!isTime || days === null || (hour === '*' && week !== '*')) return { ...own, frequency: 'cron' };
  if (hour === '*') return { ...own, frequency: 'hour', minute: Number(minute) };
  const time = `${hour.padStart(2, '0')}:${minute.padStart(2, '0')}`;
  return days.length === 0 ? { ...own, frequency: 'day', time } : { ...own, frequency: 'week', time, days };
}

/** Null for what is not a list of days and spans of days. */
function daysOf(text: string): number[] | null {
  const days = new Set<number>();
  for (const part of text.split(',')) {
    const [first = -1, last = first, ...rest] = part.split('-').map(dayOf);
    if (first < 0 || last < first || rest.length > 0) return null;
    for (let day = first; day <= last; day++) days.add(day);
  }
  return [...days].sort((a, b) => a - b);
}

/** Cron counts them from Sunday, which is 0 and 7. */
function dayOf(text: string): number {
  return /^[0-7]$/.test(text) ? (Number(text) + 6) % 7 : DAYS.indexOf(text.toUpperCase() as (typeof DAYS)[number]);
}

export function exprOf({ frequency, minute, time, days, expr }: Schedule): string {
  if (frequency === 'cron') return expr.trim();
  if (frequency === 'hour') return `${minute} * * * *`;
  const [hours = 0, minutes = 0] = time.split(':').map(Number);
  return `${minutes} ${hours} * * ${frequency === 'day' ? '*' : weekOf(days)}`;
}

/** Days that follow one another are a span: `MON-FRI`. */
function weekOf(days: readonly number[]): string {
  const spans: [number, number][] = [];
  for (const day of [...days].sort((a, b) => a - b)) {
    const span = spans.at(-1);
    if (span && day === span[1] + 1) span[1] = day;
    else spans.push([day, day]);
  }
  return spans
    .map(([first, last]) => (last - first > 1 ? `${DAYS[first]}-${DAYS[last]}` : DAYS.slice(first, last + 1).join(',')))
    .join(',');
}

export function triggerOf(schedule: Schedule): CronTrigger {
  const { tz, catchUp } = schedule;
  return {
    kind: 'cron',
    expr: exprOf(schedule),
    ...(tz.trim() !== '' && { tz: tz.trim() }),
    ...(catchUp && { catchUp }),
  };
}

const times = new CronTimes();

/** The next `count` fires after `from`, milliseconds since the epoch. Throws an `Error` that says what is wrong with the schedule. */
export function nextTimes({ expr, tz }: Pick<CronTrigger, 'expr' | 'tz'>, from: number, count: number): number[] {
  const found: number[] = [];
  for (let after = from; found.length < count; ) {
    const next = times.next({ expr, ...(tz !== undefined && { tz }) }, after);
    if (next === null) break;
    found.push(next);
    after = next;
  }
  if (found.length === 0) throw new Error('never fires again');
  return found;
}

/** The text of an `automation.json` with these schedules in place of its own; its webhook and all else stay. Throws for what is no JSON object. */
export function withSchedules(text: string, schedules: readonly CronTrigger[]): string {
  const { trigger, ...file } = JSON.parse(text) as Record<string, unknown>;
  const others = triggersOf(text).filter(({ kind }) => kind !== 'cron');
  return `${JSON.stringify({ ...file, triggers: [...schedules, ...others] }, null, 2)}\n`;
}

/** Its triggers, also in the old form of a single one. */
export function triggersOf(text: string): { kind: string }[] {
  const { triggers, trigger } = JSON.parse(text) as { triggers?: { kind: string }[]; trigger?: { kind: string } };
  return triggers ?? (trigger ? [trigger] : []);
}
