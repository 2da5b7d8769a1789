/** Hosts that use a gateway in other ways than the examples, and the errors for one that asks for something impossible. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { ConfigError } from '../supervisor/config.ts';
import { buildGateway, type GatewayOptions } from '../supervisor/gateway.ts';
import { tarball } from '../testing/archive.ts';
import { NOTES } from '../testing/embedding-cases.ts';
import { root, startGateway, TestGateway } from '../testing/gateway.ts';
import { Host } from '../testing/host.ts';

/** The example for Express without its people: everyone may do everything. */
function openExpress(): string {
  const example = readFileSync(join(root, 'examples/embedding/express.js'), 'utf8');
  const program = example.replace(/^ +identify: .*\n/m, '');
  assert.ok(!program.includes('identify:'));
  return program;
}

test('a body that a parser of the host has consumed still arrives', async (t) => {
  const parsers = "app.use(express.json(), express.raw({ type: 'application/gzip' }));";
  const listed = 'https://known.example';
  const program = openExpress()
    .replace('const app = express();', `$& ${parsers}`)
    .replace('auth: false', `$&, corsOrigins: ['${listed}'], allowedHosts: ['apps.lan']`);
  assert.ok(program.includes(parsers) && program.includes(listed));
  // With -e there is no file name in front of a program's arguments; the last word stands in its place.
  const host = new Host(['--input-type=module', '-e', program, 'host.js']);
  t.after(() => host.remove());
  await host.listening(false);

  const headers = { 'content-type': 'application/json' };
  assert.equal((await host.gateway.upload('notes', NOTES)).status, 201);
  assert.equal((await host.gateway.write('notes', 'add', { text: 'Tea' }, { headers })).status, 201);
  assert.deepEqual((await host.gateway.read('notes', 'list', {}, { headers })).json.data, [{ text: 'Tea' }]);

  // Names and origins that the configuration has are let in.
  for (const given of [{ host: 'apps.lan' }, { origin: listed, 'sec-fetch-site': 'cross-site' }])
    assert.equal((await host.gateway.read('notes', 'list', {}, { headers: { ...headers, ...given } })).status, 200);
});

test('a host that mounts the gateway below a path serves the same addresses', async (t) => {
  // Express cuts the path off `url` there.
  const program = openExpress()
    .replace('app.use((req', "app.use('/svc', (req")
    .replace('auth: false', 'auth: false, trustHost: true');
  assert.ok(program.includes("'/svc', (req") && program.includes('trustHost'));
  const host = new Host(['--input-type=module', '-e', program, 'host.js']);
  t.after(() => host.remove());
  await host.listening(false);

  assert.equal((await host.gateway.upload('notes', NOTES)).status, 201);
  assert.equal((await host.gateway.write('notes', 'add', { text: 'Tea' })).status, 201);
  assert.deepEqual((await host.gateway.read('notes', 'list')).json.data, [{ text: 'Tea' }]);
  assert.match((await host.gateway.call('GET', '/svc/notes/?a=b')).text, /<title>Notes/);
  assert.match((await host.gateway.call('GET', '/')).text, /<title>Sign in<\/title>/);

  // It says that it checks names and sites itself.
  const strange = { host: 'evil.example', origin: 'https://other.example', 'sec-fetch-site': 'cross-site' };
  assert.equal((await host.gateway.read('notes', 'list', {}, { headers: strange })).status, 200);
});

test('profile.json says what kind of host the gateway is in now, and keeps the rest', async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'svc-profile-'));
  t.after(() => rmSync(dataDir, { recursive: true, force: true }));
  const profileAs = async (options: Partial<GatewayOptions>) => {
    const gateway = buildGateway({ dataDir, log: 'silent', ...options });
    await gateway.start();
    await gateway.stop(0);
    return JSON.parse(readFileSync(join(dataDir, 'profile.json'), 'utf8'));
  };
  const first = await profileAs({});
  assert.deepEqual([first.id, first.kind], ['local', 'daemon']);
  assert.deepEqual(await profileAs({ auth: false }), { ...first, kind: 'plugin' });
  assert.deepEqual(await profileAs({ kind: 'desktop' }), { ...first, kind: 'desktop' });
  assert.throws(() => buildGateway({ dataDir, kind: 'phone' as 'desktop' }), { name: 'ConfigError' });
});

