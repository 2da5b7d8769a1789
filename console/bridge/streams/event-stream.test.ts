import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { EventStream } from './event-stream.ts';

const HEAD = { 'content-type': 'text/event-stream' };

/** A stream from a server that answers its requests one after the other; `next` resolves with the next thing that it tells. */
async function follow(t: TestContext, answers: ((response: ServerResponse, request: IncomingMessage) => void)[]) {
  const server = createServer((request, response) => answers.shift()?.(response, request));
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const stream = new EventStream(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  t.after(() => {
    stream.close();
    server.closeAllConnections();
    server.close();
  });
  const told: unknown[] = [];
  let wake = () => {};
  for (const type of ['open', 'error', 'message', 'change']) {
    stream.on(type, ({ data, lastEventId }) => {
      told.push(data === undefined ? [type, stream.readyState] : [type, data, lastEventId]);
      wake();
    });
  }
  const next = async (): Promise<unknown> => {
    while (told.length === 0) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    return told.shift();
  };
  return { stream, next };
}

test('events come whole, however their bytes are cut, and a comment is none', async (t) => {
  const bytes = Buffer.from(
    ': hello\n\nid: 7\nevent: change\ndata: {"ü":1}\n\ndata:a\r\ndata: b\r\n\r\nevent: change\n\nevent: error\ndata: x\n\n',
  );
  const { next } = await follow(t, [
    (response) => {
      response.writeHead(200, HEAD);
      let at = 0;
      const more = () => {
        if (at < bytes.length) response.write(bytes.subarray(at, ++at), () => setImmediate(more));
      };
      more();
    },
  ]);
  assert.deepEqual(await next(), ['open', EventStream.OPEN]);
  assert.deepEqual(await next(), ['change', '{"ü":1}', '7']);
  assert.deepEqual(await next(), ['message', 'a\nb', '7']);
  assert.deepEqual(await next(), ['error', 'x', '7']);
});

test('a stream that ends is opened again after its own time, from its last event on', async (t) => {
  const asked: unknown[] = [];
  const { next } = await follow(t, [
    (response) => response.writeHead(200, HEAD).end('retry: 5\nid: 3\ndata: one\n\n'),
    (response, { headers }) => {
      asked.push(headers['last-event-id']);
      response.destroy();
    },
    (response, { headers }) => {
      asked.push(headers['last-event-id']);
      response.writeHead(200, HEAD).write('data: two\n\n');
    },
  ]);
  assert.deepEqual(await next(), ['open', EventStream.OPEN]);
  assert.deepEqual(await next(), ['message', 'one', '3']);
  assert.deepEqual(await next(), ['error', EventStream.CONNECTING]);
  assert.deepEqual(await next(), ['error', EventStream.CONNECTING]);
  assert.deepEqual(await next(), ['open', EventStream.OPEN]);
  assert.deepEqual(await next(), ['message', 'two', '3']);
  assert.deepEqual(asked, ['3', '3']);
});

test('an answer that is no stream is final, and a stream that was closed tells nothing more', async (t) => {
  for (const [status, type] of [
    [401, 'application/json'],
    [200, 'text/html'],
  ] as const) {
    const body = JSON.stringify({ isError: true, error: { code: 'FORBIDDEN', message: 'Not shared.' } });
    const { stream, next } = await follow(t, [
      (response) => response.writeHead(status, { 'content-type': type }).end(body),
    ]);
    assert.deepEqual(await next(), ['error', EventStream.CLOSED]);
    assert.equal(stream.refusal?.message, status === 401 ? 'Not shared.' : undefined);
  }
  let gone = () => {};
  const left = new Promise<void>((resolve) => {
    gone = resolve;
  });
  const { stream, next } = await follow(t, [
    (response) => response.writeHead(200, HEAD).on('close', gone).write('data: one\n\ndata: two\n\n'),
  ]);
  stream.on('message', () => stream.close());
  assert.deepEqual(await next(), ['open', EventStream.OPEN]);
  assert.deepEqual(await next(), ['message', 'one', '']);
  await left;
  assert.equal(stream.readyState, EventStream.CLOSED);
});
