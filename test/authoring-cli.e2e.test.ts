/**
 * The commands of authoring as people use them: a real gateway with the git store, real folders. Commands that keep
 * running, and those of the first tests, are the built executable; the others run in this process, which takes a tenth
 * of the time.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { svc as commandLine } from '../testing/command-line.ts';
import { ENDS_WITH_PARENT, root } from '../testing/gateway.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

const SVC = join(root, 'bin/svc.js');
const home = mkdtempSync(join(tmpdir(), 'svc-e2e-'));
// The daemons' sockets are in it too, and are removed with it.
const env = { PATH: process.env.PATH, HOME: home, TMPDIR: home };

type Outcome = { code: number; stdout: string; stderr: string };

function start(command: string[], more: NodeJS.ProcessEnv = {}): ChildProcess {
  const stays = command[1] === 'serve' || command[1] === 'dev';
  return spawn(process.execPath, [...(stays ? [ENDS_WITH_PARENT] : []), ...command], {
    cwd: home,
    env: { ...env, ...more },
    stdio: [stays ? 'pipe' : 'ignore', 'pipe', 'pipe'],
  });
}

async function outcome(child: ChildProcess): Promise<Outcome> {
  const output = { stdout: '', stderr: '' };
  child.stdout?.on('data', (chunk) => (output.stdout += chunk));
  child.stderr?.on('data', (chunk) => (output.stderr += chunk));
  const [code] = await inTime(once(child, 'close'), `the end of ${child.spawnargs.slice(1).join(' ')}`, LONG_MS);
  return { code, ...output };
}

/** A command in this process. */
const svc = (...argv: string[]): Promise<Outcome> => commandLine(argv, { env, cwd: home });

/** A command of the built executable. */
const built = (...argv: string[]): Promise<Outcome> => outcome(start([SVC, ...argv]));

/** The one JSON document of a command that succeeds. */
async function json(...argv: string[]) {
  const { code, stdout, stderr } = await svc(...argv, '--json');
  assert.equal(code, 0, stdout + stderr);
  return JSON.parse(stdout);
}

/** The error document of one that fails. */
async function refused(...argv: string[]) {
  const { code, stdout } = await svc(...argv, '--json');
  assert.equal(code, 1, stdout);
  return JSON.parse(stdout).error;
}

/** What `svc dev --json` prints, one event after the other. */
class Events {
  readonly #lines: AsyncIterator<string>;

