/**
 * The one way to the tools of apps, whoever asks: HTTP, drafts, `ctx.tool` of an automation (specification, "Three-tool
 * dispatcher"; decisions, section 3). `resolve` finds the tool, `submit` runs it, `announce` tells the app's subscribers what an
 * action wrote before its answer leaves, `remember` runs an action under an idempotency key and records its answer.
 */
import { SvcError } from '../../protocol/errors.ts';
import { ToolKind } from '../../protocol/frames.ts';
import type { ActionSummary, QuerySummary, VersionSummary } from '../../protocol/manifest.ts';
import type { Config } from '../config.ts';
import { Call, type CallReply, type CallTiming } from '../tree/actor/call.ts';
import type { App, AppsView } from './apps.ts';
import type { Change, ChangeStreams } from './changes.ts';
import { type Describing, describe, describeAll } from './describe.ts';
import type { Idempotency, RecordedAnswer } from './idempotency.ts';

export type DispatcherOptions = {
  apps: AppsView;
  changes: ChangeStreams;
  idempotency: Idempotency;
  config: Pick<Config, 'queryTimeoutMs' | 'actionTimeoutMs'>;
  describing: Omit<Describing, 'apps'>;
  /** What an app is kept under, see `App`. */
  keyOf(id: string): string;
  /** The apps whose tools the pages of an app may call; none for a draft. */
  uses(id: string): readonly string[] | Promise<readonly string[]>;
};

/** A tool of an app that can be called now. */
export type Target =
  | { app: App; kind: 'query'; tool: QuerySummary }
  | { app: App; kind: 'action'; tool: ActionSummary };

/** What a call is made with. `body` is JSON text whose `input` member is the input; empty for `{}`. */
export type Request = { body: Uint8Array; traceId: string; source: Change['source'] };

/** Where the answer of a call goes: exactly one of them is called, once. */
export type Sink = {
  /** `body` is JSON text, to be copied before this returns; `status` is 200 for queries. */
  answered(status: number, body: Uint8Array, timing: CallTiming): void;
  failed(error: SvcError, timing: CallTiming): void;
  /** `answered` or `failed` threw, or the gateway itself failed. */
  faulted(error: unknown): void;
};

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

export class Dispatcher {
  readonly #options: DispatcherOptions;

  constructor(options: DispatcherOptions) {
    this.#options = options;
  }

  keyOf(id: string): string {
    return this.#options.keyOf(id);
  }

  uses(id: string): readonly string[] | Promise<readonly string[]> {
    return this.#options.uses(id);
  }

