// Provokes every failure that the command line detects itself, and checks that it says what to do next. The list comes
// from the sources.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { create } from 'tar';
import { LIMITS } from '../protocol/limits.ts';
import { Layout } from '../storage/layout.ts';
import { acquireDataLock } from '../storage/processes/data-lock.ts';
import {
  asUser,
  failure,
  type Outcome,
  type Routes,
  type RunOptions,
  startGateway,
  svc,
  TOKEN,
  temporaryFolder,
} from '../testing/command-line.ts';
import { COMMANDS, COMMON_OPTIONS, CONNECTION_OPTIONS } from './commands.ts';
import { EXIT } from './failure.ts';

const workspace = (sessionId: string, ...apps: string[]) => ({ sessionId, apps, createdAt: 0, updatedAt: 0, files: 0 });
const token = (id: string) => ({ id, name: 'twice', apps: null, tools: 'read', createdAt: 0, expiresAt: null });
const person = (id: string, name = 'twice') => ({ id, name, email: `${name}@example.org`, vouched: false });
const share = (id: string) => ({ id, name: 'twice', with: 'person', role: 'viewer' });
const version = (at: string) => ({ versionId: `v_2026010${at}T000000000Z_aaaaaa`, active: false });
const blob = (sha256: string) => ({ sha256, size: 1, type: 'text/plain', storedAt: 0 });
const DESCRIBED = { app: 'notes', name: 'Notes', queries: [{ name: 'list' }], actions: [] };
const PERIOD = { title: '', turns: 1, counts: { turns: 1 }, updatedAt: 0, createdAt: 0 };
const CONVERSATIONS = 'GET /_svc-conversations/apps/notes/sessions?limit=500';

const KNOB = { key: 'theme', label: 'Theme', default: 'light', options: [{ value: 'light', label: 'Light' }] };

const node = (name: string, state: string, self: boolean) => ({
  name,
  state,
  self,
  address: '',
  version: '',
  buckets: 1,
});
/** The asked node does not drain: somebody else let it take buckets again. */
const CLUSTER = { node: 'one', nodes: [node('one', 'live', true), node('two', 'gone', false)], freeBuckets: 0 };

const ROUTES: Routes = {
  'GET /svc/_apps/notes/settings': { json: { knobs: [KNOB], prefs: {}, settings: {} } },
  'GET /svc/_runs/chat': { json: { app: 'notes', automation: '_chat', ref: 'notes/_chat' } },
  'GET /svc/_trash?limit=500': { json: [] },
  'GET /svc/notes/_blobs?prefix=1&limit=2': { json: { files: [] } },
  'GET /svc/notes/_blobs?prefix=2&limit=2': { json: { files: [blob('21'), blob('22')] } },
  'GET /svc/notes/_blobs?prefix=3&limit=2': { json: { files: [blob('3'.repeat(64))] } },
  'GET /svc/notes/_blobs?prefix=4&limit=2': { json: { files: [blob('4')] } },
  'POST /svc/_notices/test': ({ body }) => ({
    json: { results: body.includes('mail') ? [{ channel: 'mail', ok: false, message: 'No.' }] : [] },
  }),
  'POST /svc/_backups/files': { json: { running: false, lastSuccess: null, lastFailure: null } },
  'GET /svc/_apps': { json: [] },
  'GET /svc/_apps/notes': { json: { id: 'notes', name: 'Notes', activeVersion: null } },
  'GET /svc/_people': { json: [person('p_1'), person('p_2'), person('p_3', 'both')] },
  'GET /svc/_people/me/connections': { json: [] },
  'GET /svc/_groups': { json: [{ id: 'g_1', name: 'both', members: [] }] },
  'GET /svc/_apps/notes/shares': { json: [share('s_1'), share('s_2')] },
  'GET /svc/_tokens?limit=500': { json: [token('a1'), token('b2')] },
  'GET /svc/_apps/notes/versions?limit=500': { json: [version('1'), version('2')] },
  'GET /svc/_apps/todos': { json: { id: 'todos', name: 'Todos', activeVersion: 'x' } },
  'GET /svc/_apps/todos/versions?before=x&limit=1': { json: [] },
  'GET /svc/_apps/todos/versions?limit=500': { json: [] },
  'GET /svc/_apps/notes/versions/x/files': { json: [{ path: 'app.json', size: 2, sha: '' }] },
  'GET /svc/_apps/todos/versions/x/files/a.txt': { json: 'text' },
  'GET /svc/_sessions?limit=500': { json: [workspace('one', 'notes', 'todos'), workspace('two', 'notes')] },
  'POST /svc/_tool/svc_describe': { json: { data: DESCRIBED } },
  'GET /svc/notes/_chat/windows?limit=500': { json: [{ windowId: 'food', mode: 'data', ...PERIOD }] },
  [CONVERSATIONS]: { json: [{ conversationId: 'code', ...PERIOD }] },
  'GET /svc/_cluster': { json: CLUSTER },
  'POST /svc/_cluster/drain': { json: CLUSTER },
  'POST /svc/notes/_chat': { stream: ['event: phase\ndata: {"type":"phase","phase":"thinking"}\n\n'], hangUp: true },
};

