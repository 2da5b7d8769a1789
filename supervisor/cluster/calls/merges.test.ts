/** What is put together of several nodes is what one gateway with all of it answers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { serverOfAll } from '../../../protocol/routes/agents/mcp-rows.ts';
import { listApps } from '../../../protocol/routes/apps/apps-rows.ts';
import { describeTools } from '../../../protocol/routes/apps/tools-rows.ts';
import { listTrash } from '../../../protocol/routes/apps/trash-rows.ts';
import { listWorkspaces } from '../../../protocol/routes/authoring/workspaces-rows.ts';
import { listAutomations, listUpcoming } from '../../../protocol/routes/automations/automations-rows.ts';
import { listRuns, showInsights } from '../../../protocol/routes/automations/runs-rows.ts';
import type { RouteRow } from '../../../protocol/routes/row.ts';
import { type Subject, subjectsOf } from '../../../protocol/routes/subjects.ts';
import { pageOf } from '../../routes/requests.ts';
import { MERGES } from './merges.ts';

function merged(row: RouteRow, parts: unknown[], query = ''): unknown {
  return MERGES.get(row)?.of(parts, new URLSearchParams(query));
}

function isAboutEvery(subject: Subject): boolean {
  return subject === 'every' || (typeof subject === 'object' && 'without' in subject && isAboutEvery(subject.without));
}

const NAMES = [...'hbdjfaecgi'];
/** As three nodes have them. */
const SPLIT = [NAMES.slice(0, 4), [], NAMES.slice(4)];

test('each route about the apps of all nodes can put their answers together, or sends events', () => {
  for (const [row, subject] of subjectsOf())
    if (isAboutEvery(subject) && !MERGES.has(row)) assert.ok(row.answer.events, `${row.method} ${row.path}`);
});

test('a sorted list has the pages of the whole', () => {
  const rowsOf = (ids: string[]) => ids.map((id) => ({ id })).sort((a, b) => (a.id < b.id ? -1 : 1));
  const all = rowsOf(NAMES);
  for (const query of ['', 'limit=3', 'after=c', 'limit=2&after=c', 'limit=3&before=h', 'after=j']) {
    const { limit, ...keys } = Object.fromEntries(new URLSearchParams(query));
    const page = { ...keys, ...(limit !== undefined && { limit: Number(limit) }) };
    const paged = (rows: { id: string }[]) =>
      pageOf(
        page,
        rows,
        ({ id }) => id,
        () => true,
      );
    const parts = SPLIT.map((ids) => paged(rowsOf(ids)));
    assert.deepEqual(merged(listApps, parts, query), paged(all), query);
    const ofAutomations = parts.map((rows) => ({
      rows: rows.map(({ id }) => ({ ref: id })),
      errors: [],
      total: rows.length,
    }));
    const total = ofAutomations.reduce((sum, part) => sum + part.total, 0);
    const refs = paged(all).map(({ id }) => ({ ref: id }));
    assert.deepEqual(merged(listAutomations, ofAutomations, query), { rows: refs, errors: [], total });
  }
});

test('files of automations that cannot be used are sorted', () => {
  const part = (ref: string) => ({ rows: [], errors: [{ ref, code: 'x', message: 'y' }], total: 0 });
  const { errors } = merged(listAutomations, [part('b/x'), part('a/x')]) as { errors: { ref: string }[] };
  assert.deepEqual(
    errors.map(({ ref }) => ref),
    ['a/x', 'b/x'],
  );
});

test('runs and removed apps are the newest first, as many as are asked for', () => {
  const runs = SPLIT.map((ids) => ids.map((runId) => ({ runId })).sort((a, b) => (a.runId < b.runId ? 1 : -1)));
  const ids = (rows: unknown) => (rows as { runId: string }[]).map(({ runId }) => runId).join('');
  assert.equal(ids(merged(listRuns, runs)), 'jihgfedcba');
  assert.equal(ids(merged(listRuns, runs, 'limit=3')), 'jih');
  const many = Array.from({ length: LIMITS.listRows }, (_, at) => ({ runId: String(at).padStart(3, '0') }));
  assert.equal((merged(listRuns, [many, many]) as unknown[]).length, LIMITS.listRows);
  const trashed = (id: string, removedAt: number) => ({ id, removedAt });
  const parts = [[trashed('b-2', 2), trashed('c-1', 1)], [trashed('a-2', 2)]];
  assert.deepEqual(merged(listTrash, parts, 'limit=2'), [trashed('a-2', 2), trashed('b-2', 2)]);
});