  /**
   * The tool; at once when the app was used before. Throws or rejects with the app's error, `UNKNOWN_QUERY`, `UNKNOWN_ACTION`, or
   * `WRONG_KIND`.
   */
  resolve(id: string, kind: Target['kind'], name: string): Target | Promise<Target> {
    const app = this.#options.apps.get(id);
    return app instanceof Promise
      ? app.then((found) => this.#toolOf(found, kind, name))
      : this.#toolOf(app, kind, name);
  }

  /** Runs a tool; its time runs from now on. What it returns calls the call off: nobody wants its answer any more. */
  submit(target: Target, request: Request, sink: Sink): () => void {
    const call = this.#callOf(target, request, sink);
    const actor = this.#options.apps.actor(target.app);
    actor.submit(call);
    return () => actor.abandon(call);
  }

  /**
   * Runs an action once for a key, also when its caller goes away, for whoever asks again wants its answer. `input` tells a
   * repetition from another call, see `Idempotency.claim`. Rejects as that does.
   */
  async remember(target: Target, key: string, input: unknown, request: Request, sink: RecordedSink): Promise<void> {
    const { apps, idempotency } = this.#options;
    const { app, tool } = target;
    // Made now: its time runs from when it was asked for.
    const call = this.#callOf(target, request, new RecordingSink(idempotency, app.key, key, sink));
    const known = await idempotency.claim(app.key, key, tool.name, input);
    if (known) {
      sink.recorded(known, null);
      return;
    }
    try {
      apps.actor(app).submit(call);
    } catch (error) {
      call.fail(error as SvcError);
    }
  }

  /** Tells the subscribers of an app what an action that answered with this status wrote. */
  announce({ app, kind, tool }: Target, status: number, source: Change['source']): void {
    if (kind === 'query' || status >= 400) return;
    for (const table of tool.writes) this.#options.changes.emit(app.key, { table, action: tool.name, source });
  }

  /** Subscribers are told to read everything again: what was written is not known. */
  announceUnknown({ app }: Target): void {
    this.#options.changes.reset(app.key);
  }

  /** Data of `svc_describe`; without an app in `body` it lists `among`, by default every app. Rejects with the error to answer. */
  describe(body: Record<string, unknown>, among?: readonly string[]): Promise<unknown> {
    return describe({ apps: this.#options.apps, ...this.#options.describing }, body, among);
  }

  /** The whole answer that lists every app. */
  describeAll(): Promise<Buffer> {
    return describeAll({ apps: this.#options.apps, registry: this.#options.describing.registry });
  }

  ids(): readonly string[] | Promise<readonly string[]> {
    return this.#options.describing.registry.ids();
  }

  #toolOf(app: App, kind: Target['kind'], name: string): Target {
    const summary = this.#options.apps.serving(app);
    if (kind === 'query') {
      const tool = summary.queries.find((one) => one.name === name);
      if (tool) return { app, kind, tool };
    } else {
      const tool = summary.actions.find((one) => one.name === name);
      if (tool) return { app, kind, tool };
    }
    throw unknownTool(app.id, summary, kind, name);
  }

  #callOf(target: Target, { body, traceId, source }: Request, sink: Sink): Call {
    const { config } = this.#options;
    const { kind, tool } = target;
    const allowedMs = tool.timeoutMs ?? (kind === 'query' ? config.queryTimeoutMs : config.actionTimeoutMs);
    const reply = new AnnouncedReply(this, target, source, sink);
    return new Call({ kind: ToolKind[kind], tool: tool.name, body, traceId, allowedMs }, reply, performance.now());
  }
}

/** Tells subscribers what was written, as soon as its commit is known, and then whoever called. */
class AnnouncedReply implements CallReply {
  readonly #dispatcher: Dispatcher;
  readonly #target: Target;
  readonly #source: Change['source'];
  readonly #sink: Sink;

  constructor(dispatcher: Dispatcher, target: Target, source: Change['source'], sink: Sink) {
    this.#dispatcher = dispatcher;
    this.#target = target;
    this.#source = source;
    this.#sink = sink;
  }

  result(status: number, body: Uint8Array, timing: CallTiming): void {
    this.#dispatcher.announce(this.#target, status, this.#source);
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

/** Records an answer under its key, and hands it on once it is recorded. */
class RecordingSink implements Sink {
  readonly #idempotency: Idempotency;
  readonly #app: string;
  readonly #key: string;
  readonly #sink: RecordedSink;

  constructor(idempotency: Idempotency, app: string, key: string, sink: RecordedSink) {
    this.#idempotency = idempotency;
    this.#app = app;
    this.#key = key;
    this.#sink = sink;
  }

  answered(status: number, body: Uint8Array, timing: CallTiming): void {
    this.#record(this.#sink.answerOf(status, body), timing);
  }

  failed(error: SvcError, timing: CallTiming): void {
    if (timing.started && !NOT_RUN.has(error.code)) {
      this.#record(this.#sink.errorOf(error), timing);
      return;
    }
    this.#idempotency.release(this.#app, this.#key).then(
      () => this.#sink.failed(error, timing),
      (cause: unknown) => this.faulted(cause),
    );
  }

  faulted(error: unknown): void {
    this.#sink.faulted(error);
  }

  #record(answer: RecordedAnswer, timing: CallTiming): void {
    this.#idempotency.record(this.#app, this.#key, answer).then(
      () => this.#sink.recorded(answer, timing),
      (error: unknown) => this.faulted(error),
    );
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