test('a start that fails leaves no timer and no lock, and the next one in the process works', async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'svc-failed-start-'));
  t.after(() => rmSync(dataDir, { recursive: true, force: true }));
  const repeating = new Set<unknown>();
  const { setInterval: make, clearInterval: end } = globalThis;
  t.mock.method(globalThis, 'setInterval', (...args: Parameters<typeof make>) => {
    const timer = make(...args);
    repeating.add(timer);
    return timer;
  });
  t.mock.method(globalThis, 'clearInterval', (timer: NodeJS.Timeout) => {
    repeating.delete(timer);
    end(timer);
  });
  const record = join(dataDir, 'backups.json');
  mkdirSync(record, { recursive: true });
  const options = { dataDir, log: 'silent', appsStoreRoot: 'code-store', port: undefined } as const;
  const gateway = buildGateway(options);
  for (let tries = 0; tries < 2; tries++) {
    await assert.rejects(gateway.start(), { code: 'EISDIR' });
    assert.deepEqual([...repeating], []);
    assert.ok(!existsSync(join(dataDir, 'lock')));
  }
  rmSync(record, { recursive: true });
  for (const next of [buildGateway(options), gateway]) {
    await next.start();
    await next.stop(0);
    assert.deepEqual([...repeating], []);
  }
});

test('a host without the Bearer check decides what a request may do', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-authorize-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const asked: string[] = [];
  const gateway = buildGateway({
    dataDir: join(folder, 'data'),
    auth: false,
    log: 'silent',
    authorize: (request, { app, capability }) => {
      asked.push(`${request.method} ${request.path} ${capability} ${app}`);
      return request.header('x-role') === 'owner' || ['page', 'read', 'stream'].includes(capability);
    },
  });
  await gateway.start();
  t.after(() => gateway.stop());
  const handle = (req: IncomingMessage, res: ServerResponse): void => void (gateway.handle(req, res) || res.end());
  const server = createServer(handle);
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const client = new TestGateway('', []);
  client.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const owner = { headers: { 'x-role': 'owner' } };
  const upload = { ...owner, body: tarball(NOTES) };
  assert.equal((await client.call('POST', '/svc/_apps/notes/upload', upload)).status, 201);
  assert.equal((await client.call('POST', '/svc/_apps/notes/upload', { body: upload.body })).status, 403);
  assert.equal((await client.read('notes', 'list')).status, 200);
  assert.equal((await client.write('notes', 'add', { text: 'Tea' })).json.error.code, 'FORBIDDEN');
  assert.equal((await client.write('notes', 'add', { text: 'Tea' }, owner)).status, 201);
  assert.equal((await client.call('GET', '/svc/notes/')).status, 200);
  assert.equal((await client.call('GET', '/svc/_apps')).status, 403);
  assert.equal((await client.call('GET', '/svc/_health')).status, 200);
  // Limits of one client count addresses here; a Unix socket has none.
  const live = await client.stream('/svc/notes/_live?query=list');
  assert.deepEqual(JSON.parse((await live.next()).data).data, [{ text: 'Tea' }]);
  live.close();
  const socketPath = join(folder, 'socket');
  const local = createServer(handle);
  await new Promise<void>((resolve) => void local.listen(socketPath, resolve));
  t.after(() => local.close());
  const [answer] = (await once(request({ socketPath, path: '/svc/notes/_live?query=list' }).end(), 'response')) as [
    IncomingMessage,
  ];
  assert.equal(answer.statusCode, 200);
  answer.destroy();
  assert.ok(asked.includes('POST /svc/_apps/notes/upload manage notes'));
  assert.ok(asked.includes('GET /svc/notes/ page notes'));
  assert.ok(asked.includes('GET /svc/_apps admin null'));
  assert.ok(!asked.some((need) => need.includes('_health')));
});

test('a host that decides what a request may do, or where it may come from, must own authentication', () => {
  for (const [key, options] of Object.entries({
    authorize: { authorize: () => true },
    trustHost: { trustHost: true },
    token: { token: 'a1'.repeat(32), auth: false },
  }))
    assert.throws(
      () => buildGateway({ dataDir: 'never-made', ...options }),
      (error) => error instanceof ConfigError && error.key === key,
    );
  assert.throws(() => buildGateway({ dataDir: 'never-made', token: 'short' }), { key: 'token' });
});

test('a second gateway on a data directory gets DATA_LOCKED, and the first keeps running', async (t) => {
  const first = await startGateway(t);
  const second = buildGateway({ dataDir: first.dataDir, log: 'silent' });
  await assert.rejects(second.start(), { code: 'DATA_LOCKED' });
  await second.stop();
  assert.equal((await first.call('GET', '/svc/_health')).status, 200);
});
