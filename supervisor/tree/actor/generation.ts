/**
 * One thread that runs one version of an app or fires one of its automations: its connection, and the calls in flight on it.
 *
 *   placed ─host runs, has a place→ starting ─ready→ live ─retire→ draining ─empty→ stopping → gone
 *                                        └───────────── death at any point ────────────────────↑
 */
import { automationRef } from '../../../protocol/automations/automation.ts';
import { type ErrorBody, errorFromBody, type InputIssue, type SvcError } from '../../../protocol/errors.ts';
import { appOfKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { VersionSummary } from '../../../protocol/manifest.ts';
import type { OwnReason } from '../../../protocol/wire/commons.ts';
import {
  type ActorSpec,
  ASKS,
  type CancelReason,
  type Frame,
  type FrameOf,
  Kind,
  type ProcessStats,
  type RetireReason,
  ToolKind,
} from '../../../protocol/wire/frames.ts';
import { InFlight } from '../../../protocol/wire/in-flight.ts';
import type { Link, LinkHandlers } from '../../../protocol/wire/link.ts';
import { monotonicMs, toMonotonic } from '../../../protocol/wire/trace-context.ts';
import { type Damage, damageIn } from '../../../storage/apps/app-data.ts';
import { isMediaType } from '../../../storage/blob-files.ts';
import type { KeepBlob } from '../../blobs.ts';
import type { GivenSecrets } from '../../secrets.ts';
import type { SimulatedClock } from '../../simulation.ts';
import { addThreadSpans, isThreadSpans } from '../../tracing/thread-spans.ts';
import type { Child } from '../child.ts';
import type { Commons } from '../commons.ts';
import { startGraceTimer } from '../grace-timer.ts';
import type { Call } from './call.ts';
import { ToldCallers } from './told-callers.ts';

/** The connection of a thread, or a resident's part of that of the commons. */
type ThreadLink = Pick<Link, 'send' | 'close'>;

type GenerationState = 'placed' | 'starting' | 'live' | 'draining' | 'stopping' | 'gone';

/** How a generation ended. */
export type Death = {
  reason: RetireReason;
  detail: string;
  /** It never became live. */
  startFailed: boolean;
  /** Its host process ended, and not because of this thread. */
  endedByHost: boolean;
  /** Its event loop did not react after a call had outrun its deadline. */
  stuck: boolean;
  /** The calls in flight, including settled ones. */
  openCalls: Call[];
  /** It ran in the commons, and runs again: in its own thread for this reason, or there where that is null. */
  handedBack?: { reason: OwnReason | null };
};

export type GenerationEvents = {
  onLive(generation: Generation): void;
  /** A call still runs long after its deadline. */
  onOverdue(generation: Generation, call: Call): void;
  /** A call left the thread, with a result of so many bytes, after its handler ran for `ms`: there is room for another. */
  onSettled(generation: Generation, resultBytes: number, ms: number): void;
  onGone(generation: Generation, death: Death): void;
  onLog(line: string): void;
  /** A call met damaged data. Resolves with the error for its caller. */
  onDamaged(damage: Damage): Promise<SvcError>;
  /** As `TreeCallbacks.unsettled`. */
  unsettled(): Promise<void> | null;
  /** A call sends a notice: JSON text, to be read now. Never rejects. */
  onNotice(payload: Uint8Array): Promise<{ ok: boolean; body: Uint8Array }>;
};

/** Answers a call once what it may have read is in the log of pages, and with an error where that does not get there. */
async function succeedLater(
  call: Call,
  unsettled: Promise<void>,
  status: number,
  body: Buffer,
  handlerMs: number,
): Promise<void> {
  try {
    await unsettled;
    // Its deadline may have passed.
    if (!call.settled) call.succeed(status, body, handlerMs);
  } catch (error) {
    if (!call.settled) call.fail(error as SvcError, handlerMs);
  }
}

/** An actor's name: the id of its app, or the ref of its automation. */
export function actorKey(app: string, automation: string | null): string {
  return automation === null ? app : automationRef(app, automation);
}

export class Generation implements LinkHandlers {
  readonly spec: ActorSpec;
  readonly summary: VersionSummary;
  readonly host: Child;
  /** Where it runs, unless it has a thread of its own. */
  readonly commons: Commons | null;
  state: GenerationState = 'placed';
  startedAt = 0;
  calls = 0;
  /** The thread could not be ended, so its host was killed. */
  stuck = false;
  stats: ProcessStats | null = null;
  /** The calls that the thread works on, by the number they travel under. */
  readonly inFlight = new InFlight<Call>();

  readonly #events: GenerationEvents;
  readonly #now: () => number;
  readonly #given: () => GivenSecrets | null;
  readonly #keepBlob: KeepBlob;
  #lastCallId = 0;
  /** A file is being stored or deleted. */
  #isKeeping = false;
  readonly #clock: SimulatedClock | undefined;
  /** Number of the last question of a fire. */
  #lastAskId = 0;
  #link: ThreadLink | null = null;
  readonly #callers = new ToldCallers();
  /** End the current wait for the thread or its host, and the wait for the answer to a probe. */
  #stopWaiting: (() => void) | null = null;
  #stopProbing: (() => void) | null = null;
  /** What it answers from now on may show what is not stored any more. */
  #isDiscarded = false;
  #pings = 0;
  /** The schema that it was last told of. */
  #schema = -1;
  #retireReason: RetireReason | null = null;
  #retireDetail = '';
  #wasLive = false;
  #unresponsive = false;
  /** Number of the ping that must be answered before the probe's time is up. */
  #probePing = 0;
  readonly #onPong = new Set<() => void>();
  /** Set when the thread has ended and only the rest of what it wrote is awaited. */
  #end: (() => void) | null = null;

  /** `given` are the secrets of its app as they are now; `clock` is the one of a test. */
  constructor(
    spec: ActorSpec,
    summary: VersionSummary,
    host: Child,
    events: GenerationEvents,
    now: () => number,
    given: () => GivenSecrets | null,
    keepBlob: KeepBlob,
    clock?: SimulatedClock,
    commons: Commons | null = null,
  ) {
    this.commons = commons;
    this.spec = spec;
    this.summary = summary;
    this.host = host;
    this.#events = events;
    this.#now = now;
    this.#given = given;
    this.#keepBlob = keepBlob;
    this.#clock = clock;
    this.hostReady();
  }

  get key(): string {
    return actorKey(this.spec.app, this.spec.automation);
  }

  /** How many of its calls were answered although it still works on them: their time was up, or they were cancelled. */
  get answered(): number {
    let count = 0;
    for (const call of this.inFlight.values()) if (call.settled) count++;
    return count;
  }

  /** Why it has not even been started, if its host does not come up. */
  get hostTrouble(): string | null {
    return this.state === 'placed' ? this.host.lastExit : null;
  }

  /** Starts the thread if its host runs and does not start too many; called again when either may have changed. */
  hostReady(): void {
    if (this.state !== 'placed' || this.host.state !== 'running') return;
    if (this.commons === null && !this.host.starts.enter(this)) return;
    this.state = 'starting';
    this.startedAt = this.#now();
    if (this.commons === null) this.host.send([Kind.start, this.spec]);
    else this.commons.settle(this);
    this.#after(LIMITS.actorStartMs, () => this.terminate('unresponsive'));
  }

  attach(link: ThreadLink): LinkHandlers | null {
    if (this.state !== 'starting' || this.#link) return null;
    this.#link = link;
    this.tellSecrets();
    this.tellTime();
    return this;
  }

  /** Frames arrive in order: every call that is sent from now on finds the secrets as they are. */
  tellSecrets(): void {
    const given = this.#given();
    if (given !== null) this.#link?.send([Kind.secrets, given.values, given.unreadable, given.fault]);
  }

  /** In the same order. */
  tellTime(): void {
    if (this.#clock !== undefined) this.#link?.send([Kind.clock, this.#clock.now()]);
  }

  send(call: Call): void {
    call.id = ++this.#lastCallId;
    this.inFlight.set(call.id, call);
    call.attempts++;
    call.sentAt = this.#now();
    this.calls++;
    const { kind, tool, body, span, caller, schema } = call.request;
    call.tracked = null;
    if (schema !== undefined && schema !== this.#schema) {
      this.#schema = schema;
      this.#link?.send([Kind.schemaChanged, 0]);
    }
    const remainingMs = Math.max(0, call.deadline - call.sentAt);
    const traceId = span == null ? call.request.traceId : span.traceparent;
    const asKind = schema === undefined ? kind : ToolKind.tracked;
    const link = this.#link;
    if (link === null) return;
    const number = this.#callers.numberOf(caller, link);
    link.send([Kind.dispatch, call.id, remainingMs, asKind, tool, body, traceId, number]);
  }

  /** The caller waits no longer; the call counts as in flight until the thread is done with it. */
  cancel(call: Call, reason: CancelReason): void {
    this.#link?.send([Kind.cancel, call.id, reason]);
    if (reason !== 'client-gone') {
      this.#probeAlive();
      startGraceTimer(LIMITS.overdueMs, this.#now, () => {
        if (this.inFlight.get(call.id) === call) this.#events.onOverdue(this, call);
      });
    }
    if (this.state === 'draining') this.#stopIfEmpty();
  }

  /** Asks for fresh statistics; resolves when they came or `limitMs` passed. */
  async refreshStats(limitMs: number): Promise<void> {
    if (!this.#link) return;
    this.#link.send([Kind.ping, ++this.#pings]);
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#onPong.delete(done);
        resolve();
      };
      const timer = setTimeout(done, limitMs);
      this.#onPong.add(done);
    });
  }

  /** Lets the calls in flight end, then stops the thread; ends it by force after the drain limit. */
  retire(reason: RetireReason, drainMs: number = LIMITS.drainMs): void {
    if (this.state === 'gone' || this.state === 'draining' || this.state === 'stopping') return;
    this.#retireReason = reason;
    if (this.state === 'placed') {
      this.terminate(reason);
      return;
    }
    this.state = 'draining';
    this.#after(drainMs, () => this.terminate(reason));
    this.#stopIfEmpty();
  }

  /** Ends the thread now: calls in flight are handed back. */
  terminate(reason: RetireReason, detail = ''): void {
    if (this.state === 'gone' || this.#end) return;
    if (this.#retireReason === null) this.#retireDetail = detail;
    this.#retireReason ??= reason;
    if (this.state === 'placed') {
      this.#gone(this.#retireReason, 'not started yet');
      return;
    }
    this.state = 'stopping';
    this.#sendStop(true);
    // A thread inside native code cannot be ended from outside; then its whole process goes.
    this.#after(LIMITS.terminateMs, () => {
      if (this.commons !== null) {
        this.commons.stuck(this);
        return;
      }
      this.stuck = true;
      this.host.kill(`a thread of ${this.key} could not be ended`);
    });
  }

  /** The file that it may have open is not that of its app any more: as `terminate`, and what it read is not answered. */
  discard(): void {
    if (this.state === 'placed' || this.state === 'starting') return;
    this.#isDiscarded = true;
    this.terminate('replaced');
  }

  onFrame(frame: Frame): void {
    switch (frame[0]) {
      case Kind.result:
        if (!isResult(frame)) throw new Error('Not a result.');
        this.#succeeded(frame);
        return;
      case Kind.error:
        if (!isFailure(frame)) throw new Error('Not an error.');
        this.#failed(frame);
        return;
      case Kind.reads:
        this.#read(frame);
        return;
      case Kind.spans:
        this.#traced(frame);
        return;
      case Kind.log:
        if (!isLogLine(frame)) throw new Error('Not a log line.');
        this.#logged(frame);
        return;
      case Kind.ask:
        if (!isAsk(frame) || frame[1] <= this.#lastAskId) throw new Error('Not a question.');
        this.#asked(frame);
        return;
      case Kind.blob:
        if (!isBlobAsk(frame) || this.#isKeeping) throw new Error('Not a file to keep.');
        void this.#blobAsked(frame);
        return;
      case Kind.pong:
        if (typeof frame[2]?.heapUsed !== 'number') throw new Error('Not an answer to a ping.');
        this.stats = frame[2];
        // An answer to an earlier ping, still on its way when the probe was sent, proves nothing.
        if (frame[1] >= this.#probePing) this.#clearProbe();
        for (const done of [...this.#onPong]) done();
        return;
      case Kind.ready:
        this.live();
        return;
      default:
        throw new Error(`An actor may not send frames of kind ${frame[0]}.`);
    }
  }

  /** It takes calls. */
  live(): void {
    if (this.state !== 'starting') return;
    this.state = 'live';
    this.#wasLive = true;
    this.#clear();
    this.host.starts.leave(this);
    this.#events.onLive(this);
  }

  onClose(): void {
    this.#link = null;
    if (this.#end) {
      this.#end();
      return;
    }
    if (this.state === 'gone' || this.state === 'stopping') return;
    // Its host tells why the thread ended; if it does not, the loss of the connection is reason enough.
    this.state = 'stopping';
    this.#after(LIMITS.cancelGraceMs, () => this.terminate('crash'));
  }

  /** The host reports that the thread ended. */
  exited(reason: FrameOf<'exited'>[2], detail: string): void {
    // In the commons this comes after all that it said.
    if (this.commons !== null) this.#link = null;
    const cause = reason === 'memory' ? 'memory' : 'crash';
    this.#ended(this.#retireReason ?? cause, this.#retireDetail || detail, false);
  }

  /** The whole host process ended; or a thread that was not started yet is to run on another host. */
  hostGone(detail: string, endedByHost: boolean): void {
    const cause = this.stuck ? 'the thread could not be ended; its host was killed' : detail;
    this.#ended(this.#retireReason ?? 'crash', cause, endedByHost && !this.stuck);
  }

  /** The commons do not run it any more: it goes on in its own thread for this reason, or in the next commons where that is null. */
  handBack(reason: OwnReason | null, detail: string): void {
    if (this.state === 'gone') return;
    this.#link = null;
    this.#gone(this.#retireReason ?? 'superseded', detail, false, { reason });
  }

  /** The last answers and log lines of the thread may still be on their way: its connection is read to the end first. */
  #ended(reason: RetireReason, detail: string, endedByHost: boolean): void {
    if (this.state === 'gone' || this.#end) return;
    this.state = 'stopping';
    this.#end = () => this.#gone(reason, detail, endedByHost);
    if (this.#link) this.#after(LIMITS.cancelGraceMs, this.#end);
    else this.#end();
  }

  /** Undefined for a number that the thread made up. */
  #take(id: number): Call | undefined {
    const call = this.inFlight.get(id);
    this.inFlight.delete(id);
    if (call !== undefined) this.commons?.answered(this.summary, call.request.tool);
    return call;
  }

  #succeeded([, id, status, body, handlerMs]: FrameOf<'result'>): void {
    // The call is handed back when the thread has ended.
    if (this.#isDiscarded) return;
    const call = this.#take(id);
    if (!call) return;
    if (call.settled) call.outcomeUnknown();
    else {
      const unsettled = this.#events.unsettled();
      if (unsettled === null) call.succeed(status, body, handlerMs);
      else void succeedLater(call, unsettled, status, Buffer.from(body), handlerMs);
    }
    this.#settled(body.length, handlerMs);
  }

  #read(frame: FrameOf<'reads'>): void {
    if (!isReads(frame)) throw new Error('Not what a query read.');
    const [, id, tables, keep, caller] = frame;
    const call = this.inFlight.get(id);
    if (call?.request.schema === undefined) return;
    const reads = { tables: tables === null ? ('all' as const) : new Set(tables), keep, caller };
    call.tracked = { reads, version: this.spec.versionId };
  }

  #traced(frame: FrameOf<'spans'>): void {
    if (!isThreadSpans(frame)) throw new Error('Not the spans of a call.');
    const call = this.inFlight.get(frame[1]);
    const span = call?.request.span;
    if (!call || !span?.sampled || call.traced) return;
    call.traced = true;
    const origin = { process: this.host.name, app: appOfKey(this.spec.app) };
    addThreadSpans(span, frame, origin, { begunAt: toMonotonic(call.sentAt), now: monotonicMs() });
  }

  #failed([, id, error, handlerMs, wrote = false]: FrameOf<'error'>): void {
    const call = this.#take(id);
    if (!call) return;
    if (call.settled || wrote) call.outcomeUnknown();
    const damage = damageIn(error);
    if (damage !== null) void this.#damaged(call, damage, handlerMs);
    else if (!call.settled) call.fail(hostError(error), handlerMs);
    this.#settled(0, handlerMs);
  }

  async #damaged(call: Call, damage: Damage, handlerMs: number): Promise<void> {
    const error = await this.#events.onDamaged(damage);
    if (!call.settled) call.fail(error, handlerMs);
  }

  /** A line of a fire goes to those who follow it as well, until it is answered. */
  #logged([, line, callId]: FrameOf<'log'>): void {
    this.#events.onLog(line);
    const call = callId === undefined ? undefined : this.inFlight.get(callId);
    if (call && !call.settled && line.length <= LIMITS.logLineBytes) call.logged(line);
  }

  /** Hands a question to the caller, who answers it once. Throws when no sound thread would send it. */
  #asked([, askId, callId, verb, payload]: FrameOf<'ask'>): void {
    const call = this.inFlight.get(callId);
    const isNotice = verb === 'notify' && call?.request.kind === ToolKind.action;
    if (!isNotice && !call?.reply.asked) throw new Error('A question of a call that cannot ask.');
    this.#lastAskId = askId;
    if (call.settled) {
      // A fire ends what it has asked by itself.
      if (isNotice) this.#link?.send([Kind.answer, askId, false, Buffer.from(JSON.stringify(CALL_OVER))]);
      return;
    }
    if (++call.openAsks > LIMITS.runNodesAtOnce) throw new Error('Too many questions at once.');
    let answered = false;
    const answer = (ok: boolean, body: Uint8Array): void => {
      if (answered) return;
      answered = true;
      call.openAsks--;
      if (call.settled && !isNotice) return;
      try {
        this.#link?.send([Kind.answer, askId, ok, body]);
      } catch {
        this.#link?.send([Kind.answer, askId, false, TOO_LARGE]);
      }
    };
    if (isNotice) void this.#events.onNotice(payload).then(({ ok, body }) => answer(ok, body));
    else call.asked(verb, payload, answer);
  }

  async #blobAsked([, askId, callId, verb, name, content]: FrameOf<'blob'>): Promise<void> {
    const call = this.inFlight.get(callId);
    this.#isKeeping = true;
    const answer = await (call === undefined || call.settled
      ? { ok: false, value: CALL_OVER }
      : this.#keepBlob(this.spec.app, verb, name, content));
    this.#isKeeping = false;
    this.#link?.send([Kind.blobDone, askId, answer.ok, Buffer.from(JSON.stringify(answer.value))]);
  }

  #settled(resultBytes: number, ms: number): void {
    if (this.state === 'draining') this.#stopIfEmpty();
    this.#events.onSettled(this, resultBytes, ms);
  }

  #sendStop(force: boolean): void {
    const stop: Frame = [Kind.stop, this.spec.actorId, force];
    if (this.commons === null) this.host.send(stop);
    else this.commons.send(this, stop);
  }

  /** A call that was answered already, because its time was up, is not waited for. */
  #stopIfEmpty(): void {
    if (this.answered < this.inFlight.size) return;
    this.state = 'stopping';
    this.#sendStop(false);
    this.#after(LIMITS.terminateMs, () => this.terminate(this.#retireReason ?? 'shutdown'));
  }

  /** After a deadline: a thread whose event loop answers is left alone, one that does not is ended. */
  #probeAlive(): void {
    if (this.#stopProbing || this.state === 'gone') return;
    this.#probePing = ++this.#pings;
    this.#link?.send([Kind.ping, this.#probePing]);
    this.#stopProbing = startGraceTimer(LIMITS.cancelGraceMs, this.#now, () => {
      this.#unresponsive = true;
      this.terminate('deadline', 'its event loop did not react after a call had timed out');
    });
  }

  #gone(reason: RetireReason, detail: string, endedByHost = false, handedBack?: Death['handedBack']): void {
    if (this.state === 'gone') return;
    const startFailed = !this.#wasLive;
    this.state = 'gone';
    this.#clear();
    this.#clearProbe();
    this.host.starts.leave(this);
    this.commons?.forget(this);
    const openCalls = this.inFlight.values();
    this.inFlight.clear();
    const link = this.#link;
    this.#link = null;
    link?.close(new Error('The actor is gone.'));
    for (const done of [...this.#onPong]) done();
    const death = { reason, detail, startFailed, endedByHost, stuck: this.#unresponsive, openCalls };
    this.#events.onGone(this, handedBack === undefined ? death : { ...death, handedBack });
  }

  #after(ms: number, action: () => void): void {
    this.#clear();
    this.#stopWaiting = startGraceTimer(ms, this.#now, action);
  }

  #clear(): void {
    this.#stopWaiting?.();
    this.#stopWaiting = null;
  }

  #clearProbe(): void {
    this.#stopProbing?.();
    this.#stopProbing = null;
  }
}

