/** Compares the history of runs, their summaries and what they wrote with what those who posted were told. */
import { Layout } from '../../../storage/layout.ts';
import { reading, unsound } from '../../../testing/databases.ts';
import type { Report } from '../campaign.ts';
import { KEPT } from './apps.ts';
import type { Message, Post } from './posters.ts';

export type StoredRun = {
  runId: string;
  app: string;
  id: string;
  kind: string;
  origin: string;
  state: string;
  input: string | null;
  queuedAt: number;
  endedAt: number | null;
};

type Told = { posts: Post[]; messages: Message[] };

const RUNS = `SELECT run_id AS runId, app_id AS app, automation_id AS id, trigger_kind AS kind, trigger_origin AS origin, state,
  input, queued_at AS queuedAt, ended_at AS endedAt FROM runs ORDER BY run_id`;

const STRAYS = 'SELECT DISTINCT run_id FROM run_nodes WHERE run_id NOT IN (SELECT run_id FROM runs)';
const SILENT =
  "SELECT run_id FROM runs WHERE state = 'ok' AND (SELECT count(*) FROM run_nodes AS n WHERE n.run_id = runs.run_id AND ok = 1) <> 1";

/** When a cron run of the automation was first stored after `since`, in milliseconds since the epoch; null when none was. */
export function firstFire(dataDir: string, app: string, id: string, since: number): number | null {
  const sql =
    "SELECT min(queued_at) FROM runs WHERE app_id = ? AND automation_id = ? AND trigger_kind = 'cron' AND queued_at >= ?";
  return reading(new Layout(dataDir).runtimeDb, (db) => db.prepare(sql).pluck().get(app, id, since)) as number | null;
}

export function runsOf(dataDir: string): StoredRun[] {
  return reading(new Layout(dataDir).runtimeDb, (db) => db.prepare(RUNS).all()) as StoredRun[];
}

/** What is wrong in the data directory of a gateway that has stopped; reports how many runs ended how. */
export function verifyRuns(dataDir: string, apps: string[], told: Told, report: Report): string[] {
  const layout = new Layout(dataDir);
  const runs = runsOf(dataDir);
  const rows = new Map(apps.map((app) => [app, rowsOf(layout.app(app).data)]));
  for (const { kind, state } of runs) report.add(`${kind} runs: ${state}`);
  return [
    ...[layout.runtimeDb, layout.analyticsDb, ...apps.map((app) => layout.app(app).data)].flatMap(unsound),
    ...runs.filter(({ endedAt }) => endedAt === null).map(({ runId, state }) => `the run ${runId} stays ${state}.`),
    ...checkPosts(runs, told),
    ...checkRows(runs, rows, told),
    ...checkHistory(layout, runs, apps),
  ];
}

/** What was answered is what is stored. */
function checkPosts(runs: StoredRun[], { posts, messages }: Told): string[] {
  const violations: string[] = [];
  const byId = new Map(runs.map((run) => [run.runId, run]));
  for (const { key, outcome, runId } of posts) {
    if (runId === null) {
      if (outcome === '200' || outcome === '202') violations.push(`${key} was answered ${outcome} without a run.`);
      continue;
    }
    const run = byId.get(runId);
    if (run === undefined) violations.push(`${key} was answered ${outcome} for ${runId}, which is not stored.`);
    else if (keyOf(run) !== key) violations.push(`${runId} was answered to ${key}, and is the run of ${keyOf(run)}.`);
    else if (outcome === '200' ? run.state !== 'ok' : outcome.startsWith('500') && run.state === 'ok')
      violations.push(`${key} was answered ${outcome}, and its run is stored as ${run.state}.`);
  }
  for (const { key, outcome } of messages) {
    const well = runs.filter((run) => keyOf(run) === key && run.state === 'ok').length;
    if (well !== 1) violations.push(`The message ${key} (${outcome}) was run well ${well} times.`);
  }
  return violations;
}

/** A run that went well wrote once, any other at most once; nothing ran twice, and nothing was written by no run. */
function checkRows(runs: StoredRun[], rows: Map<string, Map<string, number>>, { posts }: Told): string[] {
  const violations: string[] = [];
  const sent = new Set(posts.map(({ key }) => key));
  const byKey = new Map<string, StoredRun[]>();
  for (const run of runs.filter(({ id }) => id !== 'few')) {
    const name = `${run.app} ${keyOf(run)}`;
    byKey.set(name, [...(byKey.get(name) ?? []), run]);
  }
  for (const [name, of] of byKey) {
    const [{ app, kind, id }] = of as [StoredRun];
    const key = keyOf(of[0] as StoredRun);
    const written = rows.get(app)?.get(key) ?? 0;
    const well = of.filter(({ state }) => state === 'ok').length;
    if (of.length > 1 && id !== 'signed') violations.push(`${name} (${kind}) was run ${of.length} times.`);
    if (kind === 'webhook' && id !== 'signed' && !sent.has(key)) violations.push(`${key} ran, and nobody posted it.`);
    if (written < well || written > of.length)
      violations.push(`${name}: ${of.map(({ state }) => state).join(', ')}, and ${written} rows.`);
  }
  for (const [app, keys] of rows)
    for (const key of keys.keys())
      if (key !== 'few' && !byKey.has(`${app} ${key}`))
        violations.push(`${app} has a row of ${key}, which no run wrote.`);
  return violations;
}

function checkHistory(layout: Layout, runs: StoredRun[], apps: string[]): string[] {
  const violations: string[] = [];
  const found = (sql: string) => reading(layout.runtimeDb, (db) => db.prepare(sql).pluck().all()) as string[];
  violations.push(...found(STRAYS).map((runId) => `A node belongs to the run ${runId}, which is not stored.`));
  violations.push(...found(SILENT).map((runId) => `${runId} went well, and its one call is not stored with it.`));
  for (const app of apps) {
    const few = runs.filter((run) => run.app === app && run.id === 'few').length;
    if (few > KEPT) violations.push(`${app}/few keeps ${few} runs instead of ${KEPT}.`);
  }
  const sql = 'SELECT run_id AS runId, automation_id AS id, state FROM run_summaries';
  type Summary = Pick<StoredRun, 'runId' | 'id' | 'state'>;
  const stored = reading(layout.analyticsDb, (db) => db.prepare(sql).all()) as Summary[];
  const summaries = new Map(stored.map((summary) => [summary.runId, summary]));
  for (const { runId, state } of runs) {
    const summary = summaries.get(runId);
    if (summary === undefined) violations.push(`${runId} (${state}) has no summary.`);
    else if (summary.state !== state) violations.push(`${runId} is ${state}, its summary says ${summary.state}.`);
    summaries.delete(runId);
  }
  for (const [runId, { id }] of summaries)
    if (id !== 'few') violations.push(`There is a summary of ${runId}, and no such run.`);
  return violations;
}

/** What its fire writes into the table. */
function keyOf({ kind, origin, input }: StoredRun): string {
  return kind === 'cron' ? origin : String((JSON.parse(input ?? '{}') as { key?: unknown }).key);
}

function rowsOf(path: string): Map<string, number> {
  const rows = reading(path, (db) => db.prepare('SELECT key, count(*) FROM fires GROUP BY key').raw().all());
  return new Map(rows as [string, number][]);
}
