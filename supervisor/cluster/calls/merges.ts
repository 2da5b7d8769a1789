/**
 * Puts together what the nodes answer to a request about the apps of all of them, in the order and with the pages of its route
 * (specification, "Calls between nodes").
 */
import type { Insights, RunSums } from '../../../protocol/automations/runs.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { serverOfAll } from '../../../protocol/routes/agents/mcp-rows.ts';
import { listApps } from '../../../protocol/routes/apps/apps-rows.ts';
import { type DescribedApp, describeTools } from '../../../protocol/routes/apps/tools-rows.ts';
import { listTrash } from '../../../protocol/routes/apps/trash-rows.ts';
import { compareWorkspace, listWorkspaces } from '../../../protocol/routes/authoring/workspaces-rows.ts';
import { listAutomations, listUpcoming } from '../../../protocol/routes/automations/automations-rows.ts';
import { listRuns, showInsights } from '../../../protocol/routes/automations/runs-rows.ts';
import type { AnswerOf, RouteRow } from '../../../protocol/routes/row.ts';
import { isRecord } from '../../../protocol/shapes/shape.ts';
import { pageOf } from '../../routes/requests.ts';

export type Merge = {
  /** `values` are what the nodes answered, parsed; `query` is that of the client. */
  of(values: unknown[], query: URLSearchParams): unknown;
  /** What the nodes are asked in place of that. */
  asked?(query: URLSearchParams): URLSearchParams;
};

/** Those that are not here answer event streams, which need none. */
export const MERGES: ReadonlyMap<RouteRow, Merge> = new Map([
  merge(listApps, (lists, query) => sortedPage(lists.flat(), 'id', query)),
  merge(listAutomations, (parts, query) => ({
    rows: sortedPage(
      parts.flatMap(({ rows }) => rows),
      'ref',
      query,
    ),
    errors: parts.flatMap(({ errors }) => errors).sort(ascending('ref')),
    total: parts.reduce((sum, { total }) => sum + total, 0),
  })),
  merge(listUpcoming, mergedUpcoming),
  // Ids of runs grow with time.
  merge(listRuns, (lists, query) => lists.flat().sort(descending('runId')).slice(0, limitIn(query, LIMITS.listRows))),
  merge(listTrash, (lists, query) =>
    lists
      .flat()
      .sort((one, other) => other.removedAt - one.removedAt || ascending('id')(one, other))
      .slice(0, limitIn(query, LIMITS.listRows)),
  ),
  merge(listWorkspaces, mergedWorkspaces, wholeWorkspaces),
  merge(compareWorkspace, (parts) => ({
    ...(parts[0] as (typeof parts)[number]),
    files: parts.flatMap(({ files }) => files).sort(ascending('app')),
    behind: parts.flatMap(({ behind }) => behind).sort(),
    network: parts.flatMap(({ network }) => network),
    uses: parts.flatMap(({ uses }) => uses),
    public: parts.flatMap((part) => part.public),
    webhooks: parts.flatMap(({ webhooks }) => webhooks),
  })),
  merge(showInsights, mergedInsights),
  merge(describeTools, (parts) => ({
    isError: false as const,
    data: { apps: describedIn(parts.map(({ data }) => data)) },
  })),
  [serverOfAll[0], { of: mergedMessages }],
]);

function merge<R extends RouteRow>(
  row: R,
  of: (values: AnswerOf<R>[], query: URLSearchParams) => AnswerOf<R>,
  asked?: Merge['asked'],
): [RouteRow, Merge] {
  return [row, { of: (values, query) => of(values as AnswerOf<R>[], query), ...(asked && { asked }) }];
}

type Compare<K extends string> = (one: Readonly<Record<K, string>>, other: Readonly<Record<K, string>>) => number;

function ascending<K extends string>(key: K): Compare<K> {
  return (one, other) => (one[key] < other[key] ? -1 : Number(one[key] > other[key]));
}

function descending<K extends string>(key: K): Compare<K> {
  return (one, other) => ascending(key)(other, one);
}

/** Each node has checked it. */
function limitIn(query: URLSearchParams, usual: number): number {
  return Number(query.get('limit') ?? usual);
}

function sortedPage<K extends string, T extends Readonly<Record<K, string>>>(
  rows: T[],
  key: K,
  query: URLSearchParams,
): T[] {
  const [after, before] = [query.get('after'), query.get('before')];
  const page = {
    limit: limitIn(query, LIMITS.listRowsMax),
    ...(after !== null && { after }),
    ...(before !== null && { before }),
  };
  return pageOf(
    page,
    rows.sort(ascending(key)),
    (row) => row[key],
    () => true,
  );
}

type Upcoming = AnswerOf<typeof listUpcoming>;