const many = Array.from({ length: LIMITS.chatAttachments + 1 }, () => '--attach a.txt').join(' ');
const inFull = 'chat notes hi --mode full --attach';

const USAGE = `--apps; aps; run notes; runs --state failed; runs --state ok --follow; read; read a b c d; token drop; read notes list --limit 1; apps --json=1; apps --url;
  apps --url ftp://x; read notes list {; logs -n 0; token create; token create --name x; token create --name x --tools some;
  token create --name x --tools read --expires never; token --name x; token ls more; token revoke; token revoke twice;
  people role twice owner; connections rm none; connections rm; people link none; people link both@example.org; groups rm none;
  share notes none; share notes both; share notes; share notes ada --link; unshare notes none; unshare notes twice;
  open --workspace one; desktop notes --quit; automations enable notes; secret set notes; secret ls notes more; workspaces update one; workspaces rename one; publish; restore x;
  rm notes; serve --edge x; serve --node one; cluster drain three; serve --with tods; serve --store x; serve --store tarball --config git.json; convert --store tarball; new;
  new --ts --id x; new +; new blank --publish; new blank --clone todos --ts; new blank --clone none; chat notes;
  chat notes hi --attach a.txt; chat notes hi --mode full ${many}; backup --keep 2; backup verify; backup x --schedule off more;
  backup x --schedule daily; backup ls x; files ls notes x; files ls notes --sort x; files put notes; files get notes; files rm notes zz;
  versions notes 3; versions files notes 3 a.txt; versions show notes; versions show notes 3; check --workspace one;
  versions rm notes; settings notes --default; settings notes theme x --default; settings notes theme; chats drop notes x; chats rm notes; repair notes; repair notes --restore none; notify test mail more`;

const FAILED = `logs ./blank; logs ./none; read notes list @none; describe notes lst; new a.txt; new notes; export taken.bundle; export a.txt;
  export notes; import nothing; import a.txt; import blank; activate notes aaaaaa; push none; push blank; push broken;
  push noid; push a.txt; push large; test notes; backup now; backup taken.bundle; backup none/x; restore none --data-dir x;
  types notes --out none/x.d.ts; ${inFull} large/big.txt; ${inFull} none; ${inFull} a.zip; ${inFull} a.txt --window food;
  chat notes hi --window code --mode data; serve --config bad.json; convert --store git --config bad.json; secret set notes KEY; publish other;
  convert --store git --data-dir nothing; trash restore nothing; versions files notes; versions diff todos;
  versions show notes x app.jso; versions show todos x a.txt --out a.txt; token --data-dir nothing; files get notes 1;
  files get notes 2; files get notes 3 --out a.txt; files get notes 3 --out none/x; files get notes 4; files put notes none; files put notes blank;
  files put notes large/big.txt; settings notes them x; settings notes theme x;
  chats show notes none; run again chat; push a.tgz; push empty.tgz; push marked; pull notes; pull todos a.txt; pull todos notes; push large/app.tar.gz; serve --port 0 --host 192.0.2.1 --data-dir x;
  desktop; desktop --browser none; desktop --browser /bin/true; service install; notify test; notify test mail; cluster drain; cluster drain two`;

