/**
 * Dispatches calls of tools of live apps and drafts, for HTTP, agents and `ctx.tool` (specification, "Dispatcher"). `resolve`
 * finds the tool, `submit` runs it, `announce` sends an action's changes to subscribers before its answer leaves, `remember` runs
 * an action under an idempotency key and records its answer.
 */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import { membersOf } from '../../protocol/rules/json-text.ts';
import { SqlStatus, ToolKind } from '../../protocol/wire/frames.ts';
import { causeOf } from '../../protocol/wire/handler-caller.ts';
import { isMigrated } from '../../storage/apps/app-data.ts';
import type { Config } from '../config.ts';
import type { Commits } from '../results/commits.ts';
import type { Secrets } from '../secrets.ts';
import type { SqlProcesses } from '../sql/sql-processes.ts';
import type { Span } from '../tracing/span.ts';
import type { Tracing } from '../tracing/tracing.ts';
import { Call, type CallReply, type CallTiming } from '../tree/actor/call.ts';
import type { CachedReads, StartRun } from './cached-reads.ts';
import type { Change, ChangeStreams } from './change-streams.ts';
import { confirmationOf } from './confirmation.ts';
import type { Idempotency, IdempotencyKey, RecordedAnswer } from './idempotency.ts';
import type { Confirmation, Request, Sink, Target } from './request.ts';
import { demandRole } from './roles.ts';
import type { App, Scope } from './scope.ts';

export type DispatcherOptions = {
  changes: ChangeStreams;
  commits: Commits;
  reads: CachedReads;
  idempotency: Idempotency;
  sql: SqlProcesses;
  secrets: Secrets;
  tracing: Tracing | null;
  config: Config;
};

export type { Request, Sink, Target } from './request.ts';

/** What made a change: which kind of code, and who called it. */
type Cause = Pick<Request, 'source' | 'caller'>;

/** Where the answer of an action goes that is recorded under its idempotency key first. */
export type RecordedSink = Pick<Sink, 'failed' | 'faulted'> & {
  /** The whole answer to record, of what the action answered or failed with. */
  answerOf(status: number, body: Uint8Array): RecordedAnswer;
  errorOf(error: SvcError): RecordedAnswer;
  /** `timing` is null for the answer of an earlier call. */
  recorded(answer: RecordedAnswer, timing: CallTiming | null): void;
};

/** Codes after which a key may be used again: the handler did not run, or the disk had no room for what it wrote. */
const NOT_RUN = new Set(['UNKNOWN_ACTION', 'INVALID_INPUT', 'STORAGE_FULL']);

/** Nobody knows what is stored: "try again" would be the answer for a day. */
const UNKNOWN = 'STORAGE_UNAVAILABLE';

export class Dispatcher {
  readonly #options: DispatcherOptions;

  constructor(options: DispatcherOptions) {
    this.#options = options;
  }

  /**
   * The tool; at once when the app was used before. Throws or rejects with the app's error, `UNKNOWN_QUERY`, `UNKNOWN_ACTION`, or
   * `WRONG_KIND`.
   */
  resolve(scope: Scope, kind: Target['kind'], name: string): Target | Promise<Target> {
    const app = scope.get();
    return app instanceof Promise ? app.then((found) => targetOf(found, kind, name)) : targetOf(app, kind, name);
  }

  /**
   * Runs a tool; its time runs from now on, or once a person has allowed it. Answers a function that abandons the call. Throws
   * `FORBIDDEN` where the role of a person does not allow it.
   */
  submit(target: Target, request: Request, sink: Sink): () => void {
    demandRole(target, request.caller);
    const { app, kind } = target;
    const asked = confirmationOf(target, request);
    if (asked !== null) return this.#submitConfirmed(target, request, asked, sink);
    const actor = app.actor();
    if (kind === 'action') {
      const call = this.#callOf(target, request, new AnnouncedReply(this, target, request, sink), performance.now());
      actor.submit(call);
      return () => actor.abandon(call);
    }
    const start: StartRun = (run, reply, arrivedAt, schema) => {
      const call = this.#callOf(target, run, reply, arrivedAt, schema);
      actor.submit(call);
      return () => actor.abandon(call);
    };
    const { reads } = this.#options;
    const { versionId, cache } = actor.summary;
    // Only the app knows what else such a query reads.
    if (cache === false)
      return reads.bypass(app.key, request.tracked ? { ...request, tracked: false } : request, sink, start);
    // Of a draft none are kept. A quarantined app answers its error even if some are.
    if (app.key !== app.id || actor.refusal !== null) return reads.bypass(app.key, request, sink, start);
    return reads.submit(target, versionId, request, sink, start, actor.meter);
  }

