/** Requests over a real edge, and the bucket that each is found to be about. */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { test } from 'node:test';
import { bucketOf } from '../../../protocol/buckets.ts';
import { appLabel, draftLabel } from '../../../protocol/http/origins.ts';
import { EDGES } from '../../../testing/edges.ts';
import { serveExchanges } from '../../../testing/exchange-server.ts';
import { inTime } from '../../../testing/waiting.ts';
import { resolveConfig } from '../../config.ts';
import { sendError } from '../../edge/edge.ts';
import { Places } from '../../http/access/places.ts';
import { type Requested, RequestedBuckets } from './requested-buckets.ts';

const HERE = 'here';
const EVERY = 'every';
const NO_NODE = 'NOT_IN_CLUSTER';
const RUN = '019b7764-0c00-7a31-8f02-5d4e9a1c7b60';
const MCP = 'POST /svc/_mcp';
const called = (name: string, given: object): string =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: given } });
const GATEWAY = bucketOf('_identity');
const NOTES = bucketOf('notes');
const TODOS = bucketOf('todos');
const CONSOLE = 'svc.localhost';
const LONG = 'x'.repeat(63);
const WORKSPACE = 'w'.repeat(60);
const ofLabel = (label: string): string => `${label}.${CONSOLE}`;

const CASES: [what: string, host: string, body: string, bucket: number | string][] = [
  ['GET /svc/notes/', CONSOLE, '', NOTES],
  ['HEAD /svc/notes/app.js', CONSOLE, '', NOTES],
  ['GET /svc/_apps/notes/versions?limit=3', CONSOLE, '', NOTES],
  ['GET /svc/_draft/redesign/notes/index.html', CONSOLE, '', NOTES],
  ['GET /svc/_automations/notes/report', CONSOLE, '', NOTES],
  ['GET /svc/_runs?ref=notes%2Freport', CONSOLE, '', NOTES],
  ['GET /svc/_runs?app=notes', CONSOLE, '', NOTES],
  ['GET /svc/_runs', CONSOLE, '', EVERY],
  ['HEAD /svc/_runs', CONSOLE, '', EVERY],
  [`GET /svc/_runs/${RUN}/nodes`, CONSOLE, '', `run ${RUN}`],
  ['POST /_svc-hook/8f14e45f?async=1', CONSOLE, '{}', 'webhook 8f14e45f'],
  ['DELETE /svc/_trash/notes-1767225600000', CONSOLE, '', NOTES],
  ['POST /svc/_trash/notes/restore', CONSOLE, '', HERE],
  ['POST /svc/_tool/svc_read', CONSOLE, '{"app":"notes","query":"list"}', NOTES],
  // The last one of a repeated name counts, as where the call is made.
  ['POST /svc/_tool/svc_write', CONSOLE, '{"input":{"app":"todos"},"app":"todos","app":"notes"}', NOTES],
  ['POST /svc/_draft/redesign/_tool/svc_read', CONSOLE, '{"app":"notes"}', NOTES],
  ['POST /svc/_tool/svc_read', CONSOLE, 'no JSON', HERE],
  ['POST /svc/_tool/svc_read', CONSOLE, '{"app":7}', HERE],
  ['POST /svc/_tool/svc_read', CONSOLE, '{"app":"_identity"}', HERE],
  ['POST /svc/_automations/_provision', CONSOLE, '{"ref":"notes/report"}', NOTES],
  ['POST /svc/_apps', CONSOLE, '{"id":"todos"}', TODOS],
  ['POST /svc/_apps/_import?id=todos', CONSOLE, '', TODOS],
  ['POST /svc/_apps/_clone', CONSOLE, '{"templateId":"notes","id":"todos"}', TODOS],
  ['POST /svc/_apps/_clone', CONSOLE, '{"templateId":"todos"}', TODOS],
  ['POST /svc/_apps/_clone', CONSOLE, '{"templateId":"https://templates.example.org/todos"}', HERE],
  ['PATCH /svc/_sessions/redesign', CONSOLE, '{"name":"New"}', 'workspace redesign'],
  ['POST /svc/_sessions/redesign/publish', CONSOLE, '{"app":"notes"}', NOTES],
  ['POST /svc/_sessions/redesign/publish', CONSOLE, '{}', 'workspace redesign'],
  ['POST /svc/_session', CONSOLE, '{}', GATEWAY],
  ['GET /svc/_people', CONSOLE, '', GATEWAY],
  ['GET /svc/_enter?to=x', ofLabel('notes'), '', GATEWAY],
  ['GET /svc/_apps', CONSOLE, '', EVERY],
  ['POST /svc/_tool/svc_describe', CONSOLE, '{}', EVERY],
  ['POST /svc/_tool/svc_describe', CONSOLE, '{"app":"notes"}', NOTES],
  ['GET /svc/_logs?follow=1', CONSOLE, '', EVERY],
  ['POST /svc/_automations/_provision', CONSOLE, '{}', NO_NODE],
  ['POST /svc/_backup', CONSOLE, '', NO_NODE],
  // What a message of MCP is about.
  [MCP, CONSOLE, called('svc_read', { app: 'notes', query: 'list' }), NOTES],
  [MCP, CONSOLE, called('svc_sql_write', { sql: 'DELETE FROM x', app: 'todos' }), TODOS],
  [MCP, CONSOLE, called('svc_describe', {}), EVERY],
  [MCP, CONSOLE, called('svc_describe', { query: 'list' }), GATEWAY],
  [MCP, CONSOLE, called('svc_read', { app: '_identity' }), GATEWAY],
  [MCP, CONSOLE, '{"method":"tools/list","params":{}}', EVERY],
  [MCP, CONSOLE, '{"method":"resources/read","params":{"uri":"svc://notes/queries/list?input=%7B%7D"}}', NOTES],
  [MCP, CONSOLE, '{"method":"initialize","params":{}}', GATEWAY],
  [MCP, CONSOLE, `{"jsonrpc":"2.0","id":"${NOTES}.${RUN}","result":{}}`, NOTES],
  [MCP, CONSOLE, '{"jsonrpc":"2.0","id":"4096.0","result":{}}', GATEWAY],
  [MCP, CONSOLE, 'no JSON', GATEWAY],
  ['GET /svc/_mcp', CONSOLE, '', GATEWAY],
  ['GET /svc/_health', CONSOLE, '', HERE],
  ['GET /svc/_console.js', CONSOLE, '', HERE],
  ['OPTIONS /svc/notes/_changes', CONSOLE, '', HERE],
  ['DELETE /svc/_health', CONSOLE, '', HERE],
  ['GET /svc/%zz/', CONSOLE, '', HERE],
  // At the origin of an app its files are at the root. Another app may be called from there.
  ['GET /', ofLabel('notes'), '', NOTES],
  ['GET /style.css', ofLabel('notes'), '', NOTES],
  ['POST /svc/_tool/svc_read', ofLabel('notes'), '{"app":"todos"}', TODOS],
  ['GET /', ofLabel(appLabel('my_notes')), '', bucketOf('my_notes')],
  ['GET /', ofLabel(`${draftLabel('redesign', 'notes')}.draft`), '', NOTES],
  ['GET /', ofLabel(`${draftLabel('redesign', 'my_notes')}.draft`), '', bucketOf('my_notes')],
  ['GET /', ofLabel(`${draftLabel('My-Workspace', 'notes')}.draft`), '', NOTES],
  ['GET /', ofLabel(`${draftLabel(WORKSPACE, LONG)}.draft`), '', bucketOf(LONG)],
  ['GET /index.html', CONSOLE, '', HERE],
  ['GET /index.html', 'other.example', '', HERE],
];

