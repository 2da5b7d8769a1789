/** Conversations in which an agent edits the draft of an app, with a host's own runner (specification, "Conversations"). */
import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { LIMITS } from '../protocol/limits.ts';
import type { ConversationTurn } from '../supervisor/extension-points.ts';
import { buildGateway } from '../supervisor/gateway.ts';
import { appOf, automation } from '../testing/apps.ts';
import { tarball } from '../testing/archive.ts';
import { type TurnEventSeen, textOf, turnOf, typesOf, until } from '../testing/chat.ts';
import { type Answer, type Stream, TestGateway } from '../testing/gateway.ts';

const NOTES = appOf('notes', {
  queries: { list: "({ db }) => db.all('SELECT text FROM notes')" },
  migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL);'],
  files: { 'index.html': '<!doctype html><title>Notes</title><p>one</p>' },
});
const LIST = '/_svc-conversations/apps/notes/sessions';
const BLOBS = '/_svc-conversations/apps/notes/blobs';
const PNG = Buffer.from('89504e470d0a1a0a', 'hex');

type Hosted = {
  gateway: TestGateway;
  turns: ConversationTurn[];
  restart(): Promise<void>;
  folder(sid: string): string;
};

/** An agent that does not stop at once says that it has heard of the abort, and waits until it is released. */
const lingering = new EventEmitter();

/**
 * A gateway in this process whose agent does the lines of a message: `say`, `edit <path> <text>`, `remove <path>`, `hang`, `fail`,
 * and `linger` until it is released after an abort.
 */
async function host(store: 'git' | 'tarball'): Promise<Hosted & { end(): Promise<void> }> {
  const dir = mkdtempSync(join(tmpdir(), 'svc-turn-'));
  const dataDir = join(dir, 'data');
  const gateway = new TestGateway(dataDir, []);
  const turns: ConversationTurn[] = [];
  const folder = (sid: string) => join(dataDir, 'code-store/worktrees/sessions', sid, 'apps/notes');
  const runner = (turn: ConversationTurn) => {
    turns.push(turn);
    return scripted(turn, folder(turn.draft ?? ''), turns.length);
  };
  let stop = async (): Promise<void> => {};
  const start = async () => {
    const config = store === 'git' ? { appsStoreRoot: 'code-store' } : {};
    const built = buildGateway({ dataDir, log: 'silent', edge: 'node', conversationRunner: runner, ...config });
    const server = createServer((request, response) => {
      if (!built.handle(request, response)) response.writeHead(404).end();
    });
    stop = async () => {
      await built.stop(0);
      server.closeAllConnections();
      server.close();
    };
    await built.start();
    await once(server.listen(0, '127.0.0.1'), 'listening');
    gateway.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    gateway.token = built.token ?? '';
  };
  const restart = async () => {
    await stop();
    await start();
  };
  const end = async () => {
    await stop();
    rmSync(dir, { recursive: true, force: true });
  };
  await start();
  return { gateway, turns, restart, folder, end };
}

let shared: Awaited<ReturnType<typeof host>>;
before(async () => {
  shared = await host('git');
});
after(() => shared.end());

async function install({ gateway }: Hosted): Promise<void> {
  const upload = await gateway.upload('notes', NOTES);
  assert.equal(upload.status, 201, upload.text);
}

/**
 * The gateway of this file with the app `notes`, which is removed after the test with its conversations, and no turns
 * so far.
 */
async function hosted(t: TestContext): Promise<Hosted> {
  await install(shared);
  shared.turns.length = 0;
  t.after(() => shared.gateway.call('DELETE', '/svc/_apps/notes'));
  return shared;
}

async function* scripted({ message, signal }: ConversationTurn, folder: string, count: number) {
  yield { type: 'session', id: `session-${count}` };
  for (const line of message.split('\n')) {
    const [, verb, rest = ''] = /^(\w+) ?(.*)$/.exec(line) ?? [];
    const [, name = '', text = ''] = /^(\S+) ?(.*)$/.exec(rest) ?? [];
    if (verb === 'say') yield { type: 'assistant.delta', delta: rest };
    if (verb === 'edit') {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), text);
    }
    if (verb === 'remove') rmSync(join(folder, name));
    if (verb === 'fail') throw new Error(rest);
    if ((verb === 'hang' || verb === 'linger') && !signal.aborted) await once(signal, 'abort');
    if (verb === 'linger') {
      const released = once(lingering, 'released');
      lingering.emit('heard');
      await released;
    }
  }
}