  constructor(child: ChildProcess) {
    assert.ok(child.stdout, 'its output is a pipe');
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  /** The next one of this name; events before it are skipped. */
  async next(name: string) {
    for (let last = ''; ; ) {
      const { value, done } = await inTime(this.#lines.next(), `the event "${name}"`, LONG_MS);
      assert.ok(!done, `it ended before "${name}": ${last}`);
      last = value;
      const event = JSON.parse(value);
      if (event.event === name) return event;
    }
  }
}

let daemon: ChildProcess;
let gateway: { url: string; token: string };

async function serve(): Promise<void> {
  daemon = start([SVC, 'serve', '--store', 'git', '--data-dir', '.svc', '--port', '0', '--json']);
  assert.ok(daemon.stdout, 'its output is a pipe');
  for await (const line of createInterface({ input: daemon.stdout })) {
    gateway = JSON.parse(line);
    return;
  }
}

async function stop(): Promise<void> {
  if (daemon.exitCode !== null) return;
  const exit = once(daemon, 'exit');
  daemon.kill('SIGTERM');
  await inTime(exit, 'the end of the daemon', LONG_MS);
}

function edit(path: string, change: (text: string) => string): void {
  writeFileSync(join(home, path), change(readFileSync(join(home, path), 'utf8')));
}

function file(workspace: string, path: string): string {
  return `${gateway.url}/svc/_sessions/${workspace}/apps/notes/files/${path}`;
}

async function putFile(workspace: string, path: string, body: string): Promise<void> {
  await send(workspace, path, { method: 'PUT', body });
}

async function deleteFile(workspace: string, path: string): Promise<void> {
  await send(workspace, path, { method: 'DELETE' });
}

async function send(workspace: string, path: string, request: { method: string; body?: string }): Promise<void> {
  const headers = { authorization: `Bearer ${gateway.token}` };
  const answer = await fetch(file(workspace, path), { ...request, headers });
  assert.ok(answer.ok, await answer.text());
}

before(serve);

after(async () => {
  await stop();
  rmSync(home, { recursive: true, force: true });
});

test('from a folder to a draft, to live, and back', async () => {
  assert.equal((await built('new', 'notes')).code, 0);
  const synced = await built('dev', 'notes', '--once');
  assert.equal(synced.code, 0, synced.stderr);
  assert.match(synced.stdout, /preview .*http:\/\/dev-notes--notes\.draft\.svc\.localhost:\d+\//);
  assert.doesNotMatch(synced.stderr, /Ctrl-C/, 'it has ended');
  assert.deepEqual(await json('apps'), [], 'nothing is live');
  assert.match((await built('diff', 'notes', '--stat')).stdout, /^A notes\/actions\/add\.js {2}\+\d+ -0$/m);

  const first = await built('publish', '-m', 'Begin');
  assert.equal(first.code, 0, first.stderr);
  assert.match(first.stdout, /notes notes\/v1 is live\n {2}commit .*\n {2}migrated {2}1\n {2}page/);
  assert.equal((await json('write', 'notes', 'add', '{"text":"Milk"}')).status, 201);

  writeFileSync(join(home, 'notes/migrations/0002_done.sql'), 'ALTER TABLE notes ADD COLUMN done INTEGER;\n');
  edit('notes/queries/list.js', (text) => text.replace('id, text,', 'id, text, done,'));
  const { whole, written, deleted } = await json('dev', 'notes', '--once');
  assert.deepEqual([whole, written, deleted], [true, ['migrations/0002_done.sql', 'queries/list.js'], []]);
});

test('a publication with a migration, and a rollback that lists the migrations that its version does not have', async () => {
  const { files } = await json('diff', 'notes');
  assert.deepEqual(
    files.map(({ path, status }: { path: string; status: string }) => [path, status]),
    [
      ['migrations/0002_done.sql', 'added'],
      ['queries/list.js', 'modified'],
    ],
  );
  const published = await json('publish', 'notes', '--message', 'Done');
  assert.deepEqual([published.tag, published.version, published.migrationsApplied], ['notes/v2', 2, [2]]);
  assert.deepEqual((await json('read', 'notes', 'list'))[0].done, null);
  assert.equal((await refused('publish', 'notes')).code, 'NO_CHANGES');

  const back = await svc('rollback', 'notes');
  assert.match(
    back.stdout,
    /notes\/v1 of notes is live\n {2}before it: notes\/v2\n.*ahead of this version by migration 2/,
  );
  assert.equal('done' in (await json('read', 'notes', 'list'))[0], false);
  assert.equal((await json('rollback', 'notes', '2')).activeVersion, 'notes/v2');
  assert.equal((await json('activate', 'notes', 'v1')).activeVersion, 'notes/v1');
  assert.deepEqual((await json('activate', 'notes', 'notes/v2')).migrationsAhead, []);
  assert.equal((await refused('rollback', 'notes', '9')).code, 'UNKNOWN_VERSION');
});

test('svc dev reports what publishing would refuse, in the same words', async () => {
  const sound = readFileSync(join(home, 'notes/queries/list.js'), 'utf8');
  const refusals: [source: string, said: RegExp][] = [
    [`import fs from 'node:fs';\n${sound}`, /1:16: .*cannot import Node built-ins.* \(import\)/],
    [`import x from './nosuch.js';\n${sound}`, /1:15: .*queries\/nosuch\.js, which does not exist \(import\)/],
    ['export const list = 1;\n', /1:1: .*no default export.* \(default-export\)/],
    ["export default ({ db }) => db.all('DELETE FROM notes');\n", /1:35: .* \(query-handlers-read-only\)/],
  ];
  for (const [source, said] of refusals) {
    writeFileSync(join(home, 'notes/queries/list.js'), source);
    const { code, stdout } = await svc('dev', 'notes', '--once', '--json');
    const { whole, error } = JSON.parse(stdout);
    assert.deepEqual([code, whole, error.path], [1, false, 'queries/list.js'], stdout);
    assert.match(error.message, said);
    const { hint, ...refusal } = await refused('publish', 'notes');
    assert.deepEqual(error, refusal);
  }
  const told = await svc('dev', 'notes', '--once');
  assert.equal(told.code, 1);
  assert.match(
    told.stdout,
    /! publishing would refuse it: INVALID_HANDLER: queries\/list\.js:1:35: [\s\S]* +\^\n[\s\S]*handler-rules/,
  );
  writeFileSync(join(home, 'notes/queries/list.js'), sound);
  assert.equal((await json('dev', 'notes', '--once')).whole, true);
});

test('svc dev warns of what the page loads from elsewhere, and says it once', async () => {
  const sound = readFileSync(join(home, 'notes/index.html'), 'utf8');
  writeFileSync(join(home, 'notes/index.html'), `${sound}<script src="https://cdn.example/x.js"></script>\n`);
  const { whole, warnings } = await json('dev', 'notes', '--once');
  assert.deepEqual([whole, warnings.length, warnings[0].path], [true, 1, 'index.html']);
  const told = await svc('dev', 'notes', '--once');
  assert.match(told.stdout, /! index\.html It needs https:\/\/cdn\.example, .* The policy of pages blocks it\.\n/);
  writeFileSync(join(home, 'notes/index.html'), sound);
  assert.equal('warnings' in (await json('dev', 'notes', '--once')), false);
});

test('svc dev warns of what is probably mistyped, and the draft works', async () => {
  const sound = readFileSync(join(home, 'notes/app.json'), 'utf8');
  writeFileSync(join(home, 'notes/app.json'), sound.replace('"queries"', '"querys": [],\n  "queries"'));
  const { stdout } = await svc('dev', 'notes', '--once');
  assert.match(stdout, /! app\.json:\d+:3 "querys" is no known member.*"queries"\?\n[\s\S]*✓ notes follows/);
  const { whole, warnings } = await json('dev', 'notes', '--once');
  assert.deepEqual([whole, warnings[0].keyword], [true, 'unknown-member']);
  writeFileSync(join(home, 'notes/app.json'), sound);
  assert.equal((await json('dev', 'notes', '--once')).warnings, undefined);
});

test('svc dev names only a few of many files', async () => {
  mkdirSync(join(home, 'notes/many'));
  for (let n = 10; n < 30; n++) writeFileSync(join(home, `notes/many/${n}.txt`), `${n}`);
  assert.match((await svc('dev', 'notes', '--once')).stdout, / {2}many\/10\.txt, many\/11\.txt and 18 more\n/);
  rmSync(join(home, 'notes/many'), { recursive: true });
  assert.match(
    (await svc('dev', 'notes', '--once')).stdout,
    / {2}many\/10\.txt \(deleted\), many\/11\.txt \(deleted\) and 18 more \(deleted\)\n/,
  );
});

test("the blank app's own tests pass", async () => {
  assert.equal((await svc('new', 'fresh')).code, 0);
  const { code, stdout } = await built('test', 'fresh');
  assert.equal(code, 0, stdout);
  assert.match(stdout, /pass 2$/m);
});

test('dev runs the tests of the folder, again after each change, and names the failed ones', async (t) => {
  const { whole, tests } = JSON.parse((await built('dev', 'fresh', '--once', '--test', '--json')).stdout);
  assert.deepEqual([whole, tests.tests, tests.failures], [true, 2, []]);
  const child = start([SVC, 'dev', 'fresh', '--test', '--json']);
  t.after(() => child.kill('SIGKILL'));
  const events = new Events(child);
  assert.equal((await events.next('tests')).failures.length, 0);
  const file = join(home, 'fresh/actions/remove.js');
  const sound = readFileSync(file, 'utf8');
  writeFileSync(file, sound.replace("db.run('DELETE", "db.run(nothing, 'DELETE"));
  const { failures } = await events.next('tests');
  assert.equal(failures.length, 2);
  assert.deepEqual([failures[0].file, failures[0].state], ['tests/app.test.js', 'failed']);
  assert.match(failures[0].error, /nothing is not defined\n.*fresh\/actions\/remove\.js:2:/);
  child.kill('SIGINT');
  await events.next('stopped');
  const once = await built('dev', 'fresh', '--once', '--test');
  assert.equal(once.code, 1);
  assert.match(once.stdout, /✗ 2 of 2 tests failed\n {2}the newest note .* tests\/app\.test\.js:6\n/);
  writeFileSync(file, sound);
  assert.equal((await svc('workspaces', 'rm', 'dev-fresh', '--yes')).code, 0);
});

test('templates are cloned on the gateway and into folders', async () => {
  const staged = await json('new', '--clone', 'todos');
  assert.deepEqual([staged.app, staged.staged], ['todos', true]);
  const told = await svc('new', '--id', 'ledger', '--workspace', staged.sessionId);
  assert.match(told.stdout, new RegExp(`^ {2}open +svc open ledger --workspace ${staged.sessionId}$`, 'm'));
  const live = await svc('new', '--clone', 'todos', '--publish');
  assert.match(live.stdout, /todos-2 todos-2\/v1 is live\n.*\n✓ webhook of todos-2\/inbox\n/);
  assert.deepEqual(await json('read', 'todos-2', 'list'), []);
  assert.equal((await svc('new', 'board', '--clone', 'kanban', '--name', 'Plans')).code, 0);
  const { id, name } = JSON.parse(readFileSync(join(home, 'board/app.json'), 'utf8'));
  assert.deepEqual([id, name], ['board', 'Plans']);
  assert.match((await svc('workspaces')).stdout, /^dev-notes +– +notes +(just now|\d+ (s|min) ago)$/m);
  assert.equal((await json('workspaces', 'rm', staged.sessionId, '--yes')).deleted, true);
});

test('a typo is answered with the probable meaning, and with the exit code of its kind', async () => {
  const cases: [argv: string[], code: number, said: RegExp][] = [
    [['new'], 2, /Name a folder, a template/],
    [['new', '--clone', 'todoss'], 1, /UNKNOWN_TEMPLATE.*\n[\s\S]*Did you mean "todos"\?/],
    [['new', 'elsewhere', '--clone', 'kanbn'], 2, /Did you mean "kanban"\?/],
    [['new', 'elsewhere', '--publish'], 2, /--publish needs an app on the gateway/],
    [['new', 'notes'], 1, /not empty/],
    [['new', '--id', 'A b'], 1, /INVALID_ID/],
    [['new', '--id', 'notes'], 1, /CONFLICT/],
    [['dev'], 2, /svc help dev/],
    [['dev', 'nowhere'], 1, /does not exist/],
    [['dev', '.svc'], 1, /no app\.json/],
    [['dev', 'notes', '--workspace', 'a b', '--once'], 1, /INVALID_ID/],
    [['dev', 'notes', '--once', '--url', 'http://127.0.0.1:1'], 3, /nothing listens there/],
    [['dev', 'notes', '--once', '--token', 'wrong'], 64, /UNAUTHORIZED/],
    [['diff', 'nots'], 1, /Did you mean "notes"\?/],
    [['diff', '--workspace', 'dev-nots'], 1, /UNKNOWN_SESSION.*\n.*Did you mean "dev-notes"\?/],
    [['publish', 'notes', '--workspace', 'dev-nots'], 1, /Did you mean "dev-notes"\?/],
    [['rollback', 'nots'], 1, /UNKNOWN_APP.*\n.*Did you mean "notes"\?/],
    [['workspaces', 'close'], 2, /Verbs: open, rename, update, rm/],
    [['workspaces', 'rm'], 2, /svc workspaces rm <id>/],
    [['workspaces', 'rm', 'dev-notes'], 2, /--yes/],
    [['workspaces', 'rm', 'nothing'], 1, /UNKNOWN_SESSION/],
    [['workspaces', 'open', 'dev-notes'], 1, /CONFLICT/],
  ];
  for (const [argv, code, said] of cases) {
    const { code: actual, stderr } = await svc(...argv);
    assert.equal(actual, code, `svc ${argv.join(' ')}: ${stderr}`);
    assert.match(stderr, said, `svc ${argv.join(' ')}`);
    assert.doesNotMatch(stderr, /\n {4}at /, 'no stack');
  }
});

test('two drafts that change one line: the second gets the name of the file, and stays unchanged', async () => {
  for (const who of ['ann', 'ben']) {
    await json('workspaces', 'open', who);
    await putFile(who, 'style.css', `/* ${who} */\n`);
  }
  const several = await svc('publish', 'notes');
  assert.equal(several.code, 2);
  assert.match(several.stderr, /name one: --workspace[\s\S]*ben {2}notes[\s\S]*ann {2}notes/);
  assert.equal((await json('publish', '--workspace', 'ann')).tag, 'notes/v3');
  const error = await refused('publish', '--workspace', 'ben');
  assert.deepEqual([error.code, error.files], ['MERGE_CONFLICT', ['style.css']]);
  assert.match((await svc('diff', '--workspace', 'ben')).stdout, /^\+\/\* ben \*\/$/m);
  const met = await svc('publish', '--workspace', 'ben');
  const update = /svc (workspaces update ben --app notes)$/m.exec(met.stderr)?.[1];
  assert.ok(update, `the way out can be pasted: ${met.stderr}`);
  assert.deepEqual((await json(...update.split(' '))).conflicts, ['style.css']);
  const marked = await svc('publish', '--workspace', 'ben');
  assert.match(marked.stderr, /marked in style\.css .*Choose between the marks, then publish again/);
  assert.doesNotMatch(marked.stderr, /svc workspaces update/, 'that is done');
  for (const who of ['ann', 'ben']) await json('workspaces', 'rm', who, '--yes');
});

test('dev follows a folder through faults, other editors and a restart of the gateway, until Ctrl-C', async (t) => {
  const dev = start([SVC, 'dev', 'notes', '--json']);
  t.after(() => dev.kill('SIGKILL'));
  const exit = once(dev, 'exit');
  const events = new Events(dev);
  // The folder has an older file than the one that ann published; at the start the folder wins.
  const ready = await events.next('ready');
  assert.deepEqual([ready.app, ready.workspace, ready.whole], ['notes', 'dev-notes', true]);

  edit('notes/index.html', (text) => text.replace('Write a note…', 'What is it?'));
  assert.deepEqual((await events.next('synced')).written, ['index.html']);
  const headers = { authorization: `Bearer ${gateway.token}` };
  const preview = async () => (await fetch(`${gateway.url}/svc/_draft/dev-notes/notes/`, { headers })).text();
  assert.match(await preview(), /What is it\?/);

  const sound = readFileSync(join(home, 'notes/queries/list.js'), 'utf8');
  writeFileSync(join(home, 'notes/queries/list.js'), 'export default () => {\n  const x = ;\n};\n');
  const { error } = await events.next('broken');
  assert.equal(error.code, 'INVALID_HANDLER');
  assert.match(error.message, /^queries\/list\.js:2:13: /);
  writeFileSync(join(home, 'notes/queries/list.js'), sound);
  await events.next('mended');

  writeFileSync(join(home, 'notes/queries/list.js'), `import fs from 'node:fs';\n${sound}`);
  const { error: refusal } = await events.next('unfit');
  assert.match(refusal.message, /^queries\/list\.js:1:16: .*\(import\)/);
  edit('notes/index.html', (text) => text.replace('What is it?', 'And now?'));
  assert.deepEqual((await events.next('synced')).written, ['index.html']);
  assert.match(await preview(), /And now\?/, 'the preview is followed');
  writeFileSync(join(home, 'notes/queries/list.js'), sound);
  await events.next('mended');

  renameSync(join(home, 'notes/queries/list.js'), join(home, 'notes/queries/list.ts'));
  assert.deepEqual((await events.next('synced')).written, ['queries/list.ts']);
  writeFileSync(join(home, 'notes/queries/list.ts'), `enum Kind { A }\n${sound}`);
  const { error: notErased } = await events.next('broken');
  assert.match(notErased.message, /^queries\/list\.ts:1:1: It has a TypeScript enum/);
  writeFileSync(join(home, 'notes/queries/list.ts'), `${sound}export type Note = { id: number };\n`);
  await events.next('mended');
  const typed = await fetch(`${gateway.url}/svc/_draft/dev-notes/_tool/svc_read`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ app: 'notes', query: 'list' }),
  });
  assert.equal(typed.status, 200, await typed.text());
  writeFileSync(join(home, 'notes/queries/list.ts'), sound);
  assert.deepEqual((await events.next('synced')).written, ['queries/list.ts']);
  renameSync(join(home, 'notes/queries/list.ts'), join(home, 'notes/queries/list.js'));
  assert.deepEqual((await events.next('synced')).deleted, ['queries/list.ts']);

  writeFileSync(join(home, 'notes/large.txt'), '');
  truncateSync(join(home, 'notes/large.txt'), 6 * 1024 * 1024);
  const { error: tooLarge } = await events.next('broken');
  assert.deepEqual([tooLarge.code, tooLarge.path], ['PAYLOAD_TOO_LARGE', 'large.txt']);
  edit('notes/index.html', (text) => text.replace('And now?', 'What is it?'));
  assert.deepEqual((await events.next('synced')).written, ['index.html']);
  rmSync(join(home, 'notes/large.txt'));
  await events.next('mended');

  const manifest = readFileSync(join(home, 'notes/app.json'), 'utf8');
  rmSync(join(home, 'notes/app.json'));
  assert.equal((await events.next('broken')).error.code, 'INVALID_MANIFEST');
  writeFileSync(join(home, 'notes/app.json'), manifest);
  await events.next('mended');

  renameSync(join(home, 'notes'), join(home, 'away'));
  assert.match((await events.next('broken')).error.message, /folder is gone/);
  renameSync(join(home, 'away'), join(home, 'notes'));
  await events.next('mended');

  await putFile('dev-notes', 'README.md', '# From an agent\n');
  assert.deepEqual((await events.next('synced')).taken, ['README.md']);
  assert.equal(readFileSync(join(home, 'notes/README.md'), 'utf8'), '# From an agent\n');

  writeFileSync(join(home, 'notes/old.md'), '# Old\n');
  assert.deepEqual((await events.next('synced')).written, ['old.md']);
  // A file that appears and vanishes before the draft is scanned is not reported.
  await preview();
  await deleteFile('dev-notes', 'old.md');
  const gone = await events.next('synced');
  assert.deepEqual([gone.gone, gone.written], [['old.md'], []]);
  assert.equal(readFileSync(join(home, 'notes/old.md'), 'utf8'), '# Old\n');
  edit('notes/README.md', () => '# Not the old one\n');
  assert.deepEqual((await events.next('synced')).written, ['README.md']);
  rmSync(join(home, 'notes/old.md'));

  gateway.token = (await json('token', 'rotate')).token;
  edit('notes/README.md', () => '# With another token\n');
  assert.deepEqual((await events.next('synced')).written, ['README.md']);

  await stop();
  await events.next('lost');
  edit('notes/README.md', () => '# While it was away\n');
  await serve();
  assert.match((await events.next('back')).preview, /^http:\/\/dev-notes--notes\.draft\.svc\.localhost:/);
  assert.deepEqual((await events.next('synced')).written, ['README.md']);

  await stop();
  await events.next('lost');
  for (let n = 0; n < 300; n++) writeFileSync(join(home, `notes/file-${n}.txt`), `of ${n}`);
  await serve();
  await events.next('back');
  assert.equal((await events.next('synced')).written.length, 300, 'many files meanwhile');
  for (let n = 0; n < 300; n++) rmSync(join(home, `notes/file-${n}.txt`));
  await events.next('synced');

  dev.kill('SIGINT');
  await events.next('stopped');
  assert.deepEqual(await inTime(exit, 'the end of svc dev', LONG_MS), [0, null]);
  assert.ok((await json('workspaces')).some(({ sessionId }: { sessionId: string }) => sessionId === 'dev-notes'));
});

