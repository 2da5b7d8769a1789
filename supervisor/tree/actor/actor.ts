/**
 * The actor of one app or automation in the supervisor: its mailbox, its current generation, and the fate of its calls when a
 * generation dies. It outlives every thread and every version.
 *
 *   idle ─call→ starting ─live→ live ─idle, evicted→ idle
 *        no room: waiting ─room→ starting
 *                  │  ↑          └─ death → backoff ─timer→ idle or starting
 *                  │  └ retry ── backoff
 *                  └ third failed start → failed_to_start;  intensity exceeded → quarantined
 *   failed_to_start, quarantined ─new version, restart→ idle
 */
import { movedError, SvcError } from '../../../protocol/errors.ts';
import { appOfKey, isDraftKey } from '../../../protocol/ids.ts';
import type { VersionSummary } from '../../../protocol/manifest.ts';
import type { OwnReason } from '../../../protocol/wire/commons.ts';
import type { RetireReason } from '../../../protocol/wire/frames.ts';
import { receivedPiece } from '../../../protocol/wire/link.ts';
import type { Meter } from '../../operations/metrics/meters.ts';
import { NEVER_USED, type Population, type Tenant, useAfter } from '../population.ts';
import type { TreeCallbacks } from '../specifications.ts';
import { type Call, type Deadlines, Mailbox } from './call.ts';
import {
  CRASH_LOOP,
  cancelled,
  crashingCall,
  DID_HARM,
  mailboxFull,
  quarantinedError,
  removedError,
  stoppingError,
  threadEnded,
  timedOut,
  timedOutWaiting,
} from './call-errors.ts';
import { CrashRecord } from './crash-record.ts';
import { actorKey, type Death, type Generation, type GenerationEvents } from './generation.ts';
import { Generations } from './generations.ts';
import { Place } from './place.ts';

type ActorState = 'idle' | 'waiting' | 'starting' | 'live' | 'backoff' | 'failed_to_start' | 'quarantined' | 'stopped';

/** The parts of the tree that an actor needs. */
export type ActorEnvironment = {
  now: () => number;
  random: () => number;
  deadlines: Deadlines;
  /** A thread for this version, on the host that runs the actor, or a resident of the commons there. */
  spawn(actor: Actor, summary: VersionSummary, events: GenerationEvents, inCommons: boolean): Generation;
  /** Who is in the commons; null where there are none. */
  commons: Population<Actor> | null;
  /** An app left the commons. */
  leftCommons(reason: OwnReason): void;
  /** The counter of an app's or draft's calls. */
  meter(app: string): Meter;
  retired(reason: RetireReason): void;
  log(level: 'info' | 'warn' | 'error', message: string, key: string): void;
  callbacks: TreeCallbacks;
};

/** By why an actor stops: the error of the calls that wait. */
const REFUSALS = { shutdown: stoppingError, removed: removedError, moved: movedError } as const;

export class Actor implements Tenant {
  /** The key of the app's data: its id, or the key of a draft. */
  readonly app: string;
  /** The automation that it fires; null for the app's own actor. */
  readonly automation: string | null;
  /** Its name in the tree and in messages. */
  readonly key: string;
  state: ActorState = 'idle';
  restarts = 0;
  lastExit: string | null = null;
  lastUsed = 0;
  use = NEVER_USED;
  /** The version whose tools are callable. */
  summary: VersionSummary;
  /** Where its queries run. */
  readonly place: Place;
  readonly mailbox: Mailbox<Call>;
  readonly meter: Meter;

  readonly #env: ActorEnvironment;
  readonly #population: Population<Actor>;
  /** Null where it never is in the commons. */
  readonly #commons: Population<Actor> | null;
  readonly #crashes: CrashRecord;
  readonly #generations: Generations;
  readonly #concurrency: number;
  /** It has at most one call in flight, on all its threads together. */
  readonly #serial: boolean;
  /** Why it was quarantined, or failed to start. */
  #givenUp = '';
  /** Ends the back-off. */
  #retry: NodeJS.Timeout | undefined;

