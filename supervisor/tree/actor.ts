/**
 * The actor of one app, as the supervisor sees it: its mailbox, the generation that serves it, and what becomes of its
 * calls when a generation dies. It outlives every thread and every version.
 *
 *   idle ─call→ starting ─live→ live ─idle, evicted→ idle
 *        no room: waiting ─room→ starting
 *                  │  ↑          └─ death → backoff ─timer→ idle or starting
 *                  │  └ retry ── backoff
 *                  └ third failed start → failed_to_start;  intensity exceeded → quarantined
 *   failed_to_start, quarantined ─new version, restart→ idle
 */
import type { SvcError } from '../../protocol/errors.ts';
import type { RetireReason } from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import type { Tenant } from './admission.ts';
import type { Call } from './call.ts';
import type { Deadlines } from './deadlines.ts';
import type { Death, Generation, GenerationEvents } from './generation.ts';
import { Mailbox } from './mailbox.ts';
import { PoisonMemory } from './poison.ts';
import {
  CRASH_LOOP,
  DID_HARM,
  mailboxFull,
  poisonousCall,
  quarantinedError,
  removedError,
  stoppingError,
  threadEnded,
  timedOut,
  timedOutWaiting,
} from './refusals.ts';
import { RestartPolicy } from './restart.ts';
import { ResultRoom } from './result-room.ts';
import { Succession } from './succession.ts';

export type ActorState =
  | 'idle'
  | 'waiting'
  | 'starting'
  | 'live'
  | 'backoff'
  | 'failed_to_start'
  | 'quarantined'
  | 'stopped';

/** What an actor needs of the tree around it. */
export type ActorEnvironment = {
  now: () => number;
  random: () => number;
  deadlines: Deadlines;
  mailboxLimit: number;
  /** A thread for this version, on the host that runs the app. */
  spawn(app: string, summary: VersionSummary, events: GenerationEvents): Generation;
  /** False when as many actors are live as may be; the tree calls `proceed` when there is room. */
  admit(actor: Actor): boolean;
  /** Nobody waits for a call of the actor any more. */
  rested(actor: Actor): void;
  /** A generation ended: counted, and its slot is free. */
  retired(actor: Actor, reason: RetireReason): void;
  log(app: string, level: 'info' | 'warn' | 'error', message: string): void;
  appLog(app: string, line: string): void;
};

export class Actor implements Tenant {
  readonly app: string;
  state: ActorState = 'idle';
  restarts = 0;
  lastExit: string | null = null;
  lastUsed = 0;
  /** The version whose tools are callable. */
  summary: VersionSummary;
  readonly mailbox: Mailbox<Call>;

  readonly #env: ActorEnvironment;
  readonly #policy: RestartPolicy;
  /** Counts what it did to others. */
  readonly #harm: RestartPolicy;
  readonly #poison = new PoisonMemory();
  readonly #results = new ResultRoom();
  readonly #threads: Succession;
  #startFailures = 0;
  /** Why nothing is tried any more. */
  #givenUp = '';
  #timer: NodeJS.Timeout | null = null;

