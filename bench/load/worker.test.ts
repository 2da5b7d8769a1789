/** The loads against a real server: the bare edge. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { type BareAnswer, type ReferenceServer, startBareEdge } from '../servers.ts';
import { median } from '../statistics.ts';
import { run } from './worker.ts';

const ANSWER: BareAnswer = {
  status: '200 OK',
  headers: [['content-type', 'application/json']],
  body: Buffer.from('{}').toString('base64'),
  event: 'data: {}\n\n',
};
const POST = Buffer.from('POST /call HTTP/1.1\r\nHost: bench\r\nContent-Length: 2\r\n\r\n{}');
const SUBSCRIBE = Buffer.from('GET /svc/bench/_changes HTTP/1.1\r\nHost: bench\r\n\r\n');

let bare: ReferenceServer;
before(async () => {
  bare = await startBareEdge(ANSWER);
});
after(() => bare.stop());

const load = { connections: 4, requests: [POST], warmUpMs: 20, measureMs: 100 };

test('the closed loop counts what was answered in the measured time', async () => {
  const result = await run({ ...load, port: bare.port });
  assert.equal(result.failed, 0);
  assert.ok(result.answered > load.connections);
  assert.ok(result.requests > result.answered, 'the warm-up is in the requests');
  assert.equal(result.latencies.length, result.answered);
  assert.ok(median(result.latencies) > 0);
});

test('answers that are errors are counted apart', async () => {
  const failing = await startBareEdge({ ...ANSWER, status: '503 Service Unavailable' });
  try {
    const result = await run({ ...load, port: failing.port });
    assert.equal(result.answered, 0);
    assert.equal(result.failed, result.requests);
    assert.equal(result.firstFailure, '503 {}');
  } finally {
    await failing.stop();
  }
});

test('a burst sends every request once, each connection its own share', async () => {
  const seen = new Map<string, Set<number | undefined>>();
  const server = createServer((req, res) => {
    req.resume();
    const ports = seen.get(req.url as string) ?? new Set();
    seen.set(req.url as string, ports.add(req.socket.remotePort));
    res.setHeader('content-length', 2);
    res.end('ok');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const { port } = server.address() as AddressInfo;
    const requests = ['/a', '/a', '/a', '/b', '/b', '/b'].map((path) =>
      Buffer.from(`POST ${path} HTTP/1.1\r\nHost: bench\r\nContent-Length: 0\r\n\r\n`),
    );
    const result = await run({ port, connections: 2, requests, warmUpMs: 0, measureMs: 0, burst: true });
    assert.deepEqual([result.answered, result.requests, result.failed], [6, 6, 0]);
    assert.ok(result.elapsedMs > 0, 'it took time');
    assert.deepEqual([seen.get('/a')?.size, seen.get('/b')?.size], [1, 1], 'one connection each');
  } finally {
    server.close();
  }
});

test('a fan-out ends each turn with every event at every subscriber', async () => {
  const result = await run({ ...load, port: bare.port, subscribe: { request: SUBSCRIBE, subscribers: 10 } });
  assert.ok(result.answered > 0);
  assert.equal(result.events, result.requests * 10);
  assert.equal(result.delivery.length * load.connections, result.answered, 'one for each turn');
});

test('of live queries the event that a stream opens with does not count', async () => {
  const streams = new Set<ServerResponse>();
  const event = (n: number) => `event: data\ndata: {"data":{"n":${n}},"seq":${n}}\n\n`;
  let writes = 0;
  const server = createServer((req, res) => {
    req.resume();
    if (req.url === '/live') {
      res.writeHead(200, { 'content-type': 'text/event-stream' }).write(event(0));
      streams.add(res);
      return;
    }
    writes++;
    if (req.url === '/write') for (const stream of streams) stream.write(event(writes));
    res.setHeader('content-length', 2);
    res.end('ok');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const { port } = server.address() as AddressInfo;
    const post = (path: string) => Buffer.from(`POST ${path} HTTP/1.1\r\nHost: bench\r\nContent-Length: 0\r\n\r\n`);
    const subscribe = { request: Buffer.from('GET /live HTTP/1.1\r\nHost: bench\r\n\r\n'), subscribers: 5, live: true };
    const task = { ...load, port, connections: 1 };
    const told = await run({ ...task, requests: [post('/write')], subscribe });
    assert.equal(told.events, told.requests * 5);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('a pace is kept, and a late answer counts from when its request was due', async () => {
  const slow = createServer((req, res) => {
    req.resume();
    setTimeout(() => res.end('ok'), 50);
  }).listen(0, '127.0.0.1');
  await once(slow, 'listening');
  try {
    const paced = await run({ ...load, port: bare.port, intervalMs: 20 });
    // 100 ms at 20 ms each, on each connection, give or take those at the edges.
    assert.ok(paced.answered <= load.connections * 6, `${paced.answered} answers`);
    const { port } = slow.address() as AddressInfo;
    const late = await run({ ...load, port, connections: 1, intervalMs: 10, measureMs: 400 });
    assert.ok(Math.max(...late.latencies) > 150, `worst ${Math.max(...late.latencies)} ms`);
  } finally {
    slow.close();
  }
});

test('a server that is not there is an error, not a number', async () => {
  const gone = await startBareEdge(ANSWER);
  await gone.stop();
  await assert.rejects(run({ ...load, port: gone.port }), /ECONNREFUSED/);
});
