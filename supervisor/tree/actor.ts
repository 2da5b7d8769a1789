/**
 * The actor of one app, as the supervisor sees it: its mailbox, the generation that serves it, and what becomes of its
 * calls when a generation dies. It outlives every thread and every version.
 *
 *   idle ─call→ starting ─live→ live ─idle, evicted→ idle
 *                  │  ↑          └─ death → backoff ─timer→ idle or starting
 *                  │  └ retry ── backoff
 *                  └ third failed start → failed_to_start;  intensity exceeded → quarantined
 *   failed_to_start, quarantined ─new version, restart→ idle
 */
import { SvcError } from '../../protocol/errors.ts';
import type { RetireReason } from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import type { Call } from './call.ts';
import type { Deadlines } from './deadlines.ts';
import type { Death, Generation, GenerationEvents } from './generation.ts';
import { Mailbox } from './mailbox.ts';
import { PoisonMemory } from './poison.ts';
import { RestartPolicy } from './restart.ts';

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
  /** The actor has nothing in flight. */
  rested(actor: Actor): void;
  /** A generation ended: counted, and its slot is free. */
  retired(actor: Actor, reason: RetireReason): void;
  log(app: string, level: 'info' | 'warn' | 'error', message: string): void;
  appLog(app: string, line: string): void;
};

export class Actor {
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
  readonly #poison = new PoisonMemory();
  #current: Generation | null = null;
  /** A newer version that is starting beside the current one. */
  #next: { generation: Generation; done: () => void } | null = null;
  readonly #retiring = new Set<Generation>();
  readonly #onEmpty: (() => void)[] = [];
  #startFailures = 0;
  #timer: NodeJS.Timeout | null = null;