function send(gateway: TestGateway, body: Record<string, unknown>): Promise<Stream> {
  return gateway.stream('/svc/notes/_turn', {}, { conversationId: 'c1', ...body });
}

async function say(gateway: TestGateway, message: string, more: object = {}): Promise<TurnEventSeen[]> {
  return turnOf(await send(gateway, { message, ...more }));
}

/** `<status> <path>` of each file event, sorted: files that change together are told in any order. */
function filesOf(events: TurnEventSeen[]): string[] {
  return events.flatMap(({ type, status, path }) => (type === 'file' ? [`${status} ${path}`] : [])).sort();
}

function codeOf({ status, json }: Answer): [number, string, string?] {
  const { code, path } = json.error;
  return path === undefined ? [status, code] : [status, code, path];
}

function refused(gateway: TestGateway, body: object): Promise<Answer> {
  return gateway.call('POST', '/svc/notes/_turn', { body });
}

test('a turn works in the draft of its conversation, says which files it changed, and does not change the live app', async (t) => {
  const { gateway, turns, folder } = await hosted(t);
  const events = await say(gateway, 'say done\nedit index.html <p>two\nedit style.css p{}');
  const [start] = events;
  assert.deepEqual([start?.type, start?.sessionId, start?.id], ['assistant.start', 'conversation-c1', 1]);
  assert.deepEqual(filesOf(events), ['added style.css', 'changed index.html']);
  assert.deepEqual(typesOf(events).slice(-2), ['final', 'end']);
  const [turn] = turns;
  assert.deepEqual(
    [turn?.app, turn?.mode, turn?.draft, turn?.conversation, turn?.resume],
    ['notes', 'full', 'conversation-c1', 'svc-chat:notes:cc1', null],
  );
  assert.match((await gateway.call('GET', '/svc/_draft/conversation-c1/notes/')).text, /<p>two/);
  assert.match((await gateway.call('GET', '/svc/notes/')).text, /<p>one/);

  const second = await say(gateway, 'edit index.html <p>three\nremove style.css');
  assert.deepEqual(filesOf(second), ['changed index.html', 'removed style.css']);
  assert.equal(turns[1]?.resume, 'session-1');
  assert.deepEqual(
    turns[1]?.history?.map(({ role, text }) => [role, text]),
    [
      ['user', 'say done\nedit index.html <p>two\nedit style.css p{}'],
      ['assistant', 'done'],
    ],
  );
  const { files } = (await gateway.call('GET', '/svc/_sessions/conversation-c1/diff')).json;
  assert.deepEqual(
    files.map(({ path, status }: { path: string; status: string }) => [path, status]),
    [['index.html', 'modified']],
  );
  const published = await gateway.call('POST', '/svc/_sessions/conversation-c1/publish', { body: {} });
  assert.equal(published.status, 201, published.text);
  assert.match((await gateway.call('GET', '/svc/notes/')).text, /<p>three/);
  // The next turn continues from the published files.
  assert.deepEqual(filesOf(await say(gateway, 'edit index.html <p>four')), ['changed index.html']);
  assert.equal((await gateway.call('POST', '/svc/_apps/notes/rollback', { body: {} })).status, 200);
  assert.match((await gateway.call('GET', '/svc/notes/')).text, /<p>one/);
  assert.match((await gateway.call('GET', '/svc/_draft/conversation-c1/notes/')).text, /<p>four/);
  assert.ok(existsSync(folder('conversation-c1')));
});

