/**
 * Keeps the result of one query and input current for its followers: runs the query again after a write to tables that it read,
 * and sends each follower the newest state (specification, "Live queries").
 *
 *   stale ─start→ waiting (for its turn) ─→ running ─→ current; written meanwhile: stale again
 */
import { hash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { errorEnvelope, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { type HandlerCaller, isSameCaller } from '../../protocol/wire/handler-caller.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import type { Scope } from '../dispatch/scope.ts';
import type { Written } from '../results/commits.ts';
import type { Reads } from '../results/results.ts';
import { newTraceId } from '../tree/actor/call.ts';

/** The followed query, as this caller sees it. `input` is JSON text as its client wrote it. */
export type LiveRequest = {
  scope: Scope;
  query: string;
  input: string;
  caller: HandlerCaller;
  /** The client whose subscriptions are counted. Two clients share a query. */
  client: string;
};

/** A state of a query: its result, or why there is none. */
export type LiveState = {
  /** The hash of the result or of the error. */
  readonly id: string;
  readonly event: 'data' | 'error';
  /** The state as JSON text in one line without the opening brace: `"data":…,"seq":1}`, or the error envelope. */
  readonly json: Buffer;
  readonly error: SvcError | null;
};

/** Gets the states of a query. Neither member throws. */
export type LiveFollower = {
  /** Gets each state that the follower has not seen, and perhaps one that it has. The newest comes last. */
  tell(state: LiveState): void;
  /** Ends the follower, because the app is gone or the gateway stops. No state follows. */
  closed(): void;
};

/** A follower of a query. It sees what this caller sees. */
export type LiveMember = { readonly caller: HandlerCaller; readonly follower: LiveFollower };

export type LiveClock = {
  /** A clock in milliseconds since the epoch. */
  now(): number;
  /** A clock in milliseconds that only grows. */
  elapsed(): number;
  /** Calls back once. Answers a function that cancels it. */
  after(ms: number, run: () => void): () => void;
};

/** What the live queries of a gateway share. */
export type LiveParts = {
  readonly clock: LiveClock;
  readonly dispatcher: Dispatcher;
  /** Whether the notes of all commits to the app's data have arrived. Those that have not will. */
  isUpToDate(key: string): boolean;
  /** Moves these followers to a separate query for each caller, because the result depends on the caller. */
  takeOver(members: LiveMember[], from: LiveRequest): void;
  /** Calls `start` when the query may run, at once or later. `done` gives the place back. */
  waitForPlace(key: string, start: (done: () => void) => void): void;
  /** Counts the bytes of a result that is to be kept. False: there is no room for them. */
  reserve(bytes: number): boolean;
  release(bytes: number): void;
};

type UnsentState = { state: LiveState; asOf: number };

const UNKNOWN: Reads = { tables: 'all', keep: false, caller: true };
const NEWLINE = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;

export class LiveQuery {
  readonly request: LiveRequest;
  readonly #parts: LiveParts;
  /** Each follower, with the value of `#clock` since which it follows. It gets no older state. */
  readonly #members = new Map<LiveMember, number>();
  /** True where the result depends on the caller. */
  #personal = false;
  /** Counts what happens, so that states and followers have an order. */
  #clock = 0;
  /** The newest result. It is null before the first one, and when it is too large to be kept. */
  #state: LiveState | null = null;
  #keptBytes = 0;
  #lastId = '';
  #seq: number;
  /** The tables that the latest run read. */
  #reads: Written = 'all';
  /** The tables that were written since the latest run began, while its tables are unknown. */
  #written: Set<string> | 'all' = 'all';
  /** True where something that was read may have been written since the latest run began. */
  #stale = true;
  #phase: 'idle' | 'waiting' | 'running' = 'idle';
  #startedAt = Number.NEGATIVE_INFINITY;
  /** When the latest run began, by `#clock`. */
  #begunAt = 0;
  /** The time for which the newest state holds, by `#clock`. */
  #asOf = 0;
  /** The least time between two runs. It grows with the time that sending a state to all followers takes. */
  #intervalMs: number = LIMITS.liveIntervalMs;
  #failures = 0;
  /** Cancels the next run, which waits for the interval, for a failure to pass, or for `refreshSeconds` of the manifest. */
  #cancelNext: () => void = () => {};
  #isSending = false;
  /** The newest state, while some followers may not have it. */
  #unsent: UnsentState | null = null;
  #refreshSeconds: number | undefined;
  #abandon: (() => void) | null = null;
  #done: (() => void) | null = null;
  #closed = false;

  constructor(request: LiveRequest, parts: LiveParts) {
    this.request = request;
    this.#parts = parts;
    // Microseconds, as for the numbers of changes. So they also grow over restarts, and while there are no followers.
    this.#seq = parts.clock.now() * 1000;
  }

  get followers(): number {
    return this.#members.size;
  }

  /** Whether the query serves its own caller alone, because its result depends on the caller. */
  get personal(): boolean {
    return this.#personal;
  }

  /** Adds a follower. It gets its first state after this returns. That state is no older than this call. */
  add(member: LiveMember): void {
    // The new follower may know of a write whose note has not arrived.
    if (!this.#parts.isUpToDate(this.request.scope.key)) this.invalidate();
    const isRunning = this.#phase === 'running';
    if (this.#stale || (isRunning && intersects('all', this.#written))) this.#members.set(member, ++this.#clock);
    else this.#members.set(member, isRunning ? this.#begunAt : 0);
    if (isRunning) return;
    if (this.#state === null || this.#stale) this.invalidate();
    else queueMicrotask(() => this.#sendTo(member));
  }

  delete(member: LiveMember): void {
    this.#members.delete(member);
  }

  /** Has the query run again after any write. */
  invalidate(): void {
    this.#stale = true;
    this.#schedule();
  }

  /** Has the query run again if it reads any of these tables. */
  tablesWritten(tables: Written): void {
    if (this.#phase === 'running') this.#written = union(this.#written, tables);
    else if (intersects(this.#reads, tables)) this.invalidate();
  }

  /** Sends the newest state to a follower that could not take it before. */
  sendAgain(member: LiveMember): void {
    if (this.#state === null) this.invalidate();
    else this.#sendTo(member);
  }

  #sendTo(member: LiveMember): void {
    const since = this.#members.get(member);
    if (this.#state !== null && since !== undefined && since <= this.#asOf) member.follower.tell(this.#state);
  }

  /** Ends the query and its followers. */
  close(): void {
    this.#closed = true;
    const members = [...this.#members.keys()];
    this.#members.clear();
    for (const { follower } of members) follower.closed();
    this.#cancelNext();
    this.#abandon?.();
    this.#givePlaceBack();
    this.#dropState();
  }

  #schedule(): void {
    if (this.#closed || this.#phase !== 'idle') return;
    this.#cancelNext();
    const wait = this.#startedAt + this.#intervalMs - this.#parts.clock.elapsed();
    if (wait > 0) this.#cancelNext = this.#parts.clock.after(wait, () => this.#waitForPlace());
    else this.#waitForPlace();
  }

  #waitForPlace(): void {
    if (this.#closed || this.#phase !== 'idle') return;
    this.#cancelNext();
    this.#phase = 'waiting';
    this.#parts.waitForPlace(this.request.scope.key, (done) => {
      if (this.#closed) {
        done();
        return;
      }
      this.#done = done;
      this.#phase = 'running';
      void this.#run();
    });
  }

  async #run(): Promise<void> {
    const { scope, query, input, caller } = this.request;
    const { dispatcher } = this.#parts;
    // After this, all other listeners have the note of this write, and `add` has returned.
    await null;
    this.#startedAt = this.#parts.clock.elapsed();
    // Where notes are missing, this asks for them: later a note says that everything was written.
    this.#parts.isUpToDate(scope.key);
    this.#stale = false;
    this.#written = new Set();
    this.#begunAt = ++this.#clock;
    try {
      const target = await dispatcher.resolve(scope, 'query', query);
      if (this.#closed) return;
      if (target.kind === 'query') this.#refreshSeconds = target.tool.refreshSeconds;
      const body = Buffer.from(`{"input":${input}}`);
      this.#abandon = dispatcher.submit(
        target,
        {
          body,
          traceId: newTraceId,
          source: 'handler',
          caller,
          tracked: true,
        },
        {
          answered: (_status, json, _timing, reads) => this.#succeed(json, reads),
          failed: (error, { started }) => this.#fail(error, started),
          faulted: () =>
            this.#fail(new SvcError('INTERNAL', 'The gateway failed on this query; its log has the details.')),
        },
      );
    } catch (error) {
      this.#fail(error instanceof SvcError ? error : new SvcError('INTERNAL', 'The gateway failed on this query.'));
    }
  }

  #succeed(json: Uint8Array, reads: Reads = UNKNOWN): void {
    this.#failures = 0;
    this.#reads = reads.tables;
    if (reads.caller) this.#makePersonal();
    const id = idOf(json);
    if (id !== this.#lastId) this.#seq += 1;
    this.#end({ id, event: 'data', json: resultText(json, this.#seq), error: null });
  }

  /** `ran`: the handler may have run, and may have read anything. */
  #fail(error: SvcError, ran = false): void {
    this.#failures += 1;
    this.#reads = 'all';
    if (ran) this.#makePersonal();
    // Followers that have a result do not need to know that a mailbox is full for a moment.
    if (error.code === 'OVERLOADED' && this.#state !== null && this.#phase === 'running') {
      this.#givePlaceBack();
      this.#stale = true;
      this.#startIn(this.#backoffMs());
      return;
    }
    const text = Buffer.from(JSON.stringify(errorEnvelope(error.toBody())));
    this.#end({ id: idOf(text), event: 'error', json: text.subarray(1), error });
  }

  #end(state: LiveState): void {
    if (this.#phase !== 'running') return;
    this.#givePlaceBack();
    this.#stale ||= intersects(this.#reads, this.#written);
    // Without writes since the run began, the result still holds at its end.
    this.#asOf = this.#stale ? this.#begunAt : ++this.#clock;
    this.#lastId = state.id;
    this.#keepState(state);
    void this.#sendToAll({ state, asOf: this.#asOf });
    if (this.#stale) this.#schedule();
    else this.#plan(state);
  }

  /** Moves the followers of other callers to queries of their own: they must not see this state. */
  #makePersonal(): void {
    if (this.#personal) return;
    this.#personal = true;
    const { caller } = this.request;
    const others = [...this.#members.keys()].filter((member) => !isSameCaller(member.caller, caller));
    for (const member of others) this.#members.delete(member);
    this.#parts.takeOver(others, this.request);
  }

  /** Gives the query's place among those that run to the next one. */
  #givePlaceBack(): void {
    this.#phase = 'idle';
    this.#abandon = null;
    this.#done?.();
    this.#done = null;
  }

  /** Sets the time of the next run where no write causes one. */
  #plan({ error }: LiveState): void {
    if (error !== null && error.status >= 500) this.#startIn(this.#backoffMs());
    else if (this.#refreshSeconds !== undefined) this.#startIn(this.#refreshSeconds * 1000);
  }

  #startIn(ms: number): void {
    if (!this.#closed) this.#cancelNext = this.#parts.clock.after(ms, () => this.invalidate());
  }

  #backoffMs(): number {
    return Math.min(LIMITS.liveRetryMs * 2 ** (this.#failures - 1), LIMITS.liveRetryMaxMs);
  }

  #keepState(state: LiveState): void {
    if (state === this.#state) return;
    this.#dropState();
    if (!this.#parts.reserve(state.json.length)) return;
    this.#state = state;
    this.#keptBytes = state.json.length;
  }

  #dropState(): void {
    this.#parts.release(this.#keptBytes);
    this.#keptBytes = 0;
    this.#state = null;
  }

  /**
   * Sends a state to all followers, in several turns of the event loop where they are many, so that other work goes on. A newer state
   * replaces it under way.
   */
  async #sendToAll(news: UnsentState): Promise<void> {
    this.#unsent = news;
    if (this.#isSending) return;
    this.#isSending = true;
    const begun = this.#parts.clock.elapsed();
    let turn = begun;
    let count = 0;
    while (this.#unsent !== null) {
      const first = this.#unsent;
      this.#unsent = null;
      for (const [{ follower }, since] of this.#members) {
        const { state, asOf } = (this.#unsent ?? first) as UnsentState;
        if (since <= asOf) follower.tell(state);
        count += 1;
        if (count % FOLLOWERS_BETWEEN_LOOKS === 0 && this.#parts.clock.elapsed() - turn > LIMITS.turnMs) {
          await nextTurn();
          turn = this.#parts.clock.elapsed();
        }
      }
    }
    this.#isSending = false;
    // So sending takes half of the time at most.
    this.#intervalMs = Math.max(LIMITS.liveIntervalMs, 2 * (this.#parts.clock.elapsed() - begun));
  }
}

const FOLLOWERS_BETWEEN_LOOKS = 64;

function union(one: Set<string> | 'all', other: Written): Set<string> | 'all' {
  if (one === 'all' || other === 'all') return 'all';
  for (const table of other) one.add(table);
  return one;
}

function intersects(one: Written, other: Written): boolean {
  if (one === 'all') return other === 'all' || other.size > 0;
  if (other === 'all') return true;
  for (const table of other) if (one.has(table)) return true;
  return false;
}

/** 96 bits of the hash: no two results of a query are taken for one. */
function idOf(json: Uint8Array): string {
  return hash('sha256', json, 'base64url').slice(0, 16);
}

function resultText(json: Uint8Array, seq: number): Buffer {
  const text = Buffer.concat([Buffer.from('"data":'), json, Buffer.from(`,"seq":${seq}}`)]);
  // Between values of JSON a line end is white space. In an event stream it would end the field.
  if (!text.includes(NEWLINE) && !text.includes(RETURN)) return text;
  for (let at = 0; at < text.length; at++) if (text[at] === NEWLINE || text[at] === RETURN) text[at] = SPACE;
  return text;
}
