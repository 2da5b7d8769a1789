/** The webhook route on both edges, over real sockets, behind the real router and access check. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { pino } from 'pino';
import { Webhook } from 'standardwebhooks';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { EDGES, eventually } from '../../../testing/edges.ts';
import type { EdgeKind } from '../../../testing/gateway.ts';
import { hooked, ScriptedCatalog, ScriptedFires } from '../../../testing/scripted-webhooks.ts';
import { standIn } from '../../../testing/stand-in.ts';
import { inTime } from '../../../testing/waiting.ts';
import { Webhooks } from '../../automations/webhooks/webhooks.ts';
import { resolveConfig } from '../../config.ts';
import type { Exchange } from '../../edge/edge.ts';
import { openEdge } from '../../edge/open-edge.ts';
import { Access } from '../../http/access/access.ts';
import { AgentTokens } from '../../http/access/agent-tokens.ts';
import { Places } from '../../http/access/places.ts';
import { SignIns } from '../../http/access/sign-ins.ts';
import { Pipeline } from '../../http/pipeline.ts';
import { Router } from '../../http/router.ts';
import { HttpMeter } from '../../operations/metrics/http-meter.ts';
import { hookRoutes } from './automations-routes.ts';

const SLUG = '0123456789abcdef01234567';
const SECRET = 'a'.repeat(48);
const SIGNED = 'fedcba9876543210fedcba98';
const KEY = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const NOW = 1_790_000_000_000;
const RIGHT = { authorization: `Bearer ${SECRET}` };
const KIB_64 = 65_536;

type Headers = Record<string, string>;
type Answer = { status: number; headers: globalThis.Headers; body: unknown };

type Served = {
  port: number;
  clock: { now: number };
  catalog: ScriptedCatalog;
  fires: ScriptedFires;
  keys: Map<string, string>;
  faults: string[];
  /** Of every app. */
  secrets: Map<string, string>;
  /** Lines for the logs of apps. */
  logged: [app: string, entry: Record<string, unknown>][];
  /** Resolves once the gateway has been handed so many requests. */
  seen(count: number): Promise<void>;
  post(target: string, headers?: Headers, body?: string | Uint8Array): Promise<Answer>;
  /** A post with this many bytes of body announced, and these sent. */
  begin(target: string, headers: Headers, length: number, sent: string): Socket;
};

