/**
 * Runs the queries and actions of an app: checks the input, calls the handler, turns its value into an answer.
 */
import { SvcError } from '../../../protocol/errors.ts';
import type { Redactor } from '../../../protocol/text/redactor.ts';
import { type ActorSpec, ToolKind, type ToolKindValue } from '../../../protocol/wire/frames.ts';
import type { HandlerCaller, HandlerUser } from '../../../protocol/wire/handler-caller.ts';
import type { HandlerCall, Runner } from '../calls.ts';
import { effect } from '../effects.ts';
import { AskError } from '../handler-errors.ts';
import type { Handlers } from '../modules.ts';
import { type Answer, actionAnswer, queryAnswer } from '../result.ts';
import { checkInput, type Validators } from '../validators.ts';
import type { ActorAsks } from './asks.ts';
import type { BlobsOfCalls, BlobsOfContext } from './context-blobs.ts';
import { shownTime } from './context-clock.ts';
import { CallDatabase, finished, isPending, type Writer } from './context-database.ts';
import type { ActorSecrets, SecretsOfContext } from './context-secrets.ts';
import type { FetchInput, HttpClient } from './fetch.ts';
import type { AppLog } from './log.ts';
import type { Reader } from './reader.ts';

// App code could replace them.
const { defineProperties } = Object;

/** Shared by all calls of an actor. */
export type Environment = {
  spec: ActorSpec;
  modules: Handlers;
  validators: Validators;
  log: AppLog;
  secrets: ActorSecrets;
  redactor: Redactor;
  blobs: BlobsOfCalls;
  asks: ActorAsks;
};

const NO_NOTICE = 'A query changes nothing and may run twice: ctx.notify is for actions and automations.';

/** `ctx` of a handler, beside its database and its log (specification, "Arguments of handlers"). */
export class HandlerContext {
  readonly traceId!: string;
  /** Milliseconds since the epoch, as the app's `Date` shows it. */
  readonly deadline!: number;
  readonly fetch: (input: FetchInput, init?: RequestInit) => Promise<Response>;
  readonly secrets: SecretsOfContext;
  readonly #call: HandlerCall;
  readonly #env: Environment;
  readonly #mayWrite: boolean;

  constructor(call: HandlerCall, http: Fetcher, env: Environment, mayWrite: boolean) {
    this.#call = call;
    this.#env = env;
    this.#mayWrite = mayWrite;
    const { traceId, reads } = call;
    const deadline = shownTime(call.deadline);
    if (reads === null) {
      this.traceId = traceId;
      this.deadline = deadline;
    } else {
      // The result depends on a value that was read.
      const seen = (value: unknown) => ({
        enumerable: true,
        get: () => {
          effect();
          return value;
        },
      });
      defineProperties(this, { traceId: seen(traceId), deadline: seen(deadline) });
    }
    this.fetch = (input, init) => http.fetch(call, input, init);
    this.secrets = env.secrets.context;
  }

  /** Aborts when the caller has gone or the time is up. A getter per object would cost more than the rest of a call. */
  get signal(): AbortSignal {
    effect();
    return this.#call.signal;
  }

  get blobs(): BlobsOfContext {
    return this.#env.blobs.of(this.#call, this.#mayWrite);
  }

  /** Resolves when the notice is accepted. Not for queries: they may run twice, or not at all. */
  get notify(): (notice: unknown) => Promise<unknown> {
    return async (notice) => {
      if (!this.#mayWrite) throw new AskError({ code: 'BAD_REQUEST', message: NO_NOTICE });
      return await this.#env.asks.of(this.#call).ask('notify', { notice });
    };
  }

  get caller(): HandlerCaller {
    return this.#call.caller;
  }

  get user(): HandlerUser | null {
    return this.#call.user;
  }
}

/** What tools work with outside of their code: the app's data, and the network. */
export type Resources = { reader: Reader; writer: Writer; http: Fetcher };
export type Fetcher = Pick<HttpClient, 'fetch'>;

export class Tools implements Runner {
  readonly #env: Environment;
  readonly #resources: Resources;
  readonly #app: Readonly<{ id: string; name: string; version: string; versionId: string }>;
  readonly #tools: { query: ReadonlySet<string>; action: ReadonlySet<string> };

  constructor(env: Environment, resources: Resources) {
    const { app, name, version, versionId, queries, actions } = env.spec;
    this.#env = env;
    this.#resources = resources;
    this.#app = Object.freeze({ id: app, name, version, versionId });
    this.#tools = { query: new Set(queries), action: new Set(actions) };
  }

  async run(call: HandlerCall, kind: ToolKindValue, request: Record<string, unknown>): Promise<Answer> {
    const { maxResultBytes } = this.#env.spec;
    switch (kind) {
      case ToolKind.query:
      case ToolKind.tracked:
        return queryAnswer(await this.#runHandler(call, 'query', request.input ?? {}), maxResultBytes);
      case ToolKind.action:
        return actionAnswer(await this.#runHandler(call, 'action', request.input ?? {}), maxResultBytes);
      default:
        throw new SvcError('HANDLER_ERROR', 'This thread runs the tools of an app, not its automations.');
    }
  }

  schemaChanged(): void {
    this.#resources.reader.schema++;
  }

  close(): void {
    this.#resources.writer.end();
    this.#resources.reader.close();
  }

  async #runHandler(call: HandlerCall, kind: 'query' | 'action', input: unknown): Promise<unknown> {
    const { tool } = call;
    const { validators, modules, log, blobs } = this.#env;
    const query = kind === 'query';
    if (!this.#tools[kind].has(tool)) {
      throw new SvcError(query ? 'UNKNOWN_QUERY' : 'UNKNOWN_ACTION', `The app has no ${kind} "${tool}".`);
    }
    checkInput(query ? validators.queries : validators.actions, tool, input);
    const loaded = modules.handler(`${query ? 'queries' : 'actions'}/${tool}`);
    const handler = typeof loaded === 'function' ? loaded : await loaded;
    call.assertWanted();
    const { writer, reader, http } = this.#resources;
    const db = new CallDatabase(writer, reader, call);
    const toolLog = log.logger(call.origin);
    const ctx = new HandlerContext(call, http, this.#env, !query);
    try {
      const value = await handler({ input, [query ? 'query' : 'body']: input, db, log: toolLog, app: this.#app, ctx });
      // No answer leaves before the writes it reports, even those that the handler did not await.
      if (isPending(db) || blobs.isPending(call) || call.failedWrites !== null) await allWritten(call, db, blobs);
      // The answer to a request that the handler did not await is still to reach it.
      if (call.asks !== null) await call.asks.settled();
      return value;
    } catch (error) {
      // Its pending writes may still be stored, and subscribers get the change after that.
      await finished(db);
      await blobs.finished(call);
      throw error;
    } finally {
      this.#env.asks.end(call);
    }
  }
}

/** Rejects with a write that failed and that nobody handled. What is answered may let the handler write more. */
async function allWritten(call: HandlerCall, db: CallDatabase, blobs: BlobsOfCalls): Promise<void> {
  do {
    await finished(db);
    await blobs.finished(call);
    await call.assertWritten();
  } while (isPending(db) || blobs.isPending(call));
}
