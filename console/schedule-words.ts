/** Says a cron expression in words, for people who do not read cron: "At 19:00, only on Sunday". */
import { toString as describe } from 'cronstrue';

const use24HourTimeFormat = new Intl.DateTimeFormat([], { hour: 'numeric' }).resolvedOptions().hour12 !== true;

/** `null` of an expression that is wrong, or that has no words. */
export function scheduleWords(expr: string): string | null {
  try {
    const words = describe(expr, { use24HourTimeFormat });
    return /^At [\d:]+( [AP]M)?$/.test(words) ? `${words}, every day` : words;
  } catch {
    return null;
  }
}
