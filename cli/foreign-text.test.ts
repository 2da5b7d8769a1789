// Text of gateways, apps, archives and logs is shown but cannot control the terminal, in every command.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Writable } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { failure, type Outcome, type Reply, startGateway, svc, temporaryFolder } from '../testing/command-line.ts';
import { printFacts } from './commands/operations/backup-command.ts';
import { drawPinoLine } from './terminal/log-entry.ts';
import { visible } from './terminal/style.ts';
import { Terminal } from './terminal/terminal.ts';

/** Clears the screen, sets the title, conceals what follows (C0 and C1), turns it round, and forges a line. */
const EVIL = 'x\u001b[2J\u001b]0;title\u0007\u009b8m\u202e\u0085\u2028\u007f\rR\nFORGED';
const EVIL_LINE = EVIL.replace('\n', '');
const RAN_AT = 1_750_000_000_000;

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters that must not occur.
const DRIVING = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/;
/** What a progress bar writes to start its line again. */
const CLEAR_LINE = '\r\u001b[2K';

function assertHarmless(text: string, where: string): void {
  const own = text.replaceAll(CLEAR_LINE, '');
  assert.doesNotMatch(own, DRIVING, `${where}: ${JSON.stringify(text)}`);
  assert.doesNotMatch(own, /^\s*FORGED/m, `${where}: ${JSON.stringify(text)}`);
}

const run = {
  runId: EVIL,
  kind: 'automation',
  ref: EVIL,
  app: EVIL,
  automation: EVIL,
  trigger: { kind: EVIL, origin: EVIL },
  parentRunId: EVIL,
  state: 'error',
  summary: EVIL,
  output: { [EVIL]: EVIL },
  error: { code: EVIL, message: EVIL },
  queuedAt: RAN_AT,
  startedAt: RAN_AT,
  endedAt: RAN_AT,
};
const node = { runId: EVIL, name: EVIL, args: { [EVIL]: EVIL }, ok: false, startedAt: 0, endedAt: 1 };
const webhook = { ownerApp: EVIL, automationId: EVIL, url: EVIL, secret: EVIL, webhookId: EVIL };
const tool = { name: EVIL, description: EVIL, input: { properties: { [EVIL]: { type: EVIL } } }, [EVIL]: EVIL };
const manifest = { app: EVIL, name: EVIL, version: EVIL, description: EVIL, queries: [tool], actions: [] };
const app = {
  id: EVIL,
  name: EVIL,
  version: EVIL,
  status: EVIL,
  activeVersion: EVIL,
  updatedAt: 0,
  queries: 1,
  actions: 1,
};
const version = { versionId: EVIL, active: true, sha256: EVIL, version: EVIL, uploadedAt: 0, files: 1, bytes: 1 };
const workspace = { sessionId: EVIL, name: EVIL, base: null, createdAt: 0, touchedAt: 0, apps: [EVIL], damaged: EVIL };
const file = {
  app: EVIL,
  path: EVIL,
  status: 'modified',
  additions: 1,
  deletions: 1,
  patch: `--- ${EVIL_LINE}\n+${EVIL_LINE}`,
};
const published = { id: EVIL, version: 2, tag: EVIL, sha: EVIL, migrationsApplied: [EVIL], webhooks: [webhook] };
const actor = {
  app: EVIL,
  automation: EVIL,
  versionId: EVIL,
  state: EVIL,
  lastExit: EVIL,
  inFlight: 0,
  calls: 0,
  uptimeMs: 1,
  memory: 1,
};
const process_ = {
  role: 'host',
  name: EVIL,
  pid: 1,
  uptimeMs: 1,
  rss: 1,
  cpuMs: 1,
  state: EVIL,
  restarts: 0,
  lastExit: EVIL,
  counters: { [EVIL]: 1 },
};
const status = {
  version: EVIL,
  node: EVIL,
  url: EVIL,
  edge: EVIL,
  dataDir: EVIL,
  uptimeMs: 1,
  processes: [process_, { ...process_, actors: [{ ...actor, restarts: 0, mailbox: 0 }] }],
  toolServers: [{ name: EVIL, kind: EVIL, state: 'failed', lastError: EVIL }],
  automations: {},
  counters: { retired: { [EVIL]: 1 } },
};
const entry = { ts: RAN_AT, level: EVIL, app: EVIL, msg: EVIL, tool: EVIL, [EVIL]: EVIL, nested: { [EVIL]: [EVIL] } };
const refusal = failure(400, EVIL, EVIL, {
  path: EVIL,
  files: [EVIL],
  issues: [
    { path: 'a', message: 'b' },
    { path: EVIL, message: EVIL, line: 1, column: 1 },
  ],
});
const describe = (data: unknown): Reply => ({ json: { isError: false, data } });