test('the preview reloads while the agent writes', async (t) => {
  const { gateway } = await hosted(t);
  await say(gateway, 'say open');
  assert.equal((await gateway.call('GET', '/svc/_draft/conversation-c1/notes/')).status, 200);
  const changes = await gateway.stream('/svc/_draft/conversation-c1/notes/_changes');
  const turn = await send(gateway, { message: 'edit index.html <p>now\nhang' });
  const [start] = await until(turn, 'assistant.start');
  assert.deepEqual(filesOf(await until(turn, 'file')), ['changed index.html']);
  assert.equal((await changes.next()).event, 'reload');
  assert.match((await gateway.call('GET', '/svc/_draft/conversation-c1/notes/')).text, /<p>now/);
  const aborted = await gateway.call('DELETE', `${LIST}/c1/turns/${start?.turnId}`);
  assert.deepEqual(aborted.json, { turnId: start?.turnId, state: 'aborted' });
  assert.deepEqual(typesOf(await turnOf(turn)), ['aborted', 'end']);
  changes.close();
});

test('a conversation has its messages, title and counts', async (t) => {
  const { gateway } = await hosted(t);
  const totals = async () => (await gateway.call('GET', '/svc/_insights')).json.totals.runs;
  const runsBefore = await totals();
  await say(gateway, 'say Hello\nedit a.css x');
  await say(gateway, 'fail on purpose');
  const conversation = (await gateway.call('GET', `${LIST}/c1`)).json;
  assert.equal(conversation.title, 'say Hello');
  assert.deepEqual(
    [conversation.counts, conversation.state, conversation.adapter],
    [{ turns: 2, messages: 3 }, 'error', 'host'],
  );
  assert.deepEqual(
    conversation.messages.map(({ seq, kind, text, state, error }: Record<string, unknown>) => [
      seq,
      kind,
      text,
      state,
      (error as { code?: string } | undefined)?.code,
    ]),
    [
      [1, 'user', 'say Hello\nedit a.css x', 'ok', undefined],
      [2, 'assistant', 'Hello', undefined, undefined],
      [3, 'user', 'fail on purpose', 'error', 'AGENT_FAILED'],
    ],
  );
  const { messages, ...row } = conversation;
  assert.deepEqual((await gateway.call('GET', LIST)).json, [row]);
  const last = (await gateway.call('GET', `${LIST}/c1?limit=1`)).json.messages;
  assert.deepEqual(last, messages.slice(2));
  const before = (await gateway.call('GET', `${LIST}/c1?limit=1&before=${last[0].turnId}`)).json.messages;
  assert.deepEqual(before, messages.slice(0, 2));
  const runs = (await gateway.call('GET', '/svc/_runs?app=notes')).json.slice(0, 2);
  assert.deepEqual(
    runs.map(({ kind, state }: { kind: string; state: string }) => [kind, state]),
    [
      ['chat', 'error'],
      ['chat', 'ok'],
    ],
  );
  assert.equal((await totals()) - runsBefore, 2);
});

test('a deleted conversation ends its turn and closes its workspace', async (t) => {
  const { gateway } = await hosted(t);
  const turn = await send(gateway, { message: 'edit a.css x\nhang' });
  await until(turn, 'file');
  assert.deepEqual((await gateway.call('DELETE', `${LIST}/c1`)).json, { conversationId: 'c1', deleted: true });
  assert.equal(typesOf(await turnOf(turn)).at(-1), 'end');
  assert.deepEqual(codeOf(await gateway.call('GET', `${LIST}/c1`)), [404, 'UNKNOWN_CONVERSATION']);
  assert.equal((await gateway.call('GET', '/svc/_sessions')).json.length, 0);
  assert.deepEqual(filesOf(await say(gateway, 'edit a.css x')), ['added a.css']);
});

test('a publication waits for what a turn that was stopped still does, and not for one that goes on', async (t) => {
  const { gateway } = await hosted(t);
  const publish = () => gateway.call('POST', '/svc/_sessions/conversation-c1/publish', { body: {} });
  const turn = await send(gateway, { message: 'edit index.html <p>early\nlinger\nedit index.html <p>late' });
  const [start] = await until(turn, 'file');
  assert.equal((await publish()).status, 201);
  assert.match((await gateway.call('GET', '/svc/notes/')).text, /<p>early/);

  const heard = once(lingering, 'heard');
  const stopped = gateway.call('DELETE', `${LIST}/c1/turns/${start?.turnId}`);
  await heard;
  const published = publish();
  // It comes behind a publication that does not wait.
  const checked = gateway.call('POST', '/svc/_sessions/conversation-c1/apps/notes/check');
  const first = await Promise.race([stopped, published, checked]);
  assert.ok('findings' in first.json, first.text);
  lingering.emit('released');
  assert.equal((await stopped).json.state, 'aborted');
  assert.equal((await published).status, 201, (await published).text);
  assert.match((await gateway.call('GET', '/svc/notes/')).text, /<p>late/);
});