function textOf(requested: Requested): string {
  if ('found' in requested) return `${requested.found.of} ${requested.found.id}`;
  if ('every' in requested) return EVERY;
  return 'refused' in requested ? requested.refused.code : String(requested.bucket ?? HERE);
}

for (const kind of EDGES) {
  test(`the bucket of a request, ${kind} edge`, async (t) => {
    const buckets = new RequestedBuckets(new Places(resolveConfig('/data')));
    const port = await serveExchanges(
      t,
      (exchange) =>
        buckets.find(
          exchange,
          (requested) => exchange.send(200, { 'x-bucket': textOf(requested) }, ''),
          (error) => sendError(exchange, error),
        ),
      kind,
    );
    for (const [what, host, body, bucket] of CASES) {
      const [method, path] = what.split(' ') as [string, string];
      const found = new Promise((resolve, reject) => {
        const headers = { host, 'content-length': Buffer.byteLength(body) };
        request({ port, host: '127.0.0.1', method, path, headers }, (answer) => {
          resolve(answer.headers['x-bucket']);
          answer.resume();
        })
          .on('error', reject)
          .end(body);
      });
      assert.equal(await inTime(found, what), String(bucket), `${what} at ${host} with ${body}`);
    }
  });
}

test('an agent asks the node where its turn runs', async (t) => {
  const buckets = new RequestedBuckets(null);
  const port = await serveExchanges(t, (exchange) =>
    buckets.find(
      exchange,
      (requested) => exchange.send(200, { 'x-bucket': textOf(requested) }, ''),
      (error) => sendError(exchange, error),
    ),
  );
  const headers = { authorization: `Bearer svca_${'0'.repeat(64)}` };
  const body = called('svc_read', { app: 'notes', query: 'list' });
  const answer = await fetch(`http://127.0.0.1:${port}/svc/_mcp`, { method: 'POST', headers, body });
  assert.equal(answer.headers.get('x-bucket'), HERE);
});