/** Why these are not provoked here. The compiler requires a hint for them, as for all the others. */
const NOT_HERE: Record<string, string> = {
  'Interrupted; nothing was left behind.': 'a signal to this process',
  'Stopped before it began.': 'a signal to this process',
  'Stopped.': 'a signal to this process',
  'The stream ended.': 'is never shown: the stream is reopened',
  'The workspace x was closed; the folder is unchanged.': 'svc dev, which runs until then',
  'The folder is gone.': 'svc dev, which continues',
  'a.js was edited meanwhile.': 'an edit during the command',
  'The new token is written, but the running gateway does not use it.': 'a wait of ten seconds',
  'npx keeps its packages in a cache that npm may empty, so a service would lose its program.':
    'test/install.e2e.test.ts',
  'A gateway runs on x already (pid 1), which the service would need.': 'service.test.ts',
  'svc knows no services of win32.': 'service.test.ts',
  'Listening on port 80 is not permitted.': 'a user other than root',
  'Another program (pid 1) uses x, and no gateway answers there.': 'a wait of fifteen seconds',
  'Chromium cannot show a window: x': 'test/browser/desktop.test.ts',
  'The gateway (pid 1) was not started by svc desktop, and keeps running.': 'test/browser/desktop.test.ts',
  'The gateway (pid 1) has not ended.': 'a gateway that hangs',
  'The gateway ended before it was ready.': 'a build that is broken',
  'Browsers cannot sign in at http://x.': 'gateway/pages.test.ts',
  'A phone cannot reach this gateway: it listens on this machine only.': 'test/origins.e2e.test.ts',
};

function files(t: TestContext): string {
  const cwd = temporaryFolder(t);
  for (const folder of ['notes', 'blank', 'broken', 'noid', 'large', 'marked', 'home/.config/svc'])
    mkdirSync(join(cwd, folder), { recursive: true });
  const texts = {
    'a.txt': 'text',
    'taken.bundle': '',
    'bad.json': '{"prot": 1}',
    'git.json': '{"appsStoreRoot": "code"}',
    'notes/app.json': '{"id": "notes", "name": "Notes", "version": "1"}',
    'broken/app.json': '{"id": "broken"',
    'noid/app.json': '{}',
    'marked/app.json': '{"id": "marked"}',
    'marked/a.txt': '<<<<<<< workspace\na\n=======\nb\n>>>>>>> published\n',
    'large/app.json': '{"id": "large"}',
    'large/big.txt': '',
    'large/app.tar.gz': '',
    'a.tgz': 'text',
  };
  for (const [name, text] of Object.entries(texts)) writeFileSync(join(cwd, name), text);
  writeFileSync(join(cwd, 'a.zip'), Buffer.from([80, 75, 0, 255]));
  create({ cwd, file: join(cwd, 'empty.tgz'), gzip: true, sync: true }, ['a.txt']);
  truncateSync(join(cwd, 'large/app.tar.gz'), LIMITS.uploadBodyBytes + 1);
  truncateSync(join(cwd, 'large/big.txt'), Math.max(LIMITS.archiveTotalBytes, LIMITS.blobBytes) + 1);
  return cwd;
}

type Place = { line: string; code?: number; user?: boolean; env?: NodeJS.ProcessEnv };

