/** Automations that misbehave: their runs end with the cause, and neither their app nor its other automations notice. */
import type { RunRecord } from '../../../protocol/automations/runs.ts';
import { inParallel } from '../../../storage/files/atomic-file.ts';
import { appOf } from '../../../testing/apps.ts';
import type { TestGateway } from '../../../testing/gateway.ts';
import { pause, within } from '../../../testing/waiting.ts';
import type { Report } from '../campaign.ts';
import TABLE from './automations.json' with { type: 'json' };
import { SETTLE_MS, settles } from './trial.ts';

const APP = 'bad-automations';
const GOOD = 'good';
const BETWEEN_MS = 50;
/** Time that a run is given, in milliseconds: a thread that starts on a busy machine needs some of it. */
export const AUTOMATION_MS = 2_000;
/** Runs that misbehave at a time. */
const SIDE_BY_SIDE = 3;

/** `run` is the body of a handler; `error` what its run is stored with. */
type AutomationKind = { id: string; run: string; error: RegExp };

const KINDS: readonly AutomationKind[] = Object.entries(TABLE).map(([id, { run, error }]) => ({
  id,
  run,
  error: new RegExp(error),
}));

/** Takes a gateway whose `automationTimeoutMs` is `AUTOMATION_MS`. */
export async function runAutomationTrials(gateway: TestGateway, report: Report): Promise<void> {
  const violated = (what: string): void => report.violated('automations', what);

  /** The run as it is stored when it has ended. */
  async function fire(id: string, input: object): Promise<RunRecord> {
    const answer = await gateway.call('POST', `/svc/_automations/${APP}/${id}/run?wait=1`, { body: { input } });
    const { runId } = answer.json as { runId?: string };
    if (runId === undefined) throw new Error(`${id} was not run: ${answer.text}`);
    return (await gateway.call('GET', `/svc/_runs/${runId}`)).json as RunRecord;
  }

  /** It runs well, within a while: the start of its thread counts as time of the run. */
  async function warm(id: string): Promise<void> {
    if (!(await settles(async () => (await fire(id, { mended: true })).state === 'ok')))
      violated(`${id} does not run well.`);
  }

  async function tryKind({ id, error }: AutomationKind): Promise<void> {
    await warm(id);
    const ended = await within(SETTLE_MS, fire(id, {}));
    if (ended === 'late') return violated(`the run of ${id} does not end.`);
    if (ended.state !== 'error' || !error.test(ended.error?.message ?? ''))
      violated(`the run of ${id} ended ${ended.state}, ${JSON.stringify(ended.error)}.`);
    await warm(id);
  }

  /** The app's query, and another automation of it, answer all the time. */
  async function watchNeighbours(): Promise<void> {
    while (trying) {
      const read = await gateway.read(APP, 'ok');
      if (read.json.data !== 'alive') violated(`their app answers ${read.text}`);
      const run = await fire(GOOD, {});
      if (run.state !== 'ok') violated(`a good one beside them ended ${JSON.stringify(run)}`);
      await pause(BETWEEN_MS);
    }
  }

  const handlers = [...KINDS, { id: GOOD, run: '' }].map(({ id, run }) => [
    id,
    `async ({ ctx, input }) => { if (!input?.mended) { ${run} } return { summary: 'well' }; }`,
  ]);
  const automations = Object.fromEntries(handlers) as Record<string, string>;
  await gateway.install(APP, appOf(APP, { queries: { ok: '() => "alive"' }, automations }));
  await warm(GOOD);
  let trying = true;
  const beside = watchNeighbours();
  await inParallel(KINDS, SIDE_BY_SIDE, tryKind);
  trying = false;
  await beside;
  report.figure('kinds of misbehaviour of automations', KINDS.length);
}
