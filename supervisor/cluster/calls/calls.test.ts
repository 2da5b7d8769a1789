/** Calls between nodes, over real edges and sockets: each pair of edges, of the node that is asked and of the owner. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { bucketOf } from '../../../protocol/buckets.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { bareAddress } from '../../../protocol/rules/ip-addresses.ts';
import {
  APP,
  begun,
  bodyOf,
  call,
  codeOf,
  HOST,
  open,
  PAIRS,
  PATH,
  QUIET,
  SECRET,
  type Sent,
  settled,
  signal,
  startNode,
  type TestNode,
} from '../../../testing/cluster-nodes.ts';
import { eventually, inTime, LIMIT_MS } from '../../../testing/waiting.ts';
import { type Exchange, type ExchangeHandler, type ResponseStream, sendError } from '../../edge/edge.ts';
import type { EdgeKind } from '../../edge/open-edge.ts';
import { sendStream } from '../../http/send-stream.ts';
import { FORWARDED, OWNER, Proofs } from './proofs.ts';

const BUCKET = bucketOf(APP);
const MiB = 1024 * 1024;
const LARGE = Buffer.alloc(50 * MiB);
for (let at = 0; at < LARGE.length; at += 4) LARGE.writeUInt32LE(at, at);
/** More than the system keeps of two connections, and what two nodes may hold. */
const SLOW_BYTES = 192 * MiB;
const HELD_BYTES = 64 * MiB;

/** Tells nodes that one of them owns the bucket of the app. */
function tell(nodes: TestNode[], { name, address }: TestNode, epoch = 1): void {
  for (const { known } of nodes) known.set(BUCKET, { node: name, address, epoch });
}

/** The node that is asked, and the owner, which answers with `next`. */
async function pair(t: TestContext, [first, second]: [EdgeKind, EdgeKind], next: ExchangeHandler) {
  const asked = await startNode(t, {
    name: 'asked',
    kind: first,
    next: () => assert.fail('The node that is asked owns nothing.'),
  });
  const owner = await startNode(t, { name: 'owner', kind: second, next: next });
  tell([asked, owner], owner);
  return { asked, owner };
}

const hashOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

/** Answers with what came, as JSON. */
const echo: ExchangeHandler = (exchange) => {
  const { method, path, query, headers, remoteAddress } = exchange;
  exchange.readBody(
    LIMITS.requestBodyBytes,
    (body) => {
      const seen = { method, path, query, headers, from: bareAddress(remoteAddress), body: body.toString() };
      exchange.send(200, { 'content-type': 'application/json' }, JSON.stringify(seen));
    },
    (error) => sendError(exchange, error),
  );
};

const uploads: ExchangeHandler = async (exchange) => {
  const hash = createHash('sha256');
  try {
    for await (const part of exchange.streamBody(64 * MiB, LIMITS.uploadTimeoutMs)) hash.update(part as Buffer);
    exchange.send(201, {}, hash.digest('hex'));
  } catch (error) {
    sendError(exchange, error as Parameters<typeof sendError>[1]);
  }
};