async function serving(kind: EdgeKind, run: (served: Served) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-hooks-'));
  const faults: string[] = [];
  const log = pino({ level: 'error' }, { write: (line) => void faults.push(JSON.parse(line).err.message) });
  const access = await Access.open(join(folder, 'token.bin'), {
    log,
    places: new Places(resolveConfig(folder)),
    signIns: new SignIns(null as never),
    programTokens: standIn({ find: () => undefined }),
    accounts: standIn({}),
    registeredAt: () => 0,
  });
  const clock = { now: NOW };
  const catalog = new ScriptedCatalog();
  const fires = new ScriptedFires();
  const secrets = new Map<string, string>();
  const logged: [app: string, entry: Record<string, unknown>][] = [];
  const keys = new Map([[`app/${SIGNED}`, KEY]]);
  const webhooks = new Webhooks({
    catalog,
    fires,
    secrets: { get: (_app, name) => secrets.get(name) },
    appLog: (app, line) => logged.push([app, JSON.parse(line)]),
    keyOf: async ({ ref }) => keys.get(ref) ?? null,
    now: () => clock.now,
    monotonic: () => clock.now,
  });
  catalog.set(SLUG, hooked(SLUG, SECRET));
  catalog.set(SIGNED, hooked(SIGNED, KEY, { signing: true }));
  const pipeline = new Pipeline({
    router: new Router(hookRoutes(webhooks)),
    access,
    authorize: null,
    identify: null,
    makerOf: () => null,
    openTo: null,
    visitors: null,
    agentTokens: new AgentTokens(),
    corsOrigins: [],
    refusalOf: () => null,
    meter: new HttpMeter(),
    tracing: null,
    log,
  });

  let arrived = 0;
  let tell = () => {};
  const handler = (exchange: Exchange) => {
    pipeline.handle(exchange);
    arrived += 1;
    tell();
  };
  const { edge } = openEdge(kind, { handler, onFault: (error) => faults.push(String(error)) });
  const port = await edge.listen('127.0.0.1', 0);
  const post: Served['post'] = async (target, headers = RIGHT, body = '') => {
    const url = `http://127.0.0.1:${port}/_svc-hook/${target}`;
    const answer = await inTime(fetch(url, { method: 'POST', headers, body }), `the answer to a post to ${target}`);
    const text = await answer.text();
    const isJson = answer.headers.get('content-type')?.startsWith('application/json');
    return { status: answer.status, headers: answer.headers, body: isJson ? JSON.parse(text) : text };
  };
  const begin: Served['begin'] = (target, headers, length, sent) => {
    const lines = Object.entries({ host: 'localhost', ...headers, 'content-length': String(length) });
    const socket = connect(port, '127.0.0.1').on('error', () => {});
    socket.write(`POST /_svc-hook/${target} HTTP/1.1\r\n${lines.map((line) => line.join(': ')).join('\r\n')}\r\n\r\n`);
    socket.write(sent);
    return socket;
  };
  const seen = async (count: number): Promise<void> => {
    while (arrived < count) {
      const told = new Promise<void>((resolve) => {
        tell = resolve;
      });
      await inTime(told, `body number ${count}`);
    }
  };
  try {
    await run({ port, clock, catalog, fires, keys, secrets, logged, faults, seen, post, begin });
  } finally {
    await edge.close();
    access.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

function isError(answer: Answer, status: number, code: string): void {
  const { isError: flag, error } = answer.body as { isError: boolean; error: { code: string } };
  assert.deepEqual([answer.status, flag, error?.code], [status, true, code]);
}

function signed(body: string | Buffer, more: { id?: string; at?: number; key?: string } = {}): Headers {
  const { id = 'msg_1', at = NOW, key = KEY } = more;
  const signature = new Webhook(key).sign(id, new Date(at), body);
  return { 'webhook-id': id, 'webhook-timestamp': String(Math.floor(at / 1000)), 'webhook-signature': signature };
}

/** The next answer on a connection; what there was when the gateway ended it. */
async function answerOn(socket: Socket): Promise<string> {
  const next = Promise.race([once(socket, 'data'), once(socket, 'close')]);
  const [bytes] = (await inTime(next, 'the next answer on a connection')) as [Buffer | boolean];
  return typeof bytes === 'boolean' ? 'closed' : bytes.toString('latin1');
}

for (const kind of EDGES) {
  describe(`webhooks on the ${kind} edge`, () => {
    const on = (name: string, run: (served: Served) => Promise<void>) => test(name, () => serving(kind, run));

    on('other methods are refused before anything else, without a token', async ({ port }) => {
      for (const method of ['GET', 'HEAD', 'PUT', 'DELETE', 'PATCH']) {
        for (const target of [SLUG, 'a.b', 'unknown']) {
          const answer = await fetch(`http://127.0.0.1:${port}/_svc-hook/${target}`, { method });
          assert.deepEqual([answer.status, answer.headers.get('allow')], [405, 'POST, OPTIONS'], `${method} ${target}`);
          await answer.arrayBuffer();
        }
      }
    });

    on('what is no slug, or nobody’s, is not found', async ({ post, fires }) => {
      const encoded = `%30${SLUG.slice(1)}`;
      for (const target of ['', 'a.b', 'a/b', '%zz', '%2ea', encoded, `${SLUG}/`, 'unknown', 'x'.repeat(4000)]) {
        isError(await post(target), 404, 'NOT_FOUND');
      }
      assert.equal(fires.runs.length, 0);
    });

    on('the secret is taken from either header, whatever its length', async ({ post, fires }) => {
      for (const headers of [
        RIGHT,
        { authorization: `bearer ${SECRET}` },
        { 'x-host-webhook-secret': SECRET },
        { authorization: 'Basic eDp5', 'x-host-webhook-secret': SECRET },
        { authorization: 'Bearer of-a-proxy', 'x-host-webhook-secret': SECRET },
      ] as Headers[]) {
        assert.equal((await post(SLUG, headers)).status, 200, JSON.stringify(headers));
      }
      const { length } = fires.runs;
      for (const headers of [
        {},
        { authorization: '' },
        { authorization: SECRET },
        { authorization: `Basic ${SECRET}` },
        { 'x-host-webhook-secret': '' },
        ...['x', SECRET.slice(1), `${SECRET}a`, SECRET.toUpperCase(), 'x'.repeat(4000)].flatMap((secret) => [
          { authorization: `Bearer ${secret}` },
          { 'x-host-webhook-secret': secret },
        ]),
      ] as Headers[]) {
        const answer = await post(SLUG, headers);
        isError(answer, 401, 'UNAUTHORIZED');
        assert.equal(answer.headers.get('www-authenticate'), 'Bearer');
      }
      assert.equal(fires.runs.length, length);
    });

    on('a stored hash that is none lets nobody in', async ({ post, catalog }) => {
      const automation = hooked(SLUG, SECRET);
      const [cron, webhook] = automation.manifest.triggers;
      for (const secretHash of ['', 'zz', 'ab'.repeat(31)]) {
        automation.manifest.triggers = [cron!, { ...webhook!, secretHash } as typeof webhook & object];
        catalog.set(SLUG, automation);
        isError(await post(SLUG), 401, 'UNAUTHORIZED');
      }
    });

    on('the 31st wrong secret in a minute is 429; the right one still passes', async ({ post, clock, catalog }) => {
      catalog.set('other', hooked('other', SECRET));
      const wrong = { authorization: 'Bearer wrong' };
      for (let i = 0; i < LIMITS.webhookFailures; i++) isError(await post(SLUG, wrong), 401, 'UNAUTHORIZED');
      const limited = await post(SLUG, wrong);
      isError(limited, 429, 'RATE_LIMITED');
      assert.equal(limited.headers.get('retry-after'), '60');
      assert.equal((await post(SLUG)).status, 200);
      isError(await post('other', wrong), 401, 'UNAUTHORIZED');
      clock.now += LIMITS.webhookWindowMs;
      isError(await post(SLUG, wrong), 401, 'UNAUTHORIZED');
    });

    on('wrong secrets do not use up the fires', async ({ post }) => {
      for (let i = 0; i < 2 * LIMITS.webhookFires; i++) await post(SLUG, {});
      for (let i = 0; i < LIMITS.webhookFires; i++) assert.equal((await post(SLUG)).status, 200);
    });

    on('one that is disabled says so to its sender only, and reads no body', async ({ post, catalog, fires }) => {
      catalog.set(SLUG, hooked(SLUG, SECRET, { enabled: false }));
      isError(await post(SLUG, {}), 401, 'UNAUTHORIZED');
      for (const body of ['', 'x'.repeat(KIB_64 + 1)]) {
        const answer = await post(SLUG, RIGHT, body);
        assert.deepEqual([answer.status, answer.body], [200, { ok: false, skipped: 'automation disabled' }]);
      }
      assert.equal(fires.runs.length, 0);
    });

    on('the 61st post in a minute is 429, and the next minute takes 60 more', async ({ post, clock, fires }) => {
      for (let minute = 1; minute <= 2; minute++) {
        for (let i = 0; i < LIMITS.webhookFires; i++) assert.equal((await post(SLUG)).status, 200);
        clock.now += 1500;
        // The body is not looked at, and the wrong secret is not told about the window.
        const limited = await post(SLUG, RIGHT, 'x'.repeat(KIB_64 + 1));
        isError(limited, 429, 'RATE_LIMITED');
        assert.equal(limited.headers.get('retry-after'), '59');
        isError(await post(SLUG, {}), 401, 'UNAUTHORIZED');
        assert.equal(fires.runs.length, minute * LIMITS.webhookFires);
        clock.now += LIMITS.webhookWindowMs - 1500;
      }
    });

    for (const [name, body, input] of [
      ['an object', '{"a":[1,null]}', { a: [1, null] }],
      ['a number', ' 7 ', 7],
      ['null', 'null', null],
      ['false', 'false', false],
      ['an empty string in JSON', '""', ''],
      ['text', 'a=1&b=ä', 'a=1&b=ä'],
      ['broken JSON', '{"a":', '{"a":'],
      ['space', ' ', ' '],
      ['nothing', '', undefined],
    ] as const) {
      on(`the automation gets the body: ${name}`, async ({ post, fires }) => {
        const answer = await post(SLUG, RIGHT, body);
        assert.deepEqual([answer.status, answer.body], [200, { ok: true, runId: 'run-1' }]);
        const [{ request }] = fires.runs as [(typeof fires.runs)[0]];
        assert.deepEqual(request.input, input);
        assert.deepEqual(request.trigger, { kind: 'webhook', origin: SLUG });
        assert.deepEqual([request.at, request.automation.ref, request.extra], [NOW, `app/${SLUG}`, undefined]);
      });
    }

    on('the automation gets the request, without its credentials', async ({ post, fires }) => {
      const headers = { ...RIGHT, 'x-host-webhook-secret': SECRET, cookie: 'a=b', 'X-Event': 'push' };
      await post(SLUG, { ...headers, 'content-type': 'Text/X; charset=utf-8' }, ' {"a": 1}');
      const { headers: seen, contentType, rawBody } = fires.runs[0]?.request.request ?? assert.fail();
      assert.deepEqual([contentType, rawBody, seen['x-event']], ['text/x', ' {"a": 1}', 'push']);
      assert.deepEqual([seen['content-type'], seen['content-length']], ['Text/X; charset=utf-8', '9']);
      for (const name of ['authorization', 'x-host-webhook-secret', 'cookie']) assert.ok(!(name in seen), name);
      assert.doesNotMatch(JSON.stringify(seen), new RegExp(SECRET));
    });

    on('the sender gets what the handler answers, with no rights of this origin', async ({ post, fires }) => {
      fires.response = { status: 422, headers: { 'content-type': 'text/html', 'x-a': 'b' }, body: '<p>no' };
      const answer = await post(SLUG);
      assert.deepEqual([answer.status, answer.body, answer.headers.get('x-a')], [422, '<p>no', 'b']);
      assert.match(answer.headers.get('content-security-policy') ?? '', /sandbox/);
      assert.equal(answer.headers.get('x-content-type-options'), 'nosniff');
      assert.deepEqual((await post(`${SLUG}?async=1`)).body, { ok: true, runId: 'run-2' });
      await eventually(async () => (await post(SLUG)).status === 422);
      fires.outcome = { state: 'error', error: { code: 'HANDLER_ERROR', message: 'No.' } };
      isError(await post(SLUG), 500, 'HANDLER_ERROR');
    });

    on('bodies that cannot be passed on unchanged are refused, and free the slug', async ({ post, fires }) => {
      isError(await post(SLUG, RIGHT, Buffer.from([0x22, 0xff, 0x22])), 400, 'BAD_REQUEST');
      isError(await post(SLUG, RIGHT, '['.repeat(32_768) + ']'.repeat(32_768)), 400, 'BAD_REQUEST');
      assert.equal(fires.runs.length, 0);
      assert.equal((await post(SLUG)).status, 200);
    });

    on('64 KiB are taken, one byte more is 413, with its length and without', async ({ post, port, fires }) => {
      assert.equal((await post(SLUG, RIGHT, 'x'.repeat(KIB_64))).status, 200);
      isError(await post(SLUG, RIGHT, 'x'.repeat(KIB_64 + 1)), 413, 'PAYLOAD_TOO_LARGE');
      const chunked = async (bytes: number): Promise<number> => {
        const answer = await fetch(`http://127.0.0.1:${port}/_svc-hook/${SLUG}`, {
          method: 'POST',
          headers: RIGHT,
          body: new Blob(['x'.repeat(bytes)]).stream(),
          duplex: 'half',
        } as RequestInit);
        await answer.arrayBuffer();
        return answer.status;
      };
      // The uws edge takes nothing chunked.
      assert.equal(await chunked(KIB_64), kind === 'uws' ? 411 : 200);
      assert.equal(await chunked(KIB_64 + 1), kind === 'uws' ? 411 : 413);
      assert.equal((await post(SLUG)).status, 200);
      assert.deepEqual(
        fires.runs.map(({ request }) => (request.input as string | undefined)?.length ?? 0),
        kind === 'uws' ? [KIB_64, 0] : [KIB_64, KIB_64, 0],
      );
    });

    on('of posts at once exactly one runs, the others are 409', async ({ post, fires, clock }) => {
      fires.outcome = null;
      for (let round = 1; round <= 20; round++) {
        const answers = Array.from({ length: 30 }, () => post(SLUG, RIGHT, '{}'));
        const run = await fires.started(round);
        let refused = 0;
        for (const answer of answers) void answer.then(({ status }) => (refused += Number(status === 409)));
        await eventually(() => refused === 29);
        run.end();
        const statuses = (await Promise.all(answers)).map(({ status }) => status).sort();
        assert.deepEqual(statuses, [200, ...Array(29).fill(409)]);
        assert.equal(fires.runs.length, round);
      }
      clock.now += LIMITS.webhookWindowMs;
      // With runs that end while others come in, there are several, one after another.
      fires.outcome = {};
      const statuses = (await Promise.all(Array.from({ length: 50 }, () => post(SLUG)))).map(({ status }) => status);
      assert.equal(statuses.filter((status) => status === 200).length, fires.runs.length - 20);
      assert.equal(fires.most, 1);
    });

    on('slugs do not wait for each other', async ({ post, fires, catalog }) => {
      catalog.set('other', hooked('other', SECRET));
      fires.outcome = null;
      const first = post(SLUG);
      await fires.started(1);
      const second = post('other');
      (await fires.started(2)).end();
      assert.equal((await second).status, 200);
      fires.runs[0]?.end();
      assert.equal((await first).status, 200);
    });

    on('a body that comes slowly holds the slug from its first byte', async ({ post, begin, seen, fires }) => {
      const slow = begin(SLUG, RIGHT, 10, '"slow');
      await seen(1);
      isError(await post(SLUG), 409, 'CONFLICT');
      slow.write('body"');
      const answer = answerOn(slow);
      const run = await fires.started(1);
      assert.equal(run.request.input, 'slowbody');
      assert.match(await answer, /^HTTP\/1\.1 200 /);
      assert.equal((await post(SLUG)).status, 200);
      slow.destroy();
    });

    on('a sender that goes away in the middle of its body frees the slug, and nothing runs', async (served) => {
      const { post, begin, fires } = served;
      for (const sent of ['', '"slow', '"slowbody']) {
        const slow = begin(SLUG, RIGHT, 10, sent);
        // Posts before it has arrived run.
        await eventually(async () => (await post(SLUG)).status === 409);
        const { length } = fires.runs;
        slow.destroy();
        await eventually(async () => (await post(SLUG)).status === 200);
        assert.equal(fires.runs.length, length + 1, 'only the post that was answered 200 ran');
      }
    });

    on('a sender that goes away during the run leaves the slug taken until its end', async (served) => {
      const { post, begin, fires } = served;
      fires.outcome = null;
      const socket = begin(SLUG, RIGHT, 2, '{}');
      const run = await fires.started(1);
      socket.destroy();
      isError(await post(SLUG), 409, 'CONFLICT');
      run.end();
      fires.outcome = {};
      assert.equal((await post(SLUG)).status, 200);
    });

    on('?async=1 answers once the run is stored; the slug is taken until its end', async ({ post, fires }) => {
      fires.outcome = null;
      const answer = await post(`${SLUG}?async=1`);
      assert.deepEqual([answer.status, answer.body], [202, { ok: true, runId: 'run-1' }]);
      isError(await post(`${SLUG}?async=1`), 409, 'CONFLICT');
      fires.runs[0]?.end({ state: 'error' });
      fires.outcome = {};
      await eventually(async () => (await post(SLUG)).status === 200);
      for (const query of ['async=0', 'async', 'async=%zz', 'x=1']) {
        assert.equal((await post(`${SLUG}?${query}`)).status, 200, query);
      }
    });

    for (const [last, error] of [
      [
        { state: 'error', error: { code: 'TOOL_REFUSED', message: 'No.', path: 'x' } },
        { code: 'TOOL_REFUSED', message: 'No.', path: 'x' },
      ],
      [
        { state: 'aborted', error: { code: 'RUN_ABORTED', message: 'The run was cancelled.' } },
        { code: 'RUN_ABORTED', message: 'The run was cancelled.' },
      ],
    ] as const) {
      on(`a run that ends as ${JSON.stringify(last)} is 500 with its id`, async ({ post, fires }) => {
        fires.outcome = last;
        const answer = await post(SLUG);
        assert.deepEqual([answer.status, answer.body], [500, { isError: true, error, runId: 'run-1' }]);
        fires.outcome = {};
        assert.equal((await post(SLUG)).status, 200);
      });
    }

    on('a fire that cannot start is answered with the reason, and frees the slug', async ({ post, fires, faults }) => {
      const headers = { 'retry-after': '1' };
      fires.refusal = new SvcError('OVERLOADED', 'Too many runs wait.', { headers });
      const overloaded = await post(SLUG);
      isError(overloaded, 503, 'OVERLOADED');
      assert.equal(overloaded.headers.get('retry-after'), '1');
      fires.refusal = new SvcError('STORAGE_FULL', 'The disk is full.');
      isError(await post(`${SLUG}?async=1`), 507, 'STORAGE_FULL');
      fires.refusal = new Error('secret detail of /home');
      const failed = await post(SLUG);
      isError(failed, 500, 'INTERNAL');
      assert.doesNotMatch(JSON.stringify(failed.body), /secret|home/);
      assert.deepEqual(faults, ['secret detail of /home']);
      assert.equal((await post(SLUG)).status, 200);
    });

    on('the version that fires is the one that is active when the body is there', async (served) => {
      const { begin, catalog, fires, seen } = served;
      for (const [i, next, answer, runs] of [
        [1, hooked(SLUG, SECRET, { versionId: 'v_2' }), /^HTTP\/1\.1 200 .*"ok":true/s, 1],
        [2, hooked(SLUG, SECRET, { enabled: false }), /^HTTP\/1\.1 200 .*"skipped":"automation disabled"/s, 1],
        [3, null, /^HTTP\/1\.1 404 .*"NOT_FOUND"/s, 1],
      ] as const) {
        catalog.set(SLUG, hooked(SLUG, SECRET));
        const slow = begin(SLUG, RIGHT, 2, '{');
        await seen(i);
        catalog.set(SLUG, next);
        slow.write('}');
        assert.match(await answerOn(slow), answer);
        slow.destroy();
        assert.equal(fires.runs.length, runs);
      }
      assert.equal(fires.runs[0]?.request.automation.versionId, 'v_2');
    });

    on('a connection goes on after a refusal that left the body unread', async ({ begin }) => {
      const body = 'x'.repeat(1000);
      const socket = begin(SLUG, {}, body.length, body);
      const answer = await answerOn(socket);
      assert.match(answer, /^HTTP\/1\.1 401 /);
      const second = answerOn(socket);
      const lines = ['host: localhost', `authorization: Bearer ${SECRET}`, 'content-length: 0'];
      socket.write(`POST /_svc-hook/${SLUG} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
      assert.match(await second, /^HTTP\/1\.1 200 /);
      socket.destroy();
    });

    describe('signed', () => {
      on('the package’s signature fires, and its id is stored with the run', async ({ post, fires }) => {
        const body = '{"type":"contact.created"}';
        const answer = await post(SIGNED, signed(body), body);
        assert.deepEqual([answer.status, answer.body], [200, { ok: true, runId: 'run-1' }]);
        assert.deepEqual(fires.runs[0]?.request.input, { type: 'contact.created' });
        assert.deepEqual(fires.runs[0]?.statements.at(-1)?.[1], [SIGNED, 'msg_1', 'run-1', NOW]);
        assert.equal((await post(SIGNED, signed('', { id: 'msg_2' }))).status, 200);
        assert.equal(fires.runs[1]?.request.input, undefined);
      });

      on('nothing but a signature is enough', async ({ post, fires }) => {
        const other = `whsec_${Buffer.alloc(24).toString('base64')}`;
        for (const headers of [
          { authorization: `Bearer ${KEY}` },
          { 'x-host-webhook-secret': KEY },
          { ...signed('{}'), 'webhook-id': 'msg_2' },
          { ...signed('{}'), 'webhook-signature': 'v1,' },
          signed('{} '),
          signed('{}', { key: other }),
          signed('{}', { at: NOW - LIMITS.webhookToleranceMs - 1000 }),
          signed('{}', { at: NOW + LIMITS.webhookToleranceMs + 1000 }),
        ] as Headers[]) {
          const answer = await post(SIGNED, headers, '{}');
          isError(answer, 401, 'UNAUTHORIZED');
          assert.equal(answer.headers.get('www-authenticate'), 'Standard-Webhooks');
        }
        assert.equal(fires.runs.length, 0);
        assert.equal((await post(SLUG, signed('{}'), '{}')).status, 401, 'a signature is no secret');
      });

      on('an id runs once; one whose run failed may come again', async ({ post, fires }) => {
        fires.outcome = { state: 'error', error: { code: 'HANDLER_ERROR', message: 'No.' } };
        isError(await post(SIGNED, signed('{}'), '{}'), 500, 'HANDLER_ERROR');
        fires.outcome = {};
        assert.equal((await post(SIGNED, signed('{}'), '{}')).status, 200);
        isError(await post(SIGNED, signed('{}'), '{}'), 409, 'CONFLICT');
        isError(await post(SIGNED, signed('{}', { at: NOW + 60_000 }), '{}'), 409, 'CONFLICT');
        assert.equal((await post(SIGNED, signed('{}', { id: 'msg_2' }), '{}')).status, 200);
        assert.equal(fires.runs.length, 3);
      });

      on('the 31st forgery is 429; what is signed still passes', async ({ post }) => {
        for (let i = 0; i < LIMITS.webhookFailures; i++) {
          isError(await post(SIGNED, i % 2 ? {} : signed('forged'), '{}'), 401, 'UNAUTHORIZED');
        }
        isError(await post(SIGNED, signed('forged'), '{}'), 429, 'RATE_LIMITED');
        isError(await post(SIGNED, {}, '{}'), 429, 'RATE_LIMITED');
        assert.equal((await post(SIGNED, signed('{}'), '{}')).status, 200);
      });

      on('200 strangers who drip bodies hold up no genuine post', async (served) => {
        const { post, begin, fires, clock } = served;
        let cutOff = 0;
        const strangers = Array.from({ length: 200 }, () => {
          const stranger = begin(SIGNED, signed('{}'), KIB_64, '"');
          // What it goes on to send may meet a closed connection, and then its answer is lost to it.
          stranger.on('data', (bytes) => assert.match(String(bytes), /^HTTP\/1\.1 429 .*"code":"RATE_LIMITED"/s));
          return stranger.on('close', () => (cutOff += 1));
        });
        let drips = 0;
        const dripping = setInterval(() => {
          drips += 1;
          for (const stranger of strangers) if (stranger.writable) stranger.write('x');
        }, 5);
        try {
          await eventually(() => cutOff >= strangers.length - LIMITS.webhookUnverified);
          for (let i = 0; i < 2 * LIMITS.webhookFires; i++) {
            if (i === LIMITS.webhookFires) clock.now += LIMITS.webhookWindowMs;
            const body = JSON.stringify('y'.repeat(i % 2 ? 10 : 40_000));
            const at = clock.now;
            assert.equal((await post(SIGNED, signed(body, { id: `msg_${i}`, at }), body)).status, 200, `post ${i}`);
          }
          assert.equal(fires.runs.length, 2 * LIMITS.webhookFires);
          assert.ok(drips > 0);
        } finally {
          clearInterval(dripping);
          for (const stranger of strangers) stranger.destroy();
        }
      });

      on('strangers who fill the room of bytes hold up no genuine post', async ({ post, begin, clock, seen }) => {
        const strangers = Array.from({ length: 40 }, () => begin(SIGNED, signed('{}'), KIB_64, 'x'.repeat(KIB_64 - 1)));
        await seen(strangers.length);
        clock.now += LIMITS.webhookYoungMs;
        for (let i = 0; i < 10; i++) {
          const body = JSON.stringify('y'.repeat(60_000));
          assert.equal((await post(SIGNED, signed(body, { id: `msg_${i}`, at: clock.now }), body)).status, 200);
        }
        for (const stranger of strangers) stranger.destroy();
      });

      on(
        'a post that is cut in two passes beside strangers, after forgeries too',
        async ({ post, begin, fires, seen }) => {
          for (let i = 0; i < LIMITS.webhookFailures; i++) await post(SIGNED, signed('forged'), '{}');
          const strangers = Array.from({ length: LIMITS.webhookUnverified }, () =>
            begin(SIGNED, signed('{}'), 10, '"sl'),
          );
          const genuine = begin(SIGNED, signed('"slow body"'), 11, '"slow');
          await seen(LIMITS.webhookFailures + strangers.length + 1);
          genuine.write(' body"');
          assert.match(await answerOn(genuine), /^HTTP\/1\.1 200 /);
          assert.equal(fires.runs[0]?.request.input, 'slow body');
          for (const socket of [genuine, ...strangers]) socket.destroy();
        },
      );

      on('one at a time, in the window, and disabled, as with a secret', async ({ post, fires, catalog }) => {
        fires.outcome = null;
        const first = post(SIGNED, signed('{}'), '{}');
        await fires.started(1);
        isError(await post(SIGNED, signed('{}', { id: 'msg_2' }), '{}'), 409, 'CONFLICT');
        fires.runs[0]?.end();
        assert.equal((await first).status, 200);
        fires.outcome = {};
        for (let i = 1; i < LIMITS.webhookFires; i++) {
          assert.equal((await post(SIGNED, signed('{}', { id: `next_${i}` }), '{}')).status, 200);
        }
        isError(await post(SIGNED, signed('{}', { id: 'last' }), '{}'), 429, 'RATE_LIMITED');
        catalog.set(SIGNED, hooked(SIGNED, KEY, { signing: true, enabled: false }));
        isError(await post(SIGNED, {}, '{}'), 401, 'UNAUTHORIZED');
        assert.deepEqual((await post(SIGNED, signed('{}'), '{}')).body, { ok: false, skipped: 'automation disabled' });
      });

      on('64 KiB and one byte more', async ({ post }) => {
        const body = 'x'.repeat(KIB_64);
        assert.equal((await post(SIGNED, signed(body), body)).status, 200);
        isError(await post(SIGNED, signed(`${body}x`), `${body}x`), 413, 'PAYLOAD_TOO_LARGE');
      });

      on('a key that is gone is the gateway’s fault, and said so in its log', async ({ post, keys, faults }) => {
        keys.clear();
        isError(await post(SIGNED, signed('{}'), '{}'), 500, 'INTERNAL');
        assert.deepEqual(faults, [`The signing key of the webhook of app/${SIGNED} is missing.`]);
      });
    });
  });
}
