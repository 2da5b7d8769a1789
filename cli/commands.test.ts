/** The commands against an HTTP server that speaks the gateway's routes. */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { list } from 'tar';
import {
  type FakeGateway,
  failure,
  type Routes,
  type RunOptions,
  type Seen,
  startGateway,
  svc,
  TOKEN,
  temporaryFolder,
} from '../testing/command-line.ts';
import { COMMANDS } from './commands.ts';
import { EXIT } from './failure.ts';

const V1 = 'v_20260101T000000000Z_aaaaaa';
const V2 = 'v_20260102T000000000Z_bbbbbb';
const V3 = 'v_20260103T000000000Z_cccccc';
const version = (versionId: string, active = false) => ({
  versionId,
  active,
  sha256: '',
  version: '1',
  uploadedAt: 0,
  files: 3,
  bytes: 2048,
});

const RUN = '019a0000-0000-7000-8000-000000000001';
/** A run that the history dropped when it ended. */
const GONE = '01a20077-dd00-7000-8000-000000000000';
const runRecord = (state: string, more: object = {}) => ({
  runId: RUN,
  kind: 'automation',
  ref: 'notes/digest',
  app: 'notes',
  automation: 'digest',
  trigger: { kind: 'manual', origin: null },
  parentRunId: null,
  state,
  input: null,
  output: null,
  summary: null,
  error: null,
  queuedAt: 1000,
  startedAt: 1000,
  endedAt: 1250,
  usage: {},
  pinned: false,
  ...more,
});
const RUN_NODE = {
  runId: RUN,
  ordinal: 1,
  batchId: 1,
  kind: 'tool',
  name: 'svc_read',
  args: { app: 'notes', query: 'list' },
  output: [],
  ok: true,
  error: null,
  startedAt: 1000,
  endedAt: 1003,
  usage: {},
};
const AUTOMATION = {
  ref: 'notes/digest',
  app: 'notes',
  id: 'digest',
  name: 'Digest',
  enabled: true,
  triggers: [
    { kind: 'cron', expr: '0 7 * * *', tz: 'Europe/Berlin' },
    { kind: 'webhook', id: 'abcdef0123456789abcdef01' },
  ],
  nextRunAt: Date.now() + 2 * 3_600_000,
  lastRun: runRecord('error', { error: { code: 'HANDLER_ERROR', message: 'boom' } }),
};
const MINTED = {
  webhookId: 'abcdef0123456789abcdef01',
  secret: '5ec2e7',
  automationId: 'digest',
  ownerApp: 'notes',
  url: 'http://gateway/_svc-hook/abcdef0123456789abcdef01',
};
const tokenRow = (id: string, name: string, more: object = {}) => ({
  id,
  name,
  apps: ['notes'],
  tools: 'read',
  createdAt: 0,
  expiresAt: null,
  lastUsedAt: null,
  ...more,
});
/** The stream of a run, as far as `events`. */
const eventStream = (...events: { type: string }[]) => ({
  stream: events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`),
});

const LINK = 'http://svc.localhost:8787/svc/#link=c0de';
/** In local time, as it is printed. */
const LINK_ENDS = new Date(2026, 0, 31, 9, 5, 59).getTime();

const ROUTES: Routes = {
  'GET /svc/_session': { json: { signedIn: false, place: 'loopback', console: 'http://svc.localhost:8787/svc/' } },
  'POST /svc/_session/links': ({ body }) => {
    const { open } = JSON.parse(body.toString());
    return { status: 201, json: { url: open === undefined ? LINK : `${LINK}&open=${open}`, expiresAt: LINK_ENDS } };
  },
  'GET /svc/_sessions/ben/apps/notes/files': { json: [] },
  'GET /svc/_apps/nots': failure(404, 'UNKNOWN_APP', 'No app is registered as "nots".'),
  'GET /svc/_automations': {
    json: { rows: [AUTOMATION], errors: [{ ref: 'notes/bad', code: 'invalid_json', message: 'is not JSON' }] },
  },
  'GET /svc/_automations?app=todos': { json: { rows: [], errors: [] } },
  'GET /svc/_automations/notes/digest': { json: { ...AUTOMATION, manifest: { prompt: 'Sum it up' } } },
  'POST /svc/_automations/notes/digest/enabled': ({ body }) => ({
    json: { ...AUTOMATION, ...JSON.parse(body.toString()) },
  }),
  'POST /svc/_automations/_provision': ({ body }) => ({
    json: { webhooks: /todos|done/.test(body.toString()) ? [] : [MINTED] },
  }),
  'POST /svc/_automations/notes/digest/run': { status: 202, json: { runId: RUN } },
  'POST /svc/_automations/notes/sweep/run': { status: 202, json: { runId: GONE } },
  'GET /svc/_automations/notes/sweep': { json: { ...AUTOMATION, manifest: { history: { keep: 'errors' } } } },
  'POST /svc/_automations/notes/busy/run': { status: 202, json: { runId: GONE } },
  'GET /svc/_automations/notes/busy': { json: { ...AUTOMATION, manifest: { history: { keep: { count: 1 } } } } },
  [`GET /svc/_runs/${GONE}/events`]: failure(404, 'UNKNOWN_RUN', 'No run of this id is kept.'),
  'POST /svc/_automations/notes/nothing/run': failure(404, 'UNKNOWN_AUTOMATION', 'No automation "nothing".'),
  'GET /svc/_runs?limit=20': {
    json: [runRecord('ok', { summary: '2 open' }), runRecord('skipped', { startedAt: null })],
  },
  'GET /svc/_runs?ref=notes%2Fdigest&state=error&limit=5': { json: [] },
  [`GET /svc/_runs/${RUN}`]: { json: runRecord('ok', { output: { open: 2 }, summary: '2 open' }) },
  [`GET /svc/_runs/${RUN}/nodes`]: { json: [RUN_NODE] },
  [`POST /svc/_runs/${RUN}/cancel`]: { json: runRecord('aborted') },
  [`GET /svc/_runs/${RUN}/events`]: eventStream(
    { type: 'run.start', run: runRecord('running') } as { type: string },
    { type: 'run.end', run: runRecord('error', { error: { code: 'HANDLER_ERROR', message: 'boom' } }) } as {
      type: string;
    },
  ),

  'GET /svc/_apps': {
    json: [
      {
        id: 'notes',
        name: 'Notes',
        version: '1.0.0',
        status: 'active',
        activeVersion: V2,
        registeredAt: 0,
        updatedAt: Date.now(),
        queries: 1,
        actions: 2,
      },
      {
        id: 'todos',
        name: 'To\u001b[2Jdo',
        version: '0.3.0',
        status: 'quarantined',
        activeVersion: V1,
        registeredAt: 0,
        updatedAt: 0,
        queries: 4,
        actions: 12,
      },
    ],
  },
  'GET /svc/_apps/notes': { json: { id: 'notes' } },
  'GET /svc/_apps/notes/versions?limit=500': { json: [version(V3), version(V2, true), version(V1)] },
  'GET /svc/_apps/notes/versions?limit=50': { json: [version(V3), version(V2, true), version(V1)] },
  [`GET /svc/_apps/notes/versions?limit=2&before=${V3}`]: { json: [version(V2, true), version(V1)] },
  'POST /svc/_apps/notes/activate': ({ body }) => ({
    json: { id: 'notes', activeVersion: JSON.parse(body.toString()).versionId, previousVersion: V2 },
  }),
  'POST /svc/_apps/notes/rollback': ({ body }) => ({
    json: {
      id: 'notes',
      activeVersion: JSON.parse(body.toString()).version ?? V1,
      previousVersion: V2,
      migrationsAhead: [2, 3],
    },
  }),
  'POST /svc/_apps/notes/copies': { status: 201, json: { id: 'notes', copy: 'a.sqlite' } },
  'POST /svc/_apps/notes/restart': { json: { id: 'notes', restarted: true } },
  'POST /svc/_apps/notes/repair': ({ body }) => ({
    json: {
      id: 'notes',
      activeVersion: V2,
      migrationsApplied: [1, 2],
      aside: JSON.parse(body.toString()).newData ? 'data.sqlite.damaged-7' : null,
    },
  }),
  'POST /svc/_apps/odd/restart': failure(400, 'constructor', 'Odd.'),
  'DELETE /svc/_apps/notes': { json: { id: 'notes', deleted: true } },
  'DELETE /svc/_apps/notes?purge=1': { json: { id: 'notes', deleted: true } },
  'POST /svc/_tool/svc_describe': ({ body }) => ({
    json: {
      isError: false,
      data:
        JSON.parse(body.toString()).app === undefined
          ? {
              apps: [
                {
                  app: 'notes',
                  name: 'Notes',
                  version: '1.0.0',
                  queries: [{ name: 'list' }],
                  actions: [{ name: 'add' }],
                },
              ],
            }
          : {
              app: 'notes',
              id: 'notes',
              mcpApp: { faults: [{ path: 'index.html', message: 'It shows a frame.', keyword: 'frame' }] },
              name: 'Notes',
              version: '1.0.0',
              queries: [{ name: 'list', description: 'All of them' }],
              actions: [
                { name: 'add', input: { type: 'object', properties: { text: {}, color: {} }, required: ['text'] } },
              ],
            },
    },
  }),
  'POST /svc/_tool/svc_read': ({ body }) => {
    const { app, query, input } = JSON.parse(body.toString());
    if (app !== 'notes') return failure(404, 'UNKNOWN_APP', `No app "${app}" is registered.`);
    if (query === 'lsit') return failure(404, 'UNKNOWN_QUERY', '"notes" has no query "lsit".');
    if (query === 'crash') return failure(500, 'HANDLER_ERROR', 'The handler threw: boom');
    return { json: { isError: false, data: [{ id: 1, text: 'Milk', input: JSON.stringify(input) }] } };
  },
  'POST /svc/_tool/svc_write': ({ body, headers }) => {
    const { action, input } = JSON.parse(body.toString());
    const status = action === 'remove' ? 404 : 201;
    const replayed: Record<string, string> =
      headers['idempotency-key'] === 'again' ? { 'idempotency-replayed': 'true' } : {};
    return { status, headers: replayed, json: { isError: false, data: { status, body: { got: input } } } };
  },
  'POST /svc/_apps/notes/sql': ({ body }) => {
    const { sql, params } = JSON.parse(body.toString());
    if (sql.startsWith('delete')) return { json: { changes: 2, lastInsertRowid: 0 } };
    return { json: { columns: ['id', 'text'], rows: [[1, params?.[0] ?? null]], truncated: true } };
  },
  'POST /svc/_tokens': ({ body }) => {
    const { expiresInDays, ...given } = JSON.parse(body.toString());
    const expiresAt = expiresInDays === undefined ? null : Date.now() + expiresInDays * 86_400_000;
    return { status: 201, json: { ...tokenRow('tok_1', ''), apps: null, ...given, expiresAt, token: 'svct_5ec2e7' } };
  },
  'GET /svc/_tokens?limit=500': {
    json: [
      tokenRow('tok_4', 'Za\u001b[2Jpier', {
        expiresAt: Date.now() + 9.6 * 86_400_000,
        lastUsedAt: Date.now() - 120_000,
      }),
      tokenRow('tok_3', 'twice', { apps: null, tools: 'all' }),
      tokenRow('tok_2', 'twice', { apps: ['notes', 'todos'], tools: 'write', expiresAt: 5 }),
      tokenRow('tok_1', 'once'),
    ],
  },
  'DELETE /svc/_tokens/tok_1': { json: { id: 'tok_1', deleted: true } },
  'DELETE /svc/_tokens/tok_3': { json: { id: 'tok_3', deleted: true } },
  'DELETE /svc/_tokens/nobody': failure(404, 'UNKNOWN_TOKEN', 'There is no token for programs "nobody".'),
  'GET /svc/_logs?app=notes&limit=50': {
    json: [{ ts: 1, level: 'warn', app: 'notes', tool: 'add', msg: 'one', n: 5 }],
  },
  'GET /svc/_logs?app=notes&limit=2': { json: [] },
  'GET /svc/_logs?app=todos&limit=50': { json: [{ ts: 0, level: 'info', app: 'todos', msg: 'zero' }] },
};

const start = (t: Parameters<typeof startGateway>[0], routes: Routes = {}): Promise<FakeGateway> =>
  startGateway(t, { ...ROUTES, ...routes });
const last = (gateway: FakeGateway): Seen => gateway.seen.at(-1) as Seen;
const sent = (gateway: FakeGateway): unknown => JSON.parse(last(gateway).body.toString());

type Case = {
  line: string[];
  options?: RunOptions;
  code?: number;
  /** Text that stdout or stderr must have; `not` must be in neither. */
  out?: (string | RegExp)[];
  err?: (string | RegExp)[];
  not?: (string | RegExp)[];
  /** The last request: its line, and its JSON. */
  request?: string;
  body?: unknown;
};

const CASES: Case[] = [
  {
    line: ['apps'],
    out: [/^APP {4}NAME/, /notes {2}Notes {8,}● active/, '● quarantined', 'To\\u001b[2Jdo'],
    not: ['\u001b'],
  },
  {
    line: ['versions', 'notes', '-n', '2', '--before', V3],
    out: [`${V2}  ● live`],
    request: `GET /svc/_apps/notes/versions?limit=2&before=${V3}`,
  },
  { line: ['versions', 'notes', '-n', '501'], code: EXIT.usage },
  { line: ['versions', 'notes'], out: [`${V2}  ● live`, '2 KiB'], request: 'GET /svc/_apps/notes/versions?limit=50' },
  { line: ['activate', 'notes', V3], out: [`✓ ${V3} of notes is live`], body: { versionId: V3 } },
  { line: ['activate', 'notes', 'aaaaaa'], body: { versionId: V1 } },
  {
    line: ['rollback', 'notes'],
    out: [`✓ ${V1} of notes is live`, 'ahead of this version by migrations 2, 3'],
    body: {},
  },
  { line: ['rollback', 'notes', V3], body: { version: V3 } },
  { line: ['open'], out: [new RegExp(`^${LINK}\n$`)], err: ['Signs one browser in, until 09:05.\n'], body: {} },
  { line: ['open', '--json'], out: [`{"url":"${LINK}","expiresAt":${LINK_ENDS}}\n`], not: ['Signs one'] },
  { line: ['open', 'notes'], out: [`${LINK}&open=notes`], body: { open: 'notes' } },
  {
    line: ['open', 'notes', '--workspace', 'ben'],
    out: [`${LINK}&open=_draft/ben/notes`],
    body: { open: '_draft/ben/notes' },
  },
  { line: ['open', '--workspace', 'ben'], code: EXIT.usage, err: ['Name the app'], not: [LINK] },
  { line: ['open', 'nots'], code: EXIT.failed, err: ['Did you mean "notes"?'], not: [LINK] },
  {
    line: ['token', 'create', '--name', 'zapier', '--app', 'notes', '--tools', 'read', '--expires', '90d'],
    out: [/^svct_5ec2e7\n$/],
    err: [
      'zapier (tok_1) may read notes, and expires in 90 d',
      'it is not shown again',
      /curl -H 'authorization: Bearer svct_5ec2e7' http:\S+\/svc\/_tool\/svc_describe -d '\{"app":"notes"\}'\n$/,
    ],
    body: { name: 'zapier', apps: ['notes'], tools: 'read', expiresInDays: 90 },
  },
  {
    line: ['token', 'create', '--name', 'ci', '--tools', 'all'],
    err: ['may do everything with every app, and never expires', "svc_describe -d '{}'"],
    body: { name: 'ci', tools: 'all' },
  },
  {
    line: ['token', 'create', '--name', 'x', '--app', 'a', '--app', 'b', '--tools', 'write'],
    err: ['may read and write a, b'],
    body: { name: 'x', apps: ['a', 'b'], tools: 'write' },
  },
  ...['12h', 'never', '0d', '90', '1.5d', '-1d', '3651d', ''].map((expires) => ({
    line: ['token', 'create', '--name', 'x', '--tools', 'read', `--expires=${expires}`],
    code: EXIT.usage,
    err: [`--expires takes days, from 1d to 3650d, not "${expires}"`, 'Without it the token never expires.'],
  })),
  {
    line: ['token', 'create', '--tools', 'read'],
    code: EXIT.usage,
    err: ['--name is required', 'svc token create --name'],
  },
  { line: ['token', 'create', '--name', 'x'], code: EXIT.usage, err: ['--tools is required'] },
  {
    line: ['token', 'create', '--name', 'x', '--tools', 'sql'],
    code: EXIT.usage,
    err: ['--tools takes one of read, write, all; not "sql".'],
  },
  { line: ['token', 'create', 'x'], code: EXIT.usage, err: ['"x" is one argument too many.'] },
  {
    line: ['token', 'ls'],
    out: [
      /^TOKEN +NAME +APPS +TOOLS +EXPIRES +LAST USE\n/,
      /tok_4 +Za\\u001b\[2Jpier +notes +read +in 10 d +2 min ago\n/,
      /tok_3 +twice +every app +all +never +never\n/,
      /tok_2 +twice +notes, todos +write +expired +never\n/,
    ],
    not: ['\u001b', 'svct_'],
  },
  { line: ['token', 'revoke', 'tok_3'], out: ['✓ tok_3 is revoked'], request: 'DELETE /svc/_tokens/tok_3' },
  { line: ['token', 'revoke', 'once'], out: ['✓ once is revoked'], request: 'DELETE /svc/_tokens/tok_1' },
  {
    line: ['token', 'revoke', 'twice'],
    code: EXIT.usage,
    err: ['Several tokens have the name "twice"', 'tok_3', 'tok_2'],
    request: 'GET /svc/_tokens?limit=500',
  },
  { line: ['token', 'revoke', 'nobody'], code: EXIT.failed, err: ['UNKNOWN_TOKEN', 'svc token ls'] },
  { line: ['token', 'revoke'], code: EXIT.usage, err: ['svc token revoke <id or name>'] },
  { line: ['token', 'list'], code: EXIT.usage, err: ['Verbs: rotate, create, ls, revoke'] },
  { line: ['token', 'rotate', '--name', 'x'], code: EXIT.usage, err: ['--name is not for "svc token rotate".'] },
  { line: ['token', 'constructor', '--name', 'x'], code: EXIT.usage, err: ['--name is not for'] },
  { line: ['restart', 'odd'], code: EXIT.failed, err: ['✗ constructor: Odd.\n'] },
  { line: ['token', '--url', 'http://x'], code: EXIT.usage, err: ['--url is not for "svc token".'] },
  { line: ['restart', 'notes'], out: ['✓ notes is restarted'], request: 'POST /svc/_apps/notes/restart' },
  {
    line: ['repair', 'notes', '--new-data', '--yes'],
    out: ['✓ notes begins with empty data'],
    err: ['Migrations applied: 1, 2', 'apps/notes/data.sqlite.damaged-7'],
    request: 'POST /svc/_apps/notes/repair',
    body: { newData: true },
  },
  {
    line: ['repair', 'notes', '--restore', 'svc-20260131T030000Z.svc-backup.tar.gz'],
    out: ['✓ notes has the data of svc-20260131T030000Z.svc-backup.tar.gz'],
    request: 'POST /svc/_apps/notes/repair',
    body: { restore: 'svc-20260131T030000Z.svc-backup.tar.gz' },
  },
  {
    line: ['rm', 'notes', '--yes'],
    out: ['kept in the trash'],
    err: ['Get it back: svc trash restore notes'],
    request: 'DELETE /svc/_apps/notes',
  },
  { line: ['rm', 'notes', '-y', '--purge'], out: ['with its data'], request: 'DELETE /svc/_apps/notes?purge=1' },
  { line: ['rm', 'notes'], code: EXIT.usage, err: ['--yes'], request: 'GET /svc/_apps/notes' },
  {
    line: ['rm', 'notes'],
    options: { tty: true, stdin: 'n\n' },
    code: EXIT.failed,
    err: ['Nothing was changed.', 'add --yes'],
    request: 'GET /svc/_apps/notes',
  },
  { line: ['rm', 'notes'], options: { tty: true, stdin: 'y\n' }, request: 'DELETE /svc/_apps/notes' },
  { line: ['describe'], out: ['notes  Notes 1.0.0', 'queries  list'] },
  {
    line: ['describe', 'notes'],
    out: ['All of them', 'text, color?', 'cannot show its page', 'index.html: It shows a frame.'],
    body: { app: 'notes' },
  },
  { line: ['describe', 'notes', 'add'], out: ['svc write notes add', '"required"'] },
  { line: ['describe', 'notes', 'ad'], code: EXIT.failed, err: ['no query or action "ad"', 'Did you mean "add"?'] },
  {
    line: ['read', 'notes', 'list'],
    out: ['[{"id":1,"text":"Milk","input":"{}"}]'],
    body: { app: 'notes', query: 'list', input: {} },
  },
  { line: ['read', 'notes', 'list', '{"limit":5}'], body: { app: 'notes', query: 'list', input: { limit: 5 } } },
  {
    line: ['read', 'notes', 'list', '-'],
    options: { stdin: '{"limit":6}' },
    body: { app: 'notes', query: 'list', input: { limit: 6 } },
  },
  {
    line: ['read', 'notes', 'list'],
    options: { tty: true, env: { NO_COLOR: '1' } },
    out: [/^id {2}text {2}input\n 1 {2}Milk {2}\{\}\n$/],
  },
  { line: ['read', 'notes', 'list', '{oops'], code: EXIT.usage, err: ['not valid JSON', 'Quote it'] },
  { line: ['read', 'notes', 'list', '-'], code: EXIT.usage, err: ['Standard input is empty.', 'Give it JSON'] },
  { line: ['read', 'note', 'list'], code: EXIT.failed, err: ['UNKNOWN_APP', 'Did you mean "notes"?'] },
  { line: ['read', 'xyz', 'list'], code: EXIT.failed, err: ['Registered apps: notes, todos'] },
  { line: ['read', 'notes', 'lsit'], code: EXIT.failed, err: ['UNKNOWN_QUERY', 'Did you mean "list"?'] },
  { line: ['read', 'notes', 'crash'], code: EXIT.failed, err: ['HANDLER_ERROR', 'svc logs notes'] },
  {
    line: ['write', 'notes', 'add', '{"text":"Milk"}'],
    out: ['{"got":{"text":"Milk"}}'],
    err: ['status 201'],
    body: { app: 'notes', action: 'add', input: { text: 'Milk' } },
  },
  { line: ['write', 'notes', 'add', '--json'], out: [/^\{"status":201,"body":\{"got":\{\}\}\}\n$/] },
  { line: ['write', 'notes', 'add', '--key', 'again'], err: ['used before'] },
  {
    line: ['write', 'notes', 'remove'],
    code: EXIT.failed,
    err: ['status 404', 'svc describe notes remove'],
    out: ['got'],
  },
  {
    line: ['sql', 'notes', 'select ?', '["x"]'],
    out: [/^id {2}text\n 1 {2}x\n$/],
    err: ['1 row, and there are more'],
    body: { sql: 'select ?', params: ['x'] },
  },
  {
    line: ['sql', 'notes', 'delete from notes', '--yes'],
    out: ['✓ 2 rows changed'],
    err: ['apps/notes/backups/a.sqlite'],
    body: { sql: 'delete from notes' },
  },
  { line: ['sql', 'notes', 'drop table notes'], code: EXIT.usage, err: ['This needs a confirmation', '--yes'] },
  {
    line: ['sql', 'notes', 'update notes set a = (select b from c where d)'],
    options: { tty: true, stdin: 'n\n' },
    code: EXIT.failed,
    err: ['UPDATE without WHERE', 'Nothing was changed'],
  },
  { line: ['logs', 'notes'], out: [/warn {3}add {2}one {2}n=5\n$/] },
  { line: ['logs', 'notes', '-n', '2'], err: ['Nothing has been logged'] },
  { line: ['logs'], out: [/todos {2}zero\n.* notes {2}add {2}one/] },
  { line: ['logs', 'notes', '-n', '99999'], code: EXIT.usage, err: ['--lines takes a whole number from 1 to 10000'] },
  {
    line: ['apps', '--token', 'wrong'],
    code: EXIT.refused,
    err: ['UNAUTHORIZED', 'The token from --token', 'svc token'],
  },
  {
    line: ['apps', '--url', 'http://127.0.0.1:1'],
    code: EXIT.unreachable,
    err: ['nothing listens there', 'svc serve', 'svc doctor'],
  },
  {
    line: ['apps', '--json', '--token', 'wrong'],
    code: EXIT.refused,
    out: [/^\{"isError":true,"error":\{"code":"UNAUTHORIZED".*"hint":/],
  },
  {
    line: ['automations'],
    out: [
      'notes/digest  Digest',
      '● on',
      '0 7 * * * Europe/Berlin, webhook abcdef…',
      'in 2 h',
      '✗ error',
      '✗ notes/bad',
    ],
  },
  { line: ['automations', '--app', 'todos'], out: ['No automations yet'] },
  { line: ['automations', 'show', 'notes/digest'], out: ['"prompt":"Sum it up"'] },
  { line: ['automations', 'disable', 'notes/digest'], out: ['✓ notes/digest is off'], body: { enabled: false } },
  { line: ['automations', 'enable', 'notes/digest'], out: ['is on; it fires in 2 h'], body: { enabled: true } },
  { line: ['automations', 'enable'], code: EXIT.usage, err: ['svc automations enable <app>/<automation>'] },
  { line: ['automations', 'start'], code: EXIT.usage, err: ['Verbs: enable, disable, provision, show'] },
  {
    line: ['automations', 'provision'],
    out: ['✓ webhook of notes/digest', MINTED.url, 'secret    5ec2e7'],
    err: ['not shown again'],
  },
  { line: ['automations', 'provision', 'todos'], out: ['No webhook is pending.'], body: { app: 'todos' } },
  {
    line: ['automations', 'provision', 'notes/done'],
    out: ['No webhook is pending.'],
    err: ['svc automations provision notes/done --renew'],
    body: { ref: 'notes/done' },
  },
  {
    line: ['automations', 'provision', 'notes/digest', '--renew'],
    out: [MINTED.url, 'secret    5ec2e7'],
    err: ['not shown again'],
    body: { ref: 'notes/digest', renew: true },
  },
  {
    line: ['automations', 'provision', 'notes', '--renew'],
    code: EXIT.usage,
    err: ['svc automations provision --renew <app>/<automation>'],
  },
  { line: ['run', 'notes/digest'], out: [`▶ notes/digest  ${RUN}`], err: [`svc run show ${RUN}`], body: {} },
  {
    line: ['run', 'notes/digest', '{"day":1}', '--wait'],
    code: EXIT.failed,
    out: ['✗ error  notes/digest', 'HANDLER_ERROR: boom', 'took 250 ms'],
  },
  { line: ['run', 'notes/sweep', '--wait'], out: [`✓ ok  notes/sweep  ${GONE}`], err: ['keeps only runs that failed'] },
  { line: ['run', 'notes/busy', '--wait'], code: EXIT.failed, err: ['UNKNOWN_RUN'] },
  { line: ['run', 'notes/../x'], code: EXIT.usage, err: ['"notes/../x" is not an automation'] },
  { line: ['automations', 'enable', 'notes/a/b'], code: EXIT.usage, err: ['Name the automation'] },
  { line: ['run', 'digest'], code: EXIT.usage, err: ['svc run <app>/<automation>', 'svc automations'] },
  { line: ['run', 'notes/nothing'], code: EXIT.failed, err: ['UNKNOWN_AUTOMATION', 'svc automations'] },
  {
    line: ['run', 'show', RUN],
    out: ['✓ ok  notes/digest', '✓ svc_read {"app":"notes","query":"list"}  3 ms', '{"open":2}'],
  },
  { line: ['run', 'show'], code: EXIT.usage, err: ['svc run show <run>'] },
  { line: ['run', 'cancel', RUN], out: ['■ aborted  notes/digest'] },
  { line: ['runs'], out: ['✓ ok', 'notes/digest', '2 open', '↷ skipped', RUN] },
  { line: ['runs', 'notes/digest', '--state', 'error', '-n', '5'], err: ['No run is recorded.'] },
  {
    line: ['runs', '--state', 'failed'],
    code: EXIT.usage,
    err: ['There is no state "failed".', 'States: queued, running, ok, error, aborted, interrupted, skipped'],
  },
  { line: ['runs', '--state', 'ok', '--follow'], code: EXIT.usage, err: ['--state is not for --follow'] },
  {
    line: ['help', 'runs'],
    out: ['--state <queued|running|ok|error|aborted|interrupted|skipped>', 'Only those in this state'],
  },
  { line: ['versions', 'a?..#b'], code: EXIT.failed, request: 'GET /svc/_apps/a%3F..%23b/versions?limit=50' },
  { line: [], out: ['svc <command>', ...COMMANDS.map(({ summary }) => summary)] },
  { line: ['read', 'notes'], code: EXIT.usage, err: ['✗ <query> is missing.\n  See: svc help read\n'] },
  { line: ['help', 'push'], out: ['Usage  svc push <dir|file> [options]', '--no-activate'] },
  { line: ['push', '--help'], out: ['Usage  svc push <dir|file> [options]'] },
  {
    line: ['new', 'svc-test-nowhere', '--clone', 'kanbn'],
    code: EXIT.usage,
    err: ['There is no template "kanbn".', 'Did you mean "kanban"?', 'svc new --clone kanbn\n'],
  },
  { line: ['raed', 'notes'], code: EXIT.usage, err: ['There is no command "raed".', 'Did you mean "svc read"?'] },
  { line: ['--json', 'apps'], code: EXIT.usage, out: ['"code":"USAGE"'] },
  { line: ['serve', '--store', 'svn'], code: EXIT.usage, err: ['There is no store "svn".', 'git, tarball'] },
  { line: ['--version'], out: [/^\d+\.\d+\.\d+\n$/] },
];

for (const { line, options = {}, code = EXIT.ok, out = [], err = [], not = [], request, body } of CASES) {
  test(`svc ${line.join(' ')} ${options.tty ? '(on a terminal) ' : ''}→ ${code}`, async (t) => {
    const gateway = await start(t);
    const outcome = await svc(line, { ...options, env: { ...gateway.env, ...options.env } });
    assert.equal(outcome.code, code, outcome.stderr + outcome.stdout);
    for (const text of out) assertHas(outcome.stdout, text);
    for (const text of err) assertHas(outcome.stderr, text);
    for (const text of not) assert.ok(!has(outcome.stdout + outcome.stderr, text), `must not contain ${text}`);
    if (request !== undefined) assert.equal(`${last(gateway).method} ${last(gateway).path}`, request);
    if (body !== undefined) assert.deepEqual(sent(gateway), body);
  });
}

function has(text: string, wanted: string | RegExp): boolean {
  return typeof wanted === 'string' ? text.includes(wanted) : wanted.test(text);
}

function assertHas(text: string, wanted: string | RegExp): void {
  assert.ok(has(text, wanted), `${wanted} is not in:\n${text}`);
}

test('every command that answers prints one JSON document with --json', async (t) => {
  const gateway = await start(t);
  for (const line of [
    ['apps'],
    ['versions', 'notes'],
    ['describe'],
    ['describe', 'notes', 'add'],
    ['read', 'notes', 'list'],
    ['sql', 'notes', 'x'],
    ['logs'],
    ['automations'],
    ['run', 'notes/digest'],
    ['run', 'show', RUN],
    ['runs'],
    ['rm', 'notes', '--yes'],
    ['token', '--data-dir', 'none'],
    ['token', 'create', '--name', 'x', '--tools', 'read'],
    ['token', 'ls'],
    ['token', 'revoke', 'once'],
    ['doctor'],
    ['help'],
    ['help', 'push'],
    ['push', '--help'],
    ['--version'],
  ]) {
    const { stdout } = await svc([...line, '--json'], { env: gateway.env, cwd: temporaryFolder(t) });
    assert.doesNotThrow(() => JSON.parse(stdout), `svc ${line.join(' ')}: ${stdout}`);
    assert.equal(stdout.trimEnd().split('\n').length, 1);
  }
});

test('help as JSON has every command with its options, and the routes', async (t) => {
  const help = async (...line: string[]) =>
    JSON.parse((await svc([...line, '--json'], { cwd: temporaryFolder(t) })).stdout);
  const { version, commands, routes } = await help('help');
  assert.ok(routes.some(({ path, right }: Record<string, unknown>) => path === '/svc/_health' && right === 'anyone'));
  assert.equal(version, (await help('--version')).version);
  assert.deepEqual(
    commands.map(({ name }: { name: string }) => name),
    COMMANDS.map(({ name }) => name),
  );
  const push = await help('help', 'push');
  assert.deepEqual(
    push,
    commands.find(({ name }: { name: string }) => name === 'push'),
  );
  assert.equal(push.usage, 'svc push <dir|file> [options]');
  assert.ok(push.options.some(({ name, value }: Record<string, string>) => name === 'id' && value !== undefined));
});

test('a new app can be pushed unchanged, and files that do not belong to it are skipped', async (t) => {
  const folder = temporaryFolder(t);
  let archive: Buffer = Buffer.alloc(0);
  const gateway = await start(t, {
    'GET /svc/_apps/my-notes': failure(404, 'UNKNOWN_APP', 'No app "my-notes" is registered.'),
    'POST /svc/_apps/my-notes/upload?activate=0': ({ body, headers }) => {
      archive = body;
      assert.equal(headers['content-type'], 'application/gzip');
      const answer = {
        id: 'my-notes',
        versionId: V1,
        activeVersion: V1,
        files: 8,
        bytes: 5000,
        deduplicated: false,
        migrationsApplied: [1],
        pruned: [V3],
        webhooks: [MINTED],
      };
      return { status: 201, json: answer };
    },
  });

  const made = await svc(['new', 'My Notes', '--name', 'A & "B"'], { cwd: folder });
  assert.equal(made.code, EXIT.ok, made.stderr);
  assertHas(made.stdout, "svc push 'My Notes'\n");
  const app = join(folder, 'My Notes');
  assert.equal(JSON.parse(readFileSync(join(app, 'app.json'), 'utf8')).name, 'A & "B"');
  assert.match(readFileSync(join(app, 'index.html'), 'utf8'), /<title>A &amp; &quot;B&quot;<\/title>/);
  assert.equal(
    (await svc(['new', 'My Notes'], { cwd: folder })).code,
    EXIT.failed,
    'a folder with files is left alone',
  );

  writeFileSync(join(app, '.env'), 'SECRET=1');
  writeFileSync(join(app, 'data.sqlite-wal'), '');
  writeFileSync(join(app, 'README.md'), '# Notes');
  writeFileSync(join(app, 'plan.docx'), '');
  mkdirSync(join(app, 'node_modules/x'), { recursive: true });
  symlinkSync('/etc/passwd', join(app, 'passwd.txt'));
  const pushed = await svc(['push', 'My Notes', '--no-activate'], { env: gateway.env, cwd: folder, tty: true });
  assert.equal(pushed.code, EXIT.ok, pushed.stderr);

  const names: string[] = [];
  const reader = list({ onReadEntry: (entry) => names.push(entry.path) });
  reader.end(gunzipSync(archive));
  assert.deepEqual(names, [
    'README.md',
    'actions/add.js',
    'actions/remove.js',
    'app.js',
    'app.json',
    'index.html',
    'migrations/0001_notes.sql',
    'queries/list.js',
    'style.css',
    'tests/app.test.js',
  ]);
  for (const text of [
    '.env (hidden)',
    'data.sqlite-wal (database)',
    'plan.docx (file type)',
    'node_modules (dependencies)',
    'passwd.txt (link)',
    '100 %',
  ]) {
    assertHas(pushed.stderr, text);
  }
  for (const text of ['is live', '8 files', V3, MINTED.url, MINTED.secret, 'http://my-notes.svc.localhost:8787/'])
    assertHas(pushed.stdout, text);
});

test('a refused push ends before the upload', async (t) => {
  const folder = temporaryFolder(t);
  await svc(['new', 'notes'], { cwd: folder });
  const gateway = await start(t);
  const { code } = await svc(['push', 'notes', '--token', 'wrong'], { env: gateway.env, cwd: folder });
  assert.equal(code, EXIT.refused);
  assert.deepEqual(
    gateway.seen.map(({ method, path }) => `${method} ${path}`),
    ['GET /svc/_apps/notes'],
  );
});

test('a folder that is not an app is refused before anything is sent', async (t) => {
  const gateway = await start(t);
  const { code, stderr } = await svc(['push', temporaryFolder(t)], { env: gateway.env });
  assert.equal(code, EXIT.failed);
  assertHas(stderr, 'no app.json');
  assertHas(stderr, 'svc new');
  assert.equal(gateway.seen.length, 0);
});

test('changes continue after a lost connection, from the last event, until the app is gone', async (t) => {
  const change = (seq: number) =>
    `id: ${seq}\nevent: change\ndata: ${JSON.stringify({ app: 'notes', table: 'notes', action: 'add', source: 'agent', ts: 0, seq })}\n\n`;
  const replies = [
    { stream: ['retry: 1\n\n', change(1), change(2)], hangUp: true },
    failure(503, 'OVERLOADED', 'The gateway is starting.'),
    { stream: ['event: reset\ndata: {}\n\n'], hangUp: true },
    failure(404, 'UNKNOWN_APP', 'No app "notes" is registered.'),
  ];
  const gateway = await start(t, {
    'GET /svc/notes/_changes?tables=notes': () => replies.shift() ?? failure(500, 'INTERNAL', ''),
  });
  const { code, stdout, stderr } = await svc(['changes', 'notes', '--tables', 'notes'], { env: gateway.env });
  assert.equal(code, EXIT.failed);
  assert.match(stdout, /notes {2}by add \(agent\) {2}#1\n.*#2\nreset/);
  assertHas(stderr, 'UNKNOWN_APP');
  assert.equal(stderr.match(/connection was lost/g)?.length, 2, 'once for each loss, not for each attempt');
  const streams = gateway.seen.filter(({ path }) => path.includes('_changes'));
  assert.deepEqual(
    streams.map(({ headers }) => headers['last-event-id']),
    [undefined, '2', '2', '2'],
  );
});

test('runs -f prints every run with its calls and logs as they come', async (t) => {
  const events = [
    { type: 'run.start', run: runRecord('running', { trigger: { kind: 'webhook', origin: 'abcdef' } }) },
    { type: 'node.start', runId: RUN, ordinal: 1 },
    { type: 'log', runId: RUN, line: { ts: '2026-01-01T00:00:00.000Z', level: 'info', msg: 'so far' } },
    { type: 'node.end', node: RUN_NODE },
    { type: 'run.end', run: runRecord('ok', { summary: '2 open' }) },
  ];
  let streams = 0;
  const gateway = await start(t, {
    'GET /svc/_runs/_events': () =>
      streams++ === 0 ? { ...eventStream(...events), hangUp: true } : failure(404, 'NOT_FOUND', 'Gone.'),
  });
  const { stdout } = await svc(['runs', '-f'], { env: gateway.env });
  assert.match(
    stdout,
    /notes\/digest {2}▶ webhook abcdef.*\n.*notes\/digest {4}info {2}so far\n.*notes\/digest {4}✓ svc_read .*\n.*notes\/digest {2}✓ ok {2}250 ms {2}2 open\n/,
  );
});

test('logs -f prints old entries, then new ones, each once', async (t) => {
  const entry = (ts: number) => ({ ts, level: 'info', app: 'notes', msg: `entry ${ts}` });
  const event = (ts: number) => `event: log\ndata: ${JSON.stringify(entry(ts))}\n\n`;
  let streams = 0;
  const gateway = await start(t, {
    'GET /svc/_logs?app=notes&limit=50': { json: [entry(1), entry(2)] },
    'GET /svc/_logs?app=notes&follow=1': () =>
      streams++ === 0
        ? { stream: ['retry: 1\n\n', event(2), event(3)], hangUp: true }
        : failure(404, 'UNKNOWN_APP', 'Gone.'),
  });
  const { stdout } = await svc(['logs', 'notes', '-f', '--json'], { env: gateway.env });
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    lines.slice(0, 3).map(({ ts }) => ts),
    [1, 2, 3],
  );
});

test('token prints the token of a data directory, and rotate replaces it', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'token.bin');
  writeFileSync(file, `${TOKEN}\n`);
  const before = await svc(['token', '--data-dir', folder]);
  assert.equal(before.stdout, `${TOKEN}\n`);

  const idle = await svc(['token', 'rotate', '--data-dir', folder, '--json']);
  const { token, taken } = JSON.parse(idle.stdout);
  assert.equal(readFileSync(file, 'utf8').trim(), token);
  assert.notEqual(token, TOKEN);
  assert.equal(taken, false);
});

for (const [how, stdin] of [
  ['Ctrl-C', '\u0003'],
  ['Ctrl-D', '\u0004'],
  ['the end of the input', ''],
  ['another word', 'perhaps\n'],
] as const)
  test(`${how} at a question means no`, async (t) => {
    const { env, seen } = await startGateway(t, { 'GET /svc/_apps/notes': { json: {} } });
    const { code, stderr } = await svc(['rm', 'notes'], { env, tty: true, stdin });
    assert.equal(code, EXIT.failed);
    assert.match(stderr, /Nothing was changed\.\n.*Answer y to continue, or add --yes\./);
    assert.deepEqual(
      seen.map(({ method }) => method),
      ['GET'],
    );
  });
