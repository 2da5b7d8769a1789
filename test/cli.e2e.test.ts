/** The `svc` command as people use it: the built executable, a real gateway, real apps. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  cpSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { openSqlite } from '../storage/sqlite.ts';
import { ENDS_WITH_PARENT, root } from '../testing/gateway.ts';
import { inTime, LONG_MS, pause } from '../testing/waiting.ts';

const SVC = fileURLToPath(new URL('../bin/svc.js', import.meta.url));
const home = mkdtempSync(join(tmpdir(), 'svc-e2e-'));
// The daemons' sockets are in it too, and are removed with it.
const env = { PATH: process.env.PATH, HOME: home, TMPDIR: home };

/** Only Linux says what a process may have. */
const NO_LIMITS = process.platform !== 'linux';

type Outcome = { code: number; stdout: string; stderr: string };

function start(...argv: string[]): ChildProcess {
  const stays = argv[0] === 'serve';
  const flags = stays ? [ENDS_WITH_PARENT] : [];
  return spawn(process.execPath, [...flags, SVC, ...argv], {
    cwd: home,
    env,
    stdio: [stays ? 'pipe' : 'ignore', 'pipe', 'pipe'],
  });
}

function svc(...argv: string[]): Promise<Outcome> {
  return outcomeOf(start(...argv));
}

async function outcomeOf(child: ChildProcess): Promise<Outcome> {
  const output = { stdout: '', stderr: '' };
  child.stdout?.on('data', (chunk) => (output.stdout += chunk));
  child.stderr?.on('data', (chunk) => (output.stderr += chunk));
  const [code] = await inTime(once(child, 'close'), `the end of ${child.spawnargs.join(' ')}`, LONG_MS);
  return { code, ...output };
}

/** The one JSON document of a command that succeeds. */
async function json(...argv: string[]) {
  const { code, stdout, stderr } = await svc(...argv, '--json');
  assert.equal(code, 0, stdout + stderr);
  return JSON.parse(stdout);
}

async function firstLine(child: ChildProcess): Promise<string> {
  assert.ok(child.stdout);
  const [line] = await inTime(
    once(createInterface({ input: child.stdout }), 'line'),
    'the first line of a command',
    LONG_MS,
  );
  return line;
}

let daemon: ChildProcess;
let ready: { event: string; url: string; token: string; pid: number; dataDir: string };

/** Writes a note now and then, until it has been noticed. */
async function addUntil(isSeen: () => boolean): Promise<void> {
  const headers = { authorization: `Bearer ${ready.token}` };
  const body = JSON.stringify({ app: 'notes', action: 'add', input: { text: 'Bread' } });
  while (!isSeen()) {
    await (await fetch(`${ready.url}/svc/_tool/svc_write`, { method: 'POST', headers, body })).text();
    await pause(50);
  }
}

before(async () => {
  assert.equal((await svc('new', 'notes')).code, 0);
  daemon = start('serve', '--store', 'tarball', '--data-dir', '.svc', '--port', '0', '--with', 'notes', '--json');
  ready = JSON.parse(await firstLine(daemon));
});

after(() => {
  daemon.kill('SIGKILL');
  rmSync(home, { recursive: true, force: true });
});

test('the first line of serve --json has the address, after the gateway accepts requests', async () => {
  assert.deepEqual(Object.keys(ready), ['event', 'url', 'token', 'pid', 'dataDir']);
  assert.equal(ready.event, 'ready');
  assert.equal(ready.pid, daemon.pid);
  assert.equal(ready.token, readFileSync(join(home, '.svc/token.bin'), 'utf8').trim());
  const answer = await fetch(`${ready.url}/svc/_health`);
  assert.equal(((await answer.json()) as { ok: boolean }).ok, true);
});

