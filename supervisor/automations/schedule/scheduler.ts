/** Fires automations on schedule, with one list ordered by time, one timer, and short turns that leave the event loop free. */
import type { AutomationManifest, CronTrigger } from '../../../protocol/automations/automation.ts';
import { CronTimes } from '../../../protocol/automations/cron-times.ts';
import { LIMITS } from '../../../protocol/limits.ts';

/** The members of an automation that the scheduler needs. Its consumer gets back the whole object. */
export type Schedulable = { ref: string; manifest: Pick<AutomationManifest, 'enabled' | 'triggers'> };

/** An automation of the gateway itself, such as backups on schedule. No catalog lists it and no run is recorded, so it keeps its times. */
export type InternalAutomation = Schedulable & {
  internal: {
    fire(scheduledAt: number): void;
    lastFired(): Promise<number | null>;
    watchedFrom(at: number): void;
  };
};

/** Times are milliseconds since the epoch. */
export type SchedulerOptions<A> = {
  now: () => number;
  /** Calls `wake` once after `ms`, unless the function that it returns was called before. */
  setTimer: (ms: number, wake: () => void) => () => void;
  /** Calls `rest` in a later turn of the event loop: `setImmediate`. */
  yieldTurn: (rest: () => void) => void;
  /** Starts a run, because a time of the automation has come. Must not throw: faults of the run are the consumer's. */
  fire: (automation: A, scheduledAt: number) => void;
  /** The scheduled time of the automation's last fire, or a later time of `watchedFrom`. It is null when there is none. */
  lastFired: (automation: A) => Promise<number | null>;
  /** Stores when a trigger with `catchUp` was new. Nothing before this time counts as missed at the next start. */
  watchedFrom: (automation: A, at: number) => void;
  log: (level: 'warn', message: string) => void;
  times?: CronTimes;
  /** A clock that is never set. It measures how long a turn takes. */
  elapsed?: () => number;
};

/** `collecting` until `start`, `idle` without work, `armed` with a timer, `working` in a turn, `yielded` between turns. */
type State = 'collecting' | 'idle' | 'armed' | 'working' | 'yielded' | 'stopped';

/** A stretch of the clock in which every time of an automation has fired. The first and the last one are included. */
type Stretch = { from: number; to: number };

/**
 * What is known of an automation. `fired` is the scheduled time of the last fire by any trigger, or `-Infinity`. `from` is the
 * first time of its stretch, which the next fire continues unless `broken`. `earlier` are the stretches before, oldest first,
 * to which a clock that was set back may come again. All of it is small, because ten thousand may be registered.
 */
type Watched<A> = {
  automation: A;
  entries: Entry<A>[];
  fired: number;
  from: number;
  broken: boolean;
  earlier: readonly Stretch[];
};

/**
 * One trigger, which belongs to the manifest. It is `fresh` until its next time is computed, then `due` and in the list. It is
 * `ended` when it never fires again or is no longer registered, and `invalid` when its expression or zone is not understood. A
 * clock that was set makes all of them `fresh` again.
 */
type Entry<A> = DueItem & { watched: Watched<A>; trigger: CronTrigger; state: 'fresh' | 'due' | 'ended' | 'invalid' };
type DueItem = { due: number; readonly order: number };

/**
 * Kept while the first times are computed of triggers that were there at the start, or came from another node: those with an order from
 * `from` to before `before`. `suspects` may have missed a fire.
 */
type MissedCheck<A> = { at: number; from: number; before: number; suspects: Set<Watched<A>> };