test('svc dev ends when the workspace is closed, and leaves the folder unchanged', async (t) => {
  const dev = start([SVC, 'dev', 'notes']);
  t.after(() => dev.kill('SIGKILL'));
  const ended = outcome(dev);
  assert.ok(dev.stdout, 'its output is a pipe');
  await inTime(once(dev.stdout, 'data'), 'the first output of svc dev', LONG_MS);
  await json('workspaces', 'rm', 'dev-notes', '--yes');
  const { code, stdout, stderr } = await ended;
  assert.equal(code, 1);
  assert.match(stderr, /workspace dev-notes was closed/);
  assert.doesNotMatch(stdout, /does not answer/, 'the gateway does');
  assert.equal(readFileSync(join(home, 'notes/README.md'), 'utf8'), '# While it was away\n');
});

test('an app without a live version: the next step that push prints, and an export without it', async () => {
  assert.equal((await svc('new', 'guest')).code, 0);
  const pushed = await svc('push', 'guest', '--no-activate');
  assert.equal(pushed.code, 0, pushed.stderr);
  const next = /next +svc (activate guest \S+)/.exec(pushed.stdout)?.[1];
  assert.ok(next, pushed.stdout);
  const before = await json('export', 'before');
  assert.ok(before.apps.includes('notes'), 'the others are there');
  assert.deepEqual(before.skipped, ['guest']);
  assert.equal((await json(...next.split(' '))).activeVersion, 'guest/v1');
  const after = await json('export', 'after');
  assert.deepEqual([after.apps.toSorted(), after.skipped], [[...before.apps, 'guest'].toSorted(), []]);
  assert.equal((await svc('import', 'after')).code, 0);
});

