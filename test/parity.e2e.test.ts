/** The two edges side by side on the same data: the same requests get the same answers, byte for byte. */
import assert from 'node:assert/strict';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { BEST_EDGE, sendRaw } from '../testing/edges.ts';
import { makeGateway, type TestGateway } from '../testing/gateway.ts';

const APP = appOf('twin', {
  migrations: ["CREATE TABLE t (x); INSERT INTO t VALUES ('a'), ('b')"],
  queries: {
    list: '({ db }) => db.all("SELECT x FROM t")',
    echo: { run: '({ input }) => input', input: { type: 'object', properties: { n: { type: 'integer' } } } },
    large: '() => "x".repeat(300000)',
    fails: '() => { throw new Error("no") }',
  },
  actions: {
    created: '() => ({ status: 201, body: { ok: true } })',
    gone: '() => ({ status: 204, body: null })',
    odd: '() => ({ status: 599, body: "ü" })',
  },
  files: {
    'index.html': '<!doctype html><script>1</script>',
    'style.css': 'p { margin: 0; }\n'.repeat(5000),
    'x.png': Buffer.from([1, 2, 3]),
  },
});

type Request = { method?: string; target: string; lines?: string[]; body?: string; token?: boolean };

const tool = (name: string, body: unknown, lines: string[] = []): Request => ({
  method: 'POST',
  target: `/svc/_tool/${name}`,
  body: typeof body === 'string' ? body : JSON.stringify(body),
  lines,
});
const CORS = ['origin: https://friend.example'];

const REQUESTS: Request[] = [
  tool('svc_read', { app: 'twin', query: 'list' }),
  tool('svc_read', { app: 'twin', query: 'echo', input: { n: 1, text: 'ü\u2028' } }),
  tool('svc_read', { app: 'twin', query: 'echo', input: { n: 'x' } }),
  tool('svc_read', { app: 'twin', query: 'large' }),
  tool('svc_read', { app: 'twin', query: 'fails' }),
  tool('svc_read', { app: 'twin', query: 'missing' }),
  tool('svc_read', { app: 'twin', query: 'list' }, CORS),
  tool('svc_read', { app: 'nobody', query: 'list' }),
  tool('svc_read', '{'),
  tool('svc_read', ''),
  tool('svc_write', { app: 'twin', action: 'created' }),
  tool('svc_write', { app: 'twin', action: 'gone' }),
  tool('svc_write', { app: 'twin', action: 'odd' }),
  tool('svc_write', { app: 'twin', action: 'list' }),
  tool('svc_write', { app: 'twin', action: 'created' }, ['idempotency-key: a']),
  tool('svc_write', { app: 'twin', action: 'created' }, ['idempotency-key: a']),
  tool('svc_describe', {}),
  tool('svc_describe', { app: 'twin' }),
  tool('nothing', {}),
  { target: '/svc/_tool/svc_read' },
  { method: 'HEAD', target: '/svc/_tool/svc_read' },
  { method: 'OPTIONS', target: '/svc/_tool/svc_read' },
  { method: 'OPTIONS', target: '/svc/_tool/svc_read', lines: CORS, token: false },
  { method: 'OPTIONS', target: '/nowhere' },
  { target: '/svc/_apps' },
  { method: 'HEAD', target: '/svc/_apps' },
  { target: '/svc/_apps', token: false },
  { target: '/svc/_apps/twin' },
  { target: '/svc/_apps/twin/versions' },
  { target: '/svc/_apps/Twin' },
  { target: '/svc/_apps/twin/settings' },
  { method: 'PUT', target: '/svc/_apps/twin/settings', body: '{"a":1}' },
  { method: 'DELETE', target: '/svc/_apps/nobody' },
  { method: 'POST', target: '/svc/_apps/twin/activate', body: '{"versionId":"v_1"}' },
  { method: 'POST', target: '/svc/_apps/twin/upload', body: 'no archive' },
  { method: 'POST', target: '/svc/_apps/twin/sql', body: '{"sql":"select x from t"}' },
  { target: '/svc/_health', token: false },
  { method: 'HEAD', target: '/svc/_health', token: false },
  { target: '/svc' },
  { target: '/svc/' },
  { target: '/svc/_client.js' },
  { target: '/svc/_console.css', lines: ['accept-encoding: br'] },
  { target: '/svc/twin' },
  { target: '/svc/twin?a=%20b' },
  { target: '/svc/twin/' },
  { method: 'HEAD', target: '/svc/twin/' },
  { target: '/svc/twin/style.css' },
  { target: '/svc/twin/style.css', lines: ['accept-encoding: br'] },
  { target: '/svc/twin/style.css', lines: ['accept-encoding: gzip'] },
  { method: 'HEAD', target: '/svc/twin/style.css', lines: ['accept-encoding: gzip'] },
  { target: '/svc/twin/style.css', lines: ['range: bytes=1-5'] },
  { target: '/svc/twin/style.css', lines: ['range: bytes=999999-'] },
  { target: '/svc/twin/style.css', lines: ['if-none-match: *'] },
  { target: '/svc/twin/style.css', lines: ['if-none-match: *', ...CORS] },
  { target: '/svc/twin/x.png' },
  { target: '/svc/twin/app.json' },
  { target: '/svc/twin/%' },
  { target: '/svc/twin/../x' },
  { method: 'POST', target: '/svc/twin/' },
  { method: 'HEAD', target: '/svc/twin/_changes' },
  { target: '/svc/nobody/_changes' },
  { method: 'HEAD', target: '/svc/_logs?app=twin' },
  { method: 'HEAD', target: '/svc/_logs?follow=1' },
  { target: '/svc/_logs' },
  { method: 'POST', target: '/svc/_session' },
  { target: '/_svc-user/prefs' },
  { method: 'PUT', target: '/_svc-user/prefs', body: '{"patch":{"a":[1]}}' },
  { target: '/svcx' },
  { target: '/' },
  { target: '//' },
  { target: '/%00' },
  { target: '/svc/_health', lines: ['transfer-encoding: xchunked'] },
  { target: '/svc/_health', lines: ['host: second'] },
  { target: `/svc/${'x'.repeat(9000)}` },
  { method: 'POST', target: '/svc/_tool/svc_read', lines: ['content-length: 1048577'] },
];