test('closing a workspace ends the turn in it, and the next turn opens it again', async (t) => {
  const { gateway } = await hosted(t);
  const turn = await send(gateway, { message: 'edit a.css x\nhang' });
  await until(turn, 'file');
  assert.equal((await gateway.call('DELETE', '/svc/_sessions/conversation-c1')).status, 200);
  assert.equal(typesOf(await turnOf(turn)).at(-1), 'end');
  assert.deepEqual(filesOf(await say(gateway, 'edit a.css x')), ['added a.css']);
});

test('a turn that runs when the gateway stops is interrupted, and the next one continues', async (t) => {
  const { gateway, turns, restart } = await hosted(t);
  const turn = await send(gateway, { message: 'say before\nedit a.css x\nhang', detach: true });
  await until(turn, 'file');
  await restart();
  const { state, messages } = (await gateway.call('GET', `${LIST}/c1`)).json;
  assert.deepEqual([state, messages[0].state, messages[1].text], ['interrupted', 'interrupted', 'before']);
  assert.equal(textOf(await say(gateway, 'say after')), 'after');
  assert.equal(turns[1]?.resume, 'session-1');
});

test('a turn of mode full in a chat window works in a separate draft', async (t) => {
  const { gateway, turns } = await hosted(t);
  const message = 'edit index.html <p>window';
  const events = await turnOf(await gateway.stream('/svc/notes/_chat', {}, { windowId: 'w1', message, mode: 'full' }));
  assert.deepEqual(filesOf(events), ['changed index.html']);
  const session = events[0]?.sessionId;
  assert.match(session, /^window-w1-[0-9a-f]{16}$/);
  assert.equal(turns[0]?.draft, session);
  assert.match((await gateway.call('GET', `/svc/_draft/${session}/notes/`)).text, /<p>window/);
  assert.equal((await gateway.call('DELETE', '/svc/notes/_chat/windows/w1')).status, 200);
  assert.deepEqual((await gateway.call('GET', '/svc/_sessions')).json, []);
});

test('removing an app closes the workspaces of its windows and conversations', async (t) => {
  const { gateway } = await hosted(t);
  const body = { windowId: 'w1', message: 'edit index.html <p>window', mode: 'full' };
  await turnOf(await gateway.stream('/svc/notes/_chat', {}, body));
  const working = await gateway.stream('/svc/notes/_chat', {}, { ...body, windowId: 'w2', message: 'say x\nhang' });
  await until(working, 'assistant.delta');
  await say(gateway, 'edit a.css x');
  assert.equal((await gateway.call('GET', '/svc/_sessions')).json.length, 3);
  assert.equal((await gateway.call('DELETE', '/svc/_apps/notes')).status, 200);
  assert.deepEqual((await gateway.call('GET', '/svc/_sessions')).json, []);
  await turnOf(working);
});

test('files are attached to a message, and stay as long as its conversation', async (t) => {
  const { gateway, turns } = await hosted(t);
  const upload = async (body: Buffer | string, type: string): Promise<string> =>
    (await gateway.call('POST', BLOBS, { body, headers: { 'content-type': type } })).json.sha256;
  const [image, text] = [await upload(PNG, 'image/png'), await upload('a,b', 'text/csv')];
  await say(gateway, 'say look', { attachments: [{ sha256: image, name: 'sketch.png' }, text] });
  assert.deepEqual(
    turns[0]?.attachments?.map(({ name, type, path }) => [name, type, existsSync(path)]),
    [
      ['sketch.png', 'image/png', true],
      [text.slice(0, 12), 'text/csv', true],
    ],
  );
  const [asked] = (await gateway.call('GET', `${LIST}/c1`)).json.messages;
  assert.deepEqual(asked.attachments, [
    { sha256: image, name: 'sketch.png', type: 'image/png' },
    { sha256: text, name: text.slice(0, 12), type: 'text/csv' },
  ]);
  assert.deepEqual(codeOf(await gateway.call('DELETE', `${BLOBS}/${image}`)), [409, 'CONFLICT']);
  await gateway.call('DELETE', `${LIST}/c1`);
  assert.equal((await gateway.call('DELETE', `${BLOBS}/${image}`)).status, 200);
});

