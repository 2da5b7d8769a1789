/** Serves runs over HTTP: their history, their events, and operations on a run (specification, "Runs"). */
import { AUTOMATION_ID, parseRef } from '../../../protocol/automations/automation.ts';
import { CHAT_RUNS, RUN_STATES, type RunRecord } from '../../../protocol/automations/runs.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { isAppId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { flag, formatted, matching, object, oneOf, text } from '../../../protocol/shapes/schema.ts';
import { shape } from '../../../protocol/shapes/shape.ts';
import type { RunFilter } from '../../../storage/automations/run-rows.ts';
import { arrayText } from '../../dispatch/kept-array.ts';
import { type Caller, demand } from '../../http/access/grants.ts';
import { answerJson, JSON_HEADERS } from '../../http/answers.ts';
import { type Route, route } from '../../http/router.ts';
import type { RunLedger } from '../../runs/ledger.ts';
import { firstRunIdAt } from '../../runs/retention.ts';
import type { RunEvents } from '../../runs/run-events.ts';
import { bodyOf, integerOf, paramsOf, queryOf, readJson, refuse } from '../requests.ts';

type RunServices = {
  runs: RunLedger;
  runEvents: RunEvents;
  /** Stops a run that has not ended; resolves when that is stored. */
  cancelRun(runId: string): Promise<RunRecord>;
};

const RUN_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const PIN = shape(object({ pinned: flag }));
const FILTER = shape(
  object(
    {},
    {
      ref: text,
      app: formatted('app id', 'the id of an app'),
      state: oneOf(...RUN_STATES),
      before: matching(RUN_ID, 'the id of a run'),
      failing: { const: '1', wanted: '1' },
    },
  ),
);
const NO_STORE = { 'cache-control': 'no-store' };

export function runRoutes(services: RunServices): Route[] {
  /** Throws `UNKNOWN_RUN`, or `FORBIDDEN` when it is of an app that the caller may not manage. */
  const known = async (runId: string, caller: Caller): Promise<RunRecord> => {
    const run = found(isRunId(runId) && (await services.runs.get(runId)));
    demand(caller, 'manage', run.app);
    return run;
  };
  return [
    route('GET', '/svc/_runs', 'route', async (exchange, _params, caller) => {
      const query = queryOf(exchange);
      const limit = integerOf(query, 'limit', LIMITS.listRows, LIMITS.listRowsMax);
      const filter = filterOf(query);
      demandRunsOf(filter, caller);
      answerJson(exchange, 200, await services.runs.list(filter, limit), NO_STORE);
    }),
    route('GET', '/svc/_insights', 'admin', async (exchange) => {
      const days = integerOf(queryOf(exchange), 'days', LIMITS.insightsDays, LIMITS.insightsDaysMax);
      answerJson(exchange, 200, await services.runs.insights(days), NO_STORE);
    }),
    route('GET', '/svc/_runs/_events', 'route', (exchange, _params, caller) => {
      const query = queryOf(exchange);
      const filter = filterOf(query);
      demandRunsOf(filter, caller);
      const { app } = filter;
      const ref = query.get('ref');
      services.runEvents.followAll(exchange, {
        ...(ref === null ? {} : { ref }),
        ...(app === undefined ? {} : { app }),
      });
    }),
    route('GET', '/svc/_runs/:runId', 'route', async (exchange, { runId = '' }, caller) =>
      answerJson(exchange, 200, await known(runId, caller), NO_STORE),
    ),
    route('GET', '/svc/_runs/:runId/nodes', 'route', async (exchange, { runId = '' }, caller) => {
      const query = queryOf(exchange);
      const limit = integerOf(query, 'limit', LIMITS.listRowsMax, LIMITS.listRowsMax);
      const before = integerOf(query, 'before', Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
      // Ordinals count from 1 without a gap.
      const nearest = query.has('before') ? Math.max(0, before - 1 - limit) : 0;
      const after = Math.max(nearest, integerOf(query, 'after', 0, Number.MAX_SAFE_INTEGER));
      await known(runId, caller);
      const page = { after, limit: Math.max(0, Math.min(limit, before - 1 - after)) };
      const nodes = await services.runs.nodes(runId, page);
      exchange.send(200, NO_STORE, await arrayText(nodes), JSON_HEADERS);
    }),
    route('GET', '/svc/_runs/:runId/events', 'route', async (exchange, { runId = '' }, caller) => {
      await known(runId, caller);
      await services.runEvents.follow(runId, exchange);
    }),
    route('POST', '/svc/_runs/:runId/pin', 'route', async (exchange, { runId = '' }, caller) => {
      const body = await readJson(exchange);
      await known(runId, caller);
      const { pinned } = bodyOf(body, PIN);
      answerJson(exchange, 200, found(await services.runs.pin(runId, pinned)));
    }),
    route('POST', '/svc/_runs/:runId/cancel', 'route', async (exchange, { runId = '' }, caller) => {
      await readJson(exchange);
      const run = await known(runId, caller);
      answerJson(exchange, 200, run.endedAt === null ? await services.cancelRun(runId) : run);
    }),
  ];
}

/** All runs are the administrator's. Throws `FORBIDDEN`. */
function demandRunsOf({ app, ref }: RunFilter, caller: Caller): void {
  const named = app ?? ref?.app ?? null;
  demand(caller, named === null ? 'admin' : 'manage', named);
  if (app !== undefined && ref !== undefined) demand(caller, 'manage', ref.app);
}

function isRunId(text: string): boolean {
  return RUN_ID.test(text);
}

function found<T>(value: T | null | false): T {
  if (value === null || value === false) throw new SvcError('UNKNOWN_RUN', 'No run of this id is kept.');
  return value;
}

/** Of an automation, or of the chats of an app; null for what is neither. */
function refOf(name: string): { app: string; id: string } | null {
  const app = name.slice(0, -CHAT_RUNS.length - 1);
  return name === `${app}/${CHAT_RUNS}` && isAppId(app) ? { app, id: CHAT_RUNS } : parseRef(name);
}

/** Throws `BAD_REQUEST` with the parameter's name in `path`. */
function filterOf(query: URLSearchParams): RunFilter {
  const { ref: name, failing, ...filter } = paramsOf(query, FILTER);
  const ref = name === undefined ? undefined : refOf(name);
  if (ref === null) refuse('ref', `"ref" must be <app>/<automation>; an automation's id matches ${AUTOMATION_ID}.`);
  return {
    ...filter,
    ...(ref && { ref }),
    ...(failing && { failingFrom: firstRunIdAt(Date.now() - LIMITS.dayMs) }),
  };
}