  constructor(
    app: string,
    automation: string | null,
    summary: VersionSummary,
    population: Population<Actor>,
    env: ActorEnvironment,
  ) {
    this.app = app;
    this.automation = automation;
    this.key = actorKey(app, automation);
    this.summary = summary;
    this.#env = env;
    this.#population = population;
    this.#commons = automation === null && !isDraftKey(app) ? env.commons : null;
    this.#concurrency = population.options.concurrency;
    this.#serial = this.#concurrency === 1;
    this.place = new Place(this.#keptOf(summary));
    this.#crashes = new CrashRecord(env.random);
    this.meter = env.meter(app);
    this.mailbox = new Mailbox(population.options.mailboxLimit);
    this.#generations = new Generations(env.now);
  }

  get generations(): Generation[] {
    return this.#generations.all;
  }

  get occupied(): boolean {
    return this.#generations.current !== null || (this.#serial && this.#generations.working);
  }

  /** It has no thread, and needs none. */
  get vacant(): boolean {
    return this.state === 'idle' && this.#generations.all.length === 0 && this.mailbox.empty;
  }

  /**
   * It can be stopped: between two calls, if it runs one at a time. Calls that were answered at their deadline do not count,
   * even if they never end.
   */
  get evictable(): boolean {
    const { current, next } = this.#generations;
    if (this.state !== 'live' || !current || next || (!this.#serial && !this.mailbox.empty)) return false;
    return current.answered === current.inFlight.size;
  }

  /** Why it takes no calls until a new version or a restart; null where it does. */
  get givenUp(): string | null {
    return this.#isGivenUp ? this.#givenUp : null;
  }

  /** The error of every call at present; null where it takes calls. */
  get refusal(): SvcError | null {
    if (this.#isGivenUp) return this.#quarantineError();
    return this.state === 'stopped' ? stoppingError() : null;
  }

  get waiting(): boolean {
    return this.state === 'waiting';
  }

  submit(call: Call): void {
    if (call.settled) return;
    call.meter = this.meter;
    const refusal = this.#refusalOf(call);
    if (refusal) {
      call.fail(refusal);
      return;
    }
    call.watch(this.#env.deadlines, this.#expired);
    this.lastUsed = call.queuedAt;
    this.use = useAfter(this.use, call.queuedAt);
    this.#pump();
  }

  /** The caller went away: a call that has not started is dropped, one in flight is told. */
  abandon(call: Call): void {
    if (call.settled) return;
    if (call.sentAt > 0) this.#generations.holder(call)?.cancel(call, 'client-gone');
    else call.drop();
  }

  /** The call ends, wherever it is, and its caller is answered at once. */
  cancel(call: Call): void {
    if (call.settled) return;
    const holder = this.#generations.holder(call);
    const why = cancelled(call.request.tool);
    if (holder) this.#cutOff(call, holder, 'cancelled', why);
    else call.fail(new SvcError('HANDLER_ERROR', why));
  }

  /** Makes another version the one that serves. Resolves when calls go to it, or when it is clear that it does not start. */
  async swap(summary: VersionSummary): Promise<void> {
    if (this.state !== 'live' || this.inCommons || !this.place.swap(this.#keptOf(summary))) {
      this.renew(summary);
      return;
    }
    this.#crashes.reset();
    this.#generations.abortNext();
    await this.#generations.await(this.#env.spawn(this, summary, this.#events, false));
  }

  /** Makes another version the one that serves, from the next call on: its thread is started when it is needed. */
  renew(summary: VersionSummary): void {
    if (this.state === 'stopped') return;
    this.#generations.abortNext();
    this.summary = summary;
    this.restart();
  }

  /** Lifts a quarantine and replaces the thread. */
  restart(): void {
    if (this.state === 'stopped') return;
    this.#crashes.reset();
    this.place.renew(this.#keptOf(this.summary));
    clearTimeout(this.#retry);
    this.#vacate('superseded');
    this.#pump();
  }

  evict(reason: 'idle' | 'evicted'): void {
    if (!this.evictable) return;
    this.#vacate(reason);
    this.place.rested();
  }

  /** False also when a newer thread is about to take over. Where calls come one at a time, their turn ends with the call. */
  yield(): boolean {
    if (this.state !== 'live' || this.#generations.next || this.#serial) return false;
    this.#vacate('evicted');
    return true;
  }

  proceed(): void {
    if (this.state === 'waiting') this.state = 'idle';
    this.#pump();
  }

  /**
   * The app is being removed or given to another node, or the gateway stops. Waiting calls are answered with `refusal`; those in
   * flight get `drainMs` to end.
   */
  async stop(reason: keyof typeof REFUSALS, drainMs: number, refusal: SvcError = REFUSALS[reason]()): Promise<void> {
    this.state = 'stopped';
    clearTimeout(this.#retry);
    this.#answerAll(refusal);
    this.#generations.abortNext();
    this.#generations.retire(reason, drainMs);
    await this.#generations.drained();
  }

  /** It harmed other apps: ends its threads, and quarantines an app that does so again and again. */
  harmedOthers(detail: string): void {
    this.#say('error', detail);
    // A newer version's thread, too: it may have been given a writer that the app has left.
    for (const thread of [this.#generations.current, this.#generations.next]) thread?.terminate('unresponsive', detail);
    if (!this.#crashes.harmed(this.#env.now())) return;
    this.lastExit = `unresponsive: ${detail}`;
    this.quarantine(DID_HARM);
  }

  /** Gives up on the app until a new version or a restart by hand. */
  quarantine(why: string): void {
    this.#say('error', `quarantined: ${why}`);
    this.#giveUp('quarantined', why);
  }

  #refusalOf(call: Call): SvcError | null {
    const { refusal } = this;
    if (refusal) return refusal;
    if (this.#crashes.refuses(call)) return crashingCall(appOfKey(this.key));
    return this.mailbox.push(call) ? null : mailboxFull(appOfKey(this.key), this.mailbox.size);
  }

  get #isGivenUp(): boolean {
    return this.state === 'quarantined' || this.state === 'failed_to_start';
  }

  #quarantineError(): SvcError {
    return quarantinedError(this.key, this.app, this.#givenUp, this.lastExit);
  }

  #pump(): void {
    if (this.#serial && this.#generations.working) return;
    const generation = this.#generations.current;
    if (this.state === 'live' && generation) this.#feed(generation);
    if (this.state !== 'idle' || this.mailbox.empty) return;
    if (this.mayShare && this.mailbox.first?.repeatable === false) this.#leaveCommons('action');
    const inCommons = this.mayShare;
    const [room, other] = inCommons ? [this.#commons, this.#population] : [this.#population, this.#commons];
    other?.leave(this);
    if (room?.admit(this) !== true) {
      this.state = 'waiting';
      return;
    }
    this.state = 'starting';
    this.#generations.current = this.#env.spawn(this, this.summary, this.#events, inCommons);
  }

  #feed(generation: Generation): void {
    const room = this.#crashes.callsAtOnce(this.#concurrency, this.#env.now) - this.#generations.leftInCommons;
    while (generation.state === 'live' && generation.inFlight.size < room) {
      if (generation.commons !== null && !this.#mayRunShared()) return;
      const call = this.mailbox.shift();
      if (!call) return;
      generation.send(call);
    }
  }

  /** Its queries may run in the commons. */
  get mayShare(): boolean {
    return this.#commons !== null && this.place.reason === null;
  }

  /** It is in the commons now. */
  get inCommons(): boolean {
    return this.#generations.current?.commons != null;
  }

  /** Where it has its place at present. */
  get #room(): Population<Actor> {
    return this.inCommons ? (this.#commons ?? this.#population) : this.#population;
  }

  /** Whether the next call may run in the commons. One that is too busy for them goes on there until its thread is live. */
  #mayRunShared(): boolean {
    const { first } = this.mailbox;
    if (first === undefined || this.#generations.next !== null) return first?.repeatable !== false;
    if (!first.repeatable) {
      this.#leaveCommons('action');
      this.#vacate('superseded');
      return false;
    }
    const why = this.place.called(this.#env.now());
    if (why !== null && this.#population.admit(this)) {
      this.#leaveCommons(why);
      void this.#generations.await(this.#env.spawn(this, this.summary, this.#events, false));
    }
    return true;
  }

  #leaveCommons(reason: OwnReason): void {
    if (this.place.leave(reason)) this.#env.leftCommons(reason);
  }

  #keptOf({ commons }: VersionSummary): OwnReason | null {
    if (this.#commons === null) return null;
    return commons === true ? null : (commons?.kept ?? 'modules');
  }

  readonly #expired = (call: Call): void => {
    const holder = this.#generations.holder(call);
    const { tool, allowedMs } = call.request;
    if (!holder) {
      const lastExit = call.attempts > 0 ? this.lastExit : null;
      const error = timedOutWaiting(tool, allowedMs, lastExit, this.#generations.current?.hostTrouble ?? null);
      this.#say('error', error.message, call);
      call.fail(error);
      return;
    }
    const why = `${timedOut(tool, allowedMs)}.`;
    this.#say('error', why, call);
    this.#cutOff(call, holder, 'deadline', why);
  };

  /** Answers a call that is in flight. What still runs of it may make its thread useless. */
  #cutOff(call: Call, holder: Generation, reason: 'deadline' | 'cancelled', why: string): void {
    call.failUnknown(why);
    holder.cancel(call, reason);
    this.#replaceIfClogged(holder);
    this.#pump();
    if (this.evictable) this.#room.becameEvictable(this);
  }

  /** Handlers that never settle hold their places; a thread that is half full of them is replaced. */
  #replaceIfClogged(generation: Generation): void {
    if (generation !== this.#generations.current || this.state !== 'live') return;
    if (generation.answered >= (this.#crashes.careful ? 1 : this.#concurrency / 2)) this.#vacate('deadline');
  }

  readonly #events: GenerationEvents = {
    onLive: (generation) => {
      if (generation === this.#generations.next) this.#promote();
      if (generation !== this.#generations.current) return;
      this.#crashes.started();
      this.state = 'live';
      if (this.automation === null) this.#env.callbacks.onStarted(this.app);
      this.#pump();
      // The calls that it was started for may be gone.
      if (this.evictable) this.#room.becameEvictable(this);
    },
    onOverdue: (generation, call) => {
      if (generation !== this.#generations.current || this.state !== 'live') return;
      const detail = `"${call.request.tool}" ran on after its time was up`;
      if (generation.commons !== null) this.#leaveCommons('failed');
      this.#say('error', `${detail}; its thread is replaced`, call);
      this.lastExit = `deadline: ${detail}`;
      this.#vacate('deadline');
      this.#pump();
    },
    onSettled: (generation, resultBytes, ms) => {
      if (generation.commons !== null) this.place.worked(ms);
      this.#crashes.succeeded(resultBytes, this.#env.now);
      if (this.#serial) {
        // Its idle time begins; if others wait for a place, its next turn comes after theirs.
        this.lastUsed = this.#env.now();
        this.#room.becameEvictable(this);
      } else if (generation !== this.#generations.current) return;
      this.#pump();
      if (generation.inFlight.size === 0) this.#room.becameEvictable(this);
    },
    onGone: (generation, death) => this.#died(generation, death),
    onLog: (line) => this.#env.callbacks.appLog(this.app, line),
    onDamaged: (damage) => this.#env.callbacks.onDamaged(this.app, damage),
    unsettled: () => this.#env.callbacks.unsettled(this.app, receivedPiece()),
    onNotice: (payload) => this.#env.callbacks.notice(this.app, this.summary.name, payload),
  };

  #died(generation: Generation, death: Death): void {
    const intended = this.#generations.gone(generation);
    if (death.handedBack !== undefined) {
      this.#takeBack(death, death.handedBack.reason, intended);
      return;
    }
    this.#env.retired(death.reason);
    queueMicrotask(() => {
      this.#population.next();
      this.#commons?.next();
    });
    this.mailbox.putBack(death.openCalls.filter((call) => this.#isRunAgain(call, death.reason)));
    if (intended) {
      if (death.stuck) this.#crashes.suspect(death);
      if (this.#isGivenUp) this.#answerAll(this.#quarantineError());
      this.#pump();
      return;
    }
    if (death.reason === 'replaced') {
      this.#leave();
      this.#pump();
      return;
    }
    this.lastExit = death.detail ? `${death.reason}: ${death.detail}` : death.reason;
    this.restarts++;
    this.meter.restarts++;
    this.#say(death.endedByHost ? 'warn' : 'error', `its thread ended (${this.lastExit})`);
    // A newer version that does not start is still the active one: its calls get the reason.
    if (generation === this.#generations.next) this.#promote();
    this.#leave();
    if (death.endedByHost || this.occupied) this.#pump();
    else if (death.startFailed && this.#crashes.failedToStart()) {
      this.#say('error', `does not start: ${this.lastExit}`);
      this.#giveUp('failed_to_start', 'it does not start');
    } else {
      if (!death.startFailed) this.#crashes.suspect(death);
      this.#restartLater();
    }
  }

  /** Its queries in flight in the commons run again, `reason` being why elsewhere. It does not count as an attempt: most are not to blame. */
  #takeBack({ openCalls, detail }: Death, reason: OwnReason | null, intended: boolean): void {
    this.#env.retired('superseded');
    const again = openCalls.filter((call) => !call.settled);
    for (const call of again) {
      call.sentAt = 0;
      call.attempts--;
    }
    if (this.state === 'stopped') for (const call of again) call.fail(stoppingError());
    else if (this.#isGivenUp) for (const call of again) call.fail(this.#quarantineError());
    else this.mailbox.putBack(again);
    if (reason !== null) {
      this.#leaveCommons(reason);
      this.#env.log('info', `left the commons (${reason}): ${detail}`, this.key);
    }
    if (!intended) this.#leave();
    this.#pump();
  }

  /** Handles a call that was in flight when its thread died: answers it unless it is repeated. */
  #isRunAgain(call: Call, reason: RetireReason): boolean {
    if (call.settled) {
      call.outcomeUnknown();
      return false;
    }
    if (call.repeatable && call.attempts < 2 && this.state !== 'stopped') {
      call.sentAt = 0;
      return true;
    }
    call.failUnknown(threadEnded(call.request.tool, reason));
    return false;
  }

  #restartLater(): void {
    const wait = this.#crashes.died(this.#env.now());
    if (wait === null) {
      this.quarantine(CRASH_LOOP);
      return;
    }
    this.state = 'backoff';
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => {
      this.state = 'idle';
      this.#pump();
    }, wait);
  }

  #giveUp(state: 'quarantined' | 'failed_to_start', why: string): void {
    this.state = state;
    this.#givenUp = why;
    if (this.automation === null) this.#env.callbacks.onGaveUp(this.app, why, this.lastExit);
    clearTimeout(this.#retry);
    this.#generations.abortNext();
    this.#generations.retire('crash');
    this.#answerAll(this.#quarantineError());
  }

  #vacate(reason: RetireReason): void {
    this.#generations.retire(reason);
    this.#leave();
  }

  /** Without its thread the actor is idle, unless a newer version's is starting: then that one has the place. */
  #leave(): void {
    this.#generations.current = null;
    this.state = 'idle';
    this.#promote();
  }

  #promote(): void {
    const generation = this.#generations.promote();
    if (!generation) return;
    if (generation.commons === null) this.#commons?.leave(this);
    this.summary = generation.summary;
    this.state = generation.state === 'live' ? 'live' : 'starting';
  }

  #answerAll(error: SvcError): void {
    for (const call of this.mailbox.drain()) call.fail(error);
  }

  /** To the gateway's log and the app's; what is said of a single call concerns the app's author only. */
  #say(level: 'warn' | 'error', msg: string, call: Call | null = null): void {
    if (!call) this.#env.log(level, msg, this.key);
    const { versionId } = this.summary;
    const tool = call?.request.tool ?? this.automation;
    const origin = { app: appOfKey(this.app), versionId, tool, traceId: call?.request.traceId ?? null };
    this.#env.callbacks.appLog(this.app, JSON.stringify({ ts: new Date().toISOString(), level, ...origin, msg }));
  }
}
