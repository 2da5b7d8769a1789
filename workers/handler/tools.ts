/** Runs the queries and actions of an app, and the `sql` tool: input checked, handler called, value turned into an answer. */

import { SvcError } from '../../protocol/errors.ts';
import { type ActorSpec, ToolKind, type ToolKindValue } from '../../protocol/frames.ts';
import type { DbClient } from '../../protocol/wire/db-client.ts';
import type { Call } from './call.ts';
import type { Runner } from './calls.ts';
import { HandlerContext } from './context.ts';
import { CallDatabase, finished, settled } from './database.ts';
import { HttpClient } from './http-client.ts';
import type { AppLog } from './log.ts';
import type { Modules } from './modules.ts';
import type { Reader } from './reader.ts';
import { parseRequest } from './request.ts';
import { type Answer, actionAnswer, queryAnswer } from './result.ts';
import { runSql } from './sql-tool.ts';
import { checkInput, type Validators } from './validators.ts';

/** What all calls of an app share. */
export type Environment = {
  spec: ActorSpec;
  modules: Modules;
  validators: Validators;
  reader: Reader;
  writer: DbClient;
  log: AppLog;
};

export class Tools implements Runner {
  readonly #env: Environment;
  readonly #http: HttpClient;
  readonly #app: Readonly<{ id: string; name: string; version: string; versionId: string }>;
  readonly #tools: { query: ReadonlySet<string>; action: ReadonlySet<string> };

  constructor(env: Environment) {
    const { app, name, version, versionId, queries, actions } = env.spec;
    this.#env = env;
    this.#http = new HttpClient(env.spec.egress);
    this.#app = Object.freeze({ id: app, name, version, versionId });
    this.#tools = { query: new Set(queries), action: new Set(actions) };
  }

  async run(_id: number, call: Call, kind: ToolKindValue, body: Uint8Array): Promise<Answer> {
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
      case ToolKind.server:
        throw new SvcError('HANDLER_ERROR', 'This thread runs the tools of an app, not its automations.');
      case ToolKind.sql: {
        const { status, value } = await runSql(request, reader, writer);
        return { ...queryAnswer(value, spec.maxResultBytes), status };
      }
    }
  }

  report(_id: number, { tool, traceId }: Call, message: string, fields: Record<string, unknown>): void {
    this.#env.log.report('error', message, fields, { tool, traceId });
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
    const ctx = new HandlerContext(call, this.#http);
    try {
      // Two literals: spreading a common part costs more than everything else here.
      const value = await handler(
        query
          ? { input, query: input, db, log: toolLog, app: this.#app, ctx }
          : { input, body: input, db, log: toolLog, app: this.#app, ctx },
      );
      // No answer leaves before the writes it reports: also those that the handler did not await.
      const unsettled = settled(db);
      if (unsettled !== null) await unsettled;
      return value;
    } catch (error) {
      // What it began may still be stored, and subscribers are told after that.
      await finished(db);
      throw error;
    }
  }
}
