/**
 * One thread that runs one version of an app: its connection, and the calls in flight on it.
 *
 *   placed ─host runs→ starting ─ready→ live ─retire→ draining ─empty→ stopping → gone
 *                         └───────────── death at any point ────────────────────↑
 */
import { type ErrorBody, errorFromBody, type SvcError } from '../../protocol/errors.ts';
import {
  type ActorSpec,
  type ExitedFrame,
  type Frame,
  Kind,
  type ProcessStats,
  type RetireReason,
} from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Link } from '../../protocol/link.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import type { Call } from './call.ts';
import type { Child } from './child.ts';
import type { LinkOwner } from './links.ts';

export type GenerationState = 'placed' | 'starting' | 'live' | 'draining' | 'stopping' | 'gone';

/** How a generation ended. */
export type Death = {
  reason: RetireReason;
  detail: string;
  /** It never became live. */
  startFailed: boolean;
  /** Its host process ended for a reason that lies elsewhere. */
  innocent: boolean;
  /** What was in flight, the settled ones too. */
  orphans: Call[];
};

export type GenerationEvents = {
  onLive(generation: Generation): void;
  /** A call left the thread: there is room for another. */
  onSettled(generation: Generation): void;
  onGone(generation: Generation, death: Death): void;
  onLog(line: string): void;
};

export class Generation implements LinkOwner {
  readonly spec: ActorSpec;
  readonly summary: VersionSummary;
  readonly host: Child;
  state: GenerationState = 'placed';
  startedAt = 0;
  calls = 0;
  stats: ProcessStats | null = null;
  readonly inFlight = new Map<number, Call>();

  readonly #events: GenerationEvents;
  readonly #now: () => number;
  #link: Link | null = null;
  #timer: NodeJS.Timeout | null = null;
  #probe: NodeJS.Timeout | null = null;
  #nextCall = 0;
  #pings = 0;
  #retireReason: RetireReason | null = null;
  #wasLive = false;
  #onPong: (() => void)[] = [];

  constructor(spec: ActorSpec, summary: VersionSummary, host: Child, events: GenerationEvents, now: () => number) {
    this.spec = spec;
    this.summary = summary;
    this.host = host;
    this.#events = events;
    this.#now = now;
    this.hostReady();
  }

  /** Starts the thread if its host runs; called again when the host comes up. */
  hostReady(): void {
    if (this.state !== 'placed' || this.host.state !== 'running') return;
    this.state = 'starting';
    this.startedAt = this.#now();
    this.host.send([Kind.start, this.spec]);
    this.#after(LIMITS.actorStartMs, () => this.#kill('unresponsive'));
  }

