/** The embedding examples as a user starts them, and the errors for a host that asks for something impossible. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { ConfigError } from '../supervisor/config.ts';
import { buildGateway, type GatewayOptions } from '../supervisor/gateway.ts';
import { appOf } from '../testing/apps.ts';
import { tarball } from '../testing/archive.ts';
import { root, startGateway, TestGateway } from '../testing/gateway.ts';
import { Host } from '../testing/host.ts';

const NOTES = appOf('notes', {
  migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT'],
  queries: { list: "({ db }) => db.all('SELECT text FROM notes')" },
  actions: {
    add: {
      run: "async ({ body, db }) => { await db.run('INSERT INTO notes (text) VALUES (?)', body.text); return { status: 201, body }; }",
      writes: ['notes'],
    },
  },
  files: { 'index.html': '<!doctype html><title>Notes</title>' },
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

const READ = '/svc/_tool/svc_read';
const EVIL = { host: 'evil.example' };
const NAVIGATION = { accept: 'text/html', 'sec-fetch-mode': 'navigate', 'sec-fetch-site': 'cross-site' };

/** Who asks a gateway that lets everyone in, and what it is answered. */
const CALLERS: { name: string; path?: string; headers: Record<string, string>; status: number }[] = [
  { name: 'a program', headers: {}, status: 200 },
  { name: "the host's own page", headers: { 'sec-fetch-site': 'same-origin' }, status: 200 },
  { name: 'an address that was typed', headers: { 'sec-fetch-site': 'none' }, status: 200 },
  { name: 'another name of this machine', headers: { host: 'localhost:3000' }, status: 200 },
  { name: 'another site', headers: { 'sec-fetch-site': 'cross-site' }, status: 403 },
  { name: 'another port', headers: { 'sec-fetch-site': 'same-site' }, status: 403 },
  { name: 'another site in an old browser', headers: { origin: 'https://evil.example' }, status: 403 },
  { name: 'a sandboxed frame', headers: { origin: 'null' }, status: 403 },
  { name: 'a site that rebinds its name', headers: EVIL, status: 421 },
  {
    name: 'such a site as its browser sees it',
    headers: { ...EVIL, origin: 'http://evil.example', 'sec-fetch-site': 'same-origin' },
    status: 421,
  },
  { name: 'an image of another site', path: '/svc/_apps', headers: { 'sec-fetch-site': 'cross-site' }, status: 403 },
  {
    name: 'a link of another site',
    path: '/svc/notes/',
    headers: { ...NAVIGATION, 'sec-fetch-dest': 'document' },
    status: 200,
  },
  {
    name: 'a frame of another site',
    path: '/svc/notes/',
    headers: { ...NAVIGATION, 'sec-fetch-dest': 'iframe' },
    status: 403,
  },
  { name: 'a monitor that uses another name', path: '/svc/_health', headers: EVIL, status: 200 },
];

const HOSTS = [
  { file: 'express.js', hasToken: false, home: '<a href="/svc/">Apps</a>', stopBy: 'SIGTERM' },
  { file: 'fastify.js', hasToken: true, home: '{"apps":"/svc/"}', stopBy: 'SIGINT' },
] as const;

for (const { file, hasToken, home, stopBy } of HOSTS) {
  describe(`examples/embedding/${file}`, () => {
    let host: Host;
    let gateway: TestGateway;
    before(async () => {
      host = new Host([join('examples/embedding', file)]);
      gateway = host.gateway;
      await host.listening(hasToken);
    });
    after(() => host.remove());

    test("answers its own addresses, and leaves the gateway's to it", async () => {
      assert.equal((await gateway.call('GET', '/')).text, home);
      assert.equal((await gateway.call('GET', '/svcx')).status, 404);
      assert.equal((await gateway.call('GET', '/svc/_health')).json.ok, true);
      assert.equal((await gateway.call('GET', '/svc/nothing/')).json.error.code, 'UNKNOWN_APP');
    });

    test('an app is uploaded, described, opened, called and followed', async () => {
      assert.equal((await gateway.upload('notes', NOTES)).status, 201);
      const described = await gateway.call('POST', '/svc/_tool/svc_describe', { body: { app: 'notes' } });
      assert.equal(described.json.data.app, 'notes');
      assert.match((await gateway.call('GET', '/svc/notes/')).text, /<script src="\/svc\/_client\.js"/);

      const changes = await gateway.stream('/svc/notes/_changes');
      assert.equal((await gateway.write('notes', 'add', { text: 'Milk' })).status, 201);
      assert.equal(JSON.parse((await changes.next()).data).table, 'notes');
      changes.close();
      assert.deepEqual((await gateway.read('notes', 'list')).json.data, [{ text: 'Milk' }]);
    });

    test(hasToken ? 'the gateway asks for its token' : 'the host owns authentication: no token is needed', async () => {
      const answer = await gateway.read('notes', 'list', {}, { token: null });
      const link = await gateway.call('POST', '/svc/_session/links');
      const tokens = await gateway.call('GET', '/svc/_tokens');
      if (hasToken) assert.equal(answer.json.error.code, 'UNAUTHORIZED');
      else assert.deepEqual(answer.json.data, [{ text: 'Milk' }]);
      assert.deepEqual([link.status, tokens.status], hasToken ? [201, 200] : [404, 404]);
    });

    if (!hasToken) {
      for (const { name, path = READ, headers, status } of CALLERS) {
        test(`without the Bearer check, ${name} gets ${status}`, async () => {
          const body = path === READ ? { body: { app: 'notes', query: 'list' } } : {};
          const answer = await gateway.call(path === READ ? 'POST' : 'GET', path, { ...body, headers });
          assert.equal(answer.status, status, answer.text);
        });
      }
    }

    test(`${stopBy} ends open streams, the host, and every process of the gateway`, async () => {
      const pids = (await gateway.system()).processes.map(({ pid }: { pid: number }) => pid) as number[];
      assert.ok(pids.length >= 3 && pids.every(isAlive));
      const changes = await gateway.stream('/svc/notes/_changes');
      assert.equal(await host.end(stopBy), 0);
      await changes.ended();
      assert.deepEqual(pids.filter(isAlive), []);
    });
  });
}

test('a body that a parser of the host has consumed still arrives', async (t) => {
  const example = readFileSync(join(root, 'examples/embedding/express.js'), 'utf8');
  const parsers = "app.use(express.json(), express.raw({ type: 'application/gzip' }));";
  const listed = 'https://known.example';
  const program = example
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
  const example = readFileSync(join(root, 'examples/embedding/express.js'), 'utf8');
  // Express cuts the path off `url` there.
  const program = example
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
  assert.equal((await host.gateway.call('GET', '/')).text, '<a href="/svc/">Apps</a>');

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