test('automations that ask for a webhook are named: publishing creates it', async (t) => {
  const { gateway } = await hosted(t);
  const file = automation({ triggers: [{ kind: 'webhook', pending: true }] });
  const handler = 'export default () => ({});';
  const events = await say(
    gateway,
    `edit automations/hook/automation.json ${file}\nedit automations/hook/handler.js ${handler}`,
  );
  const { id, ...webhooks } = events.find(({ type }) => type === 'webhooks') ?? assert.fail();
  assert.deepEqual(webhooks, {
    type: 'webhooks',
    minted: [],
    pending: [{ automationId: 'hook', ownerApp: 'notes' }],
  });
  assert.ok(!typesOf(await say(gateway, 'edit index.html x')).includes('webhooks'));
  const diffOf = async () => (await gateway.call('GET', '/svc/_sessions/conversation-c1/diff?app=notes')).json;
  assert.deepEqual((await diffOf()).webhooks, webhooks.pending, 'for as long as it is true');
  const published = (await gateway.call('POST', '/svc/_sessions/conversation-c1/publish', { body: {} })).json;
  assert.deepEqual([published.webhooks.length, published.webhooks[0]?.automationId], [1, 'hook']);
  const again = await say(gateway, `edit automations/hook/automation.json ${file}\n`);
  assert.ok(!typesOf(again).includes('webhooks'), 'its address is kept');
  assert.deepEqual((await diffOf()).webhooks, []);
});

test('a retry with its key gets the first turn; a client that leaves aborts its turn unless it is detached', async (t) => {
  const { gateway, turns } = await hosted(t);
  const first = await say(gateway, 'say once', { idempotencyKey: 'k' });
  assert.deepEqual(await say(gateway, 'say once', { idempotencyKey: 'k' }), first);
  assert.equal(turns.length, 1);
  const mismatch = await refused(gateway, { conversationId: 'c1', message: 'other', idempotencyKey: 'k' });
  assert.deepEqual(codeOf(mismatch), [422, 'IDEMPOTENCY_MISMATCH']);
  for (const detach of [false, true]) {
    const turn = await send(gateway, { message: 'hang', detach });
    const [start] = await until(turn, 'assistant.start');
    turn.close();
    const events = await gateway.stream(`${LIST}/c1/turns/${start?.turnId}/events`, { 'last-event-id': '1' });
    if (detach) await gateway.call('DELETE', `${LIST}/c1/turns/${start?.turnId}`);
    assert.deepEqual(typesOf(await turnOf(events)), ['aborted', 'end']);
  }
});

