/** The node adapter in a host's own server, where a body parser may have been before us. Also which edge is chosen. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import express from 'express';
import { LIMITS } from '../../protocol/limits.ts';
import { BEST_EDGE } from '../../testing/edges.ts';
import { type ExchangeHandler, sendError } from './edge.ts';
import type { EdgeOptions } from './exchange.ts';
import { handleNodeRequest } from './node.ts';
import { openEdge } from './open-edge.ts';
import { loadUws, NoUws } from './uws-binding.ts';

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

const options: EdgeOptions = { handler: echo, onFault: () => {} };
const NOTICE = `uWebSockets.js has no binary for Node ${process.versions.node} on `;

test('auto takes uWebSockets.js where its native code loads, else node, and says why; both can be had by name', () => {
  const { edge, notice } = openEdge('auto', options);
  assert.equal(edge.kind, BEST_EDGE);
  if (BEST_EDGE === 'uws') assert.deepEqual([notice, openEdge('uws', options).edge.kind], [null, 'uws']);
  else assert.ok(notice?.startsWith(NOTICE), notice ?? '');
  assert.deepEqual([openEdge('node', options).edge.kind, openEdge('node', options).notice], ['node', null]);
});

test('where there is no binary, auto takes node and says why; uws by name throws', (t) => {
  const platform = Object.getOwnPropertyDescriptor(process, 'platform') as PropertyDescriptor;
  Object.defineProperty(process, 'platform', { ...platform, value: 'plan9' });
  t.after(() => Object.defineProperty(process, 'platform', platform));
  const { edge, notice } = openEdge('auto', options);
  assert.equal(edge.kind, 'node');
  assert.equal(notice, `${NOTICE}plan9 ${process.arch}. Serving with node:http.`);
  assert.throws(() => openEdge('uws', options), NoUws);
});

test('a package that would serve from JavaScript is not taken for the native code', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-uws-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const home = join(folder, 'node_modules/uWebSockets.js');
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, 'package.json'), '{"main":"uws.js"}');
  writeFileSync(join(home, 'uws.js'), 'exports.App = () => { throw new Error("This is JavaScript."); };');
  assert.throws(() => loadUws(createRequire(join(folder, 'main.js'))), {
    message: `${NOTICE}${process.platform} ${process.arch}.`,
    nextStep: /^To have it: npm install --no-save uWebSockets\.js@github:/,
  });
  // Upstream's own package has its binaries beside its entry.
  const { modules } = process.versions;
  writeFileSync(join(home, `uws_${process.platform}_${process.arch}_${modules}.node`), 'no native code');
  const broken = () => loadUws(createRequire(join(folder, 'main.js')));
  assert.throws(broken, { message: 'The binary of uWebSockets.js does not load.' });
});
