/**
 * Runs queries of live apps, or answers them with kept results. Callers that wait for the same result share one run, as long as
 * nothing was committed since it began (specification, "Kept results").
 */
import type { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { memberBytes } from '../../protocol/rules/json-text.ts';
import { isSameCaller } from '../../protocol/wire/handler-caller.ts';
import type { Meter } from '../operations/metrics/meters.ts';
import type { Reads, Results, RunStart } from '../results/results.ts';
import { type CallReply, type CallTiming, Deadlines, type Timed, type Tracked } from '../tree/actor/call.ts';
import { timedOutShared } from '../tree/actor/call-errors.ts';
import type { Request, Sink, Target } from './request.ts';

/**
 * Runs the query within the time that its caller has since `arrivedAt`. The reply learns what it read, and which version ran,
 * where `schema` is given. Answers a function that abandons it.
 */
export type StartRun = (request: Request, reply: CallReply, arrivedAt: number, schema?: number) => () => void;

/** Finds a run by `place`: its app and key. One in `CachedReads.#runs` has waiters. */
type Run = { readonly place: string; readonly from: RunStart; readonly waiters: Set<Waiter>; abandon: () => void };

/** Milliseconds that only grow, and what tells waiters of their deadlines. */
type Clock = { now(): number; deadlines: Deadlines };

/** For a run that was not tracked. */
const UNKNOWN: Reads = { tables: 'all', keep: false, caller: true };
/** What the handler sees where the call has no input. */
const NO_INPUT = '{}';
const HIT: CallTiming = { queueMs: 0, handlerMs: 0, started: false, cache: 'hit' };

const now = performance.now.bind(performance);

export class CachedReads {
  readonly #results: Results;
  readonly #queryTimeoutMs: number;
  readonly #clock: Clock;
  /** Runs that other callers may join. */
  readonly #runs = new Map<string, Run>();

  constructor(results: Results, queryTimeoutMs: number, clock: Clock = { now, deadlines: new Deadlines(now) }) {
    this.#results = results;
    this.#queryTimeoutMs = queryTimeoutMs;
    this.#clock = clock;
  }

  /** Bytes of all results that are kept. */
  get keptBytes(): number {
    return this.#results.bytes;
  }

  /** `version` is the one that serves the app. Answers a function that abandons the read. */
  submit(
    { app, tool }: Target,
    version: string,
    request: Request,
    sink: Sink,
    start: StartRun,
    meter: Meter,
  ): () => void {
    const name = `${app.key}\0${version}\0${tool.name}`;
    const isAsked = request.body.length <= LIMITS.resultKeyBytes && this.#results.isKept(name);
    const input = isAsked ? inputOf(request.body) : null;
    if (input === null) return this.bypass(app.key, request, sink, start);
    const key = `${version}\0${tool.name}\0${input}`;
    const kept = this.#results.find(app.key, key, request.caller);
    if (kept !== null) {
      meter.keptHits++;
      sink.answered(200, kept.body, HIT, kept.reads);
      return () => {};
    }
    meter.keptMisses++;
    const place = `${app.key}\0${key}`;
    const joined = this.#runs.get(place);
    if (joined !== undefined && this.#results.isCurrent(app.key, joined.from))
      return this.#join(joined, tool.name, request, sink, tool.timeoutMs ?? this.#queryTimeoutMs);
    const from = this.#results.begin(app.key, key);
    if (from === null) return this.bypass(app.key, request, sink, start);
    const first = new Waiter(request, sink, this.#clock.now());
    this.#run(app.key, name, version, { place, from, waiters: new Set([first]), abandon: () => {} }, first, start);
    return () => first.abandon();
  }

  /** The deadline is the caller's own: the run may be lost, or end too late for another one. */
  #join(run: Run, tool: string, request: Request, sink: Sink, allowedMs: number): () => void {
    const { now, deadlines } = this.#clock;
    const waiter = new Waiter(request, sink, now(), allowedMs);
    run.waiters.add(waiter);
    waiter.abandon = () => this.#leave(run, waiter);
    waiter.expire = () => {
      waiter.abandon();
      const timing = { queueMs: now() - waiter.arrivedAt, handlerMs: 0, started: false };
      answer(sink, () => sink.failed(timedOutShared(tool, allowedMs), timing));
    };
    deadlines.add(waiter);
    return () => waiter.abandon();
  }

  #run(app: string, name: string, version: string, run: Run, first: Waiter, start: StartRun): void {
    const { from } = run;
    const { caller } = first.request;
    first.abandon = () => this.#leave(run, first);
    this.#runs.set(run.place, run);
    run.abandon = start(
      first.request,
      {
        result: (status, body, timing, tracked) => {
          const reads = tracked?.reads ?? UNKNOWN;
          if (tracked?.version === version) this.#results.ended(app, name, from, caller, body, reads);
          const shown: CallTiming = { ...timing, cache: reads.keep ? 'miss' : 'bypass' };
          for (const waiter of this.#end(run)) {
            const shares =
              waiter === first || (reads.keep && (!reads.caller || isSameCaller(waiter.request.caller, caller)));
            answer(waiter.sink, () => {
              if (shares) waiter.sink.answered(status, body, shown, reads);
              else this.#runAlone(app, waiter, start);
            });
          }
        },
        failed: (error, timing) => {
          for (const waiter of this.#end(run)) {
            answer(waiter.sink, () => {
              // An error may be about its caller, or about a deadline that is not the others'.
              if (timing.started && waiter !== first) this.#runAlone(app, waiter, start);
              else waiter.sink.failed(error, timing);
            });
          }
        },
        outcomeUnknown: () => {},
        faulted: (error) => {
          for (const { sink } of this.#end(run)) sink.faulted(error);
        },
      },
      first.arrivedAt,
      from.schema,
    );
    // All callers left before it began.
    if (run.waiters.size === 0) run.abandon();
  }

  /** The waiters of a run, which wait for it no more. */
  #end(run: Run): Waiter[] {
    if (this.#runs.get(run.place) === run) this.#runs.delete(run.place);
    const waiters = [...run.waiters];
    run.waiters.clear();
    for (const waiter of waiters) this.#clock.deadlines.delete(waiter);
    return waiters;
  }

  /** The run continues while a caller waits for it. Without one it may never end, so no other may join it. */
  #leave(run: Run, waiter: Waiter): void {
    this.#clock.deadlines.delete(waiter);
    if (!run.waiters.delete(waiter) || run.waiters.size > 0) return;
    this.#end(run);
    run.abandon();
  }

  /** In what is left of its time. */
  #runAlone(app: string, waiter: Waiter, start: StartRun): void {
    waiter.abandon = this.bypass(app, waiter.request, waiter.sink, start, waiter.arrivedAt);
  }

  /** Runs the query past everything that is kept. */
  bypass(
    app: string,
    request: Request,
    sink: Sink,
    start: StartRun,
    arrivedAt: number = this.#clock.now(),
  ): () => void {
    const schema = request.tracked ? this.#results.schemaOf(app) : undefined;
    return start(request, new BypassReply(sink), arrivedAt, schema);
  }
}

