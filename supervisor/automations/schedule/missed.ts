/** What the gateway missed while it was down: asked about once at its start, and run once. */
import { LIMITS } from '../../../protocol/limits.ts';
import type { CronTimes } from './cron-times.ts';
import type { Schedulable, Watched } from './watched.ts';

export type MissedOptions<A> = {
  times: CronTimes;
  lastFired: (ref: string) => Promise<number | null>;
  log: (level: 'warn', message: string) => void;
  /** False once the automation is not registered any more. */
  isWatched: (watched: Watched<A>) => boolean;
  run: (watched: Watched<A>, scheduledAt: number) => void;
};

/** Runs what each of them missed up to `now`, asking about a few at a time. What never fired before has missed nothing. */
export async function runMissed<A extends Schedulable>(
  suspects: Iterable<Watched<A>>,
  now: number,
  options: MissedOptions<A>,
): Promise<void> {
  let asked: Promise<void>[] = [];
  for (const watched of suspects) {
    asked.push(runMissedOf(watched, now, options));
    if (asked.length < LIMITS.cronLookups) continue;
    await Promise.all(asked);
    asked = [];
  }
  await Promise.all(asked);
}

async function runMissedOf<A extends Schedulable>(
  watched: Watched<A>,
  now: number,
  { lastFired, times, isWatched, run, log }: MissedOptions<A>,
): Promise<void> {
  const { ref } = watched.automation;
  const fired = await lastFired(ref).catch((error: Error) => {
    log('warn', `When ${ref} fired last could not be read, so nothing that it missed is run: ${error.message}`);
    return null;
  });
  if (fired === null || !isWatched(watched)) return;
  const missed = missedFire(watched, times, Math.max(fired, watched.fired), now);
  if (missed !== null) run(watched, missed);
}

/**
 * The last time up to `now` that should have come after `fired`: any with `catchUp`, else one that is late by
 * `LIMITS.cronLateMs` at most, as after a quick restart. However many were missed by however many triggers, it is one.
 */
function missedFire<A>({ entries }: Watched<A>, times: CronTimes, fired: number, now: number): number | null {
  let missed: number | null = null;
  for (const { trigger, state } of entries) {
    if (state === 'fresh' || state === 'invalid') continue;
    const first = times.next(trigger, trigger.catchUp ? fired : Math.max(fired, now - LIMITS.cronLateMs - 1));
    if (first !== null && first <= now) missed = Math.max(missed ?? first, times.latest(trigger, first, now));
  }
  return missed;
}
