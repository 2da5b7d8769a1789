/** Chat windows over HTTP, with a host's own runner (specification, "Chat windows" and "Turns"). */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { LIMITS } from '../protocol/limits.ts';
import { rotateToken } from '../storage/token.ts';
import { buildGateway, type GatewayOptions } from '../supervisor/gateway.ts';
import { appOf } from '../testing/apps.ts';
import { historyOf, replay, say, send, textOf, turnIdOf, turnOf, typesOf, until } from '../testing/chat.ts';
import { eventually } from '../testing/edges.ts';
import { TestGateway } from '../testing/gateway.ts';
import { consoleHost, enter, signIn } from '../testing/origins.ts';
import { nodesOf } from '../testing/runs.ts';
import { type ScriptedRunner, scriptedRunner } from '../testing/scripted-runner.ts';
import { inTime } from '../testing/waiting.ts';

const NOTES = appOf('notes', { queries: { list: '() => []' } });

type Hosted = { gateway: TestGateway; runner: ScriptedRunner; stop(): Promise<void> };

/** A gateway in this process whose agents are scripted, with the app `notes`; again on the same data after `stop`. */
async function host(dataDir: string, options: Partial<GatewayOptions> = {}): Promise<Hosted> {
  const runner = scriptedRunner();
  const built = buildGateway({ dataDir, log: 'silent', edge: 'node', conversationRunner: runner, ...options });
  const server = createServer((request, response) => {
    if (!built.handle(request, response)) response.writeHead(404).end();
  });
  await built.start();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const gateway = new TestGateway(dataDir, []);
  gateway.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  gateway.token = built.token ?? '';
  const stop = async () => {
    await built.stop(0);
    server.closeAllConnections();
    server.close();
  };
  const upload = await gateway.upload('notes', NOTES);
  assert.ok(upload.status < 300, upload.text);
  return { gateway, runner, stop };
}

function folderOf(t: { after(cleanup: () => unknown): void }): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-chat-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, 'data');
}

async function hosted(t: TestContext, options: Partial<GatewayOptions> = {}): Promise<Hosted> {
  const one = await host(folderOf(t), options);
  t.after(one.stop);
  return one;
}

const turnPath = (window: string, turnId: string): string => `/svc/notes/_chat/windows/${window}/turns/${turnId}`;

async function stateOf(gateway: TestGateway, window: string, turnId: string): Promise<string> {
  const rows = await historyOf(gateway, 'notes', window);
  return rows.find((row) => row.kind === 'user' && row.turnId === turnId)?.state;
}

