/**
 * The actor of one app, or of one automation, as the supervisor sees it: its mailbox, the generation that serves it, and what
 * becomes of its calls when a generation dies. It outlives every thread and every version.
 *
 *   idle ─call→ starting ─live→ live ─idle, evicted→ idle
 *        no room: waiting ─room→ starting
 *                  │  ↑          └─ death → backoff ─timer→ idle or starting
 *                  │  └ retry ── backoff
 *                  └ third failed start → failed_to_start;  intensity exceeded → quarantined
 *   failed_to_start, quarantined ─new version, restart→ idle
 */
import { SvcError } from '../../../protocol/errors.ts';
import type { RetireReason } from '../../../protocol/frames.ts';
import { appOfKey } from '../../../protocol/ids.ts';
import type { VersionSummary } from '../../../protocol/manifest.ts';
import { settleOrphans } from '../orphans.ts';
import { WakeUp } from '../wake-up.ts';
import { ActorLog } from './actor-log.ts';
import type { Tenant } from './admission.ts';
import type { Call } from './call.ts';
import {
  CRASH_LOOP,
  cancelled,
  DID_HARM,
  mailboxFull,
  poisonousCall,
  quarantinedError,
  removedError,
  stoppingError,
  timedOut,
  timedOutWaiting,
} from './call-errors.ts';
import { CrashRecord } from './crash-record.ts';
import type { Deadlines } from './deadlines.ts';
import { actorKey, type Death, type Generation, type GenerationEvents } from './generation.ts';
import { Generations } from './generations.ts';
import { Mailbox } from './mailbox.ts';
import { ResultBudget } from './result-budget.ts';

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
  /**
   * Calls that an actor works on at a time. Where it is 1, the next call also waits for one that an older thread has not ended,
   * so that no two ever overlap.
   */
  concurrency: number;
  /** A thread for this version, on the host that runs the actor. */
  spawn(actor: Actor, summary: VersionSummary, events: GenerationEvents): Generation;
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
  /** What everything of the app is kept under: its id, or the key of a draft. */
  readonly app: string;
  /** The automation that it fires; null for the app's own actor. */
  readonly automation: string | null;
  /** Its name in the tree and in messages. */
  readonly key: string;
  state: ActorState = 'idle';
  restarts = 0;
  lastExit: string | null = null;
  lastUsed = 0;
  /** The version whose tools are callable. */
  summary: VersionSummary;
  readonly mailbox: Mailbox<Call>;

  readonly #env: ActorEnvironment;
  readonly #crashes: CrashRecord;
  readonly #results = new ResultBudget();
  readonly #generations: Generations;
  /** It has at most one call in flight, on all its threads together. */
  readonly #serial: boolean;
  /** Why nothing is tried any more. */
  #givenUp = '';
  readonly #log: ActorLog;
  /** Ends the back-off. */
  readonly #retry = new WakeUp();

  constructor(app: string, automation: string | null, summary: VersionSummary, env: ActorEnvironment) {
    this.app = app;
    this.automation = automation;
    this.key = actorKey(app, automation);
    this.summary = summary;
    this.#env = env;
    this.#serial = env.concurrency === 1;
    this.#crashes = new CrashRecord(env.random);
    this.#log = new ActorLog(this, env);
    this.mailbox = new Mailbox(env.mailboxLimit);
    this.#generations = new Generations(env.now);
  }

  /** Every thread that this actor has: the one that serves, one that starts, those that drain. */
  get generations(): Generation[] {
    return this.#generations.all;
  }

  /** It has a thread, or is about to have one. */
  get occupied(): boolean {
    return this.#generations.current !== null || (this.#serial && this.#generations.working);
  }

  /** It has no thread, and nobody needs one. */
  get vacant(): boolean {
    return this.state === 'idle' && this.#generations.all.length === 0 && this.mailbox.empty;
  }

  /** It could be stopped: between two calls, where it has one at a time. Calls that were answered when their time was up do not count, though they may never end. */
  get rested(): boolean {
    const { current, next } = this.#generations;
    if (this.state !== 'live' || !current || next || (!this.#serial && !this.mailbox.empty)) return false;
    return current.answered === current.inFlight.size;
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
      this.#generations.holder(call)?.cancel(call, 'client-gone');
      return;
    }
    call.drop();
  }

  /** Nobody wants the call any more: it ends, wherever it is, and its caller is answered at once. */
  cancel(call: Call): void {
    if (call.settled) return;
    const holder = call.sentAt > 0 ? this.#generations.holder(call) : null;
    const why = cancelled(call.request.tool);
    if (holder) this.#cutOff(call, holder, 'cancelled', why);
    else call.fail(new SvcError('HANDLER_ERROR', why));
  }

  /** Makes another version the one that serves. Resolves when calls go to it, or when it is clear that it does not start. */
  async swap(summary: VersionSummary): Promise<void> {
    if (this.state !== 'live') {
      this.renew(summary);
      return;
    }
    this.#pardon();
    this.#generations.abortNext();
    await this.#generations.await(this.#env.spawn(this, summary, this.#events));
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
    this.#pardon();
    this.#retry.clear();
    this.#vacate('superseded');
    this.#pump();
  }

  /** Ends the live thread of an actor that has nothing to do. */
  rest(reason: 'idle' | 'evicted'): void {
    if (this.rested) this.#vacate(reason);
  }

  /**
   * Makes room for one that waits. False when there is no live thread to end, or a newer one is about to take over. Where calls
   * come one at a time, their turn ends with the call.
   */
  yield(): boolean {
    if (this.state !== 'live' || this.#generations.next || this.#serial) return false;
    this.#vacate('evicted');
    return true;
  }

  /** There may be room now, or the host is up: go on with what waits. */
  proceed(): void {
    if (this.state === 'waiting') this.state = 'idle';
    this.#pump();
  }

  /** The app goes away or the gateway stops. Calls that wait are answered with `refusal`; those in flight get `drainMs` to end. */
  async stop(
    reason: 'shutdown' | 'removed',
    drainMs: number,
    refusal: SvcError = reason === 'removed' ? removedError() : stoppingError(),
  ): Promise<void> {
    this.state = 'stopped';
    this.#retry.clear();
    this.#answerAll(refusal);
    this.#generations.abortNext();
    this.#generations.retire(reason, drainMs);
    await this.#generations.drained();
  }

  /** Others suffered from it: ends its threads, and quarantines an app that does so again and again. */
  blame(detail: string): void {
    this.#log.say('error', detail);
    // A newer version's thread, too: it may have been told of a writer that is not its any more.
    for (const thread of [this.#generations.current, this.#generations.next]) thread?.terminate('unresponsive', detail);
    if (!this.#crashes.harmed(this.#env.now())) return;
    this.lastExit = `unresponsive: ${detail}`;
    this.quarantine(DID_HARM);
  }

  /** Gives up on the app until a new version or a restart by hand. */
  quarantine(why: string): void {
    this.#log.say('error', `quarantined: ${why}`);
    this.#giveUp('quarantined', why);
  }

  #refusal(call: Call): SvcError | null {
    if (this.state === 'quarantined' || this.state === 'failed_to_start') return this.#quarantineError();
    if (this.state === 'stopped') return stoppingError();
    if (this.#crashes.refuses(call)) return poisonousCall(appOfKey(this.key));
    return this.mailbox.push(call) ? null : mailboxFull(appOfKey(this.key), this.mailbox.size);
  }

  #quarantineError(): SvcError {
    return quarantinedError(this.key, this.app, this.#givenUp, this.lastExit);
  }

  #pump(): void {
    if (this.#serial && this.#generations.working) return;
    const generation = this.#generations.current;
    if (this.state === 'live' && generation) {
      const room = this.#crashes.careful ? 1 : Math.min(this.#env.concurrency, this.#results.calls(this.#env.now));
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
    this.#generations.current = this.#env.spawn(this, this.summary, this.#events);
  }

  readonly #expired = (call: Call): void => {
    const holder = call.sentAt > 0 ? this.#generations.holder(call) : null;
    const { tool, allowedMs } = call.request;
    if (!holder) {
      const error = timedOutWaiting(tool, allowedMs, {
        lastExit: call.attempts > 0 ? this.lastExit : null,
        hostTrouble: this.#generations.current?.hostTrouble ?? null,
      });
      this.#log.say('error', error.message, call);
      call.fail(error);
      return;
    }
    const why = `${timedOut(tool, allowedMs)}.`;
    this.#log.say('error', why, call);
    this.#cutOff(call, holder, 'deadline', why);
  };

  /** Answers a call that is in flight. What still runs of it may make its thread useless. */
  #cutOff(call: Call, holder: Generation, reason: 'deadline' | 'cancelled', why: string): void {
    call.failUnknown(why);
    holder.cancel(call, reason);
    this.#replaceIfClogged(holder);
    this.#pump();
    if (this.rested) this.#env.rested(this);
  }

  /** Handlers that never settle hold their places; a thread that is half full of them is replaced. */
  #replaceIfClogged(generation: Generation): void {
    if (generation !== this.#generations.current || this.state !== 'live') return;
    if (generation.answered >= (this.#crashes.careful ? 1 : this.#env.concurrency / 2)) this.#vacate('deadline');
  }

  readonly #events: GenerationEvents = {
    onLive: (generation) => {
      if (generation === this.#generations.next) this.#promote();
      if (generation !== this.#generations.current) return;
      this.#crashes.started();
      this.state = 'live';
      this.#pump();
      // The calls that it was started for may be gone.
      if (this.rested) this.#env.rested(this);
    },
    onOverdue: (generation, call) => {
      if (generation !== this.#generations.current || this.state !== 'live') return;
      const detail = `"${call.request.tool}" ran on after its time was up`;
      this.#log.say('error', `${detail}; its thread is replaced`, call);
      this.lastExit = `deadline: ${detail}`;
      this.#vacate('deadline');
      this.#pump();
    },
    onSettled: (generation, resultBytes) => {
      this.#crashes.survived();
      this.#results.saw(resultBytes, this.#env.now);
      if (this.#serial) {
        // Its time without work begins; and if others wait for a place, its next turn comes after theirs.
        this.lastUsed = this.#env.now();
        this.#env.rested(this);
      } else if (generation !== this.#generations.current) return;
      this.#pump();
      if (generation.inFlight.size === 0) this.#env.rested(this);
    },
    onGone: (generation, death) => this.#died(generation, death),
    onLog: (line) => this.#env.appLog(this.app, line),
  };

  #died(generation: Generation, death: Death): void {
    const intended = this.#generations.gone(generation);
    this.#env.retired(this, death.reason);
    this.mailbox.putBack(settleOrphans(death, this.state !== 'stopped'));
    if (intended) {
      if (death.stuck) this.#crashes.suspect(death);
      if (this.state === 'quarantined' || this.state === 'failed_to_start') this.#answerAll(this.#quarantineError());
      this.#pump();
      return;
    }
    this.lastExit = death.detail ? `${death.reason}: ${death.detail}` : death.reason;
    this.restarts++;
    this.#log.say(death.innocent ? 'warn' : 'error', `its thread ended (${this.lastExit})`);
    // A newer version that does not start is the active one all the same: its calls get the reason.
    if (generation === this.#generations.next) this.#promote();
    this.#leave();
    if (death.innocent || this.occupied) this.#pump();
    else if (death.startFailed && this.#crashes.failedToStart()) this.#failToStart();
    else {
      if (!death.startFailed) this.#crashes.suspect(death);
      this.#restartLater();
    }
  }

  #restartLater(): void {
    const wait = this.#crashes.died(this.#env.now());
    if (wait === null) {
      this.quarantine(CRASH_LOOP);
      return;
    }
    this.state = 'backoff';
    this.#retry.set(wait, () => {
      this.state = 'idle';
      this.#pump();
    });
  }

  #failToStart(): void {
    this.#log.say('error', `does not start: ${this.lastExit}`);
    this.#giveUp('failed_to_start', 'it does not start');
  }

  #giveUp(state: 'quarantined' | 'failed_to_start', why: string): void {
    this.state = state;
    this.#givenUp = why;
    this.#retry.clear();
    this.#generations.abortNext();
    this.#generations.retire('crash');
    this.#answerAll(this.#quarantineError());
  }

  /** A new version, or a restart by hand: nothing of before counts. */
  #pardon(): void {
    this.#crashes.pardon();
    this.#results.forget();
  }

  /** Takes the current thread out of service. */
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
    this.summary = generation.summary;
    this.state = generation.state === 'live' ? 'live' : 'starting';
  }

  #answerAll(error: SvcError): void {
    for (const call of this.mailbox.drain()) call.fail(error);
  }
}
