import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { after, before, test } from 'node:test';
import type { EgressPolicy } from '../../protocol/rules/egress.ts';
import { type App, FakeSupervisor } from '../../testing/fake-supervisor.ts';
import { freePort } from '../../testing/free-port.ts';
import { within } from '../../testing/waiting.ts';

const OPEN: EgressPolicy = { allow: [], deny: [], network: null, port: null };
const FETCH = `export default async ({ ctx, input }) => {
  try {
    const response = await ctx.fetch(input.url, input.init);
    return { status: response.status, text: await response.text() };
  } catch (error) {
    return { name: error.name, code: error.code, message: error.message };
  }
};`;

let supervisor: FakeSupervisor;
let server: Server;
let port: number;
let requests: string[];

before(async () => {
  supervisor = await FakeSupervisor.start({ spare: false });
  server = createServer((request, response) => {
    requests.push(request.url ?? '');
    const [, target] = /^\/to\?(.*)$/.exec(request.url ?? '') ?? [];
    if (target) response.writeHead(302, { location: target }).end();
    else if (request.url !== '/held') response.end('reached');
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  port = (server.address() as AddressInfo).port;
});
after(async () => {
  server.closeAllConnections();
  server.close();
  await supervisor.close();
});

function app(policy: Partial<EgressPolicy>): Promise<App> {
  requests = [];
  return supervisor.app({ files: { 'queries/fetch.js': FETCH } }, { egress: { ...OPEN, ...policy } });
}

type Fetched = { status?: number; text?: string; code?: string; message?: string };

async function fetchFrom(from: App, url: string, init?: object): Promise<Fetched> {
  return (await from.query('fetch', { url, init })).value as Fetched;
}

const REACHED = { status: 200, text: 'reached' };

function assertRefused(fetched: Fetched, why: RegExp): void {
  assert.equal(fetched.code, 'EGRESS_REFUSED', JSON.stringify(fetched));
  assert.match(fetched.message ?? '', why);
}

test('metadata addresses are refused, in every way to write them, and through a redirect', async () => {
  const open = await app({});
  for (const host of [
    '169.254.169.254',
    '[::ffff:169.254.169.254]',
    '[fe80::1]',
    '0xa9fea9fe',
    '2852039166',
    '[fd00:ec2::254]',
  ])
    assertRefused(
      await fetchFrom(open, `http://${host}/latest`),
      /may not connect to .*refused; an operator can open it/,
    );
  assertRefused(await fetchFrom(open, `http://127.0.0.1:${port}/to?http://169.254.169.254/x`), /169\.254\.0\.0\/16/);
  assert.equal(requests.length, 1);
  assert.deepEqual(await fetchFrom(open, `http://127.0.0.1:${port}/`), REACHED);
});

test('a fetch that fails says to which host and why, and where', async (t) => {
  const closed = createTcpServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
  t.after(() => closed.close());
  await once(closed, 'listening');
  const { port: closing } = closed.address() as AddressInfo;
  const free = await freePort();
  const open = await app({});
  for (const [url, why] of [
    [
      `http://127.0.0.1:${free}/a?key=b`,
      /^127\.0\.0\.1:\d+: nothing listens there \(connect ECONNREFUSED 127\.0\.0\.1:\d+\)$/,
    ],
    [
      'http://nohost.invalid/',
      /^nohost\.invalid:80: (there is no such name|the name cannot be looked up now) \(getaddrinfo E\w+ nohost\.invalid\)$/,
    ],
    [`https://127.0.0.1:${port}/`, /^127\.0\.0\.1:\d+: it does not speak TLS \(\w+\)$/],
    [`http://127.0.0.1:${closing}/`, /^127\.0\.0\.1:\d+: the connection was closed \([\w ]+\)$/],
  ] as const) {
    const { message = '' } = await fetchFrom(open, url);
    assert.ok(message.startsWith('fetch failed: '), message);
    assert.match(message.slice('fetch failed: '.length), why);
  }

  const files = { 'actions/get.js': 'export default ({ ctx, body }) =>\n  ctx.fetch(body.url);\n' };
  const throwing = await supervisor.app({ files }, { egress: OPEN });
  await assert.rejects(throwing.action('get', { url: `http://127.0.0.1:${free}/` }), /nothing listens there/);
  const { err } = await throwing.log(({ level }) => level === 'error');
  assert.match((err as { stack: string }).stack, /^TypeError: fetch failed: .*\n\s+at .*actions\/get\.js:2:7/);
});

test('a body that ends too early says why', async (t) => {
  const cut = createServer((_request, response) => {
    response.writeHead(200, { 'content-length': '100' });
    response.write('a', () => response.destroy());
  }).listen(0, '127.0.0.1');
  t.after(() => cut.close());
  await once(cut, 'listening');
  const files = { 'actions/get.js': 'export default async ({ ctx, body }) => (await ctx.fetch(body.url)).text();\n' };
  const reading = await supervisor.app({ files }, { egress: OPEN });
  const url = `http://127.0.0.1:${(cut.address() as AddressInfo).port}/`;
  await assert.rejects(reading.action('get', { url }), /ended before its end: the connection was closed/);
});

test('a fetch ends with its call: when its client leaves, and when its time is up', async () => {
  const open = await app({});
  for (const reason of ['client-gone', 'deadline'] as const) {
    const asked = once(server, 'request');
    const ended = open.query('fetch', { url: `http://127.0.0.1:${port}/held` }).catch(() => null);
    const [{ socket }] = (await asked) as [IncomingMessage];
    const closed = once(socket, 'close');
    open.cancel(open.lastCall, reason);
    // Sooner than the deadline of the call, which ends it too.
    assert.notEqual(await within(5000, closed), 'late', reason);
    await ended;
  }
});

test("the gateway's own port is refused at every address of this machine, and nowhere else", async () => {
  const own = await app({ port });
  const addresses = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
  const hosts = addresses.map(({ family, address }) => (family === 'IPv6' ? `[${address.split('%')[0]}]` : address));
  for (const host of [...hosts, 'localhost', '127.1', '127.9.9.9', '0.0.0.0', '[::]', '[::ffff:127.0.0.1]'])
    assertRefused(await fetchFrom(own, `http://${host}:${port}/`), /the gateway itself|fe80::\/10/);
  assert.deepEqual(requests, []);
  const opened = await app({ port, allow: [`localhost:${port}`] });
  assert.deepEqual(await fetchFrom(opened, `http://localhost:${port}/`), REACHED);
});

test('a name is judged by the addresses that it has when the connection is made', async () => {
  const denied = await app({ deny: ['127.0.0.0/8', '::1'] });
  assertRefused(await fetchFrom(denied, `http://localhost:${port}/`), /egress\.deny/);
  const byName = await app({ deny: ['localhost'] });
  assertRefused(await fetchFrom(byName, `http://localhost:${port}/`), /"localhost" in egress\.deny/);
  assert.deepEqual(await fetchFrom(byName, `http://127.0.0.1:${port}/`), REACHED);
});

test("an app's own list is all that it may reach", async () => {
  const listed = await app({ network: [`localhost:${port}`] });
  assert.deepEqual(await fetchFrom(listed, `http://localhost:${port}/`), REACHED);
  assertRefused(
    await fetchFrom(listed, `http://127.0.0.1:${port}/`),
    /add "127\.0\.0\.1:\d+" to "network" in app\.json/,
  );
  const redirect = `http://localhost:${port}/to?http://127.0.0.1:${port}/`;
  assertRefused(await fetchFrom(listed, redirect), /"network"/);
  const none = await app({ network: [] });
  assertRefused(await fetchFrom(none, `http://127.0.0.1:${port}/`), /"network"/);
});

test('a dispatcher of the app is not asked', async () => {
  const handler = `export default async ({ ctx, input }) => {
    const asked = [];
    const own = { dispatch(options, handler) { asked.push(options); handler.onError(new Error('own')); } };
    const request = new Request(input.url, { dispatcher: own });
    const texts = [];
    for (const target of [[input.url, { dispatcher: own }], [request], [request, { dispatcher: own }]])
      texts.push(await (await ctx.fetch(...target)).text());
    return { asked: asked.length, texts };
  };`;
  const open = await supervisor.app({ files: { 'queries/fetch.js': handler } }, { egress: OPEN });
  requests = [];
  const { value } = await open.query('fetch', { url: `http://127.0.0.1:${port}/` });
  assert.deepEqual(value, { asked: 0, texts: ['reached', 'reached', 'reached'] });
});