const CASES: [argv: string[], routes: Record<string, Reply>][] = [
  [['apps'], { 'GET /svc/_apps': { json: [app] } }],
  [
    ['describe'],
    {
      'POST /svc/_tool/svc_describe': describe({
        apps: [manifest, { app: EVIL, error: { code: EVIL, message: EVIL } }],
      }),
    },
  ],
  [['describe', 'a'], { 'POST /svc/_tool/svc_describe': describe(manifest) }],
  [['describe', 'a', EVIL], { 'POST /svc/_tool/svc_describe': describe(manifest) }],
  [['describe', 'a', 'other'], { 'POST /svc/_tool/svc_describe': describe(manifest) }],
  [['versions', 'a'], { 'GET /svc/_apps/a/versions?limit=50': { json: [version] } }],
  [
    ['activate', 'a', 'whole-id'],
    {
      'POST /svc/_apps/a/activate': {
        json: {
          id: EVIL,
          activeVersion: EVIL,
          previousVersion: `${EVIL}1`,
          migrationsAhead: [EVIL],
          webhooks: [webhook],
        },
      },
    },
  ],
  [['restart', 'a'], { 'POST /svc/_apps/a/restart': refusal }],
  [['workspaces'], { 'GET /svc/_sessions?limit=500': { json: [workspace] } }],
  [['workspaces', 'open'], { 'POST /svc/_sessions': { json: workspace } }],
  [
    ['workspaces', 'update', 's', '--app', 'a'],
    { 'POST /svc/_sessions/s/apps/a/update': { json: { base: EVIL, merged: [EVIL], conflicts: [EVIL] } } },
  ],
  [['diff'], { 'GET /svc/_sessions?limit=500': { json: [workspace, workspace] } }],
  [
    ['diff', '--workspace', 's'],
    { 'GET /svc/_sessions/s/diff': { json: { base: EVIL, head: EVIL, files: [file], behind: [EVIL] } } },
  ],
  [['publish', '--workspace', 's'], { 'POST /svc/_sessions/s/publish': { json: published } }],
  [['read', 'a', 'q'], { 'POST /svc/_tool/svc_read': describe([{ [EVIL]: EVIL }]) }],
  [['read', 'a', 'q'], { 'POST /svc/_tool/svc_read': describe({ [EVIL]: [EVIL] }) }],
  [['write', 'a', 'q'], { 'POST /svc/_tool/svc_write': describe({ status: 201, body: { [EVIL]: EVIL } }) }],
  [
    ['sql', 'a', 'SELECT 1'],
    { 'POST /svc/_apps/a/sql': { json: { columns: [EVIL], rows: [[EVIL]], truncated: false } } },
  ],
  [['logs', 'a'], { 'GET /svc/_logs?app=a&limit=50': { json: [entry] } }],
  [
    ['automations'],
    {
      'GET /svc/_automations': {
        json: {
          rows: [
            { ref: EVIL, name: EVIL, triggers: [{ kind: 'cron', expr: EVIL, tz: EVIL }], enabled: true, lastRun: run },
          ],
          errors: [{ ref: EVIL, code: EVIL, message: EVIL, path: EVIL }],
        },
      },
    },
  ],
  [['automations', 'provision'], { 'POST /svc/_automations/_provision': { json: { webhooks: [webhook] } } }],
  [['automations', 'show', 'a/b'], { 'GET /svc/_automations/a/b': { json: { manifest: EVIL } } }],
  [
    ['run', 'show', 'r'],
    { 'GET /svc/_runs/r': { json: run }, 'GET /svc/_runs/r/nodes': { json: [{ ...node, error: run.error }] } },
  ],
  [['runs'], { 'GET /svc/_runs?limit=20': { json: [run] } }],
  [['status'], { 'GET /svc/_system': { json: status } }],
];

