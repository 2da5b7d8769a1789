/** Running an automation by hand (decisions, section 6). */

import { automationRef } from '../../protocol/automation.ts';
import { type ErrorBody, errorEnvelope } from '../../protocol/errors.ts';
import { checkAppId } from '../../protocol/ids.ts';
import type { RunRecord } from '../../protocol/runs.ts';
import type { LiveAutomation } from '../automations/catalog.ts';
import { unknownAutomation } from '../automations/enablement.ts';
import type { Fires } from '../automations/fires/fires.ts';
import type { Exchange } from '../edge/edge.ts';
import { answerJson } from '../http/answers.ts';
import type { Route } from '../http/router.ts';
import { queryOf, readJson } from './requests.ts';

export type FireRoutesOptions = {
  catalog: { get(ref: string): LiveAutomation | undefined };
  /** Rejects with `UNKNOWN_APP`. */
  apps: { registered(app: string): Promise<void> };
  fires: Pick<Fires, 'start'>;
  /** Milliseconds since the epoch. */
  now?: () => number;
};

export function fireRoutes({ catalog, apps, fires, now = Date.now }: FireRoutesOptions): Route[] {
  return [
    {
      method: 'POST',
      path: '/svc/_automations/:app/:id/run',
      needs: 'manage',
      summary: 'Run an automation now: `{ "input"? }` (`?wait=1` answers when it has ended).',
      handle: async (exchange, { app = '', id = '' }) => {
        const { input } = await readJson(exchange);
        checkAppId(app);
        const waits = queryOf(exchange).get('wait') === '1';
        await apps.registered(app);
        const automation = catalog.get(automationRef(app, id));
        if (!automation) throw unknownAutomation(app, id);
        const started = await fires.start({ automation, trigger: { kind: 'manual', origin: null }, at: now(), input });
        if (!waits) {
          answerJson(exchange, 202, { runId: started.run.runId });
          return;
        }
        const run = await untilGone(exchange, started.ended);
        if (run) answerEnded(exchange, run);
      },
    },
  ];
}

/** Answers with a run that has ended: its record, or the error of one that failed, with `runId` beside it. */
export function answerEnded(exchange: Exchange, run: RunRecord): void {
  if (run.state === 'ok') answerJson(exchange, 200, run);
  else answerJson(exchange, 500, { ...errorEnvelope(run.error ?? noReason(run)), runId: run.runId });
}

function noReason({ state }: RunRecord): ErrorBody {
  return { code: 'RUN_ABORTED', message: `The run ended as "${state}".` };
}

/** Null when the client goes away first: the run goes on, and nobody waits for it. */
function untilGone(exchange: Exchange, ended: Promise<RunRecord>): Promise<RunRecord | null> {
  const gone = new Promise<null>((resolve) => exchange.onAbort(() => resolve(null)));
  return Promise.race([ended, gone]);
}
