/**
 * Webhooks over HTTP, on both edges: who may post, what, and how often (specification, "Webhook requests").
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { before, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import type { MintedWebhook } from '../protocol/automations/automation.ts';
import { LIMITS } from '../protocol/limits.ts';
import { eventually, onEachEdge, sendRaw } from '../testing/edges.ts';
import type { Answer } from '../testing/gateway.ts';
import {
  ended,
  NOTES,
  nodesOf,
  note,
  noted,
  notesOf,
  only,
  post,
  push,
  runOf,
  runsOf,
  untilEvent,
} from '../testing/runs.ts';

const CAP = LIMITS.webhookBodyBytes;
const PENDING = [{ kind: 'webhook', pending: true }];

onEachEdge({ config: { automationTimeoutMs: 20_000 } }, (gateway, edge) => {
  /** Each test has a separate webhook, because the limits count by slug. */
  const hooked = async (id: string, run: string, more: Record<string, unknown> = {}): Promise<MintedWebhook> =>
    only(await push(gateway, id, { ...NOTES, automations: { hook: { triggers: PENDING, run, ...more } } }));
  const echo = 'async ({ input, ctx }) => ({ output: { input, same: ctx.input === input, is: typeof input } })';
  const outcome = ({ status, json }: Answer) => [status, json.error?.code];
  const refused = (answer: Answer, status: number, code: string) => {
    assert.deepEqual([...outcome(answer), answer.json.isError], [status, code, true], answer.text);
    assert.match(answer.headers['content-type'] as string, /^application\/json/);
  };
  /** A request as its bytes. The gateway ends the connection. */
  const raw = (slug: string, lines: string[], body: string | Buffer) =>
    sendRaw(
      gateway,
      Buffer.concat([
        Buffer.from(
          `${[`POST /_svc-hook/${slug} HTTP/1.1`, 'host: localhost', 'connection: close', ...lines].join('\r\n')}\r\n\r\n`,
        ),
        Buffer.from(body),
      ]),
    );

  let echoing: MintedWebhook;
  before(async () => {
    echoing = await hooked('echo', echo);
  });

  test('the secret is presented in either form; missing, wrong, or of another kind it is refused', async () => {
    const { webhookId, secret } = echoing;
    const headers = { 'x-host-webhook-secret': secret };
    assert.equal((await post(gateway, echoing)).status, 200);
    assert.equal((await post(gateway, echoing, undefined, { token: null, headers })).status, 200);
    assert.equal((await post(gateway, echoing, undefined, { token: 'wrong', headers })).status, 200);
    const runs = await runsOf(gateway, 'echo/hook');
    const hash = createHash('sha256').update(secret).digest('hex');
    for (const token of [
      null,
      '',
      'wrong',
      secret.slice(1),
      `${secret}0`,
      secret.toUpperCase(),
      hash,
      gateway.token,
      webhookId,
    ]) {
      const answer = await post(gateway, echoing, 'x', { token });
      refused(answer, 401, 'UNAUTHORIZED');
      assert.equal(answer.headers['www-authenticate'], 'Bearer');
    }
    for (const value of ['', 'wrong', `Bearer ${secret}`]) {
      refused(
        await post(gateway, echoing, 'x', { token: null, headers: { 'x-host-webhook-secret': value } }),
        401,
        'UNAUTHORIZED',
      );
    }
    assert.deepEqual(await runsOf(gateway, 'echo/hook'), runs);
  });

  test('after 30 wrong secrets further ones get 429, a right one is accepted, and other webhooks are not affected', async () => {
    const guessed = await hooked('guessed', echo);
    const codes = new Map<string, number>();
    for (let n = 0; n < LIMITS.webhookFailures + 5; n++) {
      const answer = await post(gateway, guessed, 'x', { token: `guess-${n}` });
      codes.set(answer.json.error.code, (codes.get(answer.json.error.code) ?? 0) + 1);
      if (answer.status === 429) assert.match(answer.headers['retry-after'] as string, /^[1-9]\d?$/);
    }
    assert.deepEqual(
      [...codes],
      [
        ['UNAUTHORIZED', LIMITS.webhookFailures],
        ['RATE_LIMITED', 5],
      ],
    );
    assert.equal((await post(gateway, guessed)).status, 200);
    refused(await post(gateway, echoing, 'x', { token: 'wrong' }), 401, 'UNAUTHORIZED');
  });

  test('60 posts in a window run, and the next one learns when to try again', async () => {
    const hook = await hooked('busy', '() => ({})');
    for (let n = 0; n < LIMITS.webhookFires; n++) assert.equal((await post(gateway, hook)).status, 200);
    const answer = await post(gateway, hook);
    refused(answer, 429, 'RATE_LIMITED');
    const wait = Number(answer.headers['retry-after']);
    assert.ok(wait >= 1 && wait <= 60, `retry after ${wait} s`);
    refused(await post(gateway, hook, 'x', { token: 'wrong' }), 401, 'UNAUTHORIZED');
  });

  test('other methods, other addresses', async () => {
    const { webhookId, secret } = echoing;
    for (const method of ['GET', 'PUT', 'DELETE', 'PATCH']) {
      const answer = await gateway.call(method, `/_svc-hook/${webhookId}`, { token: secret });
      refused(answer, 405, 'METHOD_NOT_ALLOWED');
      assert.match(answer.headers.allow as string, /POST/);
    }
    const slugs = [
      '',
      '/',
      'unknown',
      '0'.repeat(24),
      'a'.repeat(5000),
      `${webhookId}/`,
      `${webhookId}/x`,
      `${webhookId.slice(1)}`,
      'a%20b',
      'a.b',
      `%3${webhookId}`,
    ];
    for (const slug of slugs) {
      const answer = await gateway.call('POST', `/_svc-hook/${slug}`, { token: secret, body: 'x' });
      assert.match(`${outcome(answer)}`, /^(404,NOT_FOUND|400,BAD_REQUEST)$/, `${slug}: ${answer.text}`);
    }
    assert.equal((await raw('%2e%2e', [`authorization: Bearer ${secret}`, 'content-length: 0'], '')).status, 404);
    refused(await gateway.call('POST', `/_svc-hookx/${webhookId}`), 404, 'NOT_FOUND');
  });

  test('a body is JSON if it parses, else text, else nothing', async () => {
    const bodies: [body: string | undefined, input: unknown][] = [
      ['{"a":[1,null]}', { a: [1, null] }],
      ['null', null],
      ['"text"', 'text'],
      ['0', 0],
      ['not JSON {', 'not JSON {'],
      ['{"a":1}x', '{"a":1}x'],
      [' ', ' '],
      ['{"__proto__":{"x":1},"constructor":2}', JSON.parse('{"__proto__":{"x":1},"constructor":2}')],
      ['ä😀\u0000', 'ä😀\u0000'],
      ['', undefined],
      [undefined, undefined],
    ];
    for (const [body, input] of bodies) {
      const answer = await post(gateway, echoing, body);
      assert.equal(answer.status, 200, answer.text);
      const { output } = await runOf(gateway, answer.json.runId);
      const expected = input === undefined ? { same: true, is: 'undefined' } : { input, same: true, is: typeof input };
      assert.equal(JSON.stringify(output), JSON.stringify(expected), `${body}`);
    }
    refused(await post(gateway, echoing, Buffer.from([0x22, 0xff, 0x22])), 400, 'BAD_REQUEST');
    refused(await post(gateway, echoing, '['.repeat(30_000) + ']'.repeat(30_000)), 400, 'BAD_REQUEST');
  });

  test('a body of 64 KiB runs and one byte more is refused, with or without an announced length', async () => {
    const hook = await hooked('sizes', 'async ({ input }) => ({ output: { length: input.length } })');
    const auth = `authorization: Bearer ${hook.secret}`;
    const chunked = (bytes: number) => {
      const chunks = Array.from({ length: Math.ceil(bytes / 1000) }, (_, i) =>
        'x'.repeat(Math.min(1000, bytes - i * 1000)),
      );
      const body = `${chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('')}0\r\n\r\n`;
      return raw(hook.webhookId, [auth, 'transfer-encoding: chunked'], body);
    };
    const sized = (bytes: number) => raw(hook.webhookId, [auth, `content-length: ${bytes}`], 'x'.repeat(bytes));
    for (const send of edge === 'uws' ? [sized] : [sized, chunked]) {
      const { status, body } = await send(CAP);
      assert.equal(status, 200, body);
      assert.deepEqual((await runOf(gateway, JSON.parse(body).runId)).output, { length: CAP });
      const more = await send(CAP + 1);
      assert.deepEqual([more.status, JSON.parse(more.body).error.code], [413, 'PAYLOAD_TOO_LARGE']);
    }
    // This edge cannot see the framing of chunks: they are refused before any of them is read.
    if (edge === 'uws') for (const bytes of [CAP, CAP + 1]) assert.equal((await chunked(bytes)).status, 411);
    assert.equal((await runsOf(gateway, 'sizes/hook')).length, edge === 'uws' ? 1 : 2);
    assert.equal((await post(gateway, hook, 'free again')).status, 200);
  });

  test('of 50 concurrent posts one runs and the others are told to wait; two handlers never run at once', async () => {
    const hook = await hooked(
      'crowd',
      `async ({ ctx, input }) => { ${note('crowd', '"in"')} await new Promise((go) => setTimeout(go, 30)); ${note('crowd', '"out"')} }`,
    );
    let ran = 0;
    for (let round = 0; round < 3; round++) {
      const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => post(gateway, hook, { n })));
      for (const answer of answers.filter(({ status }) => status !== 200)) refused(answer, 409, 'CONFLICT');
      const won = answers.filter(({ status }) => status === 200).length;
      // Posts that came after the end of the first one ran too.
      assert.ok(won >= 1, 'none of them ran');
      ran += won;
    }
    assert.deepEqual(await notesOf(gateway, 'crowd'), Array(ran).fill(['in', 'out']).flat());
    assert.deepEqual(
      (await runsOf(gateway, 'crowd/hook')).map(({ state }) => state),
      Array(ran).fill('ok'),
    );
  });

  test('while one is running others are refused: async or not, also if its sender has disconnected', async () => {
    const hook = await hooked(
      'held',
      `async ({ ctx, input }) => {
        ${note('held', 'input')}
        while (!(await ctx.tool('svc_read', { app: 'held', query: 'list' })).includes('release ' + input)) {}
      }`,
    );
    const first = await post(gateway, hook, 'one', { query: '?async=1' });
    assert.deepEqual([first.status, first.json], [202, { ok: true, runId: first.json.runId }]);
    await noted(gateway, 'held', 'one');
    assert.equal((await runOf(gateway, first.json.runId)).state, 'running');
    refused(await post(gateway, hook), 409, 'CONFLICT');
    refused(await post(gateway, hook, 'x', { query: '?async=1' }), 409, 'CONFLICT');
    refused(await post(gateway, hook, 'x', { token: 'wrong' }), 401, 'UNAUTHORIZED');
    refused(await post(gateway, hook, 'x'.repeat(CAP + 1)), 409, 'CONFLICT');
    await gateway.write('held', 'add', { text: 'release one' });
    assert.equal((await ended(gateway, first.json.runId)).state, 'ok');

    const abort = new AbortController();
    const headers = { authorization: `Bearer ${hook.secret}` };
    const second = eventually(async () => {
      const request = fetch(hook.url, { method: 'POST', headers, body: 'two', signal: abort.signal });
      const answer = await request.catch(() => null);
      return answer === null || answer.status !== 409;
    });
    await noted(gateway, 'held', 'two');
    abort.abort();
    await second;
    refused(await post(gateway, hook), 409, 'CONFLICT');
    await gateway.write('held', 'add', { text: 'release two' });
    const [{ runId } = { runId: '' }] = await runsOf(gateway, 'held/hook');
    assert.equal((await ended(gateway, runId)).state, 'ok');
    await eventually(async () => (await post(gateway, hook, 'one')).status === 200);
  });

  test('a sender that stops in the middle of its body leaves no run and frees the slug', async () => {
    const hook = await hooked('half', '() => ({})');
    const { hostname, port } = new URL(gateway.url);
    const open = async () => {
      const opened = connect(Number(port), hostname);
      const lines = [`POST /_svc-hook/${hook.webhookId} HTTP/1.1`, 'host: localhost', 'content-length: 100'];
      opened.write(`${[...lines, `authorization: Bearer ${hook.secret}`].join('\r\n')}\r\n\r\nhalf`);
      opened.on('data', () => {});
      await once(opened, 'connect');
      return opened;
    };
    let socket = await open();
    await eventually(async () => {
      // It was answered, because it came while the previous post had the slug.
      if (socket.bytesRead > 0) socket = await open();
      await gateway.call('GET', '/svc/_health');
      return (await post(gateway, hook)).status === 409;
    });
    socket.destroy();
    await eventually(async () => (await post(gateway, hook)).status === 200);
    for (const run of await runsOf(gateway, 'half/hook')) assert.equal(run.input, null);
  });

  test('an answer of a run that failed, was cancelled, or was switched off meanwhile', async () => {
    const hook = await hooked(
      'ends',
      `async ({ ctx, input }) => { if (input === 'fail') throw new TypeError('no'); ${note('ends', 'input')} await new Promise(() => {}); }`,
    );
    const failed = await post(gateway, hook, 'fail');
    refused(failed, 500, 'HANDLER_ERROR');
    assert.equal((await runOf(gateway, failed.json.runId)).state, 'error');
    const cancelled = post(gateway, hook, 'wait');
    await noted(gateway, 'ends', 'wait');
    const [{ runId } = { runId: '' }] = await runsOf(gateway, 'ends/hook');
    assert.equal((await gateway.call('POST', `/svc/_runs/${runId}/cancel`)).json.state, 'aborted');
    refused(await cancelled, 500, 'RUN_ABORTED');
    assert.equal((await cancelled).json.runId, runId);
  });

  test('the id in the answer is that of the run whose nodes are stored', async () => {
    const hook = await hooked('ids', `async ({ ctx, input }) => { ${note('ids', 'input')} }`);
    const stream = await gateway.stream('/svc/_runs/_events?ref=ids/hook');
    const { runId } = (await post(gateway, hook, 'one')).json;
    const event = await untilEvent(stream, ({ type }) => type === 'run.start');
    assert.equal((event as { run: { runId: string } }).run.runId, runId);
    assert.deepEqual(
      (await nodesOf(gateway, runId)).map(({ args }) => args),
      [{ app: 'ids', action: 'add', input: { text: 'one' } }],
    );
    assert.deepEqual(
      (await runsOf(gateway, 'ids/hook')).map((run) => run.runId),
      [runId],
    );
    stream.close();
  });

  test('a signed webhook accepts messages signed by the standardwebhooks package, once', async () => {
    const hook = only(
      await push(gateway, 'signed', {
        ...NOTES,
        automations: {
          hook: {
            triggers: [{ ...PENDING[0], signing: true }],
            run: `async ({ ctx, input }) => { if (input.fail) throw new Error('no'); ${note('signed', 'input.text')} if (input.wait) await new Promise(() => {}); }`,
          },
        },
      }),
    );
    const signed = (id: string, value: unknown, { at = new Date(), body = JSON.stringify(value) } = {}) => {
      const headers = {
        'webhook-id': id,
        'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
        'webhook-signature': new Webhook(hook.secret).sign(id, at, JSON.stringify(value)),
      };
      return post(gateway, hook, body, { token: null, headers });
    };
    assert.equal((await signed('m1', { text: 'one' })).status, 200);
    refused(await signed('m1', { text: 'one' }), 409, 'CONFLICT');
    refused(await signed('m2', { text: 'two' }, { body: '{"text":"other"}' }), 401, 'UNAUTHORIZED');
    refused(
      await signed('m2', { text: 'two' }, { at: new Date(Date.now() - LIMITS.webhookToleranceMs - 5000) }),
      401,
      'UNAUTHORIZED',
    );
    refused(await post(gateway, hook, { text: 'x' }), 401, 'UNAUTHORIZED');
    refused(await signed('m3', { fail: true }), 500, 'HANDLER_ERROR');
    refused(await signed('m3', { fail: true }), 500, 'HANDLER_ERROR');
    const waiting = signed('m4', { text: 'four', wait: true });
    await noted(gateway, 'signed', 'four');
    const [{ runId } = { runId: '' }] = await runsOf(gateway, 'signed/hook');
    assert.equal((await gateway.call('POST', `/svc/_runs/${runId}/cancel`)).json.state, 'aborted');
    refused(await waiting, 500, 'RUN_ABORTED');
    assert.equal((await signed('m4', { text: 'again' })).status, 200, 'a cancelled message may be sent again');
    refused(await signed('m4', { text: 'again' }), 409, 'CONFLICT');
    await gateway.kill();
    await gateway.start();
    refused(await signed('m1', { text: 'one' }), 409, 'CONFLICT');
    assert.equal((await signed('m2', { text: 'two' })).status, 200);
    assert.deepEqual(await notesOf(gateway, 'signed'), ['one', 'four', 'again', 'two']);
  });
});