  constructor(app: string, summary: VersionSummary, env: ActorEnvironment) {
    this.app = app;
    this.summary = summary;
    this.#env = env;
    this.mailbox = new Mailbox(env.mailboxLimit);
    this.#threads = new Succession(env.now);
    const backoff = { backoffMs: LIMITS.restartBackoffMs, backoffMaxMs: LIMITS.restartBackoffMaxMs };
    this.#policy = new RestartPolicy(
      { intensity: LIMITS.restartIntensity, windowMs: LIMITS.restartWindowMs, ...backoff },
      env.random,
    );
    this.#harm = new RestartPolicy(
      { intensity: LIMITS.harmTimes, windowMs: LIMITS.harmWindowMs, ...backoff },
      env.random,
    );
  }

  /** Every thread that this actor has: the one that serves, one that starts, those that drain. */
  get generations(): Generation[] {
    return this.#threads.all;
  }

  /** It has a thread, or is about to have one. */
  get occupied(): boolean {
    return this.#threads.current !== null;
  }

  /** It could be stopped: calls that were answered when their time was up do not count, though they may never end. */
  get rested(): boolean {
    const { current, next } = this.#threads;
    if (this.state !== 'live' || !current || next || !this.mailbox.empty) return false;
    for (const call of current.inFlight.values()) if (!call.settled) return false;
    return true;
  }

  get waiting(): boolean {
    return this.state === 'waiting';
  }

  submit(call: Call): void {
    if (call.settled) return;
    const refusal = this.#refusal(call);
    if (refusal) {
      call.fail(refusal);
      return;
    }
    call.watch(this.#env.deadlines, this.#expired);
    this.lastUsed = call.queuedAt;
    this.#pump();
  }

  /** The caller went away: a call that has not started is dropped, one in flight is told. */
  abandon(call: Call): void {
    if (call.settled) return;
    if (call.sentAt > 0) {
      this.#threads.holder(call)?.cancel(call, 'client-gone');
      return;
    }
    call.drop();
  }

  /** Makes another version the one that serves. Resolves when calls go to it, or when it is clear that it does not start. */
  async swap(summary: VersionSummary): Promise<void> {
    if (this.state === 'stopped') return;
    this.#pardon();
    this.#threads.abortNext();
    if (this.state !== 'live') {
      this.summary = summary;
      this.#replace();
      return;
    }
    await this.#threads.await(this.#env.spawn(this.app, summary, this.#events));
  }

  /** Lifts a quarantine and replaces the thread. */
  restart(): void {
    if (this.state === 'stopped') return;
    this.#pardon();
    this.#replace();
  }

  /** Ends the live thread of an actor that has nothing to do. */
  rest(reason: 'idle' | 'evicted'): void {
    if (this.rested) this.#vacate(reason);
  }

  /** Makes room for an app that waits. False when there is no live thread to end, or a newer one is about to take over. */
  yield(): boolean {
    if (this.state !== 'live' || this.#threads.next) return false;
    this.#vacate('evicted');
    return true;
  }

  /** There may be room now, or the host is up: go on with what waits. */
  proceed(): void {
    if (this.state === 'waiting') this.state = 'idle';
    this.#pump();
  }

  /** The app goes away or the gateway stops. Calls that wait are answered; those in flight get `drainMs` to end. */
  async stop(reason: 'shutdown' | 'removed', drainMs: number): Promise<void> {
    this.state = 'stopped';
    this.#clearTimer();
    this.#answerAll(reason === 'removed' ? removedError() : stoppingError());
    this.#threads.abortNext();
    this.#threads.retire(reason, drainMs);
    await this.#threads.drained();
  }

  /** Others suffered from it: ends the thread that serves, and quarantines an app that does so again and again. */
  blame(detail: string): void {
    this.#say('error', detail);
    this.#threads.current?.terminate('unresponsive', detail);
    if (this.#harm.exited(this.#env.now()) !== null) return;
    this.lastExit = `unresponsive: ${detail}`;
    this.quarantine(DID_HARM);
  }

  /** Gives up on the app until a new version or a restart by hand. */
  quarantine(why: string): void {
    this.#say('error', `quarantined: ${why}`);
    this.#giveUp('quarantined', why);
  }

  #refusal(call: Call): SvcError | null {
    if (this.state === 'quarantined' || this.state === 'failed_to_start') return this.#quarantineError();
    if (this.state === 'stopped') return stoppingError();
    if (this.#poison.refuses({ fingerprint: () => call.fingerprint() })) return poisonousCall(this.app);
    return this.mailbox.push(call) ? null : mailboxFull(this.app, this.mailbox.size);
  }

  #quarantineError(): SvcError {
    return quarantinedError(this.app, this.#givenUp, this.lastExit);
  }

  #pump(): void {
    const generation = this.#threads.current;
    if (this.state === 'live' && generation) {
      const room = this.#poison.careful ? 1 : this.#results.calls(this.#env.now);
      while (generation.state === 'live' && generation.inFlight.size < room) {
        const call = this.mailbox.shift();
        if (!call) break;
        generation.send(call);
      }
      return;
    }
    if (this.state !== 'idle' || this.mailbox.empty) return;
    if (!this.#env.admit(this)) {
      this.state = 'waiting';
      return;
    }
    this.state = 'starting';
    this.#threads.current = this.#env.spawn(this.app, this.summary, this.#events);
  }

  readonly #expired = (call: Call): void => {
    const holder = call.sentAt > 0 ? this.#threads.holder(call) : null;
    const { tool, allowedMs } = call.request;
    if (!holder) {
      const error = timedOutWaiting(tool, allowedMs, {
        lastExit: call.attempts > 0 ? this.lastExit : null,
        hostTrouble: this.#threads.current?.hostTrouble ?? null,
      });
      this.#say('error', error.message, call);
      call.fail(error);
      return;
    }
    this.#say('error', `${timedOut(tool, allowedMs)}.`, call);
    call.failUnknown(`${timedOut(tool, allowedMs)}.`);
    holder.cancel(call, 'deadline');
    this.#replaceIfClogged(holder);
    if (this.rested) this.#env.rested(this);
  };

  /** Handlers that never settle hold their places; a thread that is half full of them is replaced. */
  #replaceIfClogged(generation: Generation): void {
    if (generation !== this.#threads.current || this.state !== 'live') return;
    let stuck = 0;
    for (const call of generation.inFlight.values()) if (call.settled) stuck++;
    if (stuck < (this.#poison.careful ? 1 : LIMITS.actorConcurrency / 2)) return;
    this.#vacate('deadline');
    this.#pump();
  }

  readonly #events: GenerationEvents = {
    onLive: (generation) => {
      if (generation === this.#threads.next) this.#promote();
      if (generation !== this.#threads.current) return;
      this.#startFailures = 0;
      this.state = 'live';
      this.#pump();
      // The calls that it was started for may be gone.
      if (this.rested) this.#env.rested(this);
    },
    onOverdue: (generation, call) => {
      if (generation !== this.#threads.current || this.state !== 'live') return;
      const detail = `"${call.request.tool}" ran on after its time was up`;
      this.#say('error', `${detail}; its thread is replaced`, call);
      this.lastExit = `deadline: ${detail}`;
      this.#vacate('deadline');
      this.#pump();
    },
    onSettled: (generation, resultBytes) => {
      this.#poison.survived();
      this.#results.saw(resultBytes, this.#env.now);
      if (generation !== this.#threads.current) return;
      this.#pump();
      if (generation.inFlight.size === 0) this.#env.rested(this);
    },
    onGone: (generation, death) => this.#died(generation, death),
    onLog: (line) => this.#env.appLog(this.app, line),
  };

  #died(generation: Generation, death: Death): void {
    const intended = this.#threads.gone(generation);
    this.#env.retired(this, death.reason);
    this.mailbox.putBack(this.#settleOrphans(death));
    if (intended) {
      if (death.stuck) this.#poison.died(suspects(death));
      if (this.state === 'quarantined' || this.state === 'failed_to_start') this.#answerAll(this.#quarantineError());
      this.#pump();
      return;
    }
    this.lastExit = death.detail ? `${death.reason}: ${death.detail}` : death.reason;
    this.restarts++;
    this.#say(death.innocent ? 'warn' : 'error', `its thread ended (${this.lastExit})`);
    // A newer version that does not start is the active one all the same: its calls get the reason.
    if (generation === this.#threads.next) this.#promote();
    this.#leave();
    if (death.innocent || this.occupied) this.#pump();
    else if (death.startFailed && ++this.#startFailures >= LIMITS.startTries) this.#failToStart();
    else {
      if (!death.startFailed) this.#poison.died(suspects(death));
      this.#restartLater();
    }
  }

  /** Answers the calls that were in flight; answers those that shall run once more. */
  #settleOrphans(death: Death): Call[] {
    const again: Call[] = [];
    for (const call of death.orphans) {
      if (call.settled) {
        call.outcomeUnknown();
        continue;
      }
      if (call.repeatable && call.attempts < 2 && this.state !== 'stopped') {
        call.sentAt = 0;
        again.push(call);
        continue;
      }
      call.failUnknown(threadEnded(call.request.tool, death.reason));
    }
    return again;
  }

  #restartLater(): void {
    const wait = this.#policy.exited(this.#env.now());
    if (wait === null) {
      this.quarantine(CRASH_LOOP);
      return;
    }
    this.state = 'backoff';
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.state = 'idle';
      this.#pump();
    }, wait);
  }

  #failToStart(): void {
    this.#say('error', `does not start: ${this.lastExit}`);
    this.#giveUp('failed_to_start', 'it does not start');
  }

  #giveUp(state: 'quarantined' | 'failed_to_start', why: string): void {
    this.state = state;
    this.#givenUp = why;
    this.#clearTimer();
    this.#threads.abortNext();
    this.#threads.retire('crash');
    this.#answerAll(this.#quarantineError());
  }

  /** What was held against the app is forgotten. */
  #pardon(): void {
    this.#poison.forget();
    this.#results.forget();
    this.#policy.reset();
    this.#harm.reset();
    this.#startFailures = 0;
  }

  #replace(): void {
    this.#clearTimer();
    this.#vacate('superseded');
    this.#pump();
  }

  /** Takes the current thread out of service. */
  #vacate(reason: RetireReason): void {
    this.#threads.retire(reason);
    this.#leave();
  }

  /** Without its thread the actor is idle, unless a newer version's is starting: then that one has the place. */
  #leave(): void {
    this.#threads.current = null;
    this.state = 'idle';
    this.#promote();
  }

  #promote(): void {
    const generation = this.#threads.promote();
    if (!generation) return;
    this.summary = generation.summary;
    this.state = generation.state === 'live' ? 'live' : 'starting';
  }

  #answerAll(error: SvcError): void {
    for (const call of this.mailbox.drain()) call.fail(error);
  }

  /** To the gateway's log and to the app's own, whose author wants to know as well. */
  #say(level: 'warn' | 'error', message: string, call: Call | null = null): void {
    if (!call) this.#env.log(this.app, level, message);
    const { tool = null, traceId = null } = call?.request ?? {};
    const origin = { app: this.app, versionId: this.summary.versionId, tool, traceId };
    this.#env.appLog(this.app, JSON.stringify({ ts: new Date().toISOString(), level, ...origin, msg: message }));
  }

  #clearTimer(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }
}

/** A thread that stopped reacting was stopped by a call that outran its deadline, not by those that came after it. */
function suspects(death: Death): Call[] {
  return death.stuck ? death.orphans.filter((call) => call.settled) : death.orphans;
}