/** Fires automations when their times come (specification, "Schedules"). It knows no runs: its consumer starts them. */
export class Scheduler<A extends Schedulable> {
  readonly #options: SchedulerOptions<A>;
  readonly times: CronTimes;
  readonly #elapsed: () => number;
  readonly #watched = new Map<string, Watched<A>>();
  readonly #refs = new Map<string, string[]>();
  readonly #due = new DueList<Entry<A>>();
  /** The entries whose next time is not computed yet. Some may have been removed since. */
  #unplaced: Entry<A>[] = [];
  #missedCheck: MissedCheck<A> | null = null;
  #state: State = 'collecting';
  #cancelTimer: () => void = () => {};
  /** The time of the last turn, by which a clock that was set back is noticed. */
  #lastNow = -Infinity;
  #order = 0;
  /** The last fires, by ref, that were ahead of the clock at the start, because it had been set back. */
  #firedAhead = new Map<string, number>();

  constructor(options: SchedulerOptions<A>) {
    this.#options = options;
    this.times = options.times ?? new CronTimes();
    this.#elapsed = options.elapsed ?? (() => performance.now());
  }

  /** How many triggers are registered. */
  get size(): number {
    let size = 0;
    for (const { entries } of this.#watched.values()) size += entries.length;
    return size;
  }

  /** Takes the automations that an app has now. Triggers that stay keep their next time. An empty list forgets the app. */
  reconcile(app: string, automations: A[]): void {
    if (this.#state === 'stopped') return;
    this.#register(app, automations, this.#state !== 'collecting');
    this.#wake();
  }

  /** `isNew`: whoever registers them says that they are new, and have missed nothing. */
  #register(app: string, automations: A[], isNew: boolean): void {
    const refs = new Set<string>();
    for (const automation of automations) if (this.#watch(automation, isNew)) refs.add(automation.ref);
    for (const ref of this.#refs.get(app) ?? []) {
      if (refs.has(ref)) continue;
      for (const entry of this.#watched.get(ref)?.entries ?? []) this.#end(entry);
      this.#watched.delete(ref);
    }
    if (refs.size > 0) this.#refs.set(app, [...refs]);
    else this.#refs.delete(app);
    // The app was removed. A new one with its id has not fired yet.
    if (automations.length === 0)
      for (const ref of this.#firedAhead.keys()) if (ref.startsWith(`${app}/`)) this.#firedAhead.delete(ref);
  }

  /** Begins to fire. What is registered by now may have missed fires. `fired` has the last ones, also from ahead of the clock. */
  start(fired: ReadonlyMap<string, number> = new Map()): void {
    if (this.#state !== 'collecting') return;
    this.#state = 'idle';
    this.#begin(0, fired);
  }

  /** Takes the automations of apps that another node fired until now: as at a start they may have missed fires. `fired` has the last ones. */
  takeOver(apps: ReadonlyMap<string, A[]>, fired: ReadonlyMap<string, number>): void {
    if (this.#state === 'stopped') return;
    const from = this.#order;
    for (const [app, automations] of apps) this.#register(app, automations, false);
    if (this.#state !== 'collecting') this.#begin(from, fired);
  }

  /** Looks what those have missed that are registered since the order `from`. */
  #begin(from: number, fired: ReadonlyMap<string, number>): void {
    const at = this.#options.now();
    for (const [ref, last] of fired) if (last > at) this.#firedAhead.set(ref, last);
    for (const { watched, order } of this.#unplaced)
      if (order >= from) watched.fired = fired.get(watched.automation.ref) ?? watched.fired;
    const { suspects = new Set<Watched<A>>(), from: earlier = from } = this.#missedCheck ?? {};
    this.#missedCheck = { at, from: Math.min(earlier, from), before: this.#order, suspects };
    // They are sorted by expression, because only some parsed expressions are kept.
    this.#unplaced.sort((one, other) => compare(one.trigger.expr, other.trigger.expr));
    this.#wake();
  }

  /** The time of the automation's next fire. It is null when there is none, and before `start`. */
  nextRunAt(ref: string): number | null {
    if (this.#state === 'collecting') return null;
    let next = Infinity;
    for (const entry of this.#watched.get(ref)?.entries ?? []) {
      if (entry.state === 'fresh') this.#place(entry, this.#options.now());
      if (entry.state === 'due') next = Math.min(next, entry.due);
    }
    return next === Infinity ? null : next;
  }

  stop(): void {
    this.#cancelTimer();
    this.#state = 'stopped';
    this.#watched.clear();
    this.#refs.clear();
    this.#due.clear();
    this.#unplaced = [];
  }

  /** Registers the triggers of an automation. False: it has none for the scheduler. */
  #watch(automation: A, isNew: boolean): boolean {
    const triggers = cronTriggers(automation);
    if (triggers.length === 0) return false;
    const { ref } = automation;
    const watched = this.#watched.get(ref) ?? newlyWatched(automation, this.#firedAhead.get(ref) ?? -Infinity);
    const before = watched.entries;
    watched.automation = automation;
    watched.entries = triggers.map((trigger) => {
      const known = before.find((entry) => isSameTime(entry.trigger, trigger));
      if (isNew && trigger.catchUp && !known?.trigger.catchUp)
        this.#options.watchedFrom(automation, this.#options.now());
      const entry = known ?? { watched, trigger, order: this.#order++, state: 'fresh', due: 0 };
      if (!known) this.#unplaced.push(entry);
      entry.trigger = trigger;
      return entry;
    });
    for (const entry of before) if (!watched.entries.includes(entry)) this.#end(entry);
    this.#watched.set(ref, watched);
    return true;
  }

  #end(entry: Entry<A>): void {
    this.#due.delete(entry);
    entry.state = 'ended';
  }

  /** Begins a turn, because there may be work now. A turn that is under way or planned finds it by itself. */
  #wake(): void {
    if (this.#state === 'idle' || this.#state === 'armed') this.#turn();
  }

  #turn(): void {
    if (this.#state === 'stopped') return;
    this.#cancelTimer();
    this.#cancelTimer = () => {};
    this.#state = 'working';
    const now = this.#options.now();
    if (now < this.#lastNow - LIMITS.cronLateMs) this.#placeAllAgain();
    this.#lastNow = now;
    const endAt = this.#elapsed() + LIMITS.cronTurnMs;
    for (let done = 1; this.#step(now); done++) {
      if (this.#isStopped()) return;
      if (done < LIMITS.cronTurn && this.#elapsed() < endAt) continue;
      this.#state = 'yielded';
      this.#options.yieldTurn(() => this.#turn());
      return;
    }
    if (this.#isStopped()) return;
    if (this.#missedCheck) void this.#runMissed(this.#missedCheck);
    this.#missedCheck = null;
    const first = this.#due.first;
    this.#state = first ? 'armed' : 'idle';
    if (!first) return;
    // The wait is short, because timers do not notice when the clock is set.
    const wait = Math.min(first.due - now, LIMITS.cronWaitMs);
    this.#cancelTimer = this.#options.setTimer(wait, () => this.#turn());
  }

  /** Runs what each suspect missed while the gateway was down, a few at a time. Called once the first times are computed. */
  async #runMissed({ suspects, at }: MissedCheck<A>): Promise<void> {
    const waiting = suspects.values();
    const ask = async (): Promise<void> => {
      for (const watched of waiting) await this.#runMissedOf(watched, at);
    };
    await Promise.all(Array.from({ length: LIMITS.cronLookups }, ask));
  }

  /** Runs what one automation missed. One that never fired has missed nothing. */
  async #runMissedOf(watched: Watched<A>, now: number): Promise<void> {
    const { ref } = watched.automation;
    const { lastFired, log } = this.#options;
    const fired = await lastFired(watched.automation).catch((error: Error) => {
      log('warn', `When ${ref} fired last could not be read, so nothing that it missed is run: ${error.message}`);
      return null;
    });
    if (fired === null || this.#watched.get(ref) !== watched) return;
    const missed = this.#missedFire(watched, Math.max(fired, watched.fired), now);
    if (missed !== null) this.#fireOnce(watched, missed);
  }

  /**
   * The last time up to `now` that should have come after `fired`. With `catchUp` it may be any, else one that is late by
   * `LIMITS.cronLateMs` at most, as after a quick restart. However many times were missed, there is one fire.
   */
  #missedFire({ entries }: Watched<A>, fired: number, now: number): number | null {
    let missed: number | null = null;
    for (const { trigger, state } of entries) {
      if (state === 'fresh' || state === 'invalid') continue;
      const first = this.times.next(trigger, trigger.catchUp ? fired : Math.max(fired, now - LIMITS.cronLateMs - 1));
      if (first !== null && first <= now) missed = Math.max(missed ?? first, this.times.latest(trigger, first, now));
    }
    return missed;
  }

  /** Does one fire or, when none is due, computes one next time. False: there was nothing to do. */
  #step(now: number): boolean {
    const first = this.#due.first;
    if (first && first.due <= now) {
      this.#fire(first, now);
      return true;
    }
    const fresh = this.#unplaced.pop();
    if (fresh?.state === 'fresh') this.#place(fresh, now);
    return fresh !== undefined;
  }

  /** Whether a consumer stopped the scheduler from within a fire. */
  #isStopped(): boolean {
    return this.#state === 'stopped';
  }

  /** Fires an entry. Of several times since the last check the latest counts: a clock that is set forward causes no storm. */
  #fire(entry: Entry<A>, now: number): void {
    const { watched, trigger, due } = entry;
    let scheduledAt = due;
    let next = this.#next(entry, due, now);
    if (next !== null && next <= now) {
      scheduledAt = this.#latest(entry, next, now);
      next = this.#next(entry, scheduledAt, now);
    }
    this.#putAt(entry, next);
    const isMissed = now - scheduledAt > LIMITS.cronLateMs;
    if (now - due > LIMITS.cronLateMs) watched.broken = true;
    if (!isMissed || trigger.catchUp) this.#fireOnce(watched, scheduledAt);
    if (isMissed) watched.broken = true;
  }

  /** Fires an automation once for a time, which two of its triggers may have in common. */
  #fireOnce(watched: Watched<A>, scheduledAt: number): void {
    const { fired, from } = watched;
    if (fired === scheduledAt) return;
    if (watched.broken || scheduledAt < fired) {
      if (fired !== -Infinity) watched.earlier = joined(watched.earlier, { from, to: fired }, scheduledAt);
      watched.from = scheduledAt;
      watched.broken = false;
    }
    watched.fired = scheduledAt;
    this.#options.fire(watched.automation, scheduledAt);
  }

  /** The next time after `after` that has not fired yet. Times ahead may have fired, after a clock was set forward and back. */
  #next({ watched, trigger }: Entry<A>, after: number, now: number): number | null {
    let next = this.times.next(trigger, after);
    for (let stretch = stretchOf(watched, next, now); stretch !== null; stretch = stretchOf(watched, next, now))
      next = this.times.next(trigger, stretch.to);
    return next;
  }

  /** The last time up to `now` that has not fired yet. `first` is a time of the trigger that is not later. */
  #latest({ watched, trigger }: Entry<A>, first: number, now: number): number {
    let latest = this.times.latest(trigger, first, now);
    for (let stretch = stretchOf(watched, latest, now); stretch !== null; stretch = stretchOf(watched, latest, now))
      latest = this.times.latest(trigger, first, stretch.from - 1);
    return latest;
  }

  #place(entry: Entry<A>, now: number): void {
    const { watched, trigger } = entry;
    try {
      this.#putAt(entry, this.#firstOf(entry, now));
    } catch (error) {
      entry.state = 'invalid';
      const { ref } = watched.automation;
      this.#options.log('warn', `${ref} does not fire at "${trigger.expr}": ${(error as Error).message}`);
    }
  }

  /** The next time of an entry that has none yet. */
  #firstOf(entry: Entry<A>, now: number): number | null {
    const { watched, trigger, order } = entry;
    const next = this.#next(entry, now, now);
    if (watched.fired > now && watched.fired - now <= LIMITS.cronBackMs) return next;
    const present = this.#missedCheck;
    if (present && order >= present.from && order < present.before) {
      const first = this.times.next(trigger, present.at - LIMITS.cronLateMs - 1);
      const isPast = first !== null && first <= present.at;
      if (isPast || trigger.catchUp) present.suspects.add(watched);
      return isPast ? this.times.next(trigger, present.at) : first;
    }
    return next;
  }

  #putAt(entry: Entry<A>, next: number | null): void {
    this.#end(entry);
    if (next === null) return;
    entry.due = next;
    entry.state = 'due';
    this.#due.add(entry);
  }

  /** Computes all times again after the clock was set back. Times that are ahead again come again, unless they have fired. */
  #placeAllAgain(): void {
    this.#due.clear();
    this.#unplaced = [...this.#watched.values()].flatMap(({ entries }) => entries);
    for (const entry of this.#unplaced) entry.state = 'fresh';
  }
}

/** The state of an automation that is registered for the first time. All times up to its last fire, if any, count as fired. */
function newlyWatched<A>(automation: A, fired: number): Watched<A> {
  return { automation, entries: [], fired, from: -Infinity, broken: true, earlier: [] };
}

/** The stretch that a time is in. It is null for a time that has not fired, or that a plainly wrong clock fired. */
function stretchOf({ fired, from, earlier }: Watched<unknown>, at: number | null, now: number): Stretch | null {
  if (at === null || (at > fired && earlier.length === 0)) return null;
  const has = ({ from, to }: Stretch) => from <= at && at <= to && to - now <= LIMITS.cronBackMs;
  const last = { from, to: fired };
  return has(last) ? last : (earlier.find(has) ?? null);
}

/** The stretches with one more. Those that ended a day ago are left out. Of too many, the two oldest become one. */
function joined(earlier: readonly Stretch[], last: Stretch, at: number): Stretch[] {
  const all = [...earlier.filter(({ to }) => at - to <= LIMITS.cronBackMs), last];
  if (all.length <= LIMITS.cronStretches) return all;
  const [one, two, ...rest] = all as [Stretch, Stretch, ...Stretch[]];
  return [{ from: Math.min(one.from, two.from), to: Math.max(one.to, two.to) }, ...rest];
}

function compare(one: string, other: string): number {
  return one === other ? 0 : one < other ? -1 : 1;
}

/** The cron triggers of an automation, if it is enabled. Of several that say the same, the last one counts. */
function cronTriggers({ manifest }: Schedulable): CronTrigger[] {
  if (!manifest.enabled) return [];
  const triggers = manifest.triggers.filter((trigger) => trigger.kind === 'cron');
  return triggers.filter((trigger, i) => !triggers.slice(i + 1).some((later) => isSameTime(trigger, later)));
}

function isSameTime(one: CronTrigger, other: CronTrigger): boolean {
  return one.expr === other.expr && one.tz === other.tz;
}

/** A list with the earliest time last, so that taking it moves no others. Equal times have the order of registration. */
export class DueList<T extends DueItem> {
  #items: T[] = [];

  get first(): T | undefined {
    return this.#items.at(-1);
  }

  add(item: T): void {
    this.#items.splice(this.#placeOf(item), 0, item);
  }

  /** Removes an item. Does nothing for one that is not in the list. */
  delete(item: T): void {
    const place = this.#placeOf(item);
    if (this.#items[place] === item) this.#items.splice(place, 1);
  }

  clear(): void {
    this.#items = [];
  }

  /** Where the item is, or would be. */
  #placeOf({ due, order }: T): number {
    let from = 0;
    let to = this.#items.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      const other = this.#items[middle] as T;
      if (other.due > due || (other.due === due && other.order > order)) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}