test('a list of workspaces goes on behind one that another node has', () => {
  const workspace = (sessionId: string, createdAt: number | null) => ({ sessionId, createdAt, touchedAt: 5 });
  const parts = [[workspace('new', 9), workspace('old', 1)], [workspace('damaged', null)]];
  const names = (query: string) =>
    (merged(listWorkspaces, parts, query) as { sessionId: string }[]).map(({ sessionId }) => sessionId);
  assert.deepEqual(names(''), ['new', 'damaged', 'old']);
  assert.deepEqual(names('before=new&limit=1'), ['damaged']);
  assert.throws(() => names('before=none'), { code: 'UNKNOWN_SESSION' });
  const asked = (query: string) => String(MERGES.get(listWorkspaces)?.asked?.(new URLSearchParams(query)));
  assert.equal(asked('limit=2'), 'limit=2');
  assert.equal(asked('before=new&limit=2'), `limit=${LIMITS.listRowsMax}`);
  assert.equal(asked('before=new&limit=99999'), 'limit=99999');
  assert.equal(asked('before=new&limit=x'), 'limit=x');
});

test('the next fires are as many as one gateway answers', () => {
  const row = (ref: string, fires: number) => ({
    ref,
    fires: Array.from({ length: fires }, (_, at) => at),
    more: false,
  });
  assert.deepEqual(
    merged(listUpcoming, [
      { rows: [row('b/x', 1)], more: false },
      { rows: [row('a/x', 2)], more: true },
    ]),
    {
      rows: [row('a/x', 2), row('b/x', 1)],
      more: true,
    },
  );
  const most = LIMITS.upcomingFiresTotal;
  const answer = merged(listUpcoming, [
    { rows: [row('c/x', 1), row('b/x', 2)], more: false },
    { rows: [row('a/x', most - 1)], more: false },
  ]) as { rows: { ref: string; fires: number[]; more: boolean }[]; more: boolean };
  assert.deepEqual(
    answer.rows.map(({ ref, fires, more }) => [ref, fires.length, more]),
    [
      ['a/x', most - 1, false],
      ['b/x', 1, true],
    ],
  );
  assert.equal(answer.more, true);
});

test('the sums of runs are added', () => {
  const sums = (runs: number, costUsd: number | null) => ({
    runs,
    ok: runs - 1,
    failed: 1,
    inputTokens: 10,
    outputTokens: 20,
    costUsd,
  });
  const part = (own: ReturnType<typeof sums>, day: string, ref: string, runId: string) => ({
    totals: own,
    byDay: [{ ...own, day }],
    byAutomation: [{ ...own, ref }],
    byModel: [],
    recent: [{ runId }],
  });
  const answer = merged(showInsights, [
    part(sums(3, null), '2026-02-02', 'notes/x', '1'),
    part(sums(5, 0.5), '2026-02-01', 'todos/x', '3'),
    part(sums(4, null), '2026-02-02', 'notes/x', '2'),
  ]);
  assert.deepEqual(answer, {
    totals: { runs: 12, ok: 9, failed: 3, inputTokens: 30, outputTokens: 60, costUsd: 0.5 },
    byDay: [
      { ...sums(5, 0.5), day: '2026-02-01' },
      { runs: 7, ok: 5, failed: 2, inputTokens: 20, outputTokens: 40, costUsd: null, day: '2026-02-02' },
    ],
    byAutomation: [
      { runs: 7, ok: 5, failed: 2, inputTokens: 20, outputTokens: 40, costUsd: null, ref: 'notes/x' },
      { ...sums(5, 0.5), ref: 'todos/x' },
    ],
    byModel: [],
    recent: [{ runId: '3' }, { runId: '2' }, { runId: '1' }],
  });
});

test('apps are described in the order of their ids, over MCP too', () => {
  const data = (app: string) => ({ apps: [{ app }] });
  const both = { apps: [{ app: 'notes' }, { app: 'todos' }] };
  const described = merged(
    describeTools,
    [data('todos'), data('notes')].map((each) => ({ isError: false, data: each })),
  );
  assert.deepEqual(described, { isError: false, data: both });
  const message = (result: unknown) => ({ jsonrpc: '2.0', id: 7, result });
  const content = (value: unknown) => [{ type: 'text', text: JSON.stringify(value) }];
  const over = (...results: unknown[]) => merged(serverOfAll[0], results.map(message));
  assert.deepEqual(
    over({ content: content(data('todos')) }, { content: content(data('notes')) }),
    message({ content: content(both) }),
  );
  // Each node knows of its own apps what the caller may do there.
  const [describe, read, write] = ['svc_describe', 'svc_read', 'svc_write'].map((name) => ({ name }));
  assert.deepEqual(
    over({ tools: [describe, read] }, { tools: [describe, read, write] }),
    message({ tools: [describe, read, write] }),
  );
  const template = { uriTemplate: 'svc://{app}' };
  assert.deepEqual(
    over({ resourceTemplates: [] }, { resourceTemplates: [template] }),
    message({ resourceTemplates: [template] }),
  );
  const refused = { jsonrpc: '2.0', id: 7, error: { code: -32602, message: 'No.' } };
  assert.deepEqual(merged(serverOfAll[0], [message({ tools: [] }), refused]), refused);
});