/** Where a gateway is looked for, and the disk. */
const PLACES: Record<string, (t: TestContext, cwd: string) => Place | Promise<Place>> = {
  'no gateway runs': () => ({ line: 'apps' }),
  'a gateway inside another program': (t, cwd) => {
    mkdirSync(join(cwd, '.svc/run'), { recursive: true });
    const lock = acquireDataLock(new Layout(join(cwd, '.svc')).lock);
    t.after(() => lock.release());
    return { line: 'apps' };
  },
  'a directory that cannot be read': (_t, cwd) => {
    mkdirSync(join(cwd, '.svc'), { mode: 0o700 });
    return { line: 'apps', user: true };
  },
  'a folder of an app that cannot be read': async (t, cwd) => {
    mkdirSync(join(cwd, 'notes/lib'), { mode: 0o700 });
    chmodSync(join(cwd, 'notes'), 0o755);
    chmodSync(join(cwd, 'notes/app.json'), 0o644);
    const { url } = await startGateway(t, ROUTES);
    return { line: `push notes --url ${url} --token ${TOKEN}`, user: true, code: EXIT.failed };
  },
  'a profile that is not JSON': (_t, cwd) => {
    writeFileSync(join(cwd, 'home/.config/svc/profile.json'), '{');
    return { line: 'apps', code: EXIT.failed };
  },
  'a profile without an address': (_t, cwd) => {
    writeFileSync(join(cwd, 'home/.config/svc/profile.json'), '{"url": 1}');
    return { line: 'apps', code: EXIT.failed };
  },
  'a download that breaks off': async (t) => {
    const server = createServer((_request, response) => {
      response.writeHead(200, { 'content-length': '9' });
      response.write('half', () => response.destroy());
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    t.after(() => server.close());
    const { port } = server.address() as AddressInfo;
    return { line: `export half.bundle --url http://127.0.0.1:${port}`, code: EXIT.failed };
  },
  'a data directory of another host': (_t, cwd) => {
    mkdirSync(join(cwd, '.svc'));
    writeFileSync(join(cwd, '.svc/profile.json'), '{"id": "local", "kind": "plugin"}');
    return { line: 'desktop --browser /bin/true', code: EXIT.failed, env: { DISPLAY: ':9' } };
  },
  'a port in use': async (t) => {
    const { url } = await startGateway(t, {});
    return { line: `serve --data-dir x --port ${new URL(url).port}`, code: EXIT.failed };
  },
};

const ROOT = join(fileURLToPath(import.meta.url), '../..');
const MADE = /new (?:Command|Usage|Unreachable)Error\(\s*(`[^`]*|'[^']*'|"[^"]*")/g;

/** For each failure in the sources: the file, and its message as a regular expression. */
function messages(): [file: string, message: string][] {
  const names = readdirSync(join(ROOT, 'cli'), { recursive: true, encoding: 'utf8' });
  const sources = names.filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'));
  return sources.flatMap((name) =>
    [...readFileSync(join(ROOT, 'cli', name), 'utf8').matchAll(MADE)].map(([, text = '']) => {
      const parts = text.replace(/^.|['"]$/g, '').split(/\$\{[^}]*\}?/);
      return [name, parts.map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('.*')] as [string, string];
    }),
  );
}

const linesOf = (text: string): string[] => text.split(';').map((line) => line.replace(/\s+/g, ' ').trim());

describe('each failure of the command line', () => {
  /** The first lines of what was printed. */
  const seen: string[] = [];

  function tellsWhatToDo(outcome: Outcome, code: number, line: string): void {
    const [title = '', ...steps] = outcome.stderr.trim().split('\n');
    assert.equal(outcome.code, code, `svc ${line}: ${outcome.stderr}${outcome.stdout}`);
    assert.match(title, /^✗ \S/, outcome.stderr);
    assert.ok(
      steps.length > 0 && steps.every((step) => /^ {2}\S| {2,}\S/.test(step)),
      `svc ${line}: ${outcome.stderr}`,
    );
    for (const step of steps) namesWhatExists(step);
    seen.push(title.slice(2));
  }

  /** The commands, options and documents in a hint. */
  function namesWhatExists(step: string): void {
    for (const [, name = '', rest = ''] of step.matchAll(/(?:^|[\s"`(])svc ([a-z]+)\b([^,;"`]*)/g)) {
      const command = COMMANDS.find((one) => one.name === name);
      assert.ok(command !== undefined || name === 'help', step);
      const options = { ...command?.options, ...CONNECTION_OPTIONS, ...COMMON_OPTIONS };
      for (const [, option = ''] of rest.matchAll(/\s--([a-z-]+)/g)) assert.ok(Object.hasOwn(options, option), step);
    }
    for (const [path] of step.matchAll(/\bdocs\/[\w./-]+\.md\b/g)) assert.ok(existsSync(join(ROOT, path)), step);
  }

  for (const [code, lines] of [
    [EXIT.usage, USAGE],
    [EXIT.failed, FAILED],
  ] as const)
    for (const line of linesOf(lines))
      test(`svc ${line}`, async (t) => {
        const { env } = await startGateway(t, ROUTES);
        tellsWhatToDo(await svc(line.split(' '), { env, cwd: files(t) }), code, line);
      });

  for (const [what, line, code, options, routes] of [
    ['no workspace', 'publish', EXIT.failed, {}, { 'GET /svc/_sessions?limit=500': { json: [] } }],
    ['a value of bytes', 'secret set notes KEY', EXIT.failed, { stdin: Buffer.from([255]) }, {}],
    ['no value', 'secret set notes KEY', EXIT.failed, { tty: true, stdin: '' }, {}],
    ['a value of lines', 'secret set notes KEY', EXIT.failed, { tty: true, stdin: 'a\nb\n' }, {}],
    ['a no', 'sql notes drop', EXIT.failed, { tty: true, stdin: 'n\n' }, {}],
    [
      'files on the tarball store',
      `${inFull} a.txt`,
      EXIT.failed,
      {},
      { [CONVERSATIONS]: failure(409, 'NO_GIT_STORE', 'x') },
    ],
    ['a turn that breaks off', 'chat notes hi', EXIT.unreachable, {}, {}],
    ['a terminal instead of an MCP client', 'mcp notes', EXIT.usage, { tty: true }, {}],
    [
      'a file that is not text',
      'versions show todos x a.png',
      EXIT.failed,
      { tty: true },
      { 'GET /svc/_apps/todos/versions/x/files/a.png': { stream: ['\u0000'], hangUp: true } },
    ],
    ['nothing there', 'apps --url http://127.0.0.1:1', EXIT.unreachable, {}, {}],
  ] as [string, string, number, RunOptions, Routes][])
    test(`${what}: svc ${line}`, async (t) => {
      const { env } = await startGateway(t, { ...ROUTES, ...routes });
      const words = line === 'sql notes drop' ? ['sql', 'notes', 'drop table notes'] : line.split(' ');
      const outcome = await svc(words, { env: { ...env, NO_COLOR: '1' }, cwd: files(t), ...options });
      tellsWhatToDo({ ...outcome, stderr: outcome.stderr.slice(outcome.stderr.indexOf('✗')) }, code, line);
    });

  for (const [what, prepare] of Object.entries(PLACES))
    test(what, async (t) => {
      const cwd = files(t);
      const { line, code = EXIT.unreachable, user = false, env } = await prepare(t, cwd);
      const run = () => svc(line.split(' '), { env: { HOME: join(cwd, 'home'), ...env }, cwd });
      tellsWhatToDo(await (user ? asUser(cwd, run) : run()), code, line);
    });

  test('the sources have no other failures', () => {
    const missing = messages().filter(([, message]) => {
      const isMeant = new RegExp(`^${message}`);
      return ![...seen, ...Object.keys(NOT_HERE)].some((title) => isMeant.test(title));
    });
    assert.deepEqual(missing, []);
  });
});