describe('windows', () => {
  let one: Hosted;
  let gateway: TestGateway;
  let folder: string;
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'svc-chat-'));
    one = await host(join(folder, 'data'));
    gateway = one.gateway;
  });
  after(async () => {
    await one.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test('a message is answered with the events of its turn, numbered, and kept', async () => {
    const events = await say(gateway, 'notes', 'answered', 'think:hm say:Hello tool:list usage say:there session:s1');
    assert.deepEqual(typesOf(events), [
      'assistant.start',
      'reasoning.delta',
      'assistant.delta',
      'tool.start',
      'tool.result',
      'usage',
      'assistant.delta',
      'final',
      'end',
    ]);
    assert.deepEqual(
      events.map(({ id }) => id),
      events.map((_event, i) => i + 1),
    );
    const [start] = events;
    assert.equal(start?.runner, 'host');
    assert.equal(events.at(-2)?.text, 'Hellothere');
    const turnId: string = start?.turnId;
    assert.deepEqual(await replay(gateway, 'notes', 'answered', turnId), events);
    assert.deepEqual(await replay(gateway, 'notes', 'answered', turnId, 5), events.slice(5));
    const asked = one.runner.turns.find(({ windowId }) => windowId === 'answered');
    assert.deepEqual(
      [asked?.app, asked?.windowId, asked?.conversation, asked?.mode, asked?.resume, asked?.history],
      ['notes', 'answered', 'svc-chat:notes:wanswered', 'data', null, []],
    );
    assert.deepEqual(
      (await historyOf(gateway, 'notes', 'answered')).map(({ seq, kind, text, toolName, state, ok }) => [
        seq,
        kind,
        text ?? toolName,
        state ?? ok,
      ]),
      [
        [1, 'user', 'think:hm say:Hello tool:list usage say:there session:s1', 'ok'],
        [2, 'assistant', 'Hello', undefined],
        [3, 'tool', 'list', true],
        [4, 'assistant', 'there', undefined],
      ],
    );
    const windows = (await gateway.call('GET', '/svc/notes/_chat/windows')).json;
    const window = windows.find(({ windowId }: { windowId: string }) => windowId === 'answered');
    const { createdAt, updatedAt, title, ...rest } = window;
    assert.deepEqual(rest, {
      windowId: 'answered',
      mode: 'data',
      turns: 1,
      adapter: 'host',
      lastTurn: { turnId, state: 'ok' },
    });
    assert.equal(title, 'think:hm say:Hello tool:list usage say:there session:s1');
    assert.ok(createdAt <= updatedAt);
    const second = await say(gateway, 'notes', 'answered', 'resume');
    assert.equal(textOf(second), 's1');
  });

  test('an invalid message is refused before anything is stored', async () => {
    const message = 'say:x';
    const cases: [body: unknown, status: number, code: string, path?: string][] = [
      ['[]', 400, 'BAD_REQUEST'],
      ['{', 400, 'BAD_REQUEST'],
      [{ message }, 400, 'BAD_REQUEST', 'windowId'],
      [{ windowId: '../x', message }, 400, 'BAD_REQUEST', 'windowId'],
      [{ windowId: '-a', message }, 400, 'BAD_REQUEST', 'windowId'],
      [{ windowId: 'x'.repeat(65), message }, 400, 'BAD_REQUEST', 'windowId'],
      [{ windowId: 'refused' }, 400, 'BAD_REQUEST', 'message'],
      [{ windowId: 'refused', message: '  ' }, 400, 'BAD_REQUEST', 'message'],
      [{ windowId: 'refused', message: 7 }, 400, 'BAD_REQUEST', 'message'],
      [
        { windowId: 'refused', message: 'é'.repeat(LIMITS.chatMessageBytes / 2 + 1) },
        413,
        'PAYLOAD_TOO_LARGE',
        'message',
      ],
      [{ windowId: 'refused', message, mode: 'all' }, 400, 'BAD_REQUEST', 'mode'],
      [{ windowId: 'refused', message, mode: 'full' }, 409, 'MODE_UNAVAILABLE', 'mode'],
      [{ windowId: 'refused', message, runner: 'codex' }, 400, 'BAD_REQUEST', 'runner'],
      [{ windowId: 'refused', message, model: 7 }, 400, 'BAD_REQUEST', 'model'],
      [{ windowId: 'refused', message, thinking: 'wildly' }, 400, 'BAD_REQUEST', 'thinking'],
      [{ windowId: 'refused', message, thinking: ['high'] }, 400, 'BAD_REQUEST', 'thinking'],
      [{ windowId: 'refused', message, detach: 'yes' }, 400, 'BAD_REQUEST', 'detach'],
      [{ windowId: 'refused', message, idempotencyKey: '' }, 400, 'BAD_REQUEST', 'idempotencyKey'],
    ];
    for (const [body, status, code, path] of cases) {
      const answer = await gateway.call('POST', '/svc/notes/_chat', { body });
      assert.equal(answer.status, status, JSON.stringify(body).slice(0, 80));
      assert.deepEqual(
        [answer.json.error.code, answer.json.error.path],
        [code, path],
        JSON.stringify(body).slice(0, 80),
      );
    }
    const windows = (await gateway.call('GET', '/svc/notes/_chat/windows')).json as { windowId: string }[];
    assert.ok(!windows.some(({ windowId }) => windowId === 'refused'));
    assert.equal(one.runner.turns.filter(({ windowId }) => windowId === 'refused').length, 0);
    const largest = 'x'.repeat(LIMITS.chatMessageBytes);
    assert.equal((await say(gateway, 'notes', 'large', largest)).at(-1)?.type, 'end');
  });

  test('unknown windows and turns are reported as such', async () => {
    await say(gateway, 'notes', 'known', 'say:x');
    const cases: [method: string, path: string, status: number, code: string][] = [
      ['POST', '/svc/nobody/_chat', 404, 'UNKNOWN_APP'],
      ['GET', '/svc/nobody/_chat/windows', 404, 'UNKNOWN_APP'],
      ['GET', '/svc/_nobody/_chat/windows', 400, 'RESERVED_ID'],
      ['GET', '/svc/notes/_chat/windows/none/history', 404, 'UNKNOWN_WINDOW'],
      ['GET', '/svc/notes/_chat/windows/..%2f..%2fdata/history', 404, 'UNKNOWN_WINDOW'],
      ['DELETE', '/svc/notes/_chat/windows/none', 404, 'UNKNOWN_WINDOW'],
      ['GET', `${turnPath('none', 'x')}/events`, 404, 'UNKNOWN_WINDOW'],
      ['GET', `${turnPath('known', 'x')}/events`, 404, 'UNKNOWN_TURN'],
      ['DELETE', turnPath('known', 'x'), 404, 'UNKNOWN_TURN'],
      ['POST', `${turnPath('known', 'x')}/permissions/q`, 404, 'UNKNOWN_TURN'],
      ['GET', '/svc/notes/_chat/windows?limit=0', 400, 'BAD_REQUEST'],
      ['GET', '/svc/notes/_chat/windows?before=none', 400, 'BAD_REQUEST'],
      ['GET', '/svc/notes/_chat/windows/known/history?before=x', 400, 'BAD_REQUEST'],
      ['PUT', '/svc/notes/_chat', 405, 'METHOD_NOT_ALLOWED'],
      ['POST', '/svc/_draft/s1/notes/_chat', 409, 'NO_GIT_STORE'],
    ];
    for (const [method, path, status, code] of cases) {
      const body = { windowId: 'w', message: 'x', optionId: 'yes' };
      const answer = await gateway.call(method, path, method === 'POST' ? { body } : {});
      assert.deepEqual([answer.status, answer.json.error?.code], [status, code], `${method} ${path}: ${answer.text}`);
    }
    const bad = gateway.stream(`${turnPath('known', 'x')}/events`, { 'last-event-id': 'five' });
    await assert.rejects(bad, /BAD_REQUEST/);
  });

  test('lists are read in pages', async () => {
    for (const id of ['page1', 'page2', 'page3']) await say(gateway, 'notes', id, 'say:a tool:b say:c');
    const ids = async (query: string): Promise<string[]> => {
      const answer = await gateway.call('GET', `/svc/notes/_chat/windows${query}`);
      return answer.json.map(({ windowId }: { windowId: string }) => windowId);
    };
    assert.deepEqual(await ids('?limit=2'), ['page3', 'page2']);
    assert.equal((await ids('?before=page2'))[0], 'page1');
    const rows = async (query: string): Promise<number[]> => {
      const answer = await gateway.call('GET', `/svc/notes/_chat/windows/page1/history${query}`);
      return answer.json.map(({ seq }: { seq: number }) => seq);
    };
    assert.deepEqual(await rows(''), [1, 2, 3, 4]);
    assert.deepEqual(await rows('?limit=2'), [3, 4]);
    assert.deepEqual(await rows('?limit=2&before=3'), [1, 2]);
    assert.deepEqual(await rows('?before=1'), []);
  });

  test('the contract holds for any behaviour of a runner', async () => {
    const cases: [message: string, types: string, state: string][] = [
      [
        'say:a garbage say:b',
        'assistant.start assistant.delta tool.start tool.result usage assistant.delta final end',
        'ok',
      ],
      ['say:a throw', 'assistant.start assistant.delta error end', 'error'],
      ['open:t throw', 'assistant.start tool.start tool.result error end', 'error'],
      ['open:t say:a', 'assistant.start tool.start assistant.delta tool.result final end', 'ok'],
      ['error:no say:never', 'assistant.start error end', 'error'],
      ['final:one final:two say:x', 'assistant.start assistant.delta final end', 'ok'],
      ['end say:never', 'assistant.start final end', 'ok'],
      ['nothing', 'assistant.start final end', 'ok'],
    ];
    for (const [i, [message, types, state]] of cases.entries()) {
      const events = await say(gateway, 'notes', `contract${i}`, message);
      assert.equal(typesOf(events).join(' '), types, message);
      assert.deepEqual(
        events.map(({ id }) => id),
        events.map((_event, n) => n + 1),
        message,
      );
      assert.equal(await stateOf(gateway, `contract${i}`, events[0]?.turnId), state, message);
      assert.deepEqual(await replay(gateway, 'notes', `contract${i}`, events[0]?.turnId), events, message);
    }
    const thrown = await say(gateway, 'notes', 'thrown', 'throw');
    assert.deepEqual([thrown[1]?.code, thrown[1]?.message], ['AGENT_FAILED', 'The agent failed: the runner is tired.']);
  });

  test('two messages in one window: the second waits, and its agent knows the first', async () => {
    const first = await send(gateway, 'notes', { windowId: 'two', message: 'say:one ask' });
    await until(first, 'permission');
    const second = await send(gateway, 'notes', { windowId: 'two', message: 'history' });
    const begun = await until(second, 'phase');
    assert.deepEqual(typesOf(begun), ['assistant.start', 'phase']);
    assert.equal(begun[1]?.phase, 'queued');
    assert.equal(one.runner.turns.filter(({ windowId }) => windowId === 'two').length, 1);
    const [{ turnId }] = (await historyOf(gateway, 'notes', 'two')) as [{ turnId: string }];
    const answer = { body: { optionId: 'yes' } };
    assert.equal((await gateway.call('POST', `${turnPath('two', turnId)}/permissions/q1`, answer)).status, 200);
    await turnOf(first);
    assert.deepEqual(JSON.parse(textOf(await turnOf(second))), [
      { role: 'user', text: 'say:one ask' },
      { role: 'assistant', text: 'oneanswered yes' },
    ]);
  });

  test('a folder in place of a transcript is an error with a clear message, until its window is deleted', async () => {
    await say(gateway, 'notes', 'whole', 'say:1');
    mkdirSync(join(gateway.dataDir, 'apps/notes/_chat/wbroken.jsonl'));
    const body = { windowId: 'broken', message: 'say:2' };
    for (const answer of [
      await gateway.call('POST', '/svc/notes/_chat', { body }),
      await gateway.call('GET', '/svc/notes/_chat/windows/broken/history'),
    ]) {
      assert.deepEqual([answer.status, answer.json.isError, answer.json.error.code], [500, true, 'WINDOW_DAMAGED']);
      assert.match(answer.json.error.message, /folder is in its place. Delete the window/);
    }
    const { json: listed } = await gateway.call('GET', '/svc/notes/_chat/windows');
    assert.ok(listed.some(({ windowId }: { windowId: string }) => windowId === 'whole'));
    assert.equal(textOf(await say(gateway, 'notes', 'whole', 'say:3')), '3');
    const deleted = await gateway.call('DELETE', '/svc/notes/_chat/windows/broken');
    assert.deepEqual(deleted.json, { windowId: 'broken', deleted: true });
    assert.equal(textOf(await say(gateway, 'notes', 'broken', 'say:4')), '4');
    const rows = await historyOf(gateway, 'notes', 'broken');
    assert.deepEqual(
      rows.map(({ text }) => text),
      ['say:4', '4'],
    );
  });

  test('nine messages in one window, and no tenth', async () => {
    const running = await send(gateway, 'notes', { windowId: 'nine', message: 'hang' });
    const start = await until(running, 'assistant.start');
    const waiting = [];
    for (let i = 0; i < LIMITS.chatQueue; i++) {
      waiting.push(await send(gateway, 'notes', { windowId: 'nine', message: `say:${i}` }));
    }
    const tenth = await gateway.call('POST', '/svc/notes/_chat', { body: { windowId: 'nine', message: 'say:x' } });
    assert.deepEqual([tenth.status, tenth.json.error.code], [503, 'OVERLOADED']);
    assert.ok(tenth.headers['retry-after']);
    // One that waits is aborted without having begun.
    const [aborted] = waiting.splice(3, 1);
    assert.ok(aborted);
    const turnId = turnIdOf(await until(aborted, 'phase'));
    const answer = await gateway.call('DELETE', turnPath('nine', turnId));
    assert.deepEqual(answer.json, { turnId, state: 'aborted' });
    assert.deepEqual(typesOf(await turnOf(aborted)), ['aborted', 'end']);
    await gateway.call('DELETE', turnPath('nine', start[0]?.turnId));
    assert.deepEqual(typesOf(await turnOf(running)), ['aborted', 'end']);
    assert.deepEqual(await Promise.all(waiting.map(async (stream) => textOf(await turnOf(stream)))), [
      '0',
      '1',
      '2',
      '4',
      '5',
      '6',
      '7',
    ]);
  });

  test('twenty windows at once', async () => {
    const ids = Array.from({ length: 20 }, (_, i) => `many${i}`);
    const turns = await Promise.all(ids.map((id) => say(gateway, 'notes', id, `say:${id}: count:200 tool:t slow:20`)));
    const counted = (n: number): string => Array.from({ length: n }, (_, i) => `${i} `).join('');
    for (const [i, events] of turns.entries()) {
      assert.equal(textOf(events), `many${i}:${counted(200)}${counted(20)}`);
      assert.deepEqual(
        events.map(({ id }) => id),
        events.map((_event, n) => n + 1),
      );
    }
    const replayed = await Promise.all(
      turns.map((events, i) => replay(gateway, 'notes', `many${i}`, events[0]?.turnId, 5)),
    );
    for (const [i, events] of replayed.entries()) assert.deepEqual(events, turns[i]?.slice(5));
  });

  test('a client that disconnects aborts its turn, and the conversation stays', async () => {
    const stream = await send(gateway, 'notes', { windowId: 'gone', message: 'session:s9 say:partly hang' });
    const turnId = turnIdOf(await until(stream, 'assistant.delta'));
    stream.close();
    await eventually(async () => (await stateOf(gateway, 'gone', turnId)) === 'aborted');
    assert.ok(one.runner.turns.find(({ windowId }) => windowId === 'gone')?.signal.aborted);
    assert.deepEqual(typesOf(await replay(gateway, 'notes', 'gone', turnId)), [
      'assistant.start',
      'assistant.delta',
      'aborted',
      'end',
    ]);
    const next = await say(gateway, 'notes', 'gone', 'resume history');
    assert.match(textOf(next), /^s9.*partly/);
  });

  test('a retry keeps the turn of a client that disconnects', async () => {
    const body = { windowId: 'kept', message: 'say:a ask', idempotencyKey: 'k' };
    const first = await send(gateway, 'notes', body);
    const seen = await until(first, 'permission');
    const second = await send(gateway, 'notes', body);
    await until(second, 'permission');
    first.close();
    // Its disconnection is noticed before what comes afterwards is answered.
    for (let i = 0; i < 3; i++) await gateway.call('GET', '/svc/notes/_chat/windows');
    await gateway.call('POST', `${turnPath('kept', seen[0]?.turnId)}/permissions/q1`, { body: { optionId: 'yes' } });
    assert.deepEqual(typesOf(await turnOf(second)).slice(-2), ['final', 'end']);
  });

  test('a detached turn continues, and can be followed from any of its events', async () => {
    const stream = await send(gateway, 'notes', {
      windowId: 'detached',
      message: 'say:a say:b ask say:c',
      detach: true,
    });
    const seen = await until(stream, 'permission');
    stream.close();
    const turnId: string = seen[0]?.turnId;
    const follower = await gateway.stream(`${turnPath('detached', turnId)}/events`, { 'last-event-id': '2' });
    const rest = await until(follower, 'permission');
    assert.deepEqual(rest, seen.slice(2));
    // A client that only reads ends nothing.
    follower.close();
    const third = await gateway.stream(`${turnPath('detached', turnId)}/events`, {
      'last-event-id': `${seen.length}`,
    });
    const refused = await gateway.call('POST', `${turnPath('detached', turnId)}/permissions/q1`, {
      body: { optionId: 'maybe' },
    });
    assert.deepEqual([refused.status, refused.json.error.path], [400, 'optionId']);
    const body = { optionId: 'no' };
    const answer = await gateway.call('POST', `${turnPath('detached', turnId)}/permissions/q1`, { body });
    assert.deepEqual(answer.json, { turnId, requestId: 'q1', optionId: 'no', ok: false });
    assert.equal((await gateway.call('POST', `${turnPath('detached', turnId)}/permissions/q1`, { body })).status, 409);
    const end = await turnOf(third);
    // Pieces that are stored together are one event.
    assert.deepEqual([...new Set(typesOf(end))], ['permission.result', 'assistant.delta', 'final', 'end']);
    assert.equal(end.map(({ delta }) => delta ?? '').join(''), 'answered noc');
    const [, , question] = await historyOf(gateway, 'notes', 'detached');
    assert.deepEqual(
      [question.kind, question.toolName, question.ok, question.permission],
      ['tool', 'shell', false, { requestId: 'q1', detail: 'rm -r build', optionId: 'no' }],
    );
  });

  test('a turn that is deleted ends once, even if its runner does not', async () => {
    const stream = await send(gateway, 'notes', { windowId: 'deaf', message: 'open:t deaf' });
    const turnId = turnIdOf(await until(stream, 'tool.start'));
    const [one, two] = await Promise.all([1, 2].map(() => gateway.call('DELETE', turnPath('deaf', turnId))));
    assert.deepEqual(
      [one?.json, two?.json],
      [
        { turnId, state: 'aborted' },
        { turnId, state: 'aborted' },
      ],
    );
    assert.deepEqual(typesOf(await turnOf(stream)), ['tool.result', 'aborted', 'end']);
    assert.deepEqual((await gateway.call('DELETE', turnPath('deaf', turnId))).json, { turnId, state: 'aborted' });
    assert.equal((await say(gateway, 'notes', 'deaf', 'say:x')).at(-2)?.text, 'x');
  });

  test('a retry gets the events of the first turn, while it runs and afterwards', async () => {
    const message = 'say:a ask say:b';
    const body = { windowId: 'retry', message, idempotencyKey: 'k1', detach: true };
    const first = await send(gateway, 'notes', body);
    const seen = await until(first, 'permission');
    const second = await send(gateway, 'notes', body);
    assert.deepEqual(await until(second, 'permission'), seen);
    const other = await gateway.call('POST', '/svc/notes/_chat', { body: { ...body, message: 'say:other' } });
    assert.deepEqual([other.status, other.json.error.code], [422, 'IDEMPOTENCY_MISMATCH']);
    await gateway.call('POST', `${turnPath('retry', seen[0]?.turnId)}/permissions/q1`, { body: { optionId: 'yes' } });
    const rest = await turnOf(first);
    assert.deepEqual(await turnOf(second), rest);
    assert.deepEqual(await turnOf(await send(gateway, 'notes', body)), [...seen, ...rest]);
    assert.equal(one.runner.turns.filter(({ windowId }) => windowId === 'retry').length, 1);
    // Of two that come at once one is the first.
    const both = await Promise.all([1, 2].map(() => say(gateway, 'notes', 'twins', 'say:x', { idempotencyKey: 'k2' })));
    assert.deepEqual(both[0], both[1]);
    assert.equal(one.runner.turns.filter(({ windowId }) => windowId === 'twins').length, 1);
  });

  test('a slow reader misses nothing, and does not slow others', async () => {
    const body = JSON.stringify({ windowId: 'slow', message: 'big:40 say:done', detach: true });
    const slow = httpRequest(`${gateway.url}/svc/notes/_chat`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.token}`, 'content-length': body.length },
    });
    slow.end(body);
    const [response] = (await inTime(once(slow, 'response'), 'the head of the answer')) as [
      import('node:http').IncomingMessage,
    ];
    response.pause();
    await eventually(async () => (await historyOf(gateway, 'notes', 'slow')).at(0)?.state === 'ok');
    const turnId: string = (await historyOf(gateway, 'notes', 'slow')).at(0).turnId;
    let text = '';
    response.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
    response.resume();
    await inTime(once(response, 'end'), 'the end of the answer');
    const ids = [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));
    assert.deepEqual(
      ids,
      ids.map((_id, i) => i + 1),
    );
    assert.equal(ids.length, 40 * 2 + 4);
    assert.equal((await replay(gateway, 'notes', 'slow', turnId)).length, ids.length);
  });

  test('a turn with too much output ends with an error', async () => {
    const events = await say(gateway, 'notes', 'toomuch', 'big:100 say:never');
    assert.deepEqual(typesOf(events).slice(-2), ['error', 'end']);
    assert.match(events.at(-2)?.message, /more than \d+ bytes in one turn/);
    const transcript = readFileSync(join(gateway.dataDir, 'apps/notes/_chat/wtoomuch.jsonl'));
    assert.ok(transcript.length < 2 * LIMITS.chatTurnBytes, `${transcript.length}`);
  });

  test('each turn is a run of kind chat, with its tools and permissions, what it cost, and an end', async () => {
    const stream = await send(gateway, 'notes', { windowId: 'runs', message: 'usage tool:list ask usage say:Done' });
    const turnId = turnIdOf(await until(stream, 'permission'));
    await eventually(async () => (await gateway.call('GET', `/svc/_runs/${turnId}`)).json.state === 'running');
    await gateway.call('POST', `${turnPath('runs', turnId)}/permissions/q1`, { body: { optionId: 'yes' } });
    await turnOf(stream);
    await eventually(async () => (await gateway.call('GET', `/svc/_runs/${turnId}`)).json.state === 'ok');
    const run = (await gateway.call('GET', `/svc/_runs/${turnId}`)).json;
    assert.deepEqual(
      [run.kind, run.ref, run.trigger, run.input.message, run.summary, run.usage.inputTokens, run.usage.costUsd],
      [
        'chat',
        'notes/_chat',
        { kind: 'chat', origin: 'runs' },
        'usage tool:list ask usage say:Done',
        'answered yesDone',
        6,
        1,
      ],
    );
    const nodes = await nodesOf(gateway, turnId);
    assert.deepEqual(
      nodes.map(({ ordinal, kind, name, args, output, ok }) => [ordinal, kind, name, args, output, ok]),
      [
        [1, 'tool', 'list', { a: 1 }, { b: 2 }, true],
        [2, 'permission', 'shell', { detail: 'rm -r build' }, { optionId: 'yes' }, true],
      ],
    );
    const listed = (await gateway.call('GET', '/svc/_runs?app=notes&limit=500')).json as { runId: string }[];
    assert.ok(listed.some(({ runId }) => runId === turnId));
    assert.deepEqual((await gateway.call('GET', '/svc/_runs?ref=notes/_chat&limit=1')).json[0].kind, 'chat');
    const insights = (await gateway.call('GET', '/svc/_insights')).json;
    const used = insights.byModel.find(({ model }: { model: string }) => model === 'stub-model');
    assert.ok(used.runs >= 1 && used.inputTokens >= 6, JSON.stringify(used));
    const recent = insights.recent.find((one: { runId: string }) => one.runId === turnId);
    assert.deepEqual([recent?.kind, recent?.state, recent?.usage.costUsd], ['chat', 'ok', 1]);
    assert.ok(insights.byAutomation.some(({ ref }: { ref: string }) => ref === 'notes/_chat'));
  });

  test("the answers of a runner's policy are in the transcript and in the nodes of the run", async () => {
    const events = await say(gateway, 'notes', 'policy', 'decided:yes decided:no say:on');
    assert.equal(
      typesOf(events).join(' '),
      'assistant.start permission permission.result permission permission.result assistant.delta final end',
    );
    const turnId = events[0]?.turnId;
    assert.deepEqual(await replay(gateway, 'notes', 'policy', turnId), events);
    const rows = (await historyOf(gateway, 'notes', 'policy')) as { kind: string; ok?: boolean; permission?: object }[];
    assert.deepEqual(
      rows.filter(({ kind }) => kind === 'tool').map(({ ok, permission }) => [ok, permission]),
      [
        [true, { requestId: 'decided-yes', detail: 'rm -r build', optionId: 'yes' }],
        [false, { requestId: 'decided-no', detail: 'rm -r build', optionId: 'no' }],
      ],
    );
    await eventually(async () => (await gateway.call('GET', `/svc/_runs/${turnId}`)).json.state === 'ok');
    assert.deepEqual(
      (await nodesOf(gateway, turnId)).map(({ kind, name, output, ok }) => [kind, name, output, ok]),
      [
        ['permission', 'shell', { optionId: 'yes' }, true],
        ['permission', 'shell', { optionId: 'no' }, false],
      ],
    );
  });

  test('a run of a chat is cancelled as any other', async () => {
    const stream = await send(gateway, 'notes', { windowId: 'cancel', message: 'say:x hang' });
    const turnId = turnIdOf(await until(stream, 'assistant.delta'));
    const followed = await gateway.stream(`/svc/_runs/${turnId}/events`);
    const cancelled = await gateway.call('POST', `/svc/_runs/${turnId}/cancel`);
    assert.deepEqual([cancelled.status, cancelled.json.state], [200, 'aborted'], cancelled.text);
    assert.deepEqual(typesOf(await turnOf(stream)), ['aborted', 'end']);
    const last = [];
    for (;;) {
      const { event, data } = await followed.next();
      last.push(event);
      if (event === 'run.end') {
        assert.equal(JSON.parse(data).run.state, 'aborted');
        break;
      }
    }
    assert.equal(last[0], 'run.start');
  });

  test('a deleted window is gone with its turns', async () => {
    const stream = await send(gateway, 'notes', { windowId: 'deleted', message: 'say:x hang' });
    await until(stream, 'assistant.delta');
    const waiting = await send(gateway, 'notes', { windowId: 'deleted', message: 'say:y' });
    const answer = await gateway.call('DELETE', '/svc/notes/_chat/windows/deleted');
    assert.deepEqual(answer.json, { windowId: 'deleted', deleted: true });
    await Promise.all([stream.ended(), waiting.ended()]);
    assert.equal((await gateway.call('GET', '/svc/notes/_chat/windows/deleted/history')).status, 404);
    assert.equal((await say(gateway, 'notes', 'deleted', 'history')).at(-2)?.text, '[]');
  });

  test('transcripts are never files of the app', async () => {
    await say(gateway, 'notes', 'served', 'say:x');
    for (const path of ['_chat/wserved.jsonl', '_chat/index.json', '_chat/', '_chat', '%5fchat/index.json']) {
      assert.ok((await gateway.call('GET', `/svc/notes/${path}`)).status >= 404, path);
    }
  });

  test('a client that has seen more events than are stored gets the end of the turn', async () => {
    const turnId = turnIdOf(await say(gateway, 'notes', 'more', 'say:x'));
    assert.deepEqual(typesOf(await replay(gateway, 'notes', 'more', turnId, 999_999_999_999_999)), ['end']);
  });

  test("an app's page may use the app's windows, a shared origin those of all, tokens for everything", async () => {
    for (const id of ['paged', 'other']) assert.equal((await gateway.upload(id, appOf(id, {}))).status, 201);
    const console = await signIn(gateway, consoleHost(gateway));
    const page = await enter(gateway, console, { app: 'paged' });
    const body = { windowId: 'w', message: 'say:x' };
    const post = { body, headers: { origin: `http://${page.host}` } };
    const answer = await page.call('POST', '/svc/paged/_chat', post);
    assert.equal(answer.status, 200, answer.text);
    assert.equal((await page.call('GET', '/svc/paged/_chat/windows')).json.length, 1);
    assert.equal((await page.call('POST', '/svc/other/_chat', post)).status, 403);
    assert.equal(
      (await page.call('POST', '/svc/paged/_chat', { ...post, body: { ...body, mode: 'full' } })).status,
      403,
    );
    const foreign = await page.call('POST', '/svc/paged/_chat', { body, headers: { 'sec-fetch-site': 'cross-site' } });
    assert.equal(foreign.status, 403);
    for (const [tools, status] of [
      ['read', 403],
      ['write', 403],
      ['all', 200],
    ] as const) {
      const made = await gateway.call('POST', '/svc/_tokens', { body: { name: tools, tools, apps: ['paged'] } });
      const { token } = made.json;
      assert.equal((await gateway.call('GET', '/svc/paged/_chat/windows', { token })).status, status, tools);
      assert.equal((await gateway.call('GET', '/svc/other/_chat/windows', { token })).status, 403, tools);
    }
    assert.equal((await gateway.call('GET', '/svc/paged/_chat/windows', { token: null })).status, 401);
    assert.equal((await gateway.call('GET', '/svc/paged/_chat/windows', { token: 'svca_0' })).status, 401);
  });

  test('a detached turn ends with the token that began it, at once', async () => {
    const begin = async (windowId: string, token: string) => {
      const body = { windowId, message: 'say:x hang', detach: true };
      const stream = await gateway.stream('/svc/notes/_chat', { authorization: `Bearer ${token}` }, body);
      const turnId = turnIdOf(await until(stream, 'assistant.delta'));
      stream.close();
      return { windowId, turnId };
    };
    const tokenFor = async () =>
      (await gateway.call('POST', '/svc/_tokens', { body: { name: 'all', tools: 'all', apps: ['notes'] } })).json;
    const [revoked, kept] = [await tokenFor(), await tokenFor()];
    const ending = await begin('revoked', revoked.token);
    const staying = await begin('kept', kept.token);
    const rotated = await begin('rotated', gateway.token);
    await gateway.call('DELETE', `/svc/_tokens/${revoked.id}`);
    const isAborted = async ({ windowId, turnId }: typeof ending) => {
      const events = await replay(gateway, 'notes', windowId, turnId);
      assert.deepEqual(typesOf(events).slice(-2), ['aborted', 'end'], windowId);
    };
    await isAborted(ending);
    gateway.token = await rotateToken(join(gateway.dataDir, 'token.bin'));
    await eventually(async () => (await gateway.call('GET', '/svc/_apps')).status === 200);
    await isAborted(rotated);
    assert.equal(await stateOf(gateway, 'kept', staying.turnId), 'running');
    await gateway.call('DELETE', turnPath('kept', staying.turnId));
  });

  test('an app that is restored from the trash has its windows, and what runs when it is removed', async () => {
    assert.equal((await gateway.upload('restored', appOf('restored', {}))).status, 201);
    await say(gateway, 'restored', 'w', 'session:s2 tool:list say:one', { idempotencyKey: 'k' });
    const stream = await send(gateway, 'restored', { windowId: 'w', message: 'say:cut hang' });
    await until(stream, 'assistant.delta');
    assert.equal((await gateway.call('DELETE', '/svc/_apps/restored')).status, 200);
    await stream.ended();
    const [{ id }] = (await gateway.call('GET', '/svc/_trash')).json;
    assert.equal((await gateway.call('POST', `/svc/_trash/${id}/restore`)).status, 200);
    const rows = await historyOf(gateway, 'restored', 'w');
    assert.deepEqual(
      rows.map(({ seq, kind, text, toolName, state, ok }) => [seq, kind, text ?? toolName, state ?? ok]),
      [
        [1, 'user', 'session:s2 tool:list say:one', 'ok'],
        [2, 'tool', 'list', true],
        [3, 'assistant', 'one', undefined],
        [4, 'user', 'say:cut hang', 'aborted'],
        [5, 'assistant', 'cut', undefined],
      ],
    );
    assert.equal(textOf(await say(gateway, 'restored', 'w', 'resume')), 's2');
    assert.equal((await gateway.call('DELETE', '/svc/_apps/restored')).status, 200);
  });

  test('removing an app removes its windows', async () => {
    const stream = await send(gateway, 'notes', { windowId: 'w', message: 'say:secret hang' });
    await until(stream, 'assistant.delta');
    const removed = await gateway.call('DELETE', '/svc/_apps/notes');
    assert.equal(removed.status, 200, removed.text);
    await stream.ended();
    assert.equal((await gateway.call('GET', '/svc/notes/_chat/windows')).status, 404);
    assert.equal((await gateway.upload('notes', NOTES)).status, 201);
    assert.deepEqual((await gateway.call('GET', '/svc/notes/_chat/windows')).json, []);
  });
});

