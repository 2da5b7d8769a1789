/** Fires automations on schedule: one heap of what is due when, under one timer, in turns that leave the event loop free. */
import { LIMITS } from '../../../protocol/limits.ts';
import { CronTimes } from './cron-times.ts';
import { DueHeap } from './due-heap.ts';
import { runMissed } from './missed.ts';
import { cronTriggers, type Entry, isSameTime, newEntry, type Schedulable, type Watched } from './watched.ts';

/** Times are milliseconds since the epoch. */
export type SchedulerOptions<A> = {
  now: () => number;
  /** Calls `wake` once after `ms`, unless the function that it returns was called before. */
  setTimer: (ms: number, wake: () => void) => () => void;
  /** Calls `rest` in a later turn of the event loop: `setImmediate`. */
  yieldTurn: (rest: () => void) => void;
  /** A time of the automation has come. It must not throw; what goes wrong in the run is the consumer's. */
  fire: (automation: A, scheduledAt: number) => void;
  /** The scheduled time of the automation's last fire, or what `watchedFrom` said later; null when there is none. */
  lastFired: (ref: string) => Promise<number | null>;
  /** A trigger with `catchUp` is new: nothing before this time counts as missed at the next start. */
  watchedFrom: (ref: string, at: number) => void;
  log: (level: 'warn', message: string) => void;
  times?: CronTimes;
  /** A clock that is never set, for how long a turn takes. */
  elapsed?: () => number;
};

/**
 * `collecting` what is registered until `start`; then `idle` with nothing to wait for, `armed` with the timer set, `working` in a
 * turn, `yielded` between two turns; `stopped` for good.
 */
type State = 'collecting' | 'idle' | 'armed' | 'working' | 'yielded' | 'stopped';

/** While the times of what was there at the start are computed: the start, the orders since, who may have missed a fire. */
type Present<A> = { at: number; before: number; suspects: Set<Watched<A>> };

/** Decisions, section 6, "Cron". */
export class Scheduler<A extends Schedulable> {
  readonly #options: SchedulerOptions<A>;
  readonly #times: CronTimes;
  readonly #elapsed: () => number;
  readonly #watched = new Map<string, Watched<A>>();
  readonly #refs = new Map<string, string[]>();
  readonly #heap = new DueHeap<Entry<A>>();
  /** Entries whose next time is not computed yet; some may have been removed since. */
  #fresh: Entry<A>[] = [];
  #present: Present<A> | null = null;
  #state: State = 'collecting';
  #cancelTimer: () => void = () => {};
  #seen = -Infinity;
  #order = 0;
  /** Last fires, by ref, that lay ahead of the clock when it started: it had been set back. */
  #ahead = new Map<string, number>();

  constructor(options: SchedulerOptions<A>) {
    this.#options = options;
    this.#times = options.times ?? new CronTimes();
    this.#elapsed = options.elapsed ?? (() => performance.now());
  }

