/** The loads against a real server: the bare edge. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type BareAnswer, BareEdge } from '../servers.ts';
import { Histogram } from './histogram.ts';
import { run } from './worker.ts';

const ANSWER: BareAnswer = {
  status: '200 OK',
  headers: [['content-type', 'application/json']],
  body: '{}',
  event: 'data: {}\n\n',
};
const POST = 'POST /call HTTP/1.1\r\nHost: bench\r\nContent-Length: 2\r\n\r\n{}';
const SUBSCRIBE = 'GET /svc/bench/_changes HTTP/1.1\r\nHost: bench\r\n\r\n';

let bare: BareEdge;
before(async () => {
  bare = await BareEdge.start(ANSWER);
});
after(() => bare.stop());

const load = { connections: 4, requests: [POST], warmUpMs: 20, measureMs: 100 };

test('the closed loop counts what was answered in the measured time', async () => {
  const result = await run({ ...load, port: bare.port });
  assert.equal(result.failed, 0);
  assert.ok(result.answered > load.connections);
  assert.ok(result.requests > result.answered, 'the warm-up is in the requests');
  const latencies = new Histogram();
  latencies.add(result.latencies);
  assert.equal(latencies.total, result.answered);
  assert.ok(latencies.percentile(0.5) > 0);
});

test('answers that are errors are counted apart', async () => {
  const failing = await BareEdge.start({ ...ANSWER, status: '503 Service Unavailable' });
  try {
    const result = await run({ ...load, port: failing.port });
    assert.equal(result.answered, 0);
    assert.equal(result.failed, result.requests);
    assert.equal(result.firstFailure, 503);
  } finally {
    await failing.stop();
  }
});

test('a fan-out ends each turn with every event at every subscriber', async () => {
  const result = await run({ ...load, port: bare.port, subscribe: { request: SUBSCRIBE, subscribers: 10 } });
  assert.ok(result.answered > 0);
  assert.equal(result.events, result.requests * 10);
});

test('a server that is not there is an error, not a number', async () => {
  const gone = await BareEdge.start(ANSWER);
  await gone.stop();
  await assert.rejects(run({ ...load, port: gone.port }), /ECONNREFUSED/);
});