test('bad messages get the one error shape and leave no workspace', async (t) => {
  const { gateway } = await hosted(t);
  const sha256 = 'a'.repeat(64);
  const zip = await gateway.call('POST', BLOBS, { body: PNG, headers: { 'content-type': 'application/zip' } });
  const cases: [body: object, code: [number, string, string?]][] = [
    [{}, [400, 'BAD_REQUEST', 'conversationId']],
    [{ conversationId: 'c1' }, [400, 'BAD_REQUEST', 'message']],
    [{ conversationId: 'c1', message: ' ' }, [400, 'BAD_REQUEST', 'message']],
    [{ conversationId: '../x', message: 'x' }, [400, 'INVALID_ID', 'conversationId']],
    [{ conversationId: 'c1', message: 'x'.repeat(LIMITS.chatMessageBytes + 1) }, [413, 'PAYLOAD_TOO_LARGE', 'message']],
    [{ conversationId: 'c1', message: 'x', detach: 1 }, [400, 'BAD_REQUEST', 'detach']],
    [{ conversationId: 'c1', message: 'x', thinking: '' }, [400, 'BAD_REQUEST', 'thinking']],
    [{ conversationId: 'c1', message: 'x', runner: 'nope' }, [400, 'BAD_REQUEST', 'runner']],
    [{ conversationId: 'c1', message: 'x', attachments: 'x' }, [400, 'BAD_REQUEST', 'attachments']],
    [{ conversationId: 'c1', message: 'x', attachments: [7] }, [400, 'BAD_REQUEST', 'attachments[0]']],
    [{ conversationId: 'c1', message: 'x', attachments: ['zz'] }, [404, 'UNKNOWN_BLOB', 'attachments[0]']],
    [{ conversationId: 'c1', message: 'x', attachments: [sha256] }, [404, 'UNKNOWN_BLOB', 'attachments[0]']],
    [{ conversationId: 'c1', message: 'x', attachments: [zip.json.sha256] }, [400, 'BAD_REQUEST', 'attachments[0]']],
    [
      { conversationId: 'c1', message: 'x', attachments: Array(LIMITS.chatAttachments + 1).fill(sha256) },
      [400, 'BAD_REQUEST', 'attachments'],
    ],
  ];
  for (const [body, code] of cases)
    assert.deepEqual(codeOf(await refused(gateway, body)), code, JSON.stringify(body).slice(0, 200));
  const unknown = await gateway.call('POST', '/svc/nope/_turn', { body: { conversationId: 'c1', message: 'x' } });
  assert.deepEqual(codeOf(unknown), [404, 'UNKNOWN_APP']);
  const stored = await gateway.call('POST', '/svc/_apps/idle/upload?activate=0', {
    body: tarball(appOf('idle')),
  });
  assert.equal(stored.status, 201, stored.text);
  const idle = await gateway.call('POST', '/svc/idle/_turn', { body: { conversationId: 'c2', message: 'x' } });
  assert.deepEqual(codeOf(idle), [503, 'NO_ACTIVE_VERSION']);
  assert.deepEqual((await gateway.call('GET', LIST)).json, []);
  assert.deepEqual((await gateway.call('GET', '/svc/_sessions')).json, []);
  assert.deepEqual(codeOf(await gateway.call('GET', `${LIST}/c1/turns/x/events`)), [404, 'UNKNOWN_CONVERSATION']);
  await say(gateway, 'say hi');
  assert.deepEqual(codeOf(await gateway.call('GET', `${LIST}/c1/turns/x/events`)), [404, 'UNKNOWN_TURN']);
});

test('the workspace of a conversation with a long id has a name that ends with a hash', async (t) => {
  const { gateway } = await hosted(t);
  const conversationId = 'x'.repeat(64);
  const [start] = await say(gateway, 'edit a.css x', { conversationId });
  assert.match(start?.sessionId, /^conversation-x{34}-[0-9a-f]{16}$/);
  assert.equal((await gateway.call('GET', `/svc/_draft/${start?.sessionId}/notes/a.css`)).text, 'x');
  assert.equal((await gateway.call('DELETE', `${LIST}/${conversationId}`)).status, 200);
  assert.deepEqual((await gateway.call('GET', '/svc/_sessions')).json, []);
});

test('without the git store there are no conversations, their files, or turns in drafts', async (t) => {
  const own = await host('tarball');
  t.after(own.end);
  await install(own);
  const { gateway } = own;
  assert.deepEqual(codeOf(await refused(gateway, { conversationId: 'c1', message: 'x' })), [409, 'NO_GIT_STORE']);
  const full = await gateway.call('POST', '/svc/notes/_chat', { body: { windowId: 'w', message: 'x', mode: 'full' } });
  assert.deepEqual(codeOf(full), [409, 'MODE_UNAVAILABLE', 'mode']);
  assert.deepEqual(codeOf(await gateway.call('GET', LIST)), [409, 'NO_GIT_STORE']);
  const blob = { body: PNG, headers: { 'content-type': 'image/png' } };
  assert.deepEqual(codeOf(await gateway.call('POST', BLOBS, blob)), [409, 'NO_GIT_STORE']);
});