/** Waits for a run: the caller that it was begun for, or one that joined it. */
class Waiter implements Timed {
  readonly request: Request;
  readonly sink: Sink;
  readonly arrivedAt: number;
  readonly deadline: number;
  place = -1;
  abandon = (): void => {};
  expire = (): void => {};

  constructor(request: Request, sink: Sink, arrivedAt: number, allowedMs = Number.POSITIVE_INFINITY) {
    this.request = request;
    this.sink = sink;
    this.arrivedAt = arrivedAt;
    this.deadline = arrivedAt + allowedMs;
  }
}

class BypassReply implements CallReply {
  readonly #sink: Sink;

  constructor(sink: Sink) {
    this.#sink = sink;
  }

  result(status: number, body: Uint8Array, timing: CallTiming, tracked: Tracked | null): void {
    timing.cache = 'bypass';
    this.#sink.answered(status, body, timing, tracked?.reads ?? UNKNOWN);
  }

  failed(error: SvcError, timing: CallTiming): void {
    this.#sink.failed(error, timing);
  }

  /** A query writes nothing. */
  outcomeUnknown(): void {}

  faulted(error: unknown): void {
    this.#sink.faulted(error);
  }
}

/**
 * The bytes of the input as the handler gets them: it sees the order of members, and -0, which is equal to 0. Null for one that
 * nests too deep.
 */
function inputOf(body: Uint8Array): string | null {
  return body.length === 0 ? NO_INPUT : memberBytes(body, 'input', NO_INPUT);
}

/** An error of one answer affects only its own caller. */
function answer(sink: Sink, say: () => void): void {
  try {
    say();
  } catch (error) {
    sink.faulted(error);
  }
}