/** Headers that the edges may differ in; `Date` and the server's own mark. */
const NOT_COMPARED = new Set(['date', 'connection', 'keep-alive', 'uwebsockets']);

type Comparable = { status: number; headers: string[]; body: string };

async function ask(
  gateway: TestGateway,
  { method = 'GET', target, lines = [], body, token = true }: Request,
): Promise<Comparable> {
  const head = [
    `${method} ${target} HTTP/1.1`,
    'host: localhost',
    'connection: close',
    ...(token ? [`authorization: Bearer ${gateway.token}`] : []),
    ...(body === undefined ? [] : [`content-length: ${Buffer.byteLength(body)}`]),
    ...lines,
  ];
  const answer = await sendRaw(gateway, `${head.join('\r\n')}\r\n\r\n${body ?? ''}`);
  const headers = answer.head
    .split('\r\n')
    .slice(1)
    .map(
      (line) =>
        `${line.slice(0, line.indexOf(':')).toLowerCase()}: ${steady(line.slice(line.indexOf(':') + 1).trim())}`,
    )
    .filter((line) => !NOT_COMPARED.has(line.slice(0, line.indexOf(':'))))
    .sort();
  return { status: answer.status, headers, body: answer.body };
}

/** A header's value without its variable parts: times, and the workspace with its signature. */
function steady(value: string): string {
  return value.replace(/dur=\d+\.\d+/g, 'dur=0').replace(/^svc_session=[^;]+/, 'svc_session=0');
}

const options = { config: { corsOrigins: ['https://friend.example'] } };
const uws = makeGateway({ ...options, edge: BEST_EDGE });
const node = makeGateway({ ...options, edge: 'node' });

before(async () => {
  await uws.gateway.start();
  const answer = await uws.gateway.upload('twin', APP);
  assert.equal(answer.status, 201, answer.text);
  assert.equal((await uws.gateway.read('twin', 'list')).status, 200);
  await uws.gateway.stop();
  cpSync(uws.gateway.dataDir, node.gateway.dataDir, {
    recursive: true,
    filter: (path) => path !== join(uws.gateway.dataDir, 'run'),
  });
  await Promise.all([uws.gateway.start(), node.gateway.start()]);
  assert.equal(node.gateway.token, uws.gateway.token);
});

after(() => Promise.all([uws.remove(), node.remove()]));

for (const request of REQUESTS) {
  const { method = 'GET', target, lines = [], body, token = true } = request;
  const name = [method, target.slice(0, 60), ...lines, body ?? '', token ? '' : 'no token'].filter(Boolean).join(' | ');
  test(name, async () => {
    const [one, other] = await Promise.all([ask(uws.gateway, request), ask(node.gateway, request)]);
    assert.deepEqual(one, other);
    assert.ok(one.status >= 200);
  });
}
