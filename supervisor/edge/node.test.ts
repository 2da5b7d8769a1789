/** The node adapter inside a host's own server, where a body parser may have been before us; and which edge is chosen. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import express from 'express';
import { LIMITS } from '../../protocol/limits.ts';
import { type ExchangeHandler, sendError } from './edge.ts';
import type { EdgeOptions } from './exchange.ts';
import { handleNodeRequest } from './node.ts';
import { openEdge } from './open-edge.ts';

const echo: ExchangeHandler = (exchange) => {
  exchange.readBody(
    20,
    (body) => exchange.send(200, {}, `${exchange.path} ${body}`),
    (error) => sendError(exchange, error),
  );
};

const echoStream: ExchangeHandler = async (exchange) => {
  const parts: Buffer[] = [];
  for await (const part of exchange.streamBody(100, LIMITS.uploadTimeoutMs)) parts.push(part);
  exchange.send(200, {}, `${exchange.path} ${Buffer.concat(parts)}`);
};

const mounted = (handler: ExchangeHandler): RequestListener => {
  const options: EdgeOptions = { handler, onFault: (error) => assert.fail(String(error)) };
  return (req, res) => handleNodeRequest(req, res, options);
};

const parsers = express.Router().use(express.json(), express.text(), express.raw());

for (const { name, type, body, handler, status, answer } of [
  { name: 'JSON', type: 'application/json', body: '{ "a": 1 }', handler: echo, status: 200, answer: '/svc/x {"a":1}' },
  { name: 'text', type: 'text/plain', body: 'hello', handler: echo, status: 200, answer: '/svc/x hello' },
  {
    name: 'bytes',
    type: 'application/octet-stream',
    body: 'hello',
    handler: echo,
    status: 200,
    answer: '/svc/x hello',
  },
  { name: 'not parsed', type: 'application/x-other', body: 'raw', handler: echo, status: 200, answer: '/svc/x raw' },
  {
    name: 'none, which it makes {}',
    type: 'application/json',
    body: '',
    handler: echo,
    status: 200,
    answer: '/svc/x {}',
  },
  { name: 'over the limit', type: 'text/plain', body: 'x'.repeat(21), handler: echo, status: 413, answer: null },
  {
    name: 'bytes, as a stream',
    type: 'application/octet-stream',
    body: 'a',
    handler: echoStream,
    status: 200,
    answer: '/svc/x a',
  },
]) {
  test(`mounted in Express behind body parsers: ${name}`, async (t) => {
    const app = express();
    app.use(parsers);
    app.use('/svc', mounted(handler));
    const server = createServer(app).listen(0, '127.0.0.1');
    t.after(() => server.close());
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/svc/x?q`;
    const response = await fetch(url, { method: 'POST', body, headers: { 'content-type': type, connection: 'close' } });
    assert.equal(response.status, status);
    const text = await response.text();
    if (answer !== null) assert.equal(text, answer);
  });
}

test('auto takes uWebSockets.js where it loads; both kinds can be had by name', () => {
  const options: EdgeOptions = { handler: echo, onFault: () => {} };
  assert.deepEqual(
    (['auto', 'uws', 'node'] as const)
      .map((kind) => openEdge(kind, options))
      .map(({ edge, notice }) => [edge.kind, notice]),
    [
      ['uws', null],
      ['uws', null],
      ['node', null],
    ],
  );
});

test('where no binary loads, auto falls back to node and says why; uws by name throws', (t) => {
  const platform = Object.getOwnPropertyDescriptor(process, 'platform') as PropertyDescriptor;
  Object.defineProperty(process, 'platform', { ...platform, value: 'plan9' });
  t.after(() => Object.defineProperty(process, 'platform', platform));
  const options: EdgeOptions = { handler: echo, onFault: () => {} };
  const { edge, notice } = openEdge('auto', options);
  assert.equal(edge.kind, 'node');
  assert.match(notice ?? '', /^uWebSockets\.js has no binary for plan9 .* Serving with node:http\.$/);
  assert.throws(() => openEdge('uws', options), /has no binary/);
});
