/** What the scheduler keeps of an automation: small, and with no text of its own, since ten thousand may be registered. */
import type { AutomationManifest, CronTrigger } from '../../../protocol/automation.ts';
import { type DueItem, OUTSIDE } from './due-heap.ts';

/** What the scheduler has to know of an automation; its consumer gets back the whole. */
export type Schedulable = { ref: string; manifest: Pick<AutomationManifest, 'enabled' | 'triggers'> };

/** `fired` is the scheduled time of its last fire by any trigger; `-Infinity` for none that is known. */
export type Watched<A> = { automation: A; entries: Entry<A>[]; fired: number };

/**
 * `fresh` until its next time is computed, then `due`, and in the heap; `ended` when it never fires again or is not registered
 * any more; `invalid` when the expression or the zone is not understood. A clock that was set makes all of them `fresh` again.
 */
type EntryState = 'fresh' | 'due' | 'ended' | 'invalid';

/** One trigger, which belongs to the manifest. */
export type Entry<A> = DueItem & { watched: Watched<A>; trigger: CronTrigger; state: EntryState };

/** Its cron triggers if it is enabled; of several that say the same, the last. */
export function cronTriggers({ manifest }: Schedulable): CronTrigger[] {
  if (!manifest.enabled) return [];
  const triggers = manifest.triggers.filter((trigger) => trigger.kind === 'cron');
  return triggers.filter((trigger, i) => !triggers.slice(i + 1).some((later) => isSameTime(trigger, later)));
}

export function isSameTime(one: CronTrigger, other: CronTrigger): boolean {
  return one.expr === other.expr && one.tz === other.tz;
}

export function newEntry<A>(watched: Watched<A>, trigger: CronTrigger, order: number): Entry<A> {
  return { watched, trigger, order, state: 'fresh', due: 0, place: OUTSIDE };
}
