/** How late runs begin that are due on schedule: a thousand fires in one minute, spread over its seconds. */
import { setTimeout as wait } from 'node:timers/promises';
import type { RunRecord } from '../../protocol/automations/runs.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { eventually } from '../../testing/waiting.ts';
import { APP, automationFiles, benchApp } from '../bench-app.ts';
import { type Scenario, sized, withDaemon } from '../context.ts';
import type { Daemon } from '../daemon.ts';
import { type Finding, fact } from '../measurements.ts';
import { percentile } from '../statistics.ts';

/** Each fires four times a minute, those of one group in the same second. */
const AUTOMATIONS = { full: 250, smoke: 15 };
const FIRES_EACH = 4;
const SECONDS_APART = 60 / FIRES_EACH;
const FOR_MS = { full: 60_000, smoke: 4000 };
/** Until the minute begins, for the upload to settle. */
const SETTLE_MS = 2_000;
/** After the minute, until all runs have to have ended. */
const END_MS = 60_000;
const LOOK_MS = 100;
const UNDER_WAY = new Set(['queued', 'running']);
export const scheduleScenario: Scenario = {
  name: 'schedule',
  question: 'How late do runs begin that are due on schedule, a thousand of them in one minute?',
  run: async (context) => {
    const count = sized(context, AUTOMATIONS);
    const forMs = sized(context, FOR_MS);
    return withDaemon(context, async (daemon) => {
      await daemon.install(APP, benchApp(APP, cronFiles(count)));
      const from = Date.now() + SETTLE_MS;
      const to = from + forMs;
      await wait(to - Date.now());
      const runs = (await endedRuns(daemon, to)).filter((run) => dueAt(run) >= from && dueAt(run) < to);
      return factsAbout(runs, fireCount(count, from, to));
    });
  },
};

function cronFiles(count: number): Record<string, string> {
  const files = Array.from({ length: count }, (_, i) =>
    automationFiles(`fire-${i}`, [{ kind: 'cron', expr: `${secondsOf(i).join(',')} * * * * *` }]),
  );
  return Object.assign({}, ...files) as Record<string, string>;
}

/** The seconds of a minute in which the automation fires. */
function secondsOf(index: number): number[] {
  return Array.from({ length: FIRES_EACH }, (_, fire) => (index % SECONDS_APART) + fire * SECONDS_APART);
}

/** How many fires of all automations are due in this time. */
function fireCount(automations: number, from: number, to: number): number {
  let fires = 0;
  for (let at = Math.ceil(from / 1000); at * 1000 < to; at++)
    for (let i = 0; i < automations; i++) if (secondsOf(i).includes(at % 60)) fires++;
  return fires;
}

/** All runs, when none is under way any more that was due before `to`. Throws when some never end. */
async function endedRuns(daemon: Daemon, to: number): Promise<RunRecord[]> {
  let runs: RunRecord[] = [];
  const haveEnded = async () => {
    runs = await allRuns(daemon);
    return !runs.some((run) => UNDER_WAY.has(run.state) && dueAt(run) < to);
  };
  if (!(await eventually(END_MS, haveEnded, LOOK_MS)))
    throw new Error('Some runs had not ended long after they were due.');
  return runs;
}

async function allRuns(daemon: Daemon): Promise<RunRecord[]> {
  const runs: RunRecord[] = [];
  for (;;) {
    const before = runs.at(-1);
    const path = `/svc/_runs?app=${APP}&limit=${LIMITS.listRowsMax}${before ? `&before=${before.runId}` : ''}`;
    const page = (await (await daemon.request('GET', path)).json()) as RunRecord[];
    if (page.length === 0) return runs;
    runs.push(...page);
  }
}

/** The scheduled time of a cron run. */
function dueAt({ trigger }: RunRecord): number {
  return Number(trigger.origin);
}

function factsAbout(runs: RunRecord[], due: number): Finding[] {
  const bad = runs.filter(({ state }) => state !== 'ok');
  if (bad.length > 0) throw new Error(`${bad.length} runs did not end well; the first: ${JSON.stringify(bad[0])}`);
  const detail = `${runs.length} runs of ${due} fires that were due`;
  const late = (name: string, timeOf: (run: RunRecord) => number | null): Finding[] => {
    const drifts = runs.map((run) => (timeOf(run) ?? Number.NaN) - dueAt(run));
    return Object.entries({ p50: 0.5, p99: 0.99, worst: 1 }).map(([which, share]) =>
      fact(`${name}, ${which}`, percentile(drifts, share), 'ms', detail),
    );
  };
  return [
    ...late('from the scheduled time to the run being made', ({ queuedAt }) => queuedAt),
    ...late('from the scheduled time to the start of the run', ({ startedAt }) => startedAt),
    fact('fires that came, of those due', runs.length / due, '×', detail),
  ];
}