/** As `upcomingFires` bounds them. */
function mergedUpcoming(parts: Upcoming[]): Upcoming {
  const rows: Upcoming['rows'] = [];
  let left: number = LIMITS.upcomingFiresTotal;
  for (const row of parts.flatMap(({ rows }) => rows).sort(ascending('ref'))) {
    if (left === 0) return { rows, more: true };
    const fires = row.fires.slice(0, left);
    rows.push({ ...row, fires, more: row.more || fires.length < row.fires.length });
    left -= fires.length;
  }
  return { rows, more: parts.some(({ more }) => more) };
}

type Workspaces = AnswerOf<typeof listWorkspaces>;

/** Where the list goes on, only the node knows that has the workspace there. */
function wholeWorkspaces(query: URLSearchParams): URLSearchParams {
  if (query.get('before') === null) return query;
  const asked = new URLSearchParams(query);
  asked.delete('before');
  if (Number(asked.get('limit') ?? 1) <= LIMITS.listRowsMax) asked.set('limit', String(LIMITS.listRowsMax));
  return asked;
}

function mergedWorkspaces(lists: Workspaces[], query: URLSearchParams): Workspaces {
  const ageOf = ({ createdAt, touchedAt }: Workspaces[number]): number => createdAt ?? touchedAt;
  // Each node knows all, and shows those of which it knows that the caller may see them.
  const known = new Map(lists.flat().map((row) => [row.sessionId, row]));
  const rows = [...known.values()].sort(
    (one, other) => ageOf(other) - ageOf(one) || ascending('sessionId')(one, other),
  );
  const before = query.get('before');
  const from = before === null ? 0 : rows.findIndex(({ sessionId }) => sessionId === before) + 1;
  if (before !== null && from === 0)
    throw new SvcError('UNKNOWN_SESSION', `There is no open workspace "${before.slice(0, 80)}".`);
  return rows.slice(from, from + limitIn(query, LIMITS.listRows));
}

function mergedInsights(parts: Insights[]): Insights {
  const most = (one: RunSums, other: RunSums): number => other.runs - one.runs;
  const { listRowsMax, insightsRecent } = LIMITS;
  return {
    totals: parts.map(({ totals }) => totals).reduce(added),
    byDay: summed(
      parts.map(({ byDay }) => byDay),
      'day',
    ).sort(ascending('day')),
    byAutomation: summed(
      parts.map(({ byAutomation }) => byAutomation),
      'ref',
    )
      .sort(most)
      .slice(0, listRowsMax),
    byModel: summed(
      parts.map(({ byModel }) => byModel),
      'model',
    )
      .sort(most)
      .slice(0, listRowsMax),
    recent: parts
      .flatMap(({ recent }) => recent)
      .sort(descending('runId'))
      .slice(0, insightsRecent),
  };
}

function summed<K extends string, T extends RunSums & Readonly<Record<K, string>>>(lists: T[][], key: K): T[] {
  const byKey = new Map<string, T>();
  for (const sums of lists.flat()) {
    const known = byKey.get(sums[key]);
    byKey.set(sums[key], known === undefined ? sums : { ...sums, ...added(known, sums) });
  }
  return [...byKey.values()];
}

function added(one: RunSums, other: RunSums): RunSums {
  const costUsd = one.costUsd === null && other.costUsd === null ? null : (one.costUsd ?? 0) + (other.costUsd ?? 0);
  return {
    runs: one.runs + other.runs,
    ok: one.ok + other.ok,
    failed: one.failed + other.failed,
    inputTokens: one.inputTokens + other.inputTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    costUsd,
  };
}

type Message = Readonly<Record<string, unknown>>;

/** Answers of MCP: the tools that a caller may use of any app, or what `svc_describe` says of all. The error of a node is the answer. */
function mergedMessages(messages: unknown[]): unknown {
  const failed = messages.find((message) => !isRecord(message) || !isRecord(message.result) || message.result.isError);
  if (failed !== undefined) return failed;
  const results = (messages as { result: Message }[]).map(({ result }) => result);
  const [first] = results as [Message];
  const merged = { ...first };
  for (const [list, key] of [
    ['tools', 'name'],
    ['resourceTemplates', 'uriTemplate'],
  ] as const)
    if (Array.isArray(first[list])) merged[list] = union(results, list, key);
  if (Array.isArray(first.content)) {
    const texts = results.flatMap(({ content }) => content as { text: string }[]);
    const apps = describedIn(texts.map(({ text }) => JSON.parse(text)));
    merged.content = [{ type: 'text', text: JSON.stringify({ apps }) }];
  }
  return { ...(messages[0] as Message), result: merged };
}

function union(results: readonly Message[], list: string, key: string): unknown[] {
  const all = results.flatMap((result) => result[list] as Message[]);
  return [...new Map(all.map((one) => [one[key], one])).values()];
}

/** Of each node `{ apps }`: what `svc_describe` says of all. */
function describedIn(parts: readonly unknown[]): DescribedApp[] {
  return (parts as { apps: DescribedApp[] }[]).flatMap(({ apps }) => apps).sort(ascending('app'));
}
