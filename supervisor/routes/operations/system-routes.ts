/** Serves the gateway itself over HTTP: its health, process tree, logs, metrics and OpenAPI documents, and SQL by hand. */
import { eventText } from '../../../protocol/http/event-stream.ts';
import { checkAppId, scopeKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { runSql } from '../../../protocol/routes/apps/apps-rows.ts';
import { readAudit } from '../../../protocol/routes/operations/audit-rows.ts';
import {
  checkHealth,
  describeGateway,
  describeTools,
  readLogs,
  readMetrics,
  showSystem,
} from '../../../protocol/routes/operations/system-rows.ts';
import type { QueryOf } from '../../../protocol/routes/row.ts';
import { isTooDeep } from '../../../protocol/rules/json-text.ts';
import { Shape } from '../../../protocol/shapes/shape.ts';
import { causeOf } from '../../../protocol/wire/handler-caller.ts';
import { type LogCursor, parseCursor } from '../../../storage/logs/log-pages.ts';
import { noActiveVersion } from '../../dispatch/apps.ts';
import type { Sink } from '../../dispatch/dispatcher.ts';
import { type Exchange, PRIVATE } from '../../edge/edge.ts';
import { constantHeaders } from '../../edge/exchange.ts';
import { type Caller, demand } from '../../http/access/grants.ts';
import { answerError, answerJson, JSON_HEADERS, NO_STORE } from '../../http/answers.ts';
import type { Route } from '../../http/router.ts';
import { appDocument } from '../../openapi/app-document.ts';
import { gatewayDocument } from '../../openapi/gateway-document.ts';
import { Metrics } from '../../operations/metrics/metrics.ts';
import { systemStatus } from '../../operations/status.ts';
import type { Services } from '../../services.ts';
import { traceOf } from '../../tree/actor/call.ts';
import { checkShape, paramsOf, queryOf, readBytes, refuse } from '../requests.ts';
import { serve, serveRaw } from '../serve-row.ts';

/** Prometheus text exposition format. */
const METRICS_HEADERS = constantHeaders({
  'content-type': readMetrics.answer.media,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  ...PRIVATE,
});
const LOG_QUERY = new Shape<QueryOf<typeof readLogs>>(readLogs.query);
const LOGS_FOLLOW = Buffer.from(': log entries follow\n\n');

export function systemRoutes(services: Services): Route[] {
  const { apps, audit, scopes, version } = services;
  const metrics = new Metrics(services);
  // The same for as long as the gateway runs.
  let gatewayText: Buffer | null = null;
  return [
    ...serve(checkHealth, () => ({ ok: true as const, version })),
    ...serve(showSystem, () => systemStatus(services)),
    ...serveRaw(readMetrics, async (exchange) => exchange.send(200, NO_STORE, await metrics.text(), METRICS_HEADERS)),
    ...serve(readAudit, ({ query: { limit = LIMITS.listRows, before } }) =>
      audit.list({ limit, before: before === undefined ? null : entryIdOf(before) }),
    ),
    ...serveRaw(readLogs, async (exchange, { sid }, caller) => {
      const given = queryOf(exchange);
      const app = given.get('app');
      if (app === null && sid !== undefined) refuse('app', 'Name the app: ?app=<id>.');
      demand(caller, app === null ? 'admin' : 'manage', app === null ? null : scopeKey(app, sid));
      const query = paramsOf(given, LOG_QUERY);
      const scope = app === null ? null : scopes(sid).of(app);
      await scope?.exists();
      await answerLogs(services, exchange, scope?.key ?? null, query);
    }),
    ...serveRaw(runSql, async (exchange, { id = '' }, caller) => {
      const bytes = await readBytes(exchange, LIMITS.requestBodyBytes);
      if (isTooDeep(bytes)) checkShape('depth');
      await answerSql(services, exchange, caller, id, bytes);
    }),
    ...serveRaw(describeGateway, (exchange) => {
      gatewayText ??= Buffer.from(JSON.stringify(gatewayDocument(version)));
      exchange.send(200, { 'cache-control': 'no-cache' }, gatewayText, JSON_HEADERS);
    }),
    ...serve(describeTools, async ({ params: { id } }) => {
      const manifest = await apps.manifest(id);
      if (manifest === null) throw noActiveVersion(id);
      return appDocument(manifest);
    }),
  ];
}

/**
 * Answers with the last entries of what is kept under `key`, or with `?follow=1` with those to come; of all live apps when `key`
 * is null.
 */
async function answerLogs(
  services: Services,
  exchange: Exchange,
  key: string | null,
  { limit = LIMITS.listRows, before, follow }: QueryOf<typeof readLogs>,
): Promise<void> {
  if (follow === '1') {
    followLogs(services, exchange, key);
    return;
  }
  if (key === null) refuse('app', 'Name the app: ?app=<id>, or follow all apps with ?follow=1.');
  const page = await services.logs.page(key, limit, before === undefined ? undefined : placeOf(before));
  if (page === null)
    refuse(
      'before',
      'The log has no entry at this cursor, or no longer: only the newest are kept. Begin again without it.',
    );
  answerJson(exchange, 200, page.entries, page.earlier === null ? {} : { 'log-cursor': page.earlier });
}

/** Where a page of a log ends: a time in milliseconds, or a cursor. */
function placeOf(text: string): number | LogCursor {
  const time = Number(text);
  const place = /^\d{1,16}$/.test(text) && time >= 1 && time <= Number.MAX_SAFE_INTEGER ? time : parseCursor(text);
  return place ?? refuse('before', '"before" must be a time in milliseconds, or the "log-cursor" of an answer.');
}

function entryIdOf(text: string): number {
  const id = Number(text);
  if (!/^\d{1,16}$/.test(text) || id > Number.MAX_SAFE_INTEGER)
    refuse('before', '"before" must be the "id" of an entry.');
  return id;
}

/** A reader that does not read misses lines; the file has them all. */
function followLogs({ changes, logs }: Services, exchange: Exchange, key: string | null): void {
  const reader = changes.readers.open(exchange);
  if (reader === null) return;
  reader.write(LOGS_FOLLOW);
  const take = (_key: string, line: string): boolean => reader.deliver(Buffer.from(eventText('log', line)));
  reader.add(logs.follow(key, take, () => reader.end()));
}

async function answerSql(
  { dispatcher, apps, log }: Services,
  exchange: Exchange,
  caller: Caller,
  id: string,
  body: Buffer,
): Promise<void> {
  checkAppId(id);
  const scope = apps.of(id);
  const cause = { source: 'external', ...causeOf(caller.shown(scope.key)) } as const;
  const fail = (error: unknown) => answerError(exchange, error, log);
  const sink: Sink = {
    answered: (status, answer) => exchange.send(status, {}, Buffer.from(answer), JSON_HEADERS),
    failed: fail,
    faulted: fail,
  };
  exchange.onAbort(await dispatcher.sql(scope, { body, traceId: () => traceOf(exchange), ...cause }, sink));
}