/** Runs it as for a person without colours, and for a program on a terminal; `more` is added to the environment. */
async function outcomes(t: TestContext, argv: string[], routes: Record<string, Reply>): Promise<[Outcome, Outcome]> {
  const { env } = await startGateway(t, routes);
  const ran = (words: string[]) => svc(words, { env: { ...env, NO_COLOR: '1' }, tty: true });
  return [await ran(argv), await ran([...argv, '--json'])];
}

for (const [argv, routes] of CASES) {
  test(`svc ${visible(argv.join(' '))} ${JSON.stringify(Object.values(routes)[0]).length}`, async (t) => {
    const [shown, json] = await outcomes(t, argv, routes);
    const text = shown.stdout + shown.stderr;
    assert.match(text, /x\\u001b\[2J/, 'it is printed');
    assertHarmless(text, 'for a person');
    assertHarmless(json.stdout.replaceAll('\n', ''), 'for a program');
    assert.ok(
      JSON.stringify(JSON.parse(json.stdout)).includes(JSON.stringify(EVIL).slice(1, -1)),
      'JSON says the same',
    );
  });
}

test('svc push and svc import: ids, file names, and what the gateway says of them', async (t) => {
  const folder = join(temporaryFolder(t), 'apps');
  mkdirSync(join(folder, EVIL), { recursive: true });
  writeFileSync(join(folder, EVIL, 'app.json'), JSON.stringify({ id: EVIL }));
  mkdirSync(join(folder, EVIL, 'automations'));
  writeFileSync(join(folder, EVIL, `automations/${EVIL}.json`), '{}');
  writeFileSync(join(folder, EVIL, `${EVIL}.exe`), '');
  const path = `/svc/_apps/${encodeURIComponent(EVIL)}`;
  const upload = {
    id: EVIL,
    versionId: EVIL,
    activeVersion: EVIL,
    files: 1,
    bytes: 1,
    migrationsApplied: [EVIL],
    pruned: [EVIL],
    webhooks: [webhook],
  };
  const routes = { [`GET ${path}`]: { json: {} }, [`POST ${path}/upload`]: { json: upload } };
  for (const argv of [
    ['push', join(folder, EVIL)],
    ['import', folder],
  ]) {
    const { env } = await startGateway(t, routes);
    const { stdout, stderr, code } = await svc(argv, { env: { ...env, NO_COLOR: '1' }, tty: true });
    assert.equal(code, 0, stderr);
    assert.match(stdout, /FORGED/);
    assertHarmless(stdout + stderr, argv[0] as string);
    const { env: strict } = await startGateway(t, { [`GET ${path}`]: { json: {} }, [`POST ${path}/upload`]: refusal });
    const refused = await svc(argv, { env: { ...strict, NO_COLOR: '1' }, tty: true });
    assert.match(refused.stdout + refused.stderr, /FORGED/);
    assertHarmless(refused.stdout + refused.stderr, argv[0] as string);
  }
});

test('svc restore: when a backup was taken, and the names in it', () => {
  let text = '';
  const stream = new Writable({
    write(chunk, _encoding, done) {
      text += String(chunk);
      done();
    },
  }) as unknown as NodeJS.WriteStream;
  const terminal = new Terminal({ stdin: process.stdin, stdout: stream, stderr: stream }, { NO_COLOR: '1' }, false);
  const facts = { takenAt: EVIL, svcVersion: EVIL, apps: 1, files: 1, bytes: 1, databases: 1, rows: 1 };
  printFacts(terminal, EVIL, { ...facts, damaged: [{ path: EVIL, integrity: EVIL }] }, 1);
  assert.match(text, /FORGED/);
  assertHarmless(text, 'restore');
});

test("a gateway's own log on a terminal", () => {
  const line = JSON.stringify({
    level: 30,
    time: 0,
    msg: EVIL,
    app: EVIL,
    err: { message: EVIL, stack: EVIL },
    [EVIL]: EVIL,
  });
  for (const drawn of drawPinoLine(line, (_, text) => text)) assertHarmless(visible(drawn), 'log');
});

test('only code that makes text visible writes to a terminal', () => {
  const folder = dirname(fileURLToPath(import.meta.url));
  const writers = new Set(['main.ts', join('terminal', 'terminal.ts')]);
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  for (const name of names.filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts') && !writers.has(name))) {
    const source = readFileSync(join(folder, name), 'utf8');
    assert.doesNotMatch(source, /\.std(?:out|err)\b|\bconsole\.|\bwriteSync\(/, name);
  }
});
