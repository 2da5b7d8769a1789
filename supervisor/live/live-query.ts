/**
 * Keeps the result of one query and input right for all who follow it: runs the query again when what it read was written, and
 * tells each follower the newest state (decisions, section 13).
 *
 *   stale ─start→ waiting (for its turn) ─→ running ─→ current; written meanwhile: stale again
 */
import { hash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { errorEnvelope, SvcError } from '../../protocol/errors.ts';
import type { HandlerCaller } from '../../protocol/handler-caller.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Dispatcher } from '../dispatch/dispatcher.ts';
import { newTraceId } from '../tree/actor/call.ts';

/** What is followed: a query of an app, or of a draft, as this caller sees it. `input` is JSON text in its canonical form. */
export type LiveRequest = {
  dispatcher: Dispatcher;
  /** As callers name the app; `key` is what its events are kept under. */
  app: string;
  key: string;
  query: string;
  input: string;
  caller: HandlerCaller;
  /** Who follows, where a limit is one client's; no part of what is followed. */
  client: string;
};

/** A result, or why there is none. */
export type LiveState = {
  /** Hash of the result or of the error. */
  readonly id: string;
  readonly event: 'data' | 'error';
  /** JSON text without the opening brace: `"data":…,"seq":1}` or that of the error envelope; in one line. */
  readonly json: Buffer;
  readonly error: SvcError | null;
};

/** Neither throws. */
export type LiveFollower = {
  /** Each state that it has not seen, and perhaps one that it has; the newest last. */
  tell(state: LiveState): void;
  /** The app is gone, or the gateway stops: nothing more is told. */
  closed(): void;
};

/** What the queries of a gateway share. */
export type LiveRoom = {
  now(): number;
  /** Calls back when the query may run, at once or later; `done` gives the place back. */
  enter(key: string, start: (done: () => void) => void): void;
  /** Counts bytes of kept results; false when they have to go. */
  keep(bytes: number): boolean;
  release(bytes: number): void;
};

const NEWLINE = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;

export class LiveQuery {
  readonly request: LiveRequest;
  readonly #room: LiveRoom;
  readonly #followers = new Set<LiveFollower>();
  /** Null before the first result, and when it is too large to be kept. */
  #state: LiveState | null = null;
  #keptBytes = 0;
  #lastId = '';
  #seq: number;
  /** Something it read may have been written since the latest run began. */
  #stale = true;
  #phase: 'idle' | 'waiting' | 'running' = 'idle';
  #startedAt = Number.NEGATIVE_INFINITY;
  /** At least between two runs. Grows with what it takes to tell everybody. */
  #intervalMs: number = LIMITS.liveIntervalMs;
  #failures = 0;
  /** Starts the next run: after the interval, after a failure, or because the manifest says `refreshSeconds`. */
  #timer: NodeJS.Timeout | undefined;
  #telling = false;
  /** The newest state that somebody may not have been told. */
  #news: LiveState | null = null;
  #refreshSeconds: number | undefined;
  #abandon: (() => void) | null = null;
  #done: (() => void) | null = null;
  #closed = false;

  constructor(request: LiveRequest, room: LiveRoom) {
    this.request = request;
    this.#room = room;
    // Microseconds, as the numbers of changes: they also grow over restarts, and when nobody followed for a while.
    this.#seq = room.now() * 1000;
  }

  get followers(): number {
    return this.#followers.size;
  }

  /** Its first state is told later, never before this returns. */
  add(follower: LiveFollower): void {
    this.#followers.add(follower);
    // The state of before a run that is under way may be from before a write that the new follower knows of.
    if (this.#phase === 'running' && !this.#stale) return;
    if (this.#state === null || this.#stale) this.invalidate();
    else queueMicrotask(() => this.#tellOne(follower));
  }

  delete(follower: LiveFollower): void {
    this.#followers.delete(follower);
  }

  /** What it read may have been written. */
  invalidate(): void {
    this.#stale = true;
    this.#schedule();
  }

  /** Tells one that could not take it before the newest state. */
  repeat(follower: LiveFollower): void {
    if (this.#state === null) this.invalidate();
    else this.#tellOne(follower);
  }

  #tellOne(follower: LiveFollower): void {
    if (this.#state !== null && this.#followers.has(follower)) follower.tell(this.#state);
  }

  /** Ends it: nothing runs any more. */
  close(): void {
    this.#closed = true;
    const followers = [...this.#followers];
    this.#followers.clear();
    for (const follower of followers) follower.closed();
    clearTimeout(this.#timer);
    this.#abandon?.();
    this.#leave();
    this.#forget();
  }

  #schedule(): void {
    if (this.#closed || this.#phase !== 'idle') return;
    clearTimeout(this.#timer);
    const wait = this.#startedAt + this.#intervalMs - performance.now();
    if (wait > 0) this.#timer = setTimeout(() => this.#enter(), wait);
    else this.#enter();
  }

  #enter(): void {
    if (this.#closed || this.#phase !== 'idle') return;
    clearTimeout(this.#timer);
    this.#phase = 'waiting';
    this.#room.enter(this.request.key, (done) => {
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
    const { dispatcher, app, query, input, caller } = this.request;
    // Whoever else hears of the write that this run is for has heard of it then, and nobody is told anything before `add` returns.
    await null;
    this.#startedAt = performance.now();
    this.#stale = false;
    try {
      const target = await dispatcher.resolve(app, 'query', query);
      if (this.#closed) return;
      if (target.kind === 'query') this.#refreshSeconds = target.tool.refreshSeconds;
      const body = Buffer.from(`{"input":${input}}`);
      this.#abandon = dispatcher.submit(
        target,
        { body, input: JSON.parse(input) as unknown, traceId: newTraceId(undefined), source: 'handler', caller },
        {
          answered: (_status, json) => this.#succeed(json),
          failed: (error) => this.#fail(error),
          faulted: () =>
            this.#fail(new SvcError('INTERNAL', 'The gateway failed on this query; its log has the details.')),
        },
      );
    } catch (error) {
      this.#fail(error instanceof SvcError ? error : new SvcError('INTERNAL', 'The gateway failed on this query.'));
    }
  }

  #succeed(json: Uint8Array): void {
    this.#failures = 0;
    const id = idOf(json);
    if (id !== this.#lastId) this.#seq += 1;
    this.#end({ id, event: 'data', json: resultText(json, this.#seq), error: null });
  }

  #fail(error: SvcError): void {
    this.#failures += 1;
    // A mailbox that is full for a moment is no news to those who have a result.
    if (error.code === 'OVERLOADED' && this.#state !== null && this.#phase === 'running') {
      this.#leave();
      this.#stale = true;
      this.#startIn(this.#backoffMs());
      return;
    }
    const text = Buffer.from(JSON.stringify(errorEnvelope(error.toBody())));
    this.#end({ id: idOf(text), event: 'error', json: text.subarray(1), error });
  }

  #end(state: LiveState): void {
    if (this.#phase !== 'running') return;
    this.#leave();
    this.#lastId = state.id;
    this.#take(state);
    void this.#tell(state);
    if (this.#stale) this.#schedule();
    else this.#plan(state);
  }

  /** Gives the place back in which it ran. */
  #leave(): void {
    this.#phase = 'idle';
    this.#abandon = null;
    this.#done?.();
    this.#done = null;
  }

  /** The next run that no write asks for. */
  #plan({ error }: LiveState): void {
    if (error !== null && error.status >= 500) this.#startIn(this.#backoffMs());
    else if (this.#refreshSeconds !== undefined) this.#startIn(this.#refreshSeconds * 1000);
  }

  #startIn(ms: number): void {
    if (!this.#closed) this.#timer = setTimeout(() => this.invalidate(), ms);
  }

  #backoffMs(): number {
    return Math.min(LIMITS.liveRetryMs * 2 ** (this.#failures - 1), LIMITS.liveRetryMaxMs);
  }

  #take(state: LiveState): void {
    if (state === this.#state) return;
    this.#forget();
    if (!this.#room.keep(state.json.length)) return;
    this.#state = state;
    this.#keptBytes = state.json.length;
  }

  #forget(): void {
    this.#room.release(this.#keptBytes);
    this.#keptBytes = 0;
    this.#state = null;
  }

  /** Many followers are told in several turns, so that other work goes on between. One at a time; the newest state wins. */
  async #tell(state: LiveState): Promise<void> {
    this.#news = state;
    if (this.#telling) return;
    this.#telling = true;
    const begun = performance.now();
    let turn = begun;
    let told = 0;
    while (this.#news !== null) {
      const first = this.#news;
      this.#news = null;
      for (const follower of this.#followers) {
        follower.tell(this.#news ?? first);
        told += 1;
        if (told % TOLD_BETWEEN_LOOKS === 0 && performance.now() - turn > LIMITS.turnMs) {
          await nextTurn();
          turn = performance.now();
        }
      }
    }
    this.#telling = false;
    // Telling takes a quarter of the time at most.
    this.#intervalMs = Math.max(LIMITS.liveIntervalMs, 4 * (performance.now() - begun));
  }
}

const TOLD_BETWEEN_LOOKS = 64;

/** 96 bits: enough that no two results of a query are taken for one. */
function idOf(json: Uint8Array): string {
  return hash('sha256', json, 'base64url').slice(0, 16);
}

function resultText(json: Uint8Array, seq: number): Buffer {
  const text = Buffer.concat([Buffer.from('"data":'), json, Buffer.from(`,"seq":${seq}}`)]);
  // Between values of JSON a line end is white space; in an event stream it would end the field.
  if (!text.includes(NEWLINE) && !text.includes(RETURN)) return text;
  for (let at = 0; at < text.length; at++) if (text[at] === NEWLINE || text[at] === RETURN) text[at] = SPACE;
  return text;
}
