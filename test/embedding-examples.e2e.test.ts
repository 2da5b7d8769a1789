/** The embedding examples as a user starts them: the cases that all share, and what is each one's own. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { CASES, EXAMPLES, signInAs, startExample, startedAtTakenPort } from '../testing/embedding-cases.ts';
import type { TestGateway } from '../testing/gateway.ts';
import type { Host } from '../testing/host.ts';

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

for (const example of EXAMPLES) {
  const { file, guard, stopBy } = example;
  describe(`examples/embedding/${file}`, () => {
    let host: Host;
    let gateway: TestGateway;
    before(async () => {
      host = await startExample(example);
      gateway = host.gateway;
    });
    after(() => host.remove());

    for (const { name, run } of CASES) test(name, () => run(gateway, example));

    if (guard === 'nobody') {
      for (const { name, path = READ, headers, status } of CALLERS) {
        test(`without the Bearer check, ${name} gets ${status}`, async () => {
          const body = path === READ ? { body: { app: 'notes', query: 'list' } } : {};
          const answer = await gateway.call(path === READ ? 'POST' : 'GET', path, { ...body, headers });
          assert.equal(answer.status, status, answer.text);
        });
      }
    }

    if (guard === 'sign-in') {
      test('a person of the host has the rights of the role, and is the user of handlers, until the sign-out', async () => {
        assert.equal(await signInAs(gateway, 'bob', 'wrong'), '');
        assert.equal(await signInAs(gateway, 'nobody'), '');
        const headers = { cookie: await signInAs(gateway, 'bob') };
        assert.notEqual(headers.cookie, gateway.headers.cookie);
        const who = (await gateway.read('notes', 'who', {}, { headers })).json.data;
        assert.deepEqual(who, { id: 'u2', name: 'Bob', role: 'editor' });
        assert.equal((await gateway.read('notes', 'who')).json.data.role, 'owner');
        assert.equal((await gateway.write('notes', 'add', { text: 'Tea' }, { headers })).status, 201);
        assert.equal((await gateway.call('GET', '/svc/_apps/notes/versions', { headers })).status, 403);
        const elsewhere = { ...headers, 'sec-fetch-site': 'cross-site' };
        assert.equal((await gateway.read('notes', 'who', {}, { headers: elsewhere })).status, 403);
        assert.equal((await gateway.call('POST', '/sign-out', { headers })).status, 303);
        assert.equal((await gateway.read('notes', 'who', {}, { headers })).status, 401);
        const opened = await gateway.call('GET', '/svc/notes/', {
          headers: { ...headers, 'sec-fetch-mode': 'navigate' },
        });
        assert.deepEqual([opened.status, opened.headers.location], [303, '/']);
      });
    }

    test(`${stopBy} ends open streams, the host, and every process of the gateway`, async () => {
      const pids = (await gateway.system()).processes.map(({ pid }: { pid: number }) => pid) as number[];
      assert.ok(pids.length >= 3 && pids.every(isAlive));
      const changes = await gateway.stream('/svc/notes/_changes');
      assert.equal(await host.end(stopBy), 0);
      await changes.ended();
      assert.deepEqual(pids.filter(isAlive), []);
    });

    test('at a port that is taken it says so, and ends', async () => {
      const { code, said } = await startedAtTakenPort(example);
      assert.equal(code, 1, said);
      assert.match(said, /^Port \d+ is taken: name another one\.$/m);
    });
  });
}
