/** Serves runs over HTTP: their history, their events, and operations on a run (specification, "Runs"). */
import { AUTOMATION_ID, parseRef } from '../../../protocol/automations/automation.ts';
import { CHAT_RUNS, type RunRecord } from '../../../protocol/automations/runs.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { isAppId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import {
  cancelRun,
  followRun,
  followRuns,
  listNodes,
  listRuns,
  pinRun,
  RUN_ID,
  showInsights,
  showRun,
} from '../../../protocol/routes/automations/runs-rows.ts';
import type { QueryOf } from '../../../protocol/routes/row.ts';
import { shape } from '../../../protocol/shapes/shape.ts';
import type { RunFilter } from '../../../storage/automations/run-rows.ts';
import { arrayText } from '../../dispatch/kept-array.ts';
import { type Caller, demand } from '../../http/access/grants.ts';
import { answerJson, JSON_HEADERS, NO_STORE } from '../../http/answers.ts';
import type { Route } from '../../http/router.ts';
import type { RunLedger } from '../../runs/ledger.ts';
import { firstRunIdAt } from '../../runs/retention.ts';
import type { RunEvents } from '../../runs/run-events.ts';
import { bodyOf, paramsOf, queryOf, readJson, refuse } from '../requests.ts';
import { serve, serveRaw } from '../serve-row.ts';

type RunServices = {
  runs: RunLedger;
  runEvents: RunEvents;
  /** Stops a run that has not ended; resolves when that is stored. */
  cancelRun(runId: string): Promise<RunRecord>;
};

const ID = shape(RUN_ID);
const FOLLOWED = shape(followRuns.query);
const NODES = shape(listNodes.query);
const PIN = shape(pinRun.body);

export function runRoutes(services: RunServices): Route[] {
  /** Throws `UNKNOWN_RUN`, or `FORBIDDEN` when it is of an app that the caller may not manage. */
  const known = async (runId: string, caller: Caller): Promise<RunRecord> => {
    const run = found(ID.holds(runId) && (await services.runs.get(runId)));
    demand(caller, 'manage', run.app);
    return run;
  };
  return [
    ...serve(listRuns, async ({ query: { limit, ...query }, caller }) => {
      const filter = filterOf(query);
      demandRunsOf(filter, caller);
      return services.runs.list(filter, limit);
    }),
    ...serve(showInsights, ({ query: { days = LIMITS.insightsDays } }) => services.runs.insights(days)),
    ...serveRaw(followRuns, (exchange, _params, caller) => {
      const query = paramsOf(queryOf(exchange), FOLLOWED);
      demandRunsOf(filterOf(query), caller);
      services.runEvents.followAll(exchange, query);
    }),
    ...serve(showRun, ({ params: { runId }, caller }) => known(runId, caller)),
    ...serveRaw(listNodes, async (exchange, { runId = '' }, caller) => {
      const { limit = LIMITS.listRowsMax, after = 0, before } = paramsOf(queryOf(exchange), NODES);
      const run = await known(runId, caller);
      // Ordinals count from 1 without a gap.
      const from = before === undefined ? after : Math.max(after, before - 1 - limit);
      const most = before === undefined ? limit : Math.max(0, Math.min(limit, before - 1 - from));
      const nodes = await services.runs.nodes(run, { after: from, limit: most });
      exchange.send(200, NO_STORE, await arrayText(nodes), JSON_HEADERS);
    }),
    ...serveRaw(followRun, async (exchange, { runId = '' }, caller) => {
      await known(runId, caller);
      await services.runEvents.follow(runId, exchange);
    }),
    // Its body is judged after the right: whose run it is, only its record says.
    ...serveRaw(pinRun, async (exchange, { runId = '' }, caller) => {
      const sent = await readJson(exchange);
      await known(runId, caller);
      const { pinned } = bodyOf(sent, PIN);
      answerJson(exchange, 200, found(await services.runs.pin(runId, pinned)), NO_STORE);
    }),
    ...serve(cancelRun, async ({ params: { runId }, caller }) => {
      const run = await known(runId, caller);
      return run.endedAt === null ? services.cancelRun(runId) : run;
    }),
  ];
}

/** All runs are the administrator's. Throws `FORBIDDEN`. */
function demandRunsOf({ app, ref }: RunFilter, caller: Caller): void {
  const named = app ?? ref?.app ?? null;
  demand(caller, named === null ? 'admin' : 'manage', named);
  if (app !== undefined && ref !== undefined) demand(caller, 'manage', ref.app);
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
function filterOf({ ref: name, failing, ...filter }: Omit<QueryOf<typeof listRuns>, 'limit'>): RunFilter {
  const ref = name === undefined ? undefined : refOf(name);
  if (ref === null) refuse('ref', `"ref" must be <app>/<automation>; an automation's id matches ${AUTOMATION_ID}.`);
  return {
    ...filter,
    ...(ref && { ref }),
    ...(failing && { failingFrom: firstRunIdAt(Date.now() - LIMITS.dayMs) }),
  };
}
