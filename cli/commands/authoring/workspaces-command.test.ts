import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failure, type Routes, startGateway, svc } from '../../../testing/command-line.ts';
import { EXIT } from '../../failure.ts';

const workspace = (sessionId: string, ...apps: string[]) => ({ sessionId, apps, touchedAt: 0, createdAt: 0 });
const WORKSPACES = 'GET /svc/_sessions?limit=500';
const publishing = (sessionId: string, code: string, more: object = {}): Routes => ({
  [`POST /svc/_sessions/${sessionId}/publish`]: failure(409, code, 'It cannot be.', more),
});
const CONFLICT = publishing('ben', 'MERGE_CONFLICT', { files: ['style.css'] });
const TAKE_IN = [
  'svc diff notes --workspace ben\n',
  'svc workspaces update ben --app notes\n',
  'then publish again: svc publish notes --workspace ben\n',
];
const TWO = { [WORKSPACES]: { json: [workspace('ben', 'notes'), workspace('tpl', 'todos', 'board')] } };
const LIVE = { 'GET /svc/_apps': { json: [{ id: 'shop' }] } };
const NO_APP = failure(404, 'UNKNOWN_APP', 'No such app.');

const CASES: [line: string, routes: Routes, said: string[]][] = [
  ['publish notes --workspace ben', CONFLICT, TAKE_IN],
  ['publish notes', { ...CONFLICT, ...TWO }, TAKE_IN],
  ['publish --workspace ben', { ...CONFLICT, ...TWO }, TAKE_IN],
  [
    'publish --workspace tpl',
    { ...publishing('tpl', 'MERGE_CONFLICT', { files: ['a'] }), ...TWO },
    ['svc workspaces update tpl --app <app>\n'],
  ],
  [
    'publish notes --workspace ben',
    publishing('ben', 'MERGE_CONFLICT', { files: ['style.css'], path: 'style.css' }),
    ['Where they are: svc diff notes --workspace ben\n', 'When all are resolved: svc publish notes --workspace ben\n'],
  ],
  [
    'publish notes --workspace ben',
    publishing('ben', 'INVALID_MIGRATION', { path: 'migrations/0002_b.sql', files: ['migrations/0002_b.sql', 'x'] }),
    ['Take the other one in: svc workspaces update ben --app notes\n', 'svc publish notes --workspace ben\n'],
  ],
  ['publish notes', { ...publishing('ben', 'NO_CHANGES'), ...TWO }, ['svc dev <dir> --workspace ben\n']],
  [
    'diff nosuch --workspace tpl',
    { ...TWO, ...LIVE, 'GET /svc/_sessions/tpl/diff?app=nosuch': NO_APP },
    ['Apps of tpl: todos, board\n'],
  ],
  [
    'publish shp --workspace tpl',
    { ...TWO, ...LIVE, 'POST /svc/_sessions/tpl/publish': NO_APP },
    ['Did you mean "shop"?\n'],
  ],
  [
    'workspaces update tpl --app tods',
    { ...TWO, ...LIVE, 'POST /svc/_sessions/tpl/apps/tods/update': NO_APP },
    ['Did you mean "todos"?\n'],
  ],
];

for (const [line, routes, said] of CASES) {
  test(`svc ${line} says what can be pasted: ${said.at(-1)?.trim()}`, async (t) => {
    const { env } = await startGateway(t, { [WORKSPACES]: { json: [] }, ...routes });
    const { code, stderr } = await svc(line.split(' '), { env });
    assert.equal(code, EXIT.failed, stderr);
    for (const text of said) assert.ok(stderr.includes(text), `"${text}" is not in:\n${stderr}`);
  });
}

test('an update is not advised while marks of the last update are left', async (t) => {
  const routes = publishing('ben', 'MERGE_CONFLICT', { files: ['style.css'], path: 'style.css' });
  const { env } = await startGateway(t, routes);
  const { stderr } = await svc(['publish', 'notes', '--workspace', 'ben'], { env });
  assert.ok(!stderr.includes('svc workspaces update'), stderr);
});

test('each command says how to name the workspace', async (t) => {
  const { env } = await startGateway(t, {
    [WORKSPACES]: { json: [workspace('ann', 'notes'), workspace('ben', 'notes')] },
  });
  for (const [line, said] of [
    ['publish notes', '--workspace <id>\n'],
    ['diff', '--workspace <id>\n'],
    ['workspaces update', 'svc workspaces update <id>\n'],
    ['workspaces update --app notes', 'svc workspaces update <id> --app notes\n'],
  ] as const) {
    const { code, stderr } = await svc(line.split(' '), { env });
    assert.equal(code, EXIT.usage, stderr);
    assert.ok(stderr.includes(`name one: ${said}`), `svc ${line}: ${stderr}`);
  }
});

test('a publication can be undone when an older version is kept', async (t) => {
  const answer = { id: 'notes', version: 2, tag: 'notes/v2', sha: 'a'.repeat(40), migrationsApplied: [], webhooks: [] };
  const older: { versionId: string }[] = [];
  const { env } = await startGateway(t, {
    'POST /svc/_sessions/ben/publish': { status: 201, json: answer },
    'GET /svc/_apps/notes/versions?limit=1&before=notes%2Fv2': () => ({ json: older }),
  });
  const publish = () => svc(['publish', 'notes', '--workspace', 'ben'], { env });
  const alone = await publish();
  assert.equal(alone.code, EXIT.ok, alone.stderr);
  assert.ok(!alone.stdout.includes('svc rollback'), alone.stdout);
  older.push({ versionId: 'notes/v1' });
  assert.match((await publish()).stdout, /undo {6}svc rollback notes\n/);
});

test('without the git store a new data directory is named; unknown templates are listed once', async (t) => {
  const { env } = await startGateway(t, {
    [WORKSPACES]: failure(409, 'NO_GIT_STORE', 'This gateway keeps no drafts.'),
    'POST /svc/_apps/_clone': failure(404, 'UNKNOWN_TEMPLATE', 'There is no template "x"; there are: kanban, todos.'),
    'GET /svc/_templates': { json: [{ id: 'kanban' }, { id: 'todos' }] },
  });
  const { stderr } = await svc(['workspaces'], { env });
  assert.match(stderr, /svc convert --store git\n/);
  const template = await svc(['new', '--clone', 'x'], { env });
  assert.equal(template.stderr.match(/kanban/g)?.length, 1, template.stderr);
});

test('svc diff names the webhooks that publishing creates', async (t) => {
  const json = {
    base: 'a',
    head: 'b',
    files: [],
    behind: [],
    webhooks: [{ ownerApp: 'notes', automationId: 'inbox' }],
  };
  const { env } = await startGateway(t, { 'GET /svc/_sessions/ben/diff?app=notes': { json } });
  const { stderr } = await svc(['diff', 'notes', '--workspace', 'ben'], { env });
  assert.equal(stderr, 'Publishing creates the webhook of notes/inbox, and prints its secret once.\n');
});
