/** Requests over a real edge, and the bucket that each is found to be about. */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { test } from 'node:test';
import { bucketOf, bucketOfWorkspace } from '../../../protocol/buckets.ts';
import { appLabel, draftLabel } from '../../../protocol/http/origins.ts';
import { EDGES } from '../../../testing/edges.ts';
import { serveExchanges } from '../../../testing/exchange-server.ts';
import { inTime } from '../../../testing/waiting.ts';
import { resolveConfig } from '../../config.ts';
import { sendError } from '../../edge/edge.ts';
import { Places } from '../../http/access/places.ts';
import { RequestedBuckets } from './requested-buckets.ts';

const HERE = 'here';
const GATEWAY = bucketOf('_identity');
const NOTES = bucketOf('notes');
const TODOS = bucketOf('todos');
const CONSOLE = 'svc.localhost';
const LONG = 'x'.repeat(63);
const WORKSPACE = 'w'.repeat(60);
const ofLabel = (label: string): string => `${label}.${CONSOLE}`;

const CASES: [what: string, host: string, body: string, bucket: number | typeof HERE][] = [
  ['GET /svc/notes/', CONSOLE, '', NOTES],
  ['HEAD /svc/notes/app.js', CONSOLE, '', NOTES],
  ['GET /svc/_apps/notes/versions?limit=3', CONSOLE, '', NOTES],
  ['GET /svc/_draft/redesign/notes/index.html', CONSOLE, '', NOTES],
  ['GET /svc/_automations/notes/report', CONSOLE, '', NOTES],
  ['GET /svc/_runs?ref=notes%2Freport', CONSOLE, '', NOTES],
  ['GET /svc/_runs?app=notes', CONSOLE, '', NOTES],
  ['GET /svc/_runs', CONSOLE, '', HERE],
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
  ['PATCH /svc/_sessions/redesign', CONSOLE, '{"name":"New"}', bucketOfWorkspace('redesign')],
  ['POST /svc/_sessions/redesign/publish', CONSOLE, '{"app":"notes"}', NOTES],
  ['POST /svc/_sessions/redesign/publish', CONSOLE, '{}', bucketOfWorkspace('redesign')],
  ['POST /svc/_session', CONSOLE, '{}', GATEWAY],
  ['GET /svc/_people', CONSOLE, '', GATEWAY],
  ['GET /svc/_enter?to=x', ofLabel('notes'), '', GATEWAY],
  ['GET /svc/_apps', CONSOLE, '', HERE],
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

for (const kind of EDGES) {
  test(`the bucket of a request, ${kind} edge`, async (t) => {
    const buckets = new RequestedBuckets(new Places(resolveConfig('/data')));
    const port = await serveExchanges(
      t,
      (exchange) =>
        buckets.find(
          exchange,
          ({ bucket }) => exchange.send(200, { 'x-bucket': bucket === null ? HERE : String(bucket) }, ''),
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
