/** Serves the gateway itself over HTTP: its health, process tree, logs, metrics and OpenAPI documents, and SQL by hand. */
import { eventText } from '../../../protocol/http/event-stream.ts';
import { checkAppId, scopeKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { runSql } from '../../../protocol/routes/apps.ts';
import { isTooDeep } from '../../../protocol/rules/json-text.ts';
import { type LogCursor, parseCursor } from '../../../storage/logs/log-pages.ts';
import { noActiveVersion } from '../../dispatch/apps.ts';
import type { Sink } from '../../dispatch/dispatcher.ts';
import { type Exchange, PRIVATE } from '../../edge/edge.ts';
import { constantHeaders } from '../../edge/exchange.ts';
import { demand } from '../../http/access/grants.ts';
import { answerError, answerJson, JSON_HEADERS, NO_STORE } from '../../http/answers.ts';
import { type Route, route, withDrafts } from '../../http/router.ts';
import { appDocument } from '../../openapi/app-document.ts';
import { gatewayDocument } from '../../openapi/gateway-document.ts';
import { Metrics } from '../../operations/metrics/metrics.ts';
import { systemStatus } from '../../operations/status.ts';
import type { Services } from '../../services.ts';
import { traceOf } from '../../tree/actor/call.ts';
import { checkShape, integerOf, queryOf, readBytes, refuse } from '../requests.ts';
import { serveRaw } from '../serve.ts';

/** Prometheus text exposition format. */
const METRICS_HEADERS = constantHeaders({
  'content-type': 'text/plain; version=0.0.4; charset=utf-8',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  ...PRIVATE,
});
const LOGS_FOLLOW = Buffer.from(': log entries follow\n\n');

/** `allRoutes` are those that the OpenAPI document of the gateway describes. */
export function systemRoutes(services: Services, allRoutes: () => readonly Route[]): Route[] {
  const { apps, scopes, version } = services;
  const metrics = new Metrics(services);
  // The same for as long as the gateway runs.
  let gatewayText: Buffer | null = null;
  return [
    route('GET', '/svc/_health', 'anyone', (exchange) => answerJson(exchange, 200, { ok: true, version }, NO_STORE)),
    route('GET', '/svc/_system', 'admin', async (exchange) =>
      answerJson(exchange, 200, await systemStatus(services), NO_STORE),
    ),
    route('GET', '/svc/_metrics', 'admin', async (exchange) =>
      exchange.send(200, NO_STORE, await metrics.text(), METRICS_HEADERS),
    ),
    ...withDrafts(
      route('GET', '/svc/_logs', 'route', async (exchange, { sid }, caller) => {
        const app = queryOf(exchange).get('app');
        if (app === null && sid !== undefined) refuse('app', 'Name the app: ?app=<id>.');
        demand(caller, app === null ? 'admin' : 'manage', app === null ? null : scopeKey(app, sid));
        const scope = app === null ? null : scopes(sid).of(app);
        await scope?.exists();
        await answerLogs(services, exchange, scope?.key ?? null);
      }),
    ),
    ...serveRaw(runSql, async (exchange, { id = '' }) => {
      const bytes = await readBytes(exchange, LIMITS.requestBodyBytes);
      if (isTooDeep(bytes)) checkShape('depth');
      await answerSql(services, exchange, id, bytes);
    }),
    route('GET', '/svc/_openapi.json', 'anyone', (exchange) => {
      gatewayText ??= Buffer.from(JSON.stringify(gatewayDocument(allRoutes(), version)));
      exchange.send(200, { 'cache-control': 'no-cache' }, gatewayText, JSON_HEADERS);
    }),
    route('GET', '/svc/:id/_openapi.json', 'read', async (exchange, { id = '' }) => {
      const manifest = await apps.manifest(id);
      if (manifest === null) throw noActiveVersion(id);
      answerJson(exchange, 200, appDocument(manifest), NO_STORE);
    }),
  ];
}

/**
 * Answers with the last entries of what is kept under `key`, or with `?follow=1` with those to come; of all live apps when `key`
 * is null.
 */
async function answerLogs(services: Services, exchange: Exchange, key: string | null): Promise<void> {
  const query = queryOf(exchange);
  if (query.get('follow') === '1') {
    followLogs(services, exchange, key);
    return;
  }
  if (key === null) refuse('app', 'Name the app: ?app=<id>, or follow all apps with ?follow=1.');
  const page = await services.logs.page(key, integerOf(query, 'limit', 50, LIMITS.listRowsMax), placeOf(query));
  if (page === null)
    refuse(
      'before',
      'The log has no entry at this cursor, or no longer: only the newest are kept. Begin again without it.',
    );
  answerJson(exchange, 200, page.entries, page.earlier === null ? {} : { 'log-cursor': page.earlier });
}

/** Where a page of a log ends: a time in milliseconds, or a cursor. */
function placeOf(query: URLSearchParams): number | LogCursor | undefined {
  const text = query.get('before');
  if (text === null) return undefined;
  const time = Number(text);
  const place = /^\d{1,16}$/.test(text) && time >= 1 && time <= Number.MAX_SAFE_INTEGER ? time : parseCursor(text);
  return place ?? refuse('before', '"before" must be a time in milliseconds, or the "log-cursor" of an answer.');
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
  id: string,
  body: Buffer,
): Promise<void> {
  checkAppId(id);
  const scope = apps.of(id);
  const fail = (error: unknown) => answerError(exchange, error, log);
  const sink: Sink = {
    answered: (status, answer) => exchange.send(status, {}, Buffer.from(answer), JSON_HEADERS),
    failed: fail,
    faulted: fail,
  };
  exchange.onAbort(await dispatcher.sql(scope, { body, traceId: () => traceOf(exchange), source: 'external' }, sink));
}