  constructor(app: string, summary: VersionSummary, env: ActorEnvironment) {
    this.app = app;
    this.summary = summary;
    this.#env = env;
    this.mailbox = new Mailbox(env.mailboxLimit);
    this.#policy = new RestartPolicy(
      {
        intensity: LIMITS.restartIntensity,
        windowMs: LIMITS.restartWindowMs,
        backoffMs: LIMITS.restartBackoffMs,
        backoffMaxMs: LIMITS.restartBackoffMaxMs,
      },
      env.random,
    );
  }

  get inFlight(): number {
    return this.#current?.inFlight.size ?? 0;
  }

  /** Every thread that this actor has: the one that serves, one that starts, those that drain. */
  get generations(): Generation[] {
    const all = [...this.#retiring];
    if (this.#current) all.unshift(this.#current);
    if (this.#next) all.push(this.#next.generation);
    return all;
  }

  /** It has a thread, or is about to have one. */
  get occupied(): boolean {
    return this.#current !== null || this.#next !== null;
  }

  get rested(): boolean {
    return this.state === 'live' && this.inFlight === 0 && this.mailbox.size === 0 && !this.#next;
  }

  submit(call: Call): void {
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
      this.#holder(call)?.cancel(call, 'client-gone');
      return;
    }
    call.drop();
  }

  /** Makes another version the one that serves. Resolves when calls go to it, or when it is clear that it does not start. */
  async swap(summary: VersionSummary): Promise<void> {
    this.#poison.forget();
    this.#policy.reset();
    this.#startFailures = 0;
    this.#abortNext();
    if (this.state !== 'live' || !this.#current) {
      this.summary = summary;
      this.#replace('superseded');
      return;
    }
    await new Promise<void>((done) => {
      const generation = this.#env.spawn(this.app, summary, this.#events);
      this.#next = { generation, done };
    });
  }

  /** Lifts a quarantine and replaces the thread. */
  restart(): void {
    this.#poison.forget();
    this.#policy.reset();
    this.#startFailures = 0;
    this.#replace('superseded');
  }

  /** Ends the live thread of an actor that has nothing to do. */
  rest(reason: 'idle' | 'evicted'): void {
    const generation = this.#current;
    if (!generation || !this.rested) return;
    this.#retire(generation, reason, LIMITS.drainMs);
    this.#current = null;
    this.state = 'idle';
  }

  /** There may be room now, or the host is up: go on with what waits. */
  proceed(): void {
    if (this.state === 'waiting') this.state = 'idle';
    this.#pump();
  }

  /** The app goes away or the gateway stops. Calls that wait are answered; those in flight get `drainMs` to end. */
  async stop(reason: 'shutdown' | 'removed', drainMs: number): Promise<void> {
    const message = reason === 'removed' ? 'The app was removed.' : 'The gateway is stopping; try again in a moment.';
    this.#answerAll(new SvcError(reason === 'removed' ? 'UNKNOWN_APP' : 'OVERLOADED', message));
    this.#clearTimer();
    this.#abortNext();
    this.state = 'stopped';
    if (this.#current) this.#retire(this.#current, reason, drainMs);
    this.#current = null;
    if (this.#retiring.size > 0) await new Promise<void>((resolve) => this.#onEmpty.push(resolve));
  }

  /** Ends the thread that serves, as misbehaving; used when something outside the thread found it guilty. */
  blame(reason: RetireReason, detail: string): void {
    this.#env.log(this.app, 'error', detail);
    this.#current?.terminate(reason);
  }

  /** Gives up on the app until a new version or a restart by hand. */
  quarantine(why: string): void {
    this.state = 'quarantined';
    this.#clearTimer();
    this.#env.log(this.app, 'error', `quarantined: ${why}`);
    this.#answerAll(this.#quarantineError());
  }

  #refusal(call: Call): SvcError | null {
    if (this.state === 'quarantined' || this.state === 'failed_to_start') return this.#quarantineError();
    if (this.state === 'stopped') return new SvcError('OVERLOADED', 'The gateway is stopping; try again in a moment.');
    if (this.#poison.refuses({ fingerprint: () => call.fingerprint() })) {
      return new SvcError(
        'HANDLER_ERROR',
        `The same call took "${this.app}" down twice, so it is refused until the app's version changes or it is restarted.`,
      );
    }
    if (this.mailbox.push(call)) return null;
    return new SvcError(
      'OVERLOADED',
      `${this.mailbox.size} calls wait for "${this.app}" already; try again in a second.`,
      {
        headers: { 'retry-after': '1' },
      },
    );
  }

  #quarantineError(): SvcError {
    const why = this.state === 'failed_to_start' ? 'does not start' : 'crashed too often';
    return new SvcError(
      'QUARANTINED',
      `"${this.app}" ${why} (${this.lastExit ?? 'unknown reason'}). Upload or activate another version, or restart it with POST /svc/_apps/${this.app}/restart.`,
    );
  }

  #pump(): void {
    const generation = this.#current;
    if (this.state === 'live' && generation) {
      const room = this.#poison.careful ? 1 : LIMITS.actorConcurrency;
      while (generation.state === 'live' && generation.inFlight.size < room) {
        const call = this.mailbox.shift();
        if (!call) break;
        generation.send(call);
      }
      return;
    }
    if (this.state !== 'idle' || this.mailbox.size === 0) return;
    if (!this.#env.admit(this)) {
      this.state = 'waiting';
      return;
    }
    this.state = 'starting';
    this.#current = this.#env.spawn(this.app, this.summary, this.#events);
  }

  readonly #expired = (call: Call): void => {
    const holder = call.sentAt > 0 ? this.#holder(call) : null;
    const seconds = Math.round(call.request.allowedMs / 100) / 10;
    if (!holder) {
      call.fail(
        new SvcError('HANDLER_ERROR', `"${call.request.tool}" timed out after ${seconds} s; it had not started.`),
      );
      return;
    }
    call.failUnknown(`"${call.request.tool}" timed out after ${seconds} s.`);
    holder.cancel(call, 'deadline');
    this.#replaceIfClogged(holder);
  };

  /** Handlers that never settle hold their places; a thread that is half full of them is replaced. */
  #replaceIfClogged(generation: Generation): void {
    if (generation !== this.#current || this.state !== 'live') return;
    let stuck = 0;
    for (const call of generation.inFlight.values()) if (call.settled) stuck++;
    if (stuck < (this.#poison.careful ? 1 : LIMITS.actorConcurrency / 2)) return;
    this.#retire(generation, 'deadline', LIMITS.drainMs);
    this.#current = null;
    this.state = 'idle';
    this.#pump();
  }

  #holder(call: Call): Generation | null {
    for (const generation of this.generations) if (generation.inFlight.get(call.id) === call) return generation;
    return null;
  }

  readonly #events: GenerationEvents = {
    onLive: (generation) => {
      this.#startFailures = 0;
      if (this.#next?.generation === generation) {
        const { done } = this.#next;
        this.#next = null;
        if (this.#current) this.#retire(this.#current, 'superseded', LIMITS.drainMs);
        this.summary = generation.summary;
        this.#current = generation;
        this.state = 'live';
        done();
      } else if (generation === this.#current) {
        this.state = 'live';
      }
      this.#pump();
    },
    onSettled: (generation) => {
      this.#poison.survived();
      if (generation !== this.#current) return;
      this.#pump();
      if (generation.inFlight.size === 0) this.#env.rested(this);
    },
    onGone: (generation, death) => this.#died(generation, death),
    onLog: (line) => this.#env.appLog(this.app, line),
  };

  #died(generation: Generation, death: Death): void {
    const planned = this.#retiring.delete(generation);
    if (this.#retiring.size === 0) for (const resolve of this.#onEmpty.splice(0)) resolve();
    this.#env.retired(this, death.reason);
    const detail = death.detail ? `${death.reason}: ${death.detail}` : death.reason;
    if (!planned) this.lastExit = detail;
    const again = this.#settleOrphans(death);
    if (this.#next?.generation === generation) {
      this.#nextFailed(detail);
      return;
    }
    if (generation !== this.#current) {
      if (death.reason === 'deadline') this.#poison.died(suspects(death));
      if (again.length > 0) this.mailbox.putBack(again);
      this.#pump();
      return;
    }
    this.#current = null;
    this.mailbox.putBack(again);
    this.#env.log(this.app, 'warn', `its thread ended (${detail})`);
    this.restarts++;
    if (death.innocent) {
      this.state = 'idle';
      this.#pump();
      return;
    }
    if (death.startFailed && ++this.#startFailures >= LIMITS.startTries) {
      this.#failToStart();
      return;
    }
    if (!death.startFailed) this.#poison.died(suspects(death));
    this.#restartLater();
  }

  /** Answers the calls that were in flight; answers those that shall run once more. */
  #settleOrphans(death: Death): Call[] {
    const again: Call[] = [];
    for (const call of death.orphans) {
      if (call.settled) {
        if (!call.repeatable) call.reply.outcomeUnknown();
        continue;
      }
      if (call.repeatable && call.attempts < 2 && this.state !== 'stopped') {
        call.sentAt = 0;
        again.push(call);
        continue;
      }
      call.failUnknown(`The app's thread ended while "${call.request.tool}" ran (${DEATHS[death.reason]}).`);
    }
    return again;
  }

  #restartLater(): void {
    const wait = this.#policy.exited(this.#env.now());
    if (wait === null) {
      this.quarantine(`more than ${LIMITS.restartIntensity} restarts in ${LIMITS.restartWindowMs / 1000} s`);
      return;
    }
    this.state = 'backoff';
    this.#clearTimer();
    this.#timer = setTimeout(() => {
      this.state = 'idle';
      this.#pump();
    }, wait);
  }

  #failToStart(): void {
    this.state = 'failed_to_start';
    this.#env.log(this.app, 'error', `does not start: ${this.lastExit}`);
    this.#answerAll(this.#quarantineError());
  }

  /** The newer version did not start: it is the active one all the same, so its calls get the reason. */
  #nextFailed(detail: string): void {
    const next = this.#next;
    if (!next) return;
    this.#next = null;
    this.lastExit = detail;
    this.summary = next.generation.summary;
    if (this.#current) this.#retire(this.#current, 'superseded', LIMITS.drainMs);
    this.#current = null;
    this.#startFailures = 1;
    this.#restartLater();
    next.done();
  }

  #abortNext(): void {
    const next = this.#next;
    if (!next) return;
    this.#next = null;
    this.#retire(next.generation, 'superseded', 0);
    next.done();
  }

  #replace(reason: RetireReason): void {
    this.#clearTimer();
    if (this.#current) this.#retire(this.#current, reason, LIMITS.drainMs);
    this.#current = null;
    this.state = 'idle';
    this.#pump();
  }

  #retire(generation: Generation, reason: RetireReason, drainMs: number): void {
    this.#retiring.add(generation);
    generation.retire(reason, drainMs);
  }

  #answerAll(error: SvcError): void {
    for (const call of this.mailbox.drain()) call.fail(error);
  }

  #clearTimer(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }
}

/** A thread that stopped reacting was stopped by a call that outran its deadline, not by those that came after it. */
function suspects(death: Death): Call[] {
  return death.reason === 'deadline' ? death.orphans.filter((call) => call.settled) : death.orphans;
}

/** Retire reasons in words for callers. */
const DEATHS: Record<RetireReason, string> = {
  idle: 'it was idle',
  evicted: 'it made room for another app',
  superseded: 'another version took over',
  deadline: 'it did not react after a call had timed out',
  memory: 'it ran out of memory',
  crash: 'it crashed',
  unresponsive: 'it did not answer',
  shutdown: 'the gateway was stopping',
  removed: 'the app was removed',
};