test("an app's page talks with agents, but cannot grant permissions or use windows in mode full", async (t) => {
  const { gateway } = await hosted(t, { appsStoreRoot: 'code-store' });
  const page = await enter(gateway, await signIn(gateway, consoleHost(gateway)), { app: 'notes' });
  const headers = { origin: `http://${page.host}` };
  const stream = await send(gateway, 'notes', { windowId: 'data', message: 'ask' });
  const asked = turnPath('data', turnIdOf(await until(stream, 'permission')));
  const yes = { body: { optionId: 'yes' }, headers };
  assert.equal((await page.call('POST', `${asked}/permissions/q1`, yes)).status, 403);
  assert.equal((await gateway.call('POST', `${asked}/permissions/q1`, { body: yes.body })).status, 200);
  await turnOf(stream);
  assert.equal((await page.call('GET', '/svc/notes/_chat/windows/data/history')).status, 200);

  const body = { windowId: 'full', message: 'say:x', idempotencyKey: 'k' };
  const turn = turnPath('full', turnIdOf(await turnOf(await send(gateway, 'notes', { ...body, mode: 'full' }))));
  for (const [method, path] of [
    ['GET', '/svc/notes/_chat/windows/full/history'],
    ['GET', `${turn}/events`],
    ['DELETE', turn],
    ['DELETE', '/svc/notes/_chat/windows/full'],
  ] as const)
    assert.equal((await page.call(method, path, { headers })).status, 403, `${method} ${path}`);
  for (const more of [{}, { mode: 'data' }])
    assert.equal((await page.call('POST', '/svc/notes/_chat', { body: { ...body, ...more }, headers })).status, 403);
  const listed = await page.call('GET', '/svc/notes/_chat/windows');
  assert.deepEqual(
    listed.json.map(({ windowId }: { windowId: string }) => windowId),
    ['data'],
  );
  assert.equal((await gateway.call('GET', '/svc/notes/_chat/windows')).json.length, 2);
  assert.ok((await gateway.call('GET', '/svc/_sessions')).json.length === 1, 'the draft is there');
});