  /** Triggers registered. */
  get size(): number {
    let size = 0;
    for (const { entries } of this.#watched.values()) size += entries.length;
    return size;
  }

  /** These are the app's automations now; triggers that stay the same keep their next time. An empty list forgets the app. */
  reconcile(app: string, automations: A[]): void {
    if (this.#state === 'stopped') return;
    const refs = new Set<string>();
    for (const automation of automations) if (this.#watch(automation)) refs.add(automation.ref);
    for (const ref of this.#refs.get(app) ?? []) {
      if (refs.has(ref)) continue;
      for (const entry of this.#watched.get(ref)?.entries ?? []) this.#end(entry);
      this.#watched.delete(ref);
    }
    if (refs.size > 0) this.#refs.set(app, [...refs]);
    else this.#refs.delete(app);
    // It was removed: one that gets its id has fired nothing yet.
    if (automations.length === 0)
      for (const ref of this.#ahead.keys()) if (ref.startsWith(`${app}/`)) this.#ahead.delete(ref);
    this.#wake();
  }

  /**
   * From here on it fires. What is registered by now was there before this start, and may have missed fires. `ahead` has the last
   * fires, by ref, whose scheduled time is still to come because the clock was set back.
   */
  start(ahead: ReadonlyMap<string, number> = new Map()): void {
    if (this.#state !== 'collecting') return;
    this.#state = 'idle';
    this.#ahead = new Map(ahead);
    for (const [ref, watched] of this.#watched) watched.fired = ahead.get(ref) ?? watched.fired;
    this.#present = { at: this.#options.now(), before: this.#order, suspects: new Set() };
    // Those with the same expression follow each other, since few are kept ready.
    this.#fresh.sort((one, other) => compare(one.trigger.expr, other.trigger.expr));
    this.#wake();
  }

  /** The automation's next fire; null when it has none, and before `start`. */
  nextRunAt(ref: string): number | null {
    if (this.#state === 'collecting') return null;
    let next = Infinity;
    for (const entry of this.#watched.get(ref)?.entries ?? []) {
      if (entry.state === 'fresh') this.#place(entry, this.#options.now());
      if (entry.state === 'due') next = Math.min(next, entry.due);
    }
    return next === Infinity ? null : next;
  }

  /** Nothing fires any more. */
  stop(): void {
    this.#cancelTimer();
    this.#state = 'stopped';
    this.#watched.clear();
    this.#refs.clear();
    this.#heap.clear();
    this.#fresh = [];
  }

  /** False when it has no trigger for the scheduler. */
  #watch(automation: A): boolean {
    const triggers = cronTriggers(automation);
    if (triggers.length === 0) return false;
    const { ref } = automation;
    const watched = this.#watched.get(ref) ?? { automation, entries: [], fired: this.#ahead.get(ref) ?? -Infinity };
    const before = watched.entries;
    watched.automation = automation;
    watched.entries = triggers.map((trigger) => {
      const known = before.find((entry) => isSameTime(entry.trigger, trigger));
      if (this.#state !== 'collecting' && trigger.catchUp && !known?.trigger.catchUp)
        this.#options.watchedFrom(ref, this.#options.now());
      const entry = known ?? newEntry(watched, trigger, this.#order++);
      if (!known) this.#fresh.push(entry);
      entry.trigger = trigger;
      return entry;
    });
    for (const entry of before) if (!watched.entries.includes(entry)) this.#end(entry);
    this.#watched.set(ref, watched);
    return true;
  }

  #end(entry: Entry<A>): void {
    this.#heap.delete(entry);
    entry.state = 'ended';
  }

  /** Something may have to be done now; whoever is at work or has planned to be will see it. */
  #wake(): void {
    if (this.#state === 'idle' || this.#state === 'armed') this.#turn();
  }

  #turn(): void {
    if (this.#state === 'stopped') return;
    this.#cancelTimer();
    this.#cancelTimer = () => {};
    this.#state = 'working';
    const now = this.#options.now();
    if (now < this.#seen - LIMITS.cronLateMs) this.#placeAllAgain();
    this.#seen = now;
    const endAt = this.#elapsed() + LIMITS.cronTurnMs;
    for (let done = 1; this.#step(now); done++) {
      if (this.#isStopped()) return;
      if (done < LIMITS.cronTurn && this.#elapsed() < endAt) continue;
      this.#state = 'yielded';
      this.#options.yieldTurn(() => this.#turn());
      return;
    }
    if (this.#isStopped()) return;
    this.#runMissed();
    const first = this.#heap.peek();
    this.#state = first ? 'armed' : 'idle';
    if (!first) return;
    // Never for long: timers do not notice when the clock is set.
    const wait = Math.min(first.due - now, LIMITS.cronWaitMs);
    this.#cancelTimer = this.#options.setTimer(wait, () => this.#turn());
  }

  /** Once, when everything that was there at the start has its next time. */
  #runMissed(): void {
    if (!this.#present) return;
    const { suspects, at } = this.#present;
    this.#present = null;
    const { lastFired, log } = this.#options;
    void runMissed(suspects, at, {
      lastFired,
      log,
      times: this.#times,
      isWatched: (watched) => this.#watched.get(watched.automation.ref) === watched,
      run: (watched, scheduledAt) => this.#fireOnce(watched, scheduledAt),
    });
  }

  /** One fire or, when none is due, one next time; false when there was nothing to do. */
  #step(now: number): boolean {
    const first = this.#heap.peek();
    if (first && first.due <= now) {
      this.#fire(first, now);
      return true;
    }
    const fresh = this.#fresh.pop();
    if (fresh?.state === 'fresh') this.#place(fresh, now);
    return fresh !== undefined;
  }

  /** A consumer may have stopped it from within a fire. */
  #isStopped(): boolean {
    return this.#state === 'stopped';
  }

  /** Of several times that have come since it was looked at last, only the last is considered: a clock set forward makes no storm. */
  #fire(entry: Entry<A>, now: number): void {
    const { watched, trigger, due } = entry;
    let scheduledAt = due;
    let next = this.#times.next(trigger, due);
    if (next !== null && next <= now) {
      scheduledAt = this.#times.latest(trigger, next, now);
      next = this.#times.next(trigger, scheduledAt);
    }
    this.#putAt(entry, next);
    const isMissed = now - scheduledAt > LIMITS.cronLateMs;
    if (!isMissed || trigger.catchUp) this.#fireOnce(watched, scheduledAt);
  }

  /** Two triggers of an automation may have a time in common. */
  #fireOnce(watched: Watched<A>, scheduledAt: number): void {
    if (watched.fired === scheduledAt) return;
    watched.fired = scheduledAt;
    this.#options.fire(watched.automation, scheduledAt);
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

  /** The next time of an entry that has none. */
  #firstOf({ watched, trigger, order }: Entry<A>, now: number): number | null {
    // What fired already does not come again because the clock was set back, unless that clock was plainly wrong.
    if (watched.fired > now && watched.fired - now <= LIMITS.cronBackMs)
      return this.#times.next(trigger, watched.fired);
    const present = this.#present;
    if (present && order < present.before) {
      const first = this.#times.next(trigger, present.at - LIMITS.cronLateMs - 1);
      const isPast = first !== null && first <= present.at;
      if (isPast || trigger.catchUp) present.suspects.add(watched);
      return isPast ? this.#times.next(trigger, present.at) : first;
    }
    return this.#times.next(trigger, now);
  }

  #putAt(entry: Entry<A>, next: number | null): void {
    this.#end(entry);
    if (next === null) return;
    entry.due = next;
    entry.state = 'due';
    this.#heap.push(entry);
  }

  /** The clock was set back: times that lie ahead again come again, those that have fired do not. */
  #placeAllAgain(): void {
    this.#heap.clear();
    this.#fresh = [...this.#watched.values()].flatMap(({ entries }) => entries);
    for (const entry of this.#fresh) entry.state = 'fresh';
  }
}

function compare(one: string, other: string): number {
  return one === other ? 0 : one < other ? -1 : 1;
}
