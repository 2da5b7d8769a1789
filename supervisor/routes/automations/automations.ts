/**
 * Serves the automations of live versions over HTTP: lists, switches and runs them, mints and receives webhooks (specification,
 * "Automation files" and "Webhook requests").
 */
import type { AutomationRow, ShownRun, ShownTrigger } from '../../../protocol/answers.ts';
import {
  automationRef,
  type MintedSecretWebhook,
  parseRef,
  type Trigger,
  WEBHOOK_ROUTE_PREFIX,
  webhookUrl,
} from '../../../protocol/automations/automation.ts';
import type { CronTimes } from '../../../protocol/automations/cron-times.ts';
import type { RunRecord } from '../../../protocol/automations/runs.ts';
import { checkAppId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { sortedBy } from '../../../protocol/routes/pieces.ts';
import { flag, object, text } from '../../../protocol/shapes/schema.ts';
import { shape, type ValueOf } from '../../../protocol/shapes/shape.ts';
import type { AutomationCatalog, AutomationFault, LiveAutomation } from '../../automations/catalog.ts';
import { type Enablement, unknownAutomation } from '../../automations/enablement.ts';
import type { Fires } from '../../automations/fires/fires.ts';
import { upcomingFires } from '../../automations/schedule/upcoming.ts';
import { answerFailedRun, type Webhooks } from '../../automations/webhooks/webhooks.ts';
import type { Exchange } from '../../edge/edge.ts';
import { demand } from '../../http/access/grants.ts';
import { answerJson } from '../../http/answers.ts';
import { type Route, route } from '../../http/router.ts';
import { integerOf, pageOf, paramsOf, queryOf, readBody, readJson, refuse } from '../requests.ts';

const PAGE = shape(sortedBy('ref'));
const ENABLED = shape(object({ enabled: flag }));
const PROVISION = shape(object({}, { app: text, ref: text, renew: flag }));

type AutomationRoutesOptions = {
  catalog: AutomationCatalog;
  enablement: Enablement;
  /** When a cron trigger of it fires next, in milliseconds since the epoch; null when none does. */
  nextRunAt(ref: string): number | null;
  times: CronTimes;
  /** Milliseconds since the epoch. */
  now(): number;
  /** The latest run of each of these, where there is one. */
  lastRuns(refs: string[]): Promise<ReadonlyMap<string, RunRecord>>;
  /** Where others reach the gateway, for the addresses of webhooks; called in the turn in which the exchange was handed over. */
  publicOrigin(exchange: Exchange): string;
  /** Why there is no value of an app's secret, and what to do; null when there is one. */
  secretProblem(app: string, name: string): string | null;
  /** Rejects with `UNKNOWN_APP`. */
  registered(app: string): Promise<void>;
};

/** Of the calendar, unless more are asked for. */
const UPCOMING_DAYS = 7;

export function automationRoutes(options: AutomationRoutesOptions): Route[] {
  const { catalog, enablement } = options;
  const rowsOf = async (automations: LiveAutomation[], origin: string): Promise<AutomationRow[]> => {
    const runs = await options.lastRuns(automations.map(({ ref }) => ref));
    return automations.map((automation) => {
      const { ref, app, manifest } = automation;
      const problemOf = (secret: string) => options.secretProblem(app, secret);
      const triggers = manifest.triggers.map((trigger) => shownTrigger(trigger, origin, problemOf));
      return row(automation, triggers, options.nextRunAt(ref), runs.get(ref));
    });
  };
  const rowOf = async (automation: LiveAutomation, origin: string): Promise<AutomationRow> =>
    (await rowsOf([automation], origin))[0] as AutomationRow;
  return [
    route('GET', '/svc/_automations', 'route', async (exchange, _params, caller) => {
      const origin = options.publicOrigin(exchange);
      const query = queryOf(exchange);
      const app = query.get('app') ?? undefined;
      demand(caller, app === undefined ? 'admin' : 'manage', app ?? null);
      if (app !== undefined) await options.registered(app);
      const errors: AutomationFault[] = catalog.faults(app);
      const all = catalog.list(app);
      const page = pageOf(
        paramsOf(query, PAGE),
        all,
        ({ ref }) => ref,
        (ref) => parseRef(ref) !== null,
      );
      const answer = { rows: await rowsOf(page, origin), errors, total: all.length };
      answerJson(exchange, 200, answer, { 'cache-control': 'no-store' });
    }),
    route('GET', '/svc/_automations/_upcoming', 'route', async (exchange, _params, caller) => {
      const query = queryOf(exchange);
      const app = query.get('app') ?? undefined;
      demand(caller, app === undefined ? 'admin' : 'manage', app ?? null);
      const days = integerOf(query, 'days', UPCOMING_DAYS, LIMITS.upcomingDays);
      if (app !== undefined) await options.registered(app);
      const answer = await upcomingFires(catalog.list(app), options.times, options.now(), days);
      answerJson(exchange, 200, answer, { 'cache-control': 'no-store' });
    }),
    route('GET', '/svc/_automations/:app/:id', 'manage', async (exchange, { app = '', id = '' }) => {
      const origin = options.publicOrigin(exchange);
      checkAppId(app);
      const manifest = await enablement.manifest(app, id);
      const automation = catalog.get(`${app}/${id}`);
      if (automation === undefined) throw unknownAutomation(app, id);
      const shown = { ...manifest, triggers: manifest.triggers.map(withoutHash) };
      answerJson(
        exchange,
        200,
        { ...(await rowOf(automation, origin)), manifest: shown },
        { 'cache-control': 'no-store' },
      );
    }),
    route('POST', '/svc/_automations/:app/:id/enabled', 'manage', async (exchange, { app = '', id = '' }) => {
      const origin = options.publicOrigin(exchange);
      const { enabled } = await readBody(exchange, ENABLED);
      checkAppId(app);
      answerJson(exchange, 200, await rowOf(await enablement.setEnabled(app, id, enabled), origin));
    }),
    route('POST', '/svc/_automations/_provision', 'route', async (exchange, _params, caller) => {
      const origin = options.publicOrigin(exchange);
      const { one, app } = provisionRequest(await readBody(exchange, PROVISION));
      const named = one?.app ?? app;
      demand(caller, named === null ? 'admin' : 'manage', named);
      const webhooks = one
        ? await enablement.provisionOne(one.app, one.id, one.renew, origin)
        : await enablement.provision(app, origin);
      answerJson(exchange, 200, { webhooks });
    }),
  ];
}

type ProvisionRequest = { one: { app: string; id: string; renew: boolean } | null; app: string | null };

function provisionRequest({ app, ref, renew = false }: ValueOf<typeof PROVISION>): ProvisionRequest {
  if (ref === undefined) {
    if (renew) refuse('ref', '"renew" needs the "ref" of one automation.');
    if (app !== undefined) checkAppId(app);
    return { one: null, app: app ?? null };
  }
  if (app !== undefined) refuse('ref', 'Send "app" or "ref", not both.');
  const parsed = parseRef(ref) ?? refuse('ref', '"ref" must be "<app>/<automation>".');
  return { one: { ...parsed, renew }, app: null };
}

function row(
  automation: LiveAutomation,
  triggers: ShownTrigger[],
  nextRunAt: number | null,
  lastRun: RunRecord | undefined,
): AutomationRow {
  const { ref, app, id, manifest } = automation;
  return {
    ref,
    app,
    id,
    name: manifest.name,
    ...(manifest.description === undefined ? {} : { description: manifest.description }),
    enabled: manifest.enabled,
    triggers,
    ...(nextRunAt === null ? {} : { nextRunAt }),
    ...(lastRun === undefined ? {} : { lastRun: shownRun(lastRun) }),
  };
}

function shownTrigger(trigger: Trigger, origin: string, problemOf: (secret: string) => string | null): ShownTrigger {
  const shown = withoutHash(trigger);
  if (!('id' in shown)) return shown;
  const problem = 'verify' in shown ? problemOf(shown.secret) : null;
  return { ...shown, url: webhookUrl(origin, shown.id), ...(problem !== null && { problem }) };
}

/** Hashes of secrets never leave. */
function withoutHash(
  trigger: Trigger,
): Exclude<Trigger, MintedSecretWebhook> | Omit<MintedSecretWebhook, 'secretHash'> {
  if (!('secretHash' in trigger)) return trigger;
  const { secretHash, ...shown } = trigger;
  return shown;
}

function shownRun({ input, output, ...run }: RunRecord): ShownRun {
  return run;
}

type FireRoutesOptions = Pick<AutomationRoutesOptions, 'registered'> & {
  catalog: Pick<AutomationCatalog, 'get'>;
  fires: Pick<Fires, 'start'>;
  /** Milliseconds since the epoch. */
  now?: () => number;
};

export function fireRoutes({ catalog, registered, fires, now = Date.now }: FireRoutesOptions): Route[] {
  return [
    route('POST', '/svc/_automations/:app/:id/run', 'manage', async (exchange, { app = '', id = '' }) => {
      const { input } = await readJson(exchange);
      checkAppId(app);
      const waits = queryOf(exchange).get('wait') === '1';
      await registered(app);
      const automation = catalog.get(automationRef(app, id));
      if (!automation) throw unknownAutomation(app, id);
      const started = await fires.start({ automation, trigger: { kind: 'manual', origin: null }, at: now(), input });
      if (!waits) {
        answerJson(exchange, 202, { runId: started.run.runId });
        return;
      }
      const run = await untilGone(exchange, started.ended);
      if (run?.state === 'ok') answerJson(exchange, 200, run);
      else if (run) answerFailedRun(exchange, run);
    }),
  ];
}

/** Null when the client goes away first; the run goes on. */
function untilGone(exchange: Exchange, ended: Promise<RunRecord>): Promise<RunRecord | null> {
  const gone = new Promise<null>((resolve) => exchange.onAbort(() => resolve(null)));
  return Promise.race([ended, gone]);
}

export function hookRoutes(webhooks: Webhooks): Route[] {
  return [
    // Everything below the prefix, undecoded: what is no slug is refused by the webhook's own rules, without a token.
    route('POST', `${WEBHOOK_ROUTE_PREFIX}*`, 'anyone', (exchange, { '*': rest = '' }) =>
      webhooks.receive(exchange, rest.slice(1)),
    ),
  ];
}