const CALL_OVER: ErrorBody = { code: 'HANDLER_ERROR', message: 'The call has ended: its ctx can no longer be used.' };

/** The error for a request whose answer does not fit into a frame. */
const TOO_LARGE = Buffer.from(JSON.stringify({ code: 'HANDLER_ERROR', message: 'The answer is too large.' }));

// App code runs in the thread, so what it sends is checked.

function isResult([, , status, body, handlerMs]: FrameOf<'result'>): boolean {
  const valid = Number.isInteger(status) && status >= 200 && status <= 599;
  return valid && body instanceof Uint8Array && typeof handlerMs === 'number';
}

function isFailure([, , error, handlerMs, wrote = false]: FrameOf<'error'>): boolean {
  if (typeof error?.code !== 'string' || typeof error.message !== 'string') return false;
  if (typeof handlerMs !== 'number' || typeof wrote !== 'boolean') return false;
  const { path, issues } = error;
  return (path === undefined || typeof path === 'string') && (issues === undefined || isIssueList(issues));
}

function isIssueList(issues: unknown): boolean {
  if (!Array.isArray(issues) || issues.length > LIMITS.inputIssues) return false;
  return issues.every((issue: Partial<InputIssue> | null) => {
    const { path, message, keyword } = issue ?? {};
    return typeof path === 'string' && typeof message === 'string' && typeof keyword === 'string';
  });
}

