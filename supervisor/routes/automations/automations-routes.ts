/**
 * Serves the automations of live versions over HTTP: lists, switches and runs them, mints and receives webhooks (specification,
 * "Automation files" and "Webhook requests").
 */
import type { AutomationRow, ShownRun, ShownTrigger } from '../../../protocol/answer-types.ts';
import {
  automationRef,
  type MintedSecretWebhook,
  parseRef,
  type Trigger,
  webhookUrl,
} from '../../../protocol/automations/automation.ts';
import type { CronTimes } from '../../../protocol/automations/cron-times.ts';
import type { RunRecord } from '../../../protocol/automations/runs.ts';
import { checkAppId } from '../../../protocol/ids.ts';
import {
  listAutomations,
  listUpcoming,
  provisionWebhooks,
  receiveWebhook,
  runAutomation,
  showAutomation,
  switchAutomation,
  UPCOMING_DAYS,
} from '../../../protocol/routes/automations/automations-rows.ts';
import type { BodyOf } from '../../../protocol/routes/row.ts';
import { shape } from '../../../protocol/shapes/shape.ts';
import { causeOf } from '../../../protocol/wire/handler-caller.ts';
import type { AutomationCatalog, LiveAutomation } from '../../automations/catalog.ts';
import { type Enablement, unknownAutomation } from '../../automations/enablement.ts';
import type { Fires } from '../../automations/fires/fires.ts';
import { upcomingFires } from '../../automations/schedule/upcoming.ts';
import { answerFailedRun, type Webhooks } from '../../automations/webhooks/webhooks.ts';
import type { Exchange } from '../../edge/edge.ts';
import { demand } from '../../http/access/grants.ts';
import { answerJson } from '../../http/answers.ts';
import type { Route } from '../../http/router.ts';
import { pageOf, paramsOf, queryOf, readBody, refuse } from '../requests.ts';
import { serve, serveRaw } from '../serve-row.ts';

const WAIT = shape(runAutomation.query);
const INPUT = shape(runAutomation.body);

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
  /** Where others reach the gateway, for the addresses of webhooks; `host` is that of the request. */
  publicOrigin(host: string | undefined): string;
  /** Why there is no value of an app's secret, and what to do; null when there is one. */
  secretProblem(app: string, name: string): string | null;
  /** Rejects with `UNKNOWN_APP`. */
  registered(app: string): Promise<void>;
};

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
    ...serve(listAutomations, async ({ query: { app, ...page }, headers }) => {
      const origin = options.publicOrigin(headers.host);
      if (app !== undefined) await options.registered(app);
      const errors = catalog.faults(app);
      const all = catalog.list(app);
      const shown = pageOf(
        page,
        all,
        ({ ref }) => ref,
        (ref) => parseRef(ref) !== null,
      );
      return { rows: await rowsOf(shown, origin), errors, total: all.length };
    }),
    ...serve(listUpcoming, async ({ query: { app, days = UPCOMING_DAYS } }) => {
      if (app !== undefined) await options.registered(app);
      return upcomingFires(catalog.list(app), options.times, options.now(), days);
    }),
    ...serve(showAutomation, async ({ params: { app, id }, headers }) => {
      checkAppId(app);
      const manifest = await enablement.manifest(app, id);
      const automation = catalog.get(`${app}/${id}`);
      if (automation === undefined) throw unknownAutomation(app, id);
      const shown = { ...manifest, triggers: manifest.triggers.map(withoutHash) };
      return { ...(await rowOf(automation, options.publicOrigin(headers.host))), manifest: shown };
    }),
    ...serve(switchAutomation, async ({ params: { app, id }, body: { enabled }, headers }) => {
      checkAppId(app);
      return rowOf(await enablement.setEnabled(app, id, enabled), options.publicOrigin(headers.host));
    }),
    ...serve(provisionWebhooks, async ({ body, headers, caller }) => {
      const origin = options.publicOrigin(headers.host);
      const { one, app } = provisionRequest(body);
      const named = one?.app ?? app;
      demand(caller, named === null ? 'admin' : 'manage', named);
      const webhooks = one
        ? await enablement.provisionOne(one.app, one.id, one.renew, origin)
        : await enablement.provision(app, origin);
      return { webhooks };
    }),
  ];
}

type ProvisionRequest = { one: { app: string; id: string; renew: boolean } | null; app: string | null };

function provisionRequest({ app, ref, renew = false }: BodyOf<typeof provisionWebhooks>): ProvisionRequest {
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
    ...serveRaw(runAutomation, async (exchange, { app = '', id = '' }, caller) => {
      const { wait } = paramsOf(queryOf(exchange), WAIT);
      const { input } = await readBody(exchange, INPUT);
      checkAppId(app);
      await registered(app);
      const automation = catalog.get(automationRef(app, id));
      if (!automation) throw unknownAutomation(app, id);
      const started = await fires.start({
        automation,
        trigger: { kind: 'manual', origin: null },
        at: now(),
        input,
        ...causeOf(caller.shown(app)),
      });
      if (wait !== '1') {
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
    ...serveRaw(receiveWebhook, (exchange, { '*': rest = '' }) => webhooks.receive(exchange, rest.slice(1))),
  ];
}