test('serve --json prints the secrets of webhooks that --with created, only once', async (t) => {
  const example = join(root, 'templates/todos');
  const serve = ['serve', '--data-dir', 'hooked', '--port', '0', '--store', 'tarball', '--with', example, '--json'];
  const other = start(...serve);
  t.after(() => other.kill('SIGKILL'));
  assert.ok(other.stdout, 'its output is a pipe');
  const lines = createInterface({ input: other.stdout })[Symbol.asyncIterator]();
  const { url } = JSON.parse((await inTime(lines.next(), 'the line of the start', LONG_MS)).value);
  const { event, webhooks } = JSON.parse((await inTime(lines.next(), 'the line of the webhooks')).value);
  assert.equal(event, 'webhooks');
  assert.deepEqual(
    webhooks.map((webhook: { ownerApp: string; automationId: string }) => [webhook.ownerApp, webhook.automationId]),
    [['todos', 'inbox']],
  );
  assert.ok(webhooks[0].url.startsWith(`${url}/_svc-hook/`), webhooks[0].url);
  const headers = { authorization: `Bearer ${webhooks[0].secret}` };
  const answer = await fetch(webhooks[0].url, { method: 'POST', headers, body: 'Water the plants' });
  assert.equal(((await answer.json()) as { ok: boolean }).ok, true);
});

test('the app given with --with works at once: actions, queries, SQL', async () => {
  const added = await json('write', 'notes', 'add', '{"text":"Milk"}');
  assert.equal(added.status, 201);
  assert.equal((await svc('write', 'notes', 'remove', '{"id":99}')).code, 1, 'an action that answers 404 has failed');
  assert.deepEqual(
    (await json('read', 'notes', 'list')).map(({ text }: { text: string }) => text),
    ['Milk'],
  );
  assert.deepEqual((await json('sql', 'notes', 'select text from notes where id = ?', '[1]')).rows, [['Milk']]);
  const sweeping = ['sql', 'notes', 'update notes set text = :text', '{"text":"Tea"}'];
  assert.equal((await svc(...sweeping)).code, 2);
  assert.equal((await json(...sweeping, '--yes')).changes, 1);
  const backups = join(home, '.svc/apps/notes/backups');
  const [copy = ''] = readdirSync(backups);
  const old = openSqlite(join(backups, copy), { readonly: true });
  assert.equal(old.prepare('SELECT text FROM notes WHERE id = 1').pluck().get(), 'Milk');
  old.close();
  assert.match((await svc('logs', 'notes')).stdout, /info {3}add {2}a note was added {2}id=1/);
});

test('changes and logs are followed as they happen', async () => {
  const changes = start('changes', 'notes', '--json');
  const logs = start('logs', 'notes', '-f', '--json');
  const change = firstLine(changes);
  await firstLine(logs);
  // The stream may not be open yet at the first write: write until one has been seen.
  let seen = false;
  const event = change.then((line) => {
    seen = true;
    return JSON.parse(line);
  });
  await addUntil(() => seen);
  assert.equal((await event).table, 'notes');
  changes.kill();
  logs.kill();
});

test('push, versions and rollback', async () => {
  const [first] = await json('versions', 'notes');
  const manifest = join(home, 'notes/app.json');
  writeFileSync(manifest, readFileSync(manifest, 'utf8').replace('0.1.0', '0.2.0'));
  const pushed = await json('push', 'notes');
  assert.notEqual(pushed.versionId, first.versionId);
  assert.equal(pushed.activeVersion, pushed.versionId);
  assert.equal((await json('rollback', 'notes')).activeVersion, first.versionId);
  assert.equal((await json('activate', 'notes', pushed.versionId.slice(-6))).activeVersion, pushed.versionId);
  const { code, stderr } = await svc('rollback', 'notes', 'v_20200101T000000000Z_000000');
  assert.equal(code, 1);
  assert.match(stderr, /UNKNOWN_VERSION.*\n.*svc versions notes/);
});

test('status shows the process tree, doctor finds nothing broken', async () => {
  const { processes } = await json('status');
  const roles = new Set(processes.map(({ role }: { role: string }) => role));
  // Of `svc sql` a while ago.
  roles.delete('sql');
  assert.deepEqual([...roles], ['supervisor', 'writer', 'host', 'jobs']);
  assert.match((await svc('status')).stdout, /├─ host-\d+ .*\n│ {2}└─ notes [0-9a-f]{6} /);
  assert.equal((await svc('doctor')).code, 0);
});

