/** Lists the fires of the next days for a calendar, the first ones of each automation. It computes a few at a time. */
import type { UpcomingAnswer } from '../../../protocol/answer-types.ts';
import type { CronTrigger } from '../../../protocol/automations/automation.ts';
import type { CronTimes } from '../../../protocol/automations/cron-times.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { LiveAutomation } from '../catalog.ts';

const DAY_MS = 86_400_000;
/** The number of fires after which other work of the event loop gets a turn. Finding one takes some 20 µs. */
const FIRES_A_TURN = 100;

/**
 * The fires of the enabled `automations` in the `days` after `now`, which is in milliseconds since the epoch. There are at most
 * `LIMITS.upcomingFires` of each, and `LIMITS.upcomingFiresTotal` of all. `more` says that there are others.
 */
export async function upcomingFires(
  automations: Iterable<LiveAutomation>,
  times: CronTimes,
  now: number,
  days: number,
): Promise<UpcomingAnswer> {
  const until = now + days * DAY_MS;
  const rows: UpcomingAnswer['rows'] = [];
  let left: number = LIMITS.upcomingFiresTotal;
  let turn = FIRES_A_TURN;
  for (const { ref, app, id, manifest } of automations) {
    const cron = manifest.enabled ? manifest.triggers.filter((trigger) => trigger.kind === 'cron') : [];
    const triggers = cron.filter((trigger) => isUnderstood(trigger, times, now));
    if (triggers.length === 0) continue;
    if (left === 0) return { rows, more: true };
    const found = firesOf(triggers, times, now, until, Math.min(left, LIMITS.upcomingFires));
    if (found.fires.length === 0) continue;
    rows.push({ ref, app, id, name: manifest.name, ...found });
    left -= found.fires.length;
    turn -= found.fires.length;
    if (turn > 0) continue;
    turn = FIRES_A_TURN;
    await new Promise((resolve) => setImmediate(resolve));
  }
  return { rows, more: false };
}

/** Whether a trigger can fire. One with an unknown time zone never does, of which the scheduler warns. */
function isUnderstood(trigger: CronTrigger, times: CronTimes, now: number): boolean {
  try {
    times.next(trigger, now);
    return true;
  } catch {
    return false;
  }
}

/** The next fires of triggers, in order. A time that several triggers have is one fire. */
function firesOf(triggers: CronTrigger[], times: CronTimes, now: number, until: number, most: number) {
  const fires: number[] = [];
  for (let after = now; ; after = fires.at(-1)!) {
    const next = Math.min(...triggers.map((trigger) => times.next(trigger, after) ?? Infinity));
    if (next > until) return { fires, more: false };
    if (fires.length === most) return { fires, more: true };
    fires.push(next);
  }
}