  #submitConfirmed(target: Target, request: Request, asked: Confirmation, sink: Sink): () => void {
    const left = new AbortController();
    let abandon = () => left.abort();
    const run = async (): Promise<void> => {
      await request.confirm?.(asked, left.signal);
      const { confirm: _, ...allowed } = request;
      if (!left.signal.aborted) abandon = this.submit(target, allowed, sink);
    };
    run().catch((error: unknown) => sink.faulted(error));
    return () => abandon();
  }

  /**
   * Runs an action once for a key, also when its caller leaves, because a retry needs its answer. `input` distinguishes a
   * repetition from another call, see `Idempotency.claim`. Rejects as that does.
   */
  async remember(
    target: Target,
    own: Pick<IdempotencyKey, 'caller' | 'key'>,
    input: unknown,
    request: Request,
    sink: RecordedSink,
  ): Promise<void> {
    demandRole(target, request.caller);
    const { idempotency } = this.#options;
    const { app, tool } = target;
    const key: IdempotencyKey = { app: app.key, action: tool.name, ...own };
    const faulted = (error: unknown) => sink.faulted(error);
    const record = (answer: RecordedAnswer, timing: CallTiming) =>
      void idempotency
        .record(key, answer)
        .then(() => sink.recorded(answer, timing))
        .catch(faulted);
    // Made now, because its time runs from here.
    const recorded: Sink = {
      answered: (status, body, timing) => record(sink.answerOf(status, body), timing),
      failed: (error, timing) => {
        if (!timing.started || NOT_RUN.has(error.code))
          idempotency
            .release(key)
            .then(() => sink.failed(error, timing))
            .catch(faulted);
        else if (error.code === UNKNOWN) {
          idempotency.leave(key);
          sink.failed(error, timing);
        } else record(sink.errorOf(error), timing);
      },
      faulted,
    };
    const reply = new AnnouncedReply(this, target, request, recorded);
    const asked = confirmationOf(target, request);
    const make = () => this.#callOf(target, request, reply, performance.now());
    let call = asked === null ? make() : null;
    let known: RecordedAnswer | null;
    try {
      known = await idempotency.claim(key, input);
    } catch (error) {
      call?.refuse(error);
      throw error;
    }
    if (known) {
      call?.request.span?.set('svc.replayed', true);
      call?.drop();
      sink.recorded(known, null);
      return;
    }
    try {
      // A repetition of what ran has its answer; any other is asked again.
      if (asked !== null) await request.confirm?.(asked);
      call ??= make();
      app.actor().submit(call);
    } catch (error) {
      (call ?? make()).fail(error as SvcError);
    }
  }

  /**
   * Runs one SQL statement of a caller's own: `body` is JSON text with `sql`, `params` and `mode`, see `sql-tool.ts`. No thread
   * of the app takes part. Subscribers hear of the tables that it wrote, for the person `by`. Rejects with the app's error.
   */
  async sql(
    scope: Scope,
    { body, traceId, source, by }: Pick<Request, 'body' | 'traceId' | 'source'> & Pick<Change, 'by'>,
    sink: Sink,
  ): Promise<() => void> {
    const { commits, changes, secrets, sql } = this.#options;
    const app = await scope.get();
    const { refusal, summary } = app.actor();
    if (refusal !== null) throw refusal;
    const { span } = this.#trace(app, 'sql', 'sql', traceId);
    const redactor = secrets.redactor(app.key);
    return sql.run(
      app.key,
      { body, migrated: isMigrated(app.key, summary) },
      {
        result: (status, answer, timing) => {
          span?.end();
          commits.acknowledging();
          if (status === SqlStatus.wrote) this.#announceSql(app, answer, { source, by });
          sink.answered(200, redactor.json(answer), timing);
        },
        failed: (error, timing) => {
          span?.fail(error.code);
          span?.end();
          sink.failed(new SvcError(error.code, redactor.text(error.message), error), timing);
        },
        outcomeUnknown: () => {
          commits.changed(app.key);
          changes.reset(app.key);
        },
        faulted: (error) => sink.faulted(error),
      },
    );
  }

  /** Tells the subscribers of an app what an action that answered with this status wrote. */
  announce({ app, kind, tool }: Target, status: number, { source, caller }: Cause): void {
    if (kind === 'query') return;
    this.#options.commits.acknowledging();
    if (status >= 400) return;
    const { by } = causeOf(caller);
    for (const table of tool.writes) this.#options.changes.emit(app.key, { table, action: tool.name, source, by });
  }

  /** Subscribers are told to read everything again: what was written is not known. */
  announceUnknown({ app }: Target): void {
    this.#options.changes.reset(app.key);
  }

  /** One event for each table that a statement wrote; a `reset` where its answer does not name them. */
  #announceSql({ key }: App, answer: Uint8Array, { source, by }: Pick<Change, 'source' | 'by'>): void {
    const { changes } = this.#options;
    const text = membersOf(answer, ['tables'])?.get('tables');
    const tables: unknown = text === undefined ? null : JSON.parse(Buffer.from(text).toString());
    if (!isTableList(tables)) changes.reset(key);
    else for (const table of tables) changes.emit(key, { table, action: 'sql', source, by });
  }

  /** Its time runs from `arrivedAt`. `schema` is given for a query that is to say what it read. */
  #callOf(
    { app, kind, tool }: Target,
    { body, traceId, caller }: Request,
    reply: CallReply,
    arrivedAt: number,
    schema?: number,
  ): Call {
    const { config } = this.#options;
    const allowedMs = tool.timeoutMs ?? (kind === 'query' ? config.queryTimeoutMs : config.actionTimeoutMs);
    const { traceId: id, span } = this.#trace(app, kind, tool.name, traceId);
    const request = { kind: ToolKind[kind], tool: tool.name, body, traceId: id, span, caller, allowedMs, schema };
    return new Call(request, reply, arrivedAt);
  }

  /** The span of a call, from its place in the mailbox to its end. */
  #trace({ id }: App, kind: string, tool: string, traceOf: () => string): { traceId: string; span: Span | null } {
    const { tracing } = this.#options;
    const traceId = traceOf();
    if (tracing === null) return { traceId, span: null };
    const span = tracing.start(`${kind} ${id}.${tool}`, 'internal', traceId);
    span.set('svc.app', id);
    span.set('svc.tool', tool);
    return { traceId: span.traceId, span };
  }
}