  attach(link: Link): LinkOwner | null {
    if (this.state !== 'starting' || this.#link) return null;
    this.#link = link;
    return this;
  }

  send(call: Call): void {
    call.id = ++this.#nextCall;
    call.attempts++;
    call.sentAt = this.#now();
    this.calls++;
    this.inFlight.set(call.id, call);
    const { kind, tool, body, traceId } = call.request;
    this.#link?.send([Kind.dispatch, call.id, Math.max(0, call.deadline - call.sentAt), kind, tool, body, traceId]);
  }

  /** Nobody waits for this call any more; it still counts as in flight until the thread is done with it. */
  cancel(call: Call, reason: 'deadline' | 'client-gone' | 'shutdown'): void {
    this.#link?.send([Kind.cancel, call.id, reason]);
    if (reason === 'deadline') this.#probeAlive();
    if (this.state === 'draining') this.#stopIfEmpty();
  }

  /** Asks for fresh statistics; resolves when they came or `limitMs` passed. */
  async refreshStats(limitMs: number): Promise<void> {
    if (!this.#link) return;
    this.#link.send([Kind.ping, ++this.#pings]);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, limitMs);
      this.#onPong.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  /** Lets the calls in flight end, then stops the thread; ends it by force after the drain limit. */
  retire(reason: RetireReason, drainMs: number = LIMITS.drainMs): void {
    if (this.state === 'gone' || this.state === 'draining' || this.state === 'stopping') return;
    this.#retireReason = reason;
    if (this.state === 'placed') {
      this.#gone(reason, 'not started yet');
      return;
    }
    this.state = 'draining';
    this.#after(drainMs, () => this.#kill(reason));
    this.#stopIfEmpty();
  }

  /** Ends the thread now: calls in flight are handed back as orphans. */
  terminate(reason: RetireReason): void {
    if (this.state === 'gone') return;
    this.#kill(reason);
  }

  onFrame(frame: Frame): void {
    switch (frame[0]) {
      case Kind.result:
        if (!(frame[3] instanceof Uint8Array) || !Number.isInteger(frame[2])) throw new Error('Not a result.');
        this.#settle(frame[1], (call) => call.succeed(frame[2], frame[3], frame[4]));
        return;
      case Kind.error:
        this.#settle(frame[1], (call) => call.fail(hostError(frame[2]), frame[3]));
        return;
      case Kind.log:
        if (typeof frame[1] !== 'string') throw new Error('Not a log line.');
        this.#events.onLog(frame[1]);
        return;
      case Kind.pong:
        this.stats = frame[2];
        if (this.#probe) clearTimeout(this.#probe);
        this.#probe = null;
        for (const resolve of this.#onPong.splice(0)) resolve();
        return;
      case Kind.ready:
        if (this.state !== 'starting') return;
        this.state = 'live';
        this.#wasLive = true;
        this.#clear();
        this.#events.onLive(this);
        return;
      default:
        throw new Error(`An actor may not send frames of kind ${frame[0]}.`);
    }
  }

  onClose(): void {
    this.#link = null;
    if (this.state === 'gone' || this.state === 'stopping') return;
    // Its host tells why the thread ended; if it does not, the loss of the connection is reason enough.
    this.#after(LIMITS.cancelGraceMs, () => this.#kill('crash'));
  }

  /** The host says that the thread ended. */
  exited(reason: ExitedFrame[2], detail: string): void {
    const mapped: RetireReason =
      reason === 'memory' ? 'memory' : reason === 'stopped' ? (this.#retireReason ?? 'crash') : 'crash';
    this.#gone(this.#retireReason ?? mapped, detail);
  }

  /** The whole host process ended. */
  hostGone(detail: string, innocent: boolean): void {
    if (this.state === 'placed') return;
    this.#gone(this.#retireReason ?? 'crash', detail, innocent);
  }

  #settle(id: number, answer: (call: Call) => void): void {
    const call = this.inFlight.get(id);
    if (!call) return;
    this.inFlight.delete(id);
    if (!call.settled) answer(call);
    else if (!call.repeatable) call.reply.outcomeUnknown();
    if (this.state === 'draining') this.#stopIfEmpty();
    this.#events.onSettled(this);
  }

  /** A call that was answered already, because its time was up, is not waited for. */
  #stopIfEmpty(): void {
    for (const call of this.inFlight.values()) if (!call.settled) return;
    this.state = 'stopping';
    this.host.send([Kind.stop, this.spec.actorId, false]);
    this.#after(LIMITS.terminateMs, () => this.#kill(this.#retireReason ?? 'shutdown'));
  }

  /** After a deadline: a thread whose event loop answers is left alone, one that does not is ended. */
  #probeAlive(): void {
    if (this.#probe || this.state === 'gone') return;
    this.#link?.send([Kind.ping, ++this.#pings]);
    this.#probe = setTimeout(() => this.#kill('deadline'), LIMITS.cancelGraceMs);
  }

  #kill(reason: RetireReason): void {
    this.#retireReason ??= reason;
    this.state = 'stopping';
    this.host.send([Kind.stop, this.spec.actorId, true]);
    // A thread inside native code cannot be ended from outside; then its whole process goes.
    this.#after(LIMITS.terminateMs, () => {
      const detail = 'the thread could not be ended; its host was killed';
      this.#gone(this.#retireReason ?? reason, detail);
      this.host.kill(`a thread of ${this.spec.app} could not be ended`);
    });
  }

  #gone(reason: RetireReason, detail: string, innocent = false): void {
    if (this.state === 'gone') return;
    const startFailed = !this.#wasLive;
    this.state = 'gone';
    this.#clear();
    if (this.#probe) clearTimeout(this.#probe);
    const orphans = [...this.inFlight.values()];
    this.inFlight.clear();
    const link = this.#link;
    this.#link = null;
    link?.close(new Error('The actor is gone.'));
    for (const resolve of this.#onPong.splice(0)) resolve();
    this.#events.onGone(this, { reason, detail, startFailed, innocent, orphans });
  }

  #after(ms: number, action: () => void): void {
    this.#clear();
    this.#timer = setTimeout(action, ms);
  }

  #clear(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }
}

/** Codes that an actor may answer with; anything else it says is a fault of its handler. */
const ACTOR_CODES = new Set(['INVALID_INPUT', 'HANDLER_ERROR', 'UNKNOWN_QUERY', 'UNKNOWN_ACTION', 'BAD_REQUEST']);

function hostError(body: ErrorBody): SvcError {
  return errorFromBody(ACTOR_CODES.has(body.code) ? body : { ...body, code: 'HANDLER_ERROR' });
}