test('a publication without an older version cannot be undone, and does not offer it', async () => {
  await json('workspaces', 'open', 'anew');
  await putFile('anew', 'style.css', '/* anew */\n');
  await json('rm', 'notes', '--yes');
  const { stdout, stderr } = await svc('publish', 'notes', '--workspace', 'anew');
  assert.match(stdout, /notes\/v\d+ is live/, stderr);
  assert.doesNotMatch(stdout, /svc rollback/);
  assert.equal((await refused('rollback', 'notes')).code, 'UNKNOWN_VERSION');
  await putFile('anew', 'style.css', '/* once more */\n');
  assert.match((await svc('publish', 'notes', '--workspace', 'anew')).stdout, /undo {6}svc rollback notes$/m);
});

test('on the other store, the commands of drafts say how to start the gateway', async (t) => {
  const other = start([SVC, 'serve', '--store', 'tarball', '--data-dir', 'plain', '--port', '0', '--json']);
  t.after(() => other.kill('SIGKILL'));
  assert.ok(other.stdout, 'its output is a pipe');
  await inTime(once(createInterface({ input: other.stdout }), 'line'), 'the start of the other daemon', LONG_MS);
  for (const argv of [['dev', 'notes', '--once'], ['new', '--clone', 'todos'], ['workspaces'], ['diff'], ['publish']]) {
    const { code, stderr } = await svc(...argv, '--data-dir', 'plain');
    assert.equal(code, 1, stderr);
    assert.match(stderr, /NO_GIT_STORE[\s\S]*svc convert --store git/, `svc ${argv[0]}`);
  }
});
