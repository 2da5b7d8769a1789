/** Lists the fires of the next days, for a calendar: the first ones of each automation, computed a few at a time. */
import type { UpcomingAnswer } from '../../../protocol/answers.ts';
import type { CronTrigger } from '../../../protocol/automations/automation.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { CronTimes } from '../../../protocol/rules/cron-times.ts';
import type { LiveAutomation } from '../catalog.ts';

const DAY_MS = 86_400_000;
/** Finding a fire takes some 20 µs: the event loop turns after so many. */
const FIRES_A_TURN = 100;

/**
 * The fires in the `days` after `now` (milliseconds since the epoch) of the enabled `automations`: of each the first
 * `LIMITS.upcomingFires`, of all of them as many as `LIMITS.upcomingFiresTotal`. `more` says that there are others.
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

/** False for a time zone that this Node does not know, say: such a trigger never fires, as the scheduler's warning says. */
function isUnderstood(trigger: CronTrigger, times: CronTimes, now: number): boolean {
  try {
    times.next(trigger, now);
    return true;
  } catch {
    return false;
  }
}

/** The next fires of triggers, in order; a time that several name is one fire. */
function firesOf(triggers: CronTrigger[], times: CronTimes, now: number, until: number, most: number) {
  const fires: number[] = [];
  for (let after = now; ; after = fires.at(-1)!) {
    const next = Math.min(...triggers.map((trigger) => times.next(trigger, after) ?? Infinity));
    if (next > until) return { fires, more: false };
    if (fires.length === most) return { fires, more: true };
    fires.push(next);
  }
}