test('errors suggest the name that was meant', async () => {
  assert.match((await svc('read', 'note', 'list')).stderr, /UNKNOWN_APP.*\n.*"notes"/);
  assert.match((await svc('read', 'notes', 'lst')).stderr, /UNKNOWN_QUERY.*\n.*"list"/);
  assert.equal((await svc('apps', '--token', 'wrong')).code, 64);
});

test('output that cannot be written is a failure; a reader that stops reading is not', async (t) => {
  if (!existsSync('/dev/full')) return t.skip('needs a device that is always full');
  const full = openSync('/dev/full', 'w');
  t.after(() => closeSync(full));
  for (const line of ['apps --json', 'help', 'logs notes -f']) {
    const child = spawn(process.execPath, [SVC, ...line.split(' ')], {
      cwd: home,
      env,
      stdio: ['ignore', full, 'pipe'],
    });
    let said = '';
    child.stderr?.on('data', (chunk) => (said += chunk));
    const [code] = await inTime(once(child, 'close'), `the end of svc ${line}`);
    const told =
      '✗ Standard output cannot be written: the disk is full.\n  Free some space, then run the command again.\n';
    assert.deepEqual([code, said], [1, told], `svc ${line}`);
  }
  const following = start('logs', 'notes', '-f');
  const exit = once(following, 'exit');
  await firstLine(following);
  following.stdout?.destroy();
  // It notices when it writes the next line.
  await addUntil(() => following.exitCode !== null);
  assert.deepEqual(await inTime(exit, 'the end of svc logs -f'), [0, null]);
});

test('a second gateway on the directory, or on the port, says why it cannot start', async () => {
  const locked = await svc('serve', '--data-dir', '.svc', '--port', '0');
  assert.equal(locked.code, 1);
  assert.match(locked.stderr, new RegExp(`in use by another gateway \\(pid ${daemon.pid}\\)`));
  const taken = await svc('serve', '--data-dir', 'other', '--port', new URL(ready.url).port);
  assert.equal(taken.code, 1);
  assert.match(taken.stderr, /Another gateway \(svc-gateway .*\).* is listening on port \d+\.\n.*\n?.*--port 0/);
  if (process.platform === 'linux') {
    assert.match(taken.stderr, new RegExp(`pid ${daemon.pid}\\) with the data directory \\.svc is`));
    assert.match(taken.stderr, /Use that one: svc status --data-dir \.svc\n/);
  }
  const foreign = createServer().listen(0, '127.0.0.1');
  await once(foreign, 'listening');
  const { port } = foreign.address() as AddressInfo;
  const refused = await svc('serve', '--data-dir', 'other', '--port', String(port));
  foreign.close();
  assert.equal(refused.code, 1);
  const who = process.platform === 'linux' ? `node.* \\(pid ${process.pid}\\)` : 'Another program';
  assert.match(refused.stderr, new RegExp(`✗ ${who} is listening on port ${port}\\.\\n.*--port 0`));
});

const FEW = 'a gateway opens at least 512 files, and may open';
const RAISE = '4096 (in a service: LimitNOFILE=4096)';
for (const { limit, said } of [
  { limit: '-n 40', said: `${FEW} 40 here. Run: ulimit -n ${RAISE}` },
  { limit: '-n 511', said: `${FEW} 511 here. Run: ulimit -n ${RAISE}` },
  {
    limit: `-v ${4 * 1024 * 1024 - 4}`,
    said: 'a gateway reserves at least 4 GiB of address space, and may have 4.0 GiB here. Run: ulimit -v unlimited (in a service: LimitAS=infinity)',
  },
]) {
  test(`with ulimit ${limit} a gateway does not start, and says what it needs`, { skip: NO_LIMITS }, async () => {
    const line = `ulimit ${limit}; exec "$0" "$@"`;
    const words = ['-c', line, process.execPath, SVC, 'serve', '--data-dir', 'limited', '--port', '0', '--json'];
    const { code, stdout, stderr } = await outcomeOf(spawn('/bin/sh', words, { cwd: home, env }));
    assert.deepEqual({ code, stdout, stderr }, { code: 1, stdout: '', stderr: `svc cannot serve: ${said}\n` });
    assert.ok(!existsSync(join(home, 'limited')));
  });
}