test('a shared origin chats in mode data', async (t) => {
  const { gateway } = await hosted(t, { pageOrigins: 'shared' });
  const shared = await signIn(gateway, new URL(gateway.url).host);
  const body = { windowId: 'w', message: 'say:x' };
  const headers = { origin: gateway.url };
  assert.equal((await shared.call('POST', '/svc/notes/_chat', { body, headers })).status, 200);
  const full = await shared.call('POST', '/svc/notes/_chat', { body: { ...body, mode: 'full' }, headers });
  assert.equal(full.json.error.code, 'FORBIDDEN');
});

test('a stop is reported to followers, and the next gateway continues', async (t) => {
  const dataDir = folderOf(t);
  const first = await host(dataDir);
  const one = await send(first.gateway, 'notes', {
    windowId: 'w',
    message: 'session:s1 say:partly hang',
    idempotencyKey: 'k',
  });
  const seen = await until(one, 'assistant.delta');
  const two = await send(first.gateway, 'notes', { windowId: 'w', message: 'say:waits' });
  await until(two, 'phase');
  const [, rest, waited] = await Promise.all([first.stop(), turnOf(one), turnOf(two)]);
  assert.deepEqual(typesOf(rest), ['error', 'end']);
  assert.deepEqual(typesOf(waited), ['error', 'end']);
  assert.equal(rest[0]?.code, 'RUN_ABORTED');
  const { gateway, runner, stop } = await host(dataDir);
  t.after(stop);
  const rows = await historyOf(gateway, 'notes', 'w');
  assert.deepEqual(
    rows.map(({ kind, text, state }) => [kind, text, state]),
    [
      ['user', 'session:s1 say:partly hang', 'interrupted'],
      ['assistant', 'partly', undefined],
      ['user', 'say:waits', 'interrupted'],
    ],
  );
  // A retry is no second turn.
  const retried = await say(gateway, 'notes', 'w', 'session:s1 say:partly hang', { idempotencyKey: 'k' });
  assert.deepEqual(retried, [...seen, ...rest]);
  assert.equal(runner.turns.length, 0);
  const next = await say(gateway, 'notes', 'w', 'resume history');
  assert.match(textOf(next), /^s1.*partly/);
  const run = (await gateway.call('GET', `/svc/_runs/${seen[0]?.turnId}`)).json;
  assert.equal(run.state, 'interrupted');
});

