/** The history of runs, their events, and what can be done to a run (decisions, section 6). */
import { AUTOMATION_ID, parseRef } from '../../protocol/automation.ts';
import { SvcError } from '../../protocol/errors.ts';
import { isAppId } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { RUN_STATES, type RunRecord, type RunState } from '../../protocol/runs.ts';
import type { RunLedger } from '../automations/history/ledger.ts';
import type { RunEvents } from '../automations/history/run-events.ts';
import type { RunFilter } from '../automations/history/run-rows.ts';
import { arrayText } from '../dispatch/kept-array.ts';
import { type Caller, demand } from '../http/access/caller.ts';
import { answerJson, JSON_HEADERS } from '../http/answers.ts';
import type { Route } from '../http/router.ts';
import { integerOf, queryOf, readJson } from './requests.ts';

export type RunServices = {
  runs: RunLedger;
  runEvents: RunEvents;
  /** Stops a run that has not ended; resolves when that is stored. */
  cancelRun(runId: string): Promise<RunRecord>;
};

const RUN_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const NO_STORE = { 'cache-control': 'no-store' };

export function runRoutes(services: RunServices): Route[] {
  /** Throws `UNKNOWN_RUN`, or `FORBIDDEN` when it is of an app that the caller may not manage. */
  const known = async (runId: string, caller: Caller): Promise<RunRecord> => {
    const run = found(isRunId(runId) && (await services.runs.get(runId)));
    demand(caller, 'manage', run.app);
    return run;
  };
  return [
    {
      method: 'GET',
      path: '/svc/_runs',
      needs: 'route',
      summary: 'Runs, the newest first (`?ref=`, `?app=`, `?state=`, `?limit=`, `?before=<runId>`).',
      handle: async (exchange, _params, caller) => {
        const query = queryOf(exchange);
        const limit = integerOf(query, 'limit', LIMITS.listRows, LIMITS.listRowsMax);
        const filter = filterOf(query);
        demandRunsOf(filter, caller);
        answerJson(exchange, 200, await services.runs.list(filter, limit), NO_STORE);
      },
    },
    {
      method: 'GET',
      path: '/svc/_insights',
      needs: 'admin',
      summary: 'What the runs of the last days did: in all, by day, automation and model, and the latest (`?days=`).',
      handle: async (exchange) => {
        const days = integerOf(queryOf(exchange), 'days', LIMITS.insightsDays, LIMITS.insightsDaysMax);
        answerJson(exchange, 200, await services.runs.insights(days), NO_STORE);
      },
    },
    {
      method: 'GET',
      path: '/svc/_runs/_events',
      needs: 'route',
      summary: 'What happens in all runs from now on (server-sent events; `?ref=`, `?app=`).',
      handle: (exchange, _params, caller) => {
        const query = queryOf(exchange);
        const filter = filterOf(query);
        demandRunsOf(filter, caller);
        const { app } = filter;
        const ref = query.get('ref');
        services.runEvents.followAll(exchange, {
          ...(ref === null ? {} : { ref }),
          ...(app === undefined ? {} : { app }),
        });
      },
    },
    {
      method: 'GET',
      path: '/svc/_runs/:runId',
      needs: 'route',
      summary: 'One run.',
      handle: async (exchange, { runId = '' }, caller) =>
        answerJson(exchange, 200, await known(runId, caller), NO_STORE),
    },
    {
      method: 'GET',
      path: '/svc/_runs/:runId/nodes',
      needs: 'route',
      summary: 'What a run called, in order (`?limit=`, `?after=<ordinal>`, `?before=<ordinal>`).',
      handle: async (exchange, { runId = '' }, caller) => {
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
      },
    },
    {
      method: 'GET',
      path: '/svc/_runs/:runId/events',
      needs: 'route',
      summary: 'What happened and happens in a run, until it ends (server-sent events).',
      handle: async (exchange, { runId = '' }, caller) => {
        await known(runId, caller);
        await services.runEvents.follow(runId, exchange);
      },
    },
    {
      method: 'POST',
      path: '/svc/_runs/:runId/pin',
      needs: 'route',
      summary: 'Keep a run in the history, or no longer: `{ "pinned" }`.',
      handle: async (exchange, { runId = '' }, caller) => {
        const { pinned } = await readJson(exchange);
        await known(runId, caller);
        if (typeof pinned !== 'boolean') {
          throw new SvcError('BAD_REQUEST', '"pinned" must be true or false.', { path: 'pinned' });
        }
        answerJson(exchange, 200, found(await services.runs.pin(runId, pinned)));
      },
    },
    {
      method: 'POST',
      path: '/svc/_runs/:runId/cancel',
      needs: 'route',
      summary: 'Stop a run; one that has ended stays as it is.',
      handle: async (exchange, { runId = '' }, caller) => {
        await readJson(exchange);
        const run = await known(runId, caller);
        answerJson(exchange, 200, run.endedAt === null ? await services.cancelRun(runId) : run);
      },
    },
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

/** Throws `BAD_REQUEST` with the parameter's name in `path`. */
function filterOf(query: URLSearchParams): RunFilter {
  const refused = (path: string, message: string) => new SvcError('BAD_REQUEST', message, { path });
  const [ref, app, state, before] = ['ref', 'app', 'state', 'before'].map((name) => query.get(name));
  const filter: RunFilter = {};
  if (typeof ref === 'string') {
    const parsed = parseRef(ref);
    if (!parsed) throw refused('ref', `"ref" must be <app>/<automation>; an automation's id matches ${AUTOMATION_ID}.`);
    filter.ref = parsed;
  }
  if (typeof app === 'string') {
    if (!isAppId(app)) throw refused('app', '"app" must be the id of an app.');
    filter.app = app;
  }
  if (typeof state === 'string') {
    if (!RUN_STATES.includes(state as RunState)) throw refused('state', `"state" must be ${RUN_STATES.join(', ')}.`);
    filter.state = state as RunState;
  }
  if (typeof before === 'string') {
    if (!isRunId(before)) throw refused('before', '"before" must be the id of a run.');
    filter.before = before;
  }
  return filter;
}
