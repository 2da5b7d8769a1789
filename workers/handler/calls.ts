/** The calls that an actor works on: each is checked, run, and answered exactly once, however it ends. */
import type { DbClient } from '../../protocol/db-client.ts';
import { SvcError } from '../../protocol/errors.ts';
import {
  type ActorSpec,
  type DispatchFrame,
  type Frame,
  Kind,
  ToolKind,
  type ToolKindValue,
} from '../../protocol/frames.ts';
import { Call, type CancelReason } from './call.ts';
import { HandlerContext } from './context.ts';
import { CallDatabase } from './database.ts';
import type { Failures } from './failure.ts';
import type { AppLog } from './log.ts';
import type { Modules } from './modules.ts';
import type { Reader } from './reader.ts';
import { type Answer, actionAnswer, queryAnswer } from './result.ts';
import { runSql } from './sql-tool.ts';
import { checkInput, type Validators } from './validators.ts';

/** What all calls of an actor share. */
export type Environment = {
  spec: ActorSpec;
  modules: Modules;
  validators: Validators;
  reader: Reader;
  writer: DbClient;
  log: AppLog;
  failures: Failures;
  /** To the supervisor. Throws when the frame is too large. */
  send(frame: Frame): void;
};

// App code could put its own in their place.
const { parse } = JSON;
const { now } = Date;
const { floor } = Math;
const elapsed = performance.now.bind(performance);

export class Calls {
  readonly #env: Environment;
  readonly #app: Readonly<{ id: string; name: string; version: string; versionId: string }>;
  readonly #tools: { query: ReadonlySet<string>; action: ReadonlySet<string> };
  readonly #running = new Map<number, Call>();
  #whenIdle: (() => void) | null = null;
  #finished = 0;

  constructor(env: Environment) {
    const { app, name, version, versionId, queries, actions } = env.spec;
    this.#env = env;
    this.#app = Object.freeze({ id: app, name, version, versionId });
    this.#tools = { query: new Set(queries), action: new Set(actions) };
  }

  /** Calls that somebody waits for, and those that were answered, for the heartbeat. */
  get counters(): { running: number; finished: number } {
    return { running: this.#running.size, finished: this.#finished };
  }

  dispatch([, id, remainingMs, kind, tool, body, traceId]: DispatchFrame): void {
    const startedAt = elapsed();
    // In whole milliseconds, as timers want them; the supervisor counts in fractions.
    const call = new Call(tool, traceId, now() + floor(remainingMs));
    this.#running.set(id, call);
    this.#run(call, kind, body).then(
      (answer) => this.#answer(id, call, [Kind.result, id, answer.status, answer.body, elapsed() - startedAt]),
      (error: unknown) => this.#fail(id, call, error, elapsed() - startedAt),
    );
  }

  /** Nobody waits for this call any more. It is answered all the same when it ends, so that its place is free again. */
  cancel(id: number, reason: CancelReason): void {
    const call = this.#running.get(id);
    call?.cancel(reason);
    if (call?.over) this.#forget(id);
  }

  /** Resolves once no call is running that somebody waits for. */
  idle(): Promise<void> {
    if (this.#running.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#whenIdle = resolve;
    });
  }

  async #run(call: Call, kind: ToolKindValue, body: Uint8Array): Promise<Answer> {
    if (call.deadline <= now()) {
      throw new SvcError('HANDLER_ERROR', 'The call was not run: its time was up before it could start.');
    }
    const { spec, reader, writer } = this.#env;
    const request = parseRequest(body);
    switch (kind) {
      case ToolKind.query: {
        const value = await this.#runHandler(call, 'query', request.input ?? {});
        return queryAnswer(value, spec.maxResultBytes);
      }
      case ToolKind.action: {
        const value = await this.#runHandler(call, 'action', request.input ?? {});
        return actionAnswer(value, spec.maxResultBytes);
      }
      case ToolKind.fire:
        throw new SvcError('HANDLER_ERROR', 'This thread runs the tools of an app, not its automations.');
      case ToolKind.sql: {
        const { status, value } = await runSql(request, reader, writer);
        return { ...queryAnswer(value, spec.maxResultBytes), status };
      }
    }
  }

  async #runHandler(call: Call, kind: 'query' | 'action', input: unknown): Promise<unknown> {
    const { tool, traceId } = call;
    const { validators, modules, log, reader, writer } = this.#env;
    const query = kind === 'query';
    if (!this.#tools[kind].has(tool)) {
      throw new SvcError(query ? 'UNKNOWN_QUERY' : 'UNKNOWN_ACTION', `The app has no ${kind} "${tool}".`);
    }
    checkInput(query ? validators.queries : validators.actions, tool, input);
    const loaded = modules.handler(`${query ? 'queries' : 'actions'}/${tool}.js`);
    const handler = typeof loaded === 'function' ? loaded : await loaded;
    call.assertWanted();
    const db = new CallDatabase(writer, reader, call);
    const toolLog = log.logger({ tool, traceId });
    const ctx = new HandlerContext(call);
    // Two literals: spreading a common part costs more than everything else here.
    const value = await handler(
      query
        ? { input, query: input, db, log: toolLog, app: this.#app, ctx }
        : { input, body: input, db, log: toolLog, app: this.#app, ctx },
    );
    // No answer leaves before the writes it reports: also those that the handler did not await.
    if (db.busy) await db.settle();
    return value;
  }

  #answer(id: number, call: Call, frame: Frame): void {
    try {
      this.#env.send(frame);
      this.#forget(id);
    } catch (error) {
      this.#fail(id, call, error, 0);
    }
  }

  #fail(id: number, call: Call, error: unknown, handlerMs: number): void {
    const { failures, log } = this.#env;
    const body = failures.toBody(error);
    if ((body.code === 'HANDLER_ERROR' || body.code === 'INTERNAL') && !call.over) {
      log.report('error', body.message, failures.fields(error), { tool: call.tool, traceId: call.traceId });
    }
    this.#env.send([Kind.error, id, body, handlerMs]);
    this.#forget(id);
  }

  #forget(id: number): void {
    if (!this.#running.delete(id)) return;
    this.#finished++;
    if (this.#running.size === 0) this.#whenIdle?.();
  }
}

/** The request's JSON, as far as it is an object; an empty body is `{}`. */
function parseRequest(body: Uint8Array): Record<string, unknown> {
  if (body.length === 0) return {};
  let request: unknown;
  try {
    request = parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString());
  } catch {
    throw new SvcError('BAD_REQUEST', 'The body is not valid JSON.');
  }
  if (typeof request !== 'object' || request === null || Array.isArray(request)) {
    throw new SvcError('BAD_REQUEST', 'The body must be a JSON object.');
  }
  return request as Record<string, unknown>;
}