test('a directory of a release that kept windows in files alone is read', async (t) => {
  const dataDir = folderOf(t);
  const first = await host(dataDir);
  await first.stop();
  const chatDir = join(dataDir, 'apps/notes/_chat');
  mkdirSync(chatDir);
  const turnId = '018bcfe5-6800-7000-8000-000000000001';
  const lines = [
    `{"kind":"user","turnId":"${turnId}","message":"Hello","mode":"data","runner":"host","ts":1700000000010}`,
    `{"kind":"events","turnId":"${turnId}","ts":1700000000010,"id":1,"events":[{"type":"assistant.start","turnId":"${turnId}","runner":"host"},{"type":"assistant.delta","deltas":["Hi"]}]}`,
    '{"kind":"events","turnId":"018bcfe5',
  ];
  writeFileSync(join(chatDir, 'wold.jsonl'), lines.join('\n'));
  const { gateway, stop } = await host(dataDir);
  t.after(stop);
  const [window] = (await gateway.call('GET', '/svc/notes/_chat/windows')).json;
  assert.deepEqual([window.windowId, window.lastTurn], ['old', { turnId, state: 'interrupted' }]);
  const events = await replay(gateway, 'notes', 'old', turnId);
  assert.deepEqual(typesOf(events), ['assistant.start', 'assistant.delta', 'error', 'end']);
  assert.match(textOf(await say(gateway, 'notes', 'old', 'history')), /Hello.*Hi/);
  assert.equal((await historyOf(gateway, 'notes', 'old')).length, 4);
});

test('without a runner a message is refused with what to do', async (t) => {
  const dataDir = folderOf(t);
  const path = process.env.PATH;
  process.env.PATH = '';
  t.after(() => {
    process.env.PATH = path;
  });
  const built = buildGateway({ dataDir, log: 'silent', edge: 'node' });
  const server = createServer((request, response) => void built.handle(request, response));
  await built.start();
  t.after(async () => {
    await built.stop(0);
    server.close();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const gateway = new TestGateway(dataDir, []);
  gateway.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  gateway.token = built.token ?? '';
  await gateway.upload('notes', NOTES);
  const answer = await gateway.call('POST', '/svc/notes/_chat', { body: { windowId: 'w', message: 'x' } });
  assert.deepEqual([answer.status, answer.json.error.code], [503, 'NO_RUNNER'], answer.text);
  assert.deepEqual((await gateway.call('GET', '/svc/notes/_chat/windows')).json, []);
});