function targetOf(app: App, kind: Target['kind'], name: string): Target {
  const summary = app.serving();
  const tools = kind === 'query' ? summary.queries : summary.actions;
  const tool = tools.find((one) => one.name === name);
  if (tool) return { app, kind, tool } as Target;
  throw unknownTool(app.id, summary, kind, name);
}

/** Tells subscribers what was written as soon as the commit is known, and then the caller. */
class AnnouncedReply implements CallReply {
  readonly #dispatcher: Dispatcher;
  readonly #target: Target;
  readonly #cause: Cause;
  readonly #sink: Sink;

  constructor(dispatcher: Dispatcher, target: Target, cause: Cause, sink: Sink) {
    this.#dispatcher = dispatcher;
    this.#target = target;
    this.#cause = cause;
    this.#sink = sink;
  }

  result(status: number, body: Uint8Array, timing: CallTiming): void {
    this.#dispatcher.announce(this.#target, status, this.#cause);
    this.#sink.answered(status, body, timing);
  }

  failed(error: SvcError, timing: CallTiming): void {
    this.#sink.failed(error, timing);
  }

  outcomeUnknown(): void {
    this.#dispatcher.announceUnknown(this.#target);
  }

  faulted(error: unknown): void {
    this.#sink.faulted(error);
  }
}

/** The app that is asked for. Throws `BAD_REQUEST`. */
export function appOf(body: Record<string, unknown>): string {
  const id = body.app;
  if (typeof id === 'string') return id;
  throw new SvcError('BAD_REQUEST', 'Say which app: "app" must be a string.', { path: 'app' });
}

/** The name of the query or action that is asked for. Throws `BAD_REQUEST`. */
export function toolOf(body: Record<string, unknown>, kind: Target['kind']): string {
  const name = body[kind];
  if (typeof name === 'string') return name;
  throw new SvcError('BAD_REQUEST', `Say which ${kind}: "${kind}" must be a string.`, { path: kind });
}

/** Its process says what it wrote, and is not believed. */
function isTableList(value: unknown): value is string[] {
  if (!Array.isArray(value) || value.length > LIMITS.sqlRows) return false;
  return value.every((name) => typeof name === 'string' && name.length <= LIMITS.textChars);
}

function unknownTool(app: string, summary: VersionSummary, wanted: Target['kind'], name: string): SvcError {
  const shown = name.slice(0, 80);
  const [own, other] = wanted === 'query' ? [summary.queries, summary.actions] : [summary.actions, summary.queries];
  if (other.some((tool) => tool.name === name)) {
    const use = wanted === 'query' ? 'an action: call it through svc_write' : 'a query: call it through svc_read';
    return new SvcError('WRONG_KIND', `"${shown}" of "${app}" is ${use}.`);
  }
  const names = own.map((tool) => tool.name).slice(0, 20);
  return new SvcError(
    wanted === 'query' ? 'UNKNOWN_QUERY' : 'UNKNOWN_ACTION',
    `"${app}" has no ${wanted} "${shown}"; it has: ${names.join(', ') || 'none'}.`,
  );
}