test('names that do not exist are reported as unknown, and hints name the tool', async () => {
  for (const [words, said] of [
    [['runs', 'nope/x'], /UNKNOWN_APP/],
    [['runs', 'notes/nope'], /UNKNOWN_AUTOMATION/],
    [['runs', '--app', 'nope'], /UNKNOWN_APP/],
    [['runs', '-f', 'nope/x'], /UNKNOWN_APP/],
    [['write', 'notes', 'add', '{}'], /INVALID_INPUT[\s\S]*svc describe notes add\n/],
    [['read', 'notes', 'add'], /WRONG_KIND[\s\S]*svc describe notes add\n/],
  ] as const) {
    const { code, stderr } = await svc(...words);
    assert.equal(code, 1, stderr);
    assert.match(stderr, said);
  }
});

test('a gateway for other machines prints its address, and warns about plain HTTP', async (t) => {
  const other = start('serve', '--store', 'tarball', '--data-dir', 'wide', '--port', '0', '--host', '0.0.0.0');
  t.after(() => other.kill('SIGKILL'));
  let said = '';
  const warned = new Promise<void>((resolve) => {
    other.stderr?.on('data', (chunk) => {
      said += chunk;
      if (/HTTPS in front/.test(said)) resolve();
    });
  });
  await inTime(warned, 'the warning', LONG_MS);
  const lan = Object.values(networkInterfaces()).flatMap((found) => found ?? []);
  for (const { address, family, internal } of lan)
    if (family === 'IPv4' && !internal) assert.match(said, new RegExp(`Other machines: http://${address}:\\d+\n`));
  assert.match(said, /Plain HTTP/);
  const opened = await svc('open', '--data-dir', 'wide');
  assert.match(opened.stdout, /^http:\/\/svc\.localhost:\d+\//, opened.stderr);
  writeFileSync(
    join(home, 'proxied.json'),
    JSON.stringify({ host: '0.0.0.0', port: 0, appDomain: 'apps.example.org' }),
  );
  const proxied = start('serve', '--data-dir', 'proxied', '--config', 'proxied.json');
  t.after(() => proxied.kill('SIGKILL'));
  let printed = '';
  await inTime(
    new Promise<void>((resolve) => {
      proxied.stderr?.on('data', (chunk) => (printed += chunk));
      proxied.stdout?.on('data', (chunk) => {
        printed += chunk;
        if (/is ready on/.test(printed)) resolve();
      });
    }),
    'the line that it is ready',
    LONG_MS,
  );
  assert.doesNotMatch(printed, /Plain HTTP|Other machines/);
});

test('push and describe show what an app opens to visitors', async () => {
  // A copy: a push writes into the folder.
  cpSync(join(root, 'dist/templates/contact'), join(home, 'contact'), { recursive: true });
  const pushed = await svc('push', 'contact');
  assert.match(pushed.stdout, /public +page, action send, without a token/, pushed.stderr);
  assert.match((await svc('describe', 'contact')).stdout, /visitors may use page, action send, without a token/);
  assert.doesNotMatch((await svc('describe', 'notes')).stdout, /visitors/);
});

test('the running gateway takes a rotated token, and refuses the old one', async () => {
  const { token, taken } = await json('token', 'rotate');
  assert.equal(taken, true);
  assert.notEqual(token, ready.token);
  assert.match(
    (await svc('token', 'rotate')).stderr,
    /old token is no longer valid, and browsers have to sign in again/,
  );
  assert.equal((await svc('apps', '--token', ready.token, '--url', ready.url)).code, 64);
  assert.equal((await svc('apps')).code, 0);
});

test('SIGTERM ends the gateway with exit code 0, and commands then say that none runs', async () => {
  await json('rm', 'notes', '--yes');
  daemon.kill('SIGTERM');
  assert.deepEqual(await inTime(once(daemon, 'exit'), 'the end of the daemon'), [0, null]);
  const { code, stderr } = await svc('apps');
  assert.equal(code, 3);
  assert.match(stderr, /No gateway is running on .svc/);
});
