/** Looking at the gateway itself: health, the process tree, logs, and SQL by hand. */
import { SvcError } from '../../protocol/errors.ts';
import { ToolKind } from '../../protocol/frames.ts';
import { checkAppId } from '../../protocol/ids.ts';
import { membersOf } from '../../protocol/json-members.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { isTooDeep } from '../../protocol/rules/json-depth.ts';
import type { Exchange } from '../edge/edge.ts';
import { demand } from '../http/access/caller.ts';
import { answerError, answerJson, JSON_HEADERS } from '../http/answers.ts';
import type { Route } from '../http/router.ts';
import { newTraceId } from '../http/trace-id.ts';
import { systemStatus } from '../operations/status.ts';
import type { Services } from '../services.ts';
import { Call } from '../tree/actor/call.ts';
import { answerLogs, followLogs } from './logs.ts';
import { checkShape, queryOf, readBytes } from './requests.ts';

export function systemRoutes(services: Services): Route[] {
  const { apps, logs } = services;
  return [
    {
      method: 'GET',
      path: '/svc/_health',
      needs: 'anyone',
      summary: 'Whether the gateway answers, and its version.',
      handle: (exchange) =>
        answerJson(exchange, 200, { ok: true, version: services.version }, { 'cache-control': 'no-store' }),
    },
    {
      method: 'GET',
      path: '/svc/_system',
      needs: 'admin',
      summary: 'The process tree: every process and actor with its state.',
      handle: async (exchange) =>
        answerJson(exchange, 200, await systemStatus(services), { 'cache-control': 'no-store' }),
    },
    {
      method: 'GET',
      path: '/svc/_logs',
      needs: 'route',
      summary:
        'Log entries of an app (`?app=`, `?limit=`, `?before=`), oldest first; `?follow=1` streams new ones of one app or all.',
      handle: async (exchange, _params, caller) => {
        const query = queryOf(exchange);
        const app = query.get('app');
        demand(caller, app === null ? 'admin' : 'manage', app);
        if (app !== null) await apps.registered(app);
        if (app === null && query.get('follow') === '1') {
          followLogs(logs, exchange, null);
          return;
        }
        if (app === null)
          throw new SvcError('BAD_REQUEST', 'Name the app: ?app=<id>, or follow all apps with ?follow=1.', {
            path: 'app',
          });
        await answerLogs(logs, exchange, app);
      },
    },
    {
      method: 'POST',
      path: '/svc/_apps/:id/sql',
      needs: 'manage',
      summary: 'Run one SQL statement on an app\'s database: `{ "sql", "params"? }`.',
      handle: async (exchange, { id = '' }) => {
        const bytes = await readBytes(exchange, LIMITS.requestBodyBytes);
        if (isTooDeep(bytes)) checkShape('depth');
        await runSql(services, exchange, id, bytes);
      },
    },
  ];
}

async function runSql(services: Services, exchange: Exchange, id: string, body: Buffer): Promise<void> {
  checkAppId(id);
  const app = await services.apps.get(id);
  const actor = services.apps.actor(app);
  const request = {
    kind: ToolKind.sql,
    tool: 'sql',
    body,
    traceId: newTraceId(exchange.header('traceparent')),
    allowedMs: LIMITS.sqlMs,
  };
  const call = new Call(
    request,
    {
      result: (status, result) => {
        if (status === 201) announceSql(services, id, result);
        exchange.send(200, {}, Buffer.from(result), JSON_HEADERS);
      },
      failed: (error) => answerError(exchange, error, services.log),
      outcomeUnknown: () => services.changes.reset(id),
      faulted: (error) => answerError(exchange, error, services.log),
    },
    performance.now(),
  );
  exchange.onAbort(() => actor.abandon(call));
  actor.submit(call);
}

/** One event for each table that the statement wrote; a `reset` where its answer does not name them. */
function announceSql({ changes }: Services, app: string, answer: Uint8Array): void {
  const text = membersOf(answer, ['tables'])?.get('tables');
  const tables: unknown = text === undefined ? null : JSON.parse(Buffer.from(text).toString());
  if (!isTableList(tables)) changes.reset(app);
  else for (const table of tables) changes.emit(app, { table, action: 'sql', source: 'external' });
}

/** The app's own thread says what it wrote, and is not believed. */
function isTableList(value: unknown): value is string[] {
  if (!Array.isArray(value) || value.length > LIMITS.sqlRows) return false;
  return value.every((name) => typeof name === 'string' && name.length <= LIMITS.textChars);
}