for (const edges of PAIRS) {
  describe(`asked over ${edges[0]}, owned over ${edges[1]}`, () => {
    test('the owner gets the request as it was asked, and knows the address of the client', async (t) => {
      const { asked } = await pair(t, edges, echo);
      const { status, headers, body } = await call(asked, {
        method: 'POST',
        path: '/svc/_tool/svc_read?x=1%202&y',
        headers: {
          connection: 'close, x-hop, Host',
          'x-hop': 'of this connection',
          te: 'trailers',
          cookie: 'a=1; b=2',
          origin: 'http://notes.svc.localhost:8787',
          'x-twice': ['1', '2'],
        },
        body: '{"app":"notes"}',
        from: '127.0.0.2',
      });
      const seen = JSON.parse(body.toString());
      assert.deepEqual([status, headers['content-type']], [200, 'application/json']);
      const { method, path, query, from } = seen;
      const expected = { method: 'POST', path: '/svc/_tool/svc_read', query: 'x=1%202&y', from: '127.0.0.2' };
      assert.deepEqual({ method, path, query, from }, expected);
      assert.equal(seen.body, '{"app":"notes"}');
      const names = (seen.headers as string[]).filter((_, i) => i % 2 === 0);
      const sent = (name: string) => (seen.headers as string[])[2 * names.indexOf(name) + 1];
      assert.equal(sent('host'), HOST);
      assert.equal(sent('origin'), 'http://notes.svc.localhost:8787');
      assert.equal(sent('cookie'), 'a=1; b=2');
      assert.equal(names.filter((name) => name === 'x-twice').length, 2);
      for (const name of ['x-hop', 'te']) assert.ok(!names.includes(name), name);
    });

    test('a Host of the node that is asked is one for the owner, and no other Host is sent on', async (t) => {
      const [first, second] = edges;
      const next: ExchangeHandler = (exchange) => exchange.send(200, {}, owner.places.of(exchange.header('host')).host);
      const asked = await startNode(t, { name: 'asked', kind: first, next, host: '10.0.0.5' });
      const owner = await startNode(t, { name: 'owner', kind: second, next, host: '10.0.0.6' });
      tell([asked, owner], owner);
      const answer = await call(asked, { headers: { host: '10.0.0.5:8787' } });
      assert.equal(answer.body.toString(), '10.0.0.5:8787');
      for (const host of ['10.0.0.6:8787', 'other.example'])
        assert.equal(codeOf(await call(asked, { headers: { host } })), '421 MISDIRECTED');
      assert.equal(owner.served, 1);
    });

    test('the client gets the answer as the owner gave it', async (t) => {
      const { asked } = await pair(t, edges, (exchange) => {
        const { path } = exchange;
        if (path.endsWith('/moved')) {
          exchange.send(302, { location: `http://${exchange.header('host')}/x`, 'set-cookie': ['a=1', 'b=2'] }, '');
        } else if (path.endsWith('/same')) exchange.send(304, { etag: '"1"' }, '');
        else if (path.endsWith('/none')) exchange.send(204, {}, '');
        else exchange.send(206, { 'content-range': `bytes 2-3/9, of ${exchange.header('range')}` }, 'cd');
      });
      const moved = await call(asked, { path: `/svc/${APP}/moved` });
      assert.deepEqual([moved.status, moved.headers.location], [302, `http://${HOST}/x`]);
      assert.deepEqual(moved.headers['set-cookie'], ['a=1', 'b=2']);
      assert.ok(!(OWNER in moved.headers));
      const same = await call(asked, { path: `/svc/${APP}/same` });
      assert.deepEqual([same.status, same.headers.etag, same.headers['content-length']], [304, '"1"', undefined]);
      assert.equal((await call(asked, { path: `/svc/${APP}/none` })).status, 204);
      const part = await call(asked, { path: `/svc/${APP}/file`, headers: { range: 'bytes=2-3' } });
      assert.deepEqual([part.status, part.body.toString()], [206, 'cd']);
      assert.equal(part.headers['content-range'], 'bytes 2-3/9, of bytes=2-3');
      const head = await call(asked, { method: 'HEAD', path: `/svc/${APP}/file` });
      assert.deepEqual([head.status, head.headers['content-length'], head.body.length], [206, '2', 0]);
    });

    test('50 MiB up and down are the same bytes in the same order', async (t) => {
      const { asked } = await pair(t, edges, (exchange) => {
        if (exchange.method === 'PUT') uploads(exchange);
        else exchange.send(200, {}, LARGE);
      });
      const up = await call(asked, { method: 'PUT', body: LARGE });
      assert.deepEqual([up.status, up.body.toString()], [201, hashOf(LARGE)]);
      const down = await call(asked);
      assert.deepEqual([down.headers['content-length'], hashOf(down.body)], [String(LARGE.length), hashOf(LARGE)]);
    });

    test('an upload without a length is sent on as it came, and the edge of the owner decides', async (t) => {
      // The other edge refuses it itself.
      if (edges[0] === 'uws') return;
      const { asked } = await pair(t, edges, uploads);
      const body = LARGE.subarray(0, MiB);
      const client = open(asked.port, { method: 'PUT', headers: { 'transfer-encoding': 'chunked' } });
      const head = begun(client);
      client.end(body);
      const answer = await head;
      assert.equal(answer.statusCode, edges[1] === 'uws' ? 411 : 201);
      const text = (await bodyOf(answer)).toString();
      assert.ok(text.includes(edges[1] === 'uws' ? 'LENGTH_REQUIRED' : hashOf(body)), text);
    });

    test('a slow reader slows the owner down, and both nodes hold little', async (t) => {
      let made = 0;
      const part = Buffer.alloc(64 * 1024, 'x');
      async function* parts() {
        while (made < SLOW_BYTES) {
          made += part.length;
          yield part;
        }
      }
      const { asked } = await pair(t, edges, (exchange) => void sendStream(exchange, parts(), {}, QUIET));
      const sent = open(asked.port, {});
      const head = begun(sent);
      sent.end();
      const answer = await head;
      assert.ok((await settled(() => made)) < HELD_BYTES, `${made} bytes were made for a reader that takes nothing`);
      assert.equal((await inTime(bodyOf(answer), 'all of the answer')).length, SLOW_BYTES);
    });

    test('a slow owner slows an upload down, and both nodes hold little', async (t) => {
      const reads = signal();
      const taken = signal<number>();
      const { asked } = await pair(t, edges, async (exchange) => {
        const body = exchange.streamBody(SLOW_BYTES, LIMITS.uploadTimeoutMs);
        await reads.fired('the owner reads');
        let bytes = 0;
        for await (const part of body) bytes += (part as Buffer).length;
        taken.fire(bytes);
        exchange.send(200, {}, '');
      });
      const sent = open(asked.port, { method: 'PUT', headers: { 'content-length': SLOW_BYTES } });
      const head = begun(sent);
      const part = Buffer.alloc(256 * 1024, 'x');
      let written = 0;
      const more = () => {
        while (written < SLOW_BYTES) {
          written += part.length;
          if (!sent.write(part)) return;
        }
        sent.end();
      };
      sent.on('drain', more);
      more();
      assert.ok((await settled(() => written)) < HELD_BYTES, `${written} bytes were taken of a body that nobody reads`);
      reads.fire();
      assert.equal(await taken.fired('all of the upload'), SLOW_BYTES);
      assert.equal((await head).statusCode, 200);
    });

    test('an upload that the owner refuses is answered at once', async (t) => {
      const { asked } = await pair(t, edges, (exchange) => exchange.send(403, {}, 'no'));
      const sent = open(asked.port, { method: 'PUT', headers: { 'content-length': LARGE.length } });
      const head = begun(sent);
      sent.write(LARGE.subarray(0, MiB));
      const answer = await head;
      assert.deepEqual([answer.statusCode, (await bodyOf(answer)).toString()], [403, 'no']);
      sent.on('error', () => {}).destroy();
    });

    test('what is left of an upload that the owner has answered is not sent to it', async (t) => {
      const ended = signal();
      // It leaves the connection open, and so does not end the upload itself.
      const server = createServer((socket) => {
        socket
          .on('error', () => {})
          .on('data', (bytes) => {
            const text = bytes.toString('latin1');
            if (text.startsWith('OPTIONS ')) socket.write('HTTP/1.1 204 No Content\r\n\r\n');
            else if (text.startsWith('PUT ')) {
              socket.on('close', () => ended.fire());
              socket.write('HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nenough');
            }
          });
      });
      await once(server.listen(0, '127.0.0.1'), 'listening');
      t.after(() => server.close());
      const asked = await startNode(t, { name: 'asked', kind: edges[0], next: () => assert.fail('It owns nothing.') });
      const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      asked.known.set(BUCKET, { node: 'owner', address, epoch: 1 });
      const sent = open(asked.port, { method: 'PUT', headers: { 'content-length': LARGE.length } });
      const head = begun(sent);
      sent.write(LARGE.subarray(0, MiB));
      assert.equal((await bodyOf(await head)).toString(), 'enough');
      await ended.fired('the end of the upload at the owner');
      sent.on('error', () => {}).destroy();
    });

    test('each event of a stream arrives before the next is made, and the owner learns when its reader leaves', async (t) => {
      const opened = signal<ResponseStream>();
      const left = signal();
      const { asked } = await pair(t, edges, (exchange) => {
        exchange.onAbort(() => left.fire());
        const stream = exchange.stream(200, { 'content-type': 'text/event-stream' });
        stream.write(': begun\n\n');
        opened.fire(stream);
      });
      const sent = open(asked.port, { path: `/svc/${APP}/_changes` });
      const head = begun(sent);
      sent.end();
      const answer = await head;
      const stream = await opened.fired('the stream at the owner');
      const next = async (): Promise<string> => String((await inTime(once(answer, 'data'), 'the next event'))[0]);
      assert.equal(await next(), ': begun\n\n');
      for (const event of ['data: 1\n\n', 'data: 2\n\n']) {
        const arrives = next();
        stream.write(event);
        assert.equal(await arrives, event);
      }
      answer.on('error', () => {});
      sent.destroy();
      await left.fired('the end of the stream at the owner');
    });

    test('who leaves before the answer ends the request at the owner', async (t) => {
      const begins = signal();
      const left = signal();
      const { asked } = await pair(t, edges, (exchange) => {
        exchange.onAbort(() => left.fire());
        begins.fire();
      });
      const sent = open(asked.port, {}).on('error', () => {});
      sent.end();
      await begins.fired('the request at the owner');
      sent.destroy();
      await left.fired('its end there');
    });

    test('who leaves in the middle of an upload ends it at the owner', async (t) => {
      const begins = signal();
      const failed = signal<string>();
      const { asked } = await pair(t, edges, (exchange) => {
        const body = exchange.streamBody(LARGE.length, LIMITS.uploadTimeoutMs);
        body.once('data', () => begins.fire()).on('error', (error) => failed.fire(error.message));
      });
      const sent = open(asked.port, { method: 'PUT', headers: { 'content-length': LARGE.length } }).on(
        'error',
        () => {},
      );
      sent.write(LARGE.subarray(0, MiB));
      await begins.fired('the upload at the owner');
      sent.destroy();
      assert.match(await failed.fired('its end there'), /closed before the body was complete/);
    });

    test('an owner that cannot be reached is 503 with the time to try again', async (t) => {
      const { asked, owner } = await pair(t, edges, echo);
      await owner.edge.close();
      for (const sent of [
        {},
        { method: 'PUT', body: LARGE.subarray(0, 9) },
        { method: 'PUT', body: LARGE.subarray(0, MiB) },
      ]) {
        const answer = await call(asked, sent);
        assert.equal(codeOf(answer), '503 STORAGE_UNAVAILABLE');
        assert.equal(answer.headers['retry-after'], '1');
        assert.doesNotMatch(answer.body.toString(), /not known/);
      }
      const page = await call(asked, { path: `/svc/${APP}/`, headers: { 'sec-fetch-mode': 'navigate' } });
      assert.deepEqual([page.status, page.headers['content-type']], [503, 'text/html; charset=utf-8']);
    });

    test('what an owner had when it ended is never sent again', async (t) => {
      const reached = signal<Exchange>();
      const { asked, owner } = await pair(t, edges, reached.fire);
      const answered = call(asked, { method: 'POST', path: '/svc/_tool/svc_write', body: '{"app":"notes"}' });
      await reached.fired('the call at the owner');
      await owner.edge.close();
      const answer = await answered;
      assert.equal(codeOf(answer), '503 STORAGE_UNAVAILABLE');
      assert.match(answer.body.toString(), /whether this was done is not known/);
      assert.equal(owner.served, 1);
    });

    for (const length of [undefined, 10 * MiB]) {
      test(`an answer ${length === undefined ? 'without a length' : 'with one'} is cut off where its owner ends`, async (t) => {
        const { asked, owner } = await pair(t, edges, (exchange) => {
          const stream = exchange.stream(200, {}, length);
          stream.write(Buffer.alloc(MiB, 'x'));
        });
        const sent = open(asked.port, {});
        const head = begun(sent);
        sent.end();
        const answer = await head;
        await inTime(once(answer, 'data'), 'the first bytes');
        const whole = bodyOf(answer);
        await owner.edge.close();
        await assert.rejects(inTime(whole, 'the end of the answer'), /aborted/);
      });
    }

    test('what is under way to a node whose lease has ended is ended', async (t) => {
      const reached = signal<Exchange>();
      const { asked } = await pair(t, edges, reached.fire);
      const answered = call(asked);
      await reached.fired('the call at the owner');
      asked.calls.nodesAre([asked.address]);
      assert.equal(codeOf(await answered), '503 STORAGE_UNAVAILABLE');
    });

    test('a node that knows an earlier owner learns the later one by the answer, and asks that one', async (t) => {
      const earlier = await startNode(t, {
        name: 'earlier',
        kind: edges[1],
        next: () => assert.fail('It owns nothing any more.'),
      });
      const { asked, owner } = await pair(t, edges, (exchange) =>
        exchange.method === 'PUT' ? uploads(exchange) : echo(exchange),
      );
      // The same call, small and as a stream.
      const body = Buffer.alloc(MiB, 'x');
      for (const [epoch, sent] of [
        [2, { method: 'POST', path: `/svc/${APP}/_turn`, body: '{}' }],
        [4, { method: 'PUT', body }],
      ] as const) {
        tell([asked], earlier, epoch);
        tell([earlier, owner], owner, epoch + 1);
        const before = owner.served;
        const answer = await call(asked, sent);
        assert.ok(answer.status < 300, answer.body.toString());
        if (sent.method === 'PUT') assert.equal(answer.body.toString(), hashOf(body));
        assert.equal(owner.served, before + 1);
        assert.deepEqual(asked.owners.of(BUCKET), { node: 'owner', address: owner.address, epoch: epoch + 1 });
      }
    });

    test('two nodes that take each other for the owner do not send a request back and forth', async (t) => {
      const nodes = await Promise.all(
        ['left', 'right'].map((name, i) =>
          startNode(t, { name, kind: edges[i] as EdgeKind, next: () => assert.fail(name) }),
        ),
      );
      const [left, right] = nodes as [TestNode, TestNode];
      tell([left], right, 3);
      tell([right], left, 3);
      for (const sent of [{}, { method: 'PUT', body: LARGE.subarray(0, MiB) }])
        assert.equal(codeOf(await call(left, sent)), '503 STORAGE_UNAVAILABLE');
      // Whatever another node says, only the directory makes a node an owner.
      tell([right], left, 4);
      for (let i = 0; i < 2; i++) assert.equal(codeOf(await call(left)), '503 STORAGE_UNAVAILABLE');
      assert.equal(left.owners.of(BUCKET)?.node, 'right');
    });

    test('a request of which nothing was done waits for the node that gets what it is about', async (t) => {
      const served: string[] = [];
      const start = (name: string, kind: EdgeKind) =>
        startNode(t, {
          name,
          kind,
          waits: true,
          next: (exchange) =>
            exchange.readBody(
              MiB,
              (body) => {
                served.push(name);
                exchange.send(200, {}, `${name} ${body}`);
              },
              () => assert.fail(),
            ),
        });
      const [left, right] = [await start('left', edges[0]), await start('right', edges[1])];
      const body = 'of the request';
      const sent = { method: 'PUT', body };
      // Each takes the other for the owner; nobody has it; the owner is no more there.
      tell([left], right, 3);
      tell([right], left, 3);
      const inTurn = call(left, sent);
      await eventually(LIMIT_MS, () => left.calls.sent.moved > 0, 1);
      tell([left, right], right, 4);
      assert.equal((await inTurn).body.toString(), `right ${body}`);
      left.known.clear();
      const ofNobody = call(left, sent);
      await eventually(LIMIT_MS, () => left.calls.sent.ownerless > 0, 1);
      // A node that stops waits for it.
      const settled = left.calls.settled().then(() => served.push('settled'));
      tell([left, right], right, 5);
      assert.equal((await ofNobody).body.toString(), `right ${body}`);
      await settled;
      left.known.set(BUCKET, { node: 'gone', address: 'http://127.0.0.1:1', epoch: 6 });
      const ofGone = call(left, sent);
      await eventually(LIMIT_MS, () => left.calls.sent.lost > 0, 1);
      tell([left], left, 7);
      assert.equal((await ofGone).body.toString(), `left ${body}`);
      assert.deepEqual(served, ['right', 'right', 'settled', 'left']);

      // A stream is sent once its owner has said that it is: that may be the node that was asked.
      const stream = { method: 'PUT', body: 'x'.repeat(2 * LIMITS.forwardedPieceBytes) };
      const lost = left.calls.sent.lost;
      left.known.set(BUCKET, { node: 'gone', address: 'http://127.0.0.1:1', epoch: 8 });
      const streamed = call(left, stream);
      await eventually(LIMIT_MS, () => left.calls.sent.lost > lost, 1);
      tell([left], left, 9);
      assert.equal((await streamed).body.toString(), `left ${stream.body}`);
    });

    test('a node keeps a bucket until all that it took for it is answered, or nobody waits for that', async (t) => {
      const held: Exchange[] = [];
      const taken = async (count: number) => assert.ok(await eventually(LIMIT_MS, () => held.length === count, 1));
      const { asked, owner } = await pair(t, edges, (exchange) => void held.push(exchange));
      const { underWay } = owner.owners;
      let isEnded = false;
      const keeps = () => assert.equal(isEnded, false, 'it keeps what it took');
      const sent = [call(asked), call(owner)];
      await taken(2);
      const streamed = open(asked.port, {}).end();
      await taken(3);
      const left = open(owner.port, {}).end();
      left.on('error', () => {});
      await taken(4);
      const ended = underWay.ended(BUCKET)?.then(() => {
        isEnded = true;
      });
      // It takes nothing more for the bucket.
      owner.known.clear();
      for (const exchange of held.slice(0, 2)) exchange.send(200, {}, 'whole');
      for (const answer of sent) assert.equal((await answer).body.toString(), 'whole');
      keeps();
      left.destroy();
      await eventually(LIMIT_MS, () => held[3]?.aborted === true, 1);
      keeps();
      // A stream may last for ever.
      const stream = (held[2] as Exchange).stream(200, {});
      stream.write('begins');
      await inTime(ended as Promise<void>, 'the end of what was under way');
      assert.equal((await begun(streamed)).statusCode, 200);
      stream.end();
      assert.equal(underWay.ended(BUCKET), null);
    });

    test('a node keeps a bucket for a moment for the stream that was announced to it', async (t) => {
      const { asked, owner } = await pair(t, edges, uploads);
      const { underWay } = owner.owners;
      let isEnded = false;
      const body = 'x'.repeat(2 * LIMITS.forwardedPieceBytes);
      assert.equal((await call(asked, { method: 'PUT', body })).status, 201);
      const ended = underWay.ended(BUCKET)?.then(() => {
        isEnded = true;
      });
      await settled(() => owner.served);
      assert.equal(isEnded, false);
      await inTime(ended as Promise<void>, 'the end of the moment');
    });

    test('a node that may have lost a bucket since it knew of it does not answer', async (t) => {
      const { asked, owner } = await pair(t, edges, () => assert.fail('It may be no owner.'));
      tell([asked], owner, 7);
      assert.equal(codeOf(await call(asked)), '503 STORAGE_UNAVAILABLE');
      assert.equal(owner.served, 0);
    });

    test('who does not know the secret cannot pass for a node, to the owner or to another', async (t) => {
      const { asked, owner } = await pair(t, edges, echo);
      const target = { method: 'GET', path: PATH, query: '', header: () => HOST };
      const said = { bucket: BUCKET, epoch: 1, client: '10.9.8.7' };
      const right = new Proofs(SECRET).ofRequest(target, 'GET', said);
      const early = new Proofs(SECRET, () => Date.now() - 2 * LIMITS.forwardedProofMs).ofRequest(target, 'GET', said);
      const late = new Proofs(SECRET, () => Date.now() + 2 * LIMITS.forwardedProofMs).ofRequest(target, 'GET', said);
      const other = new Proofs('another secret').ofRequest(target, 'GET', said);
      const proved = await call(owner, { headers: { [FORWARDED]: right } });
      assert.equal(JSON.parse(proved.body.toString()).from, '10.9.8.7');
      for (const [value, sent] of [
        [other, {}],
        [early, {}],
        [late, {}],
        ['', {}],
        ['yes', {}],
        [`${right} more`, {}],
        [right.replace('10.9.8.7', '10.9.8.8'), {}],
        [right, { method: 'POST' }],
        [right, { path: `${PATH}?limit=1` }],
        [right, { path: `/svc/${APP}/` }],
        [right, { headers: { host: 'notes.svc.localhost:8787' } }],
      ] as [string, Sent][])
        for (const node of [owner, asked]) {
          const answer = await call(node, { ...sent, headers: { ...sent.headers, [FORWARDED]: value } });
          assert.equal(codeOf(answer), '401 UNAUTHORIZED', `${value} at ${node.name} with ${JSON.stringify(sent)}`);
        }
      assert.equal(owner.served, 1);
    });

    test('an app that answers like a node that is no owner changes nothing', async (t) => {
      const forged = '9 evil http://10.0.0.66:80 AAAA';
      const { asked, owner } = await pair(t, edges, (exchange) => exchange.send(421, { [OWNER]: forged }, 'x'));
      const before = asked.owners.of(BUCKET);
      assert.equal((await call(asked)).status, 503);
      assert.deepEqual(asked.owners.of(BUCKET), before);
      assert.equal(owner.served, 1);
    });

    test('a node answers itself what is its own, and what is nobody’s', async (t) => {
      const own = await startNode(t, { name: 'own', kind: edges[0], next: echo });
      tell([own], own);
      const read = await call(own, { method: 'POST', path: '/svc/_tool/svc_read', body: '{"app":"notes"}' });
      assert.equal(JSON.parse(read.body.toString()).body, '{"app":"notes"}');
      assert.equal((await call(own, { path: '/svc/_health' })).status, 200);
      assert.equal((await call(own, { path: '/', headers: { host: 'notes.svc.localhost' } })).status, 200);
      const ofNobody = await call(own, { path: '/svc/todos/' });
      assert.equal(codeOf(ofNobody), '503 STORAGE_UNAVAILABLE');
      const tooLarge = Buffer.alloc(LIMITS.requestBodyBytes + 1, ' ');
      const refused = await call(own, { method: 'POST', path: '/svc/_tool/svc_read', body: tooLarge });
      assert.equal(codeOf(refused), '413 PAYLOAD_TOO_LARGE');
    });
  });
}
