// On a narrow terminal the column with the name is never cut, because the next command needs it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failure, type Routes, startGateway, svc } from '../../testing/command-line.ts';

const RUN = '01a219d4-f8d6-72a1-9a2b-52a1213aa467';
const NOW = Date.now();

const TOKENS = {
  'GET /svc/_tokens?limit=500': {
    json: [
      {
        id: 'tok_4f81c2d09a6be317',
        name: 'the importer of the accounts',
        apps: ['kanban', 'notes', 'todos'],
        tools: 'read',
        createdAt: NOW,
        expiresAt: NOW + 9.6 * 86_400_000,
        lastUsedAt: NOW - 120_000,
      },
    ],
  },
};
const DESCRIBED = {
  'POST /svc/_tool/svc_describe': {
    json: {
      data: {
        app: 'notes',
        name: 'Notes',
        version: '1.0.0',
        queries: [{ name: 'list', description: 'All notes that are not in the archive, the newest first.' }],
        actions: [
          {
            name: 'add_to_the_notebook',
            description: 'Adds a note.',
            confirmation: 'required',
            input: {
              type: 'object',
              properties: { text: {}, notebook: {}, colour: {}, pinned: {} },
              required: ['text', 'notebook'],
            },
          },
        ],
      },
    },
  },
};

const CASES: [line: string, routes: Routes, names: string[], columns: number][] = [
  [
    'versions notes',
    {
      'GET /svc/_apps/notes/versions?limit=50': {
        json: [{ versionId: 'notes/v1', active: true, version: '1.0.0', uploadedAt: NOW, files: 21, bytes: 37_888 }],
      },
    },
    ['VERSION', 'notes/v1', '● live', 'just now'],
    40,
  ],
  [
    'automations',
    {
      'GET /svc/_automations': {
        json: {
          rows: [
            {
              ref: 'todos/digest',
              app: 'todos',
              id: 'digest',
              name: 'Evening digest',
              enabled: true,
              triggers: [{ kind: 'cron', expr: '0 18 * * *' }],
              nextRunAt: NOW + 7_300_000,
            },
          ],
          errors: [],
        },
      },
    },
    ['todos/digest', '● on', 'in 2 h'],
    40,
  ],
  [
    'runs',
    {
      'GET /svc/_runs?limit=20': {
        json: [
          {
            runId: RUN,
            ref: 'todos/digest',
            state: 'ok',
            trigger: { kind: 'manual' },
            queuedAt: NOW,
            startedAt: NOW,
            endedAt: NOW + 165,
            outcome: 'three todos are open, and one of them is two weeks old',
          },
        ],
      },
    },
    [RUN, 'todos/digest', 'just now'],
    80,
  ],
  [
    'workspaces',
    {
      'GET /svc/_sessions?limit=500': {
        json: [{ sessionId: 's08b350ba67637bf8', apps: ['kanban', 'notes', 'todos'], touchedAt: NOW, createdAt: NOW }],
      },
    },
    ['s08b350ba67637bf8', 'kanban, '],
    40,
  ],
  ['token ls', TOKENS, ['TOKEN', 'tok_4f81c2d09a6be317', 'NAME', 'the importer'], 40],
  ['token ls', TOKENS, ['tok_4f81c2d09a6be317', 'the importer of', 'kanban, ', 'EXPIRES', 'in 10 d'], 80],
  [
    'describe notes',
    DESCRIBED,
    [
      'QUERY\nlist()\n  All notes that are not in the archive,\n  the newest first.\n',
      'ACTION\nadd_to_the_notebook(text, notebook,\n  colour?, pinned?)\n  Adds a note. (asks first)\n',
    ],
    40,
  ],
  [
    'describe notes',
    DESCRIBED,
    [
      'QUERY  INPUT  DESCRIPTION',
      'ACTION               INPUT',
      'text, notebook, colour?, pin',
      'Adds a note. (asks first)',
    ],
    80,
  ],
];

for (const [line, routes, names, columns] of CASES)
  test(`svc ${line} on ${columns} columns`, async (t) => {
    const { env } = await startGateway(t, routes);
    const { stdout, stderr } = await svc(line.split(' '), { env: { ...env, NO_COLOR: '1' }, tty: true, columns });
    for (const name of names) assert.ok(stdout.includes(name), stdout + stderr);
    for (const drawn of stdout.split('\n')) assert.ok(drawn.length <= columns, drawn);
  });

test('an error message wraps between words; a line with a command to paste is not cut', async (t) => {
  const message = '"todos" has no query "lst"; it has: list, stats, digests, and some that are not for visitors.';
  const { env } = await startGateway(t, {
    'POST /svc/_tool/svc_read': failure(503, 'QUARANTINED', message),
  });
  const { stderr } = await svc(['read', 'todos', 'lst'], { env: { ...env, NO_COLOR: '1' }, tty: true, columns: 40 });
  const [first, ...rest] = stderr.split('\n');
  assert.equal(first, '✗ QUARANTINED: "todos" has no query');
  for (const line of rest.slice(0, 3)) assert.match(line, /^ {2}\S.{0,37}$/);
  assert.ok(
    rest.some((line) => line.endsWith('svc restart todos')),
    stderr,
  );
});