function isReads([, id, tables, keep, caller]: FrameOf<'reads'>): boolean {
  if (typeof id !== 'number' || typeof keep !== 'boolean' || typeof caller !== 'boolean') return false;
  if (tables === null) return true;
  if (!Array.isArray(tables) || !tables.every((name) => typeof name === 'string')) return false;
  return tables.reduce((chars, name) => chars + name.length + 1, 0) <= LIMITS.tablesReadChars;
}

function isLogLine([, line, callId]: FrameOf<'log'>): boolean {
  return typeof line === 'string' && (callId === undefined || Number.isSafeInteger(callId));
}

function isAsk([, askId, callId, verb, payload]: FrameOf<'ask'>): boolean {
  if (!Number.isSafeInteger(askId) || !Number.isSafeInteger(callId) || !ASKS.includes(verb)) return false;
  return payload instanceof Uint8Array && payload.length <= LIMITS.askBytes;
}

function isBlobAsk([, askId, callId, verb, name, content]: FrameOf<'blob'>): boolean {
  if (!Number.isSafeInteger(askId) || !Number.isSafeInteger(callId) || typeof name !== 'string') return false;
  if (verb === 'delete') return true;
  return (
    verb === 'put' && isMediaType(name) && content instanceof Uint8Array && content.length <= LIMITS.blobHandlerBytes
  );
}

/** Codes that an actor may answer with; anything else it says is a fault of its handler. */
const ACTOR_CODES = new Set([
  'INVALID_INPUT',
  'HANDLER_ERROR',
  'UNKNOWN_QUERY',
  'UNKNOWN_ACTION',
  'BAD_REQUEST',
  'STORAGE_FULL',
  'STORAGE_UNAVAILABLE',
  'QUOTA_EXCEEDED',
  'INTERNAL',
]);

function hostError(body: ErrorBody): SvcError {
  return errorFromBody(ACTOR_CODES.has(body.code) ? body : { ...body, code: 'HANDLER_ERROR' });
}
