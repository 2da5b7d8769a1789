/**
 * The whole story of conversations and windows on the real daemon with the git store, with an agent's program: edit, preview, diff,
 * publish, drafts with windows of their own, and kills in the middle.
 */
import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, beforeEach, describe, test } from 'node:test';
import { taggedWith, tagOf } from '../storage/processes/tagged.ts';
import { appOf, automation } from '../testing/apps.ts';
import {
  historyOf,
  replay,
  say,
  send,
  type TurnEventSeen,
  textOf,
  turnIdOf,
  turnOf,
  typesOf,
  until,
} from '../testing/chat.ts';
import { eventually, gatewayOfSuite } from '../testing/edges.ts';
import { type Answer, root, type Stream, type TestGateway } from '../testing/gateway.ts';
import { startModelStub } from '../testing/model-stub.ts';
import { enter, signIn } from '../testing/origins.ts';

const NOTES = appOf('notes', {
  queries: { list: "({ db }) => db.all('SELECT text FROM notes')" },
  actions: {
    add: {
      run: "async ({ db, input }) => { await db.run('INSERT INTO notes (text) VALUES (?)', [input.text]); return { body: {} }; }",
      input: { type: 'object', properties: { text: { type: 'string' } } },
      writes: ['notes'],
    },
  },
  migrations: ['CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL);'],
  files: { 'index.html': '<!doctype html><title>Notes</title><p>one</p>' },
});
/** Where agents keep their sessions. */
const keep = mkdtempSync(join(tmpdir(), 'svc-acp-'));
process.on('exit', () => rmSync(keep, { recursive: true, force: true }));
const STUB = [process.execPath, join(root, 'testing/stub-agent.mjs'), '--keep', keep];
const CONVERSATION = '/_svc-conversations/apps/notes/sessions/c1';
const DRAFT = '/svc/_draft/conversation-c1';
const model = await startModelStub();
after(() => model.close());

const MANIFEST = JSON.parse(String(NOTES['app.json']));
/** What keeps a draft of `notes` from running or from being published: a text of a file, and one that repairs it. */
type Fault = { what: string; code: string; path: string; bad: string; good: string };
const FAULTS: Fault[] = [
  ...[
    ['no JSON', '{"id": "notes",'],
    ['no manifest', JSON.stringify({ ...MANIFEST, name: 5 })],
    ['a tool without a file', JSON.stringify({ ...MANIFEST, queries: [...MANIFEST.queries, { name: 'lost' }] })],
  ].map(([what = '', bad = '']) => ({
    ...{ what, bad, code: 'INVALID_MANIFEST', path: 'app.json' },
    good: JSON.stringify(MANIFEST),
  })),
  {
    what: 'a migration',
    code: 'MIGRATION_FAILED',
    path: 'migrations/0002_days.sql',
    bad: 'CREATE TABLE days (day TEXT PRIMARY KEY, note REFERENCES nowhere;',
    good: 'CREATE TABLE days (day TEXT PRIMARY KEY);',
  },
  {
    what: 'a schedule',
    code: 'INVALID_AUTOMATION',
    path: 'automations/digest/automation.json',
    bad: automation({ triggers: [{ kind: 'cron', expr: 'sometimes' }] }),
    good: automation({ triggers: [{ kind: 'cron', expr: '0 8 * * *' }] }),
  },
  {
    what: 'a handler',
    code: 'INVALID_HANDLER',
    path: 'queries/list.js',
    bad: 'export default ({ db }) => {',
    good: "export default ({ db }) => db.all('SELECT text FROM notes');",
  },
];

function sendTurn(gateway: TestGateway, message: string, more: object = {}): Promise<Stream> {
  return gateway.stream('/svc/notes/_turn', {}, { conversationId: 'c1', message, ...more });
}

async function sayTurn(gateway: TestGateway, ...lines: string[]): Promise<TurnEventSeen[]> {
  return turnOf(await sendTurn(gateway, lines.join('\n')));
}

type Call = [tool: string, args: { path?: string; text?: string }];
/** A runner that makes these calls; `told` says what it was told in that turn. */
type Scripted = {
  name: string;
  message(calls: Call[]): { message: string; told(events: TurnEventSeen[]): string };
};
const SCRIPTED: Scripted[] = [
  {
    name: 'stub',
    message: (calls) => {
      // It writes files by itself.
      const steps = calls.map(([tool, args]) =>
        tool === 'write' ? `edit ${args.path} ${args.text}` : `call ${tool} ${JSON.stringify(args)}`,
      );
      return { message: ['heard', 'say {result}', ...steps].join('\n'), told: textOf };
    },
  },
  {
    name: 'model',
    message: (calls) => {
      const steps = calls.map(([tool, args]) => `call: ${tool} ${JSON.stringify(args)}`);
      const message = steps.join('\nthen\n') || 'say: one';
      const told = () => model.requests.find(({ text }) => text === message)?.said.join('\n') ?? '';
      return { message, told };
    },
  },
];

async function rowsOf(gateway: TestGateway, path: string): Promise<string[]> {
  const answer = await gateway.call('POST', `${path}/_tool/svc_read`, { body: { app: 'notes', query: 'list' } });
  assert.equal(answer.status, 200, answer.text);
  return answer.json.data.map(({ text }: { text: string }) => text);
}

describe('a gateway with an agent', () => {
  const gateway = gatewayOfSuite({
    store: 'git',
    config: {
      runners: {
        stub: { kind: 'acp', command: STUB },
        model: { kind: 'model', baseUrl: `${model.url}/v1`, model: 'stub-model' },
      },
      runner: 'stub',
    },
  });
  beforeEach(async () => {
    assert.equal((await gateway.upload('notes', NOTES)).status, 201);
    await gateway.write('notes', 'add', { text: 'live' });
  });
  afterEach(() => gateway.call('DELETE', '/svc/_apps/notes'));

  test('an agent edits the draft and calls its tools; publishing makes it live', async () => {
    const events = await sayTurn(
      gateway,
      'edit index.html <!doctype html><title>Notes</title><p>two</p>',
      'write queries/list.js export default ({ db }) => db.all("SELECT upper(text) AS text FROM notes");',
      'call add {"text":"by the agent"}',
      'call list',
      'say {result}',
    );
    assert.equal(events.at(-1)?.type, 'end');
    assert.ok(typesOf(events).includes('final'), JSON.stringify(events));
    assert.deepEqual(
      events.flatMap(({ type, status, path }) => (type === 'file' ? [`${status} ${path}`] : [])).sort(),
      ['changed index.html', 'changed queries/list.js'],
    );
    assert.match(textOf(events), /LIVE.*BY THE AGENT/);
    assert.deepEqual(await rowsOf(gateway, DRAFT), ['LIVE', 'BY THE AGENT']);
    assert.deepEqual(await rowsOf(gateway, '/svc'), ['live']);
    assert.match((await gateway.call('GET', `${DRAFT}/notes/`)).text, /<p>two/);
    assert.match((await gateway.call('GET', '/svc/notes/')).text, /<p>one/);
    const { files } = (await gateway.call('GET', '/svc/_sessions/conversation-c1/diff')).json;
    assert.deepEqual(files.map(({ path }: { path: string }) => path).sort(), ['index.html', 'queries/list.js']);
    const published = await gateway.call('POST', '/svc/_sessions/conversation-c1/publish', { body: {} });
    assert.equal(published.status, 201, published.text);
    assert.match((await gateway.call('GET', '/svc/notes/')).text, /<p>two/);
    assert.deepEqual(await rowsOf(gateway, '/svc'), ['LIVE']);
    const [run] = (await gateway.call('GET', '/svc/_runs?app=notes')).json;
    assert.deepEqual([run.kind, run.state], ['chat', 'ok']);
    assert.equal((await gateway.call('DELETE', CONVERSATION)).status, 200);
    assert.equal((await gateway.call('GET', `${DRAFT}/notes/`)).status, 404);
  });

  const workspace = '/svc/_sessions/conversation-c1';
  const put = (path: string, text: string): Promise<Answer> =>
    gateway.call('PUT', `${workspace}/apps/notes/files/${path}`, { body: Buffer.from(text) });
  // biome-ignore lint/suspicious/noExplicitAny: each method has a result of its own
  const mcp = async (method: string, params = {}): Promise<any> => {
    const headers = { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-06-18' };
    const body = { jsonrpc: '2.0', id: 1, method, params };
    const { text } = await gateway.call('POST', `${DRAFT}/notes/_mcp`, { body, headers });
    return JSON.parse(text.replace(/^(?:event|id):.*\n|^data: /gm, '')).result;
  };

  /** Its agent is told, looks, repairs it and looks again; then it is published. */
  async function checkRepair(runner: Scripted, { what, code, path, bad, good }: Fault): Promise<void> {
    await put(path, bad);
    const page = `<p>Repaired: ${what}`;
    const { message, told } = runner.message([
      ['svc_draft_check', {}],
      ['list', {}],
      ['write', { path, text: good }],
      ['write', { path: 'index.html', text: page }],
      ['list', {}],
      ['svc_draft_check', {}],
    ]);
    const events = await turnOf(await sendTurn(gateway, message, { runner: runner.name }));
    assert.ok(typesOf(events).includes('final'), JSON.stringify(events));
    assert.match(told(events), new RegExp(`found faults in the draft.*\\(${code}\\)`, 's'));
    const answersOf = (tool: string): string[] =>
      events.flatMap(({ type, toolName, result, errorText }) =>
        type === 'tool.result' && toolName === tool ? [JSON.stringify(result ?? errorText)] : [],
      );
    const [found = '', left = ''] = answersOf('svc_draft_check');
    assert.match(found, new RegExp(code));
    assert.match(left, /findings[\\":]+\[\]/);
    const [refused = '', answered = ''] = answersOf('list');
    assert.match(refused, code === 'INVALID_HANDLER' ? /HANDLER/ : new RegExp(code));
    assert.match(answered, /live/);
    const published = await gateway.call('POST', `${workspace}/publish`, { body: {} });
    assert.equal(published.status, 201, published.text);
    assert.ok((await gateway.call('GET', '/svc/notes/')).text.includes(page));
  }

  for (const runner of SCRIPTED)
    test(`a draft that is broken in any way is repaired by its agent in the next turn: ${runner.name}`, async () => {
      await turnOf(await sendTurn(gateway, runner.message([]).message, { runner: runner.name }));
      await put('automations/digest/handler.js', 'export default async () => ({});');
      await put('automations/digest/automation.json', automation());
      for (const fault of FAULTS) await checkRepair(runner, fault);
    });

  test('the tools of a draft are those that it had while it is broken, and those of its files once it is not', async () => {
    await sayTurn(gateway, 'say one');
    const namesOf = async (): Promise<string[]> =>
      (await mcp('tools/list')).tools.map(({ name }: { name: string }) => name);
    const codeOf = async (name: string): Promise<string> =>
      JSON.parse((await mcp('tools/call', { name, arguments: {} })).content[0].text).error?.code;
    assert.deepEqual(await namesOf(), ['list', 'add', 'svc_draft_check']);
    const { queries } = MANIFEST;
    await put('app.json', JSON.stringify({ ...MANIFEST, queries: [...queries, { name: 'count' }] }));
    assert.deepEqual(await namesOf(), ['list', 'add', 'svc_draft_check']);
    assert.deepEqual([await codeOf('list'), await codeOf('count')], ['INVALID_MANIFEST', 'INVALID_MANIFEST']);
    await put('queries/count.js', 'export default () => 2;');
    assert.deepEqual(await namesOf(), ['list', 'count', 'add', 'svc_draft_check']);
    assert.equal((await mcp('tools/call', { name: 'count', arguments: {} })).content[0].text, '2');
    await put('app.json', '{');
    await gateway.stop();
    await gateway.start();
    assert.deepEqual(await namesOf(), ['svc_draft_check'], 'nothing else is known of it');
    assert.equal(await codeOf('list'), 'INVALID_MANIFEST');
    await put('app.json', JSON.stringify(MANIFEST));
    assert.deepEqual(await namesOf(), ['list', 'add', 'svc_draft_check']);
  });

  for (const own of [true, false])
    test(`an agent builds a blank app that was never published, ${own ? "in its conversation's workspace" : 'in any workspace'}`, async (t) => {
      const conversationId = own ? 'b1' : 'b2';
      if (own) await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 'conversation-b1' } });
      const body = { id: 'plants', name: 'Plants', ...(own && { sessionId: 'conversation-b1' }) };
      const made = await gateway.call('POST', '/svc/_apps', { body });
      assert.deepEqual([made.status, made.json.staged], [201, true], made.text);
      const { sessionId } = made.json;
      t.after(async () => {
        await gateway.call('DELETE', '/svc/_apps/plants');
        await gateway.call('DELETE', `/svc/_sessions/${sessionId}`);
      });
      const build = async (...lines: string[]): Promise<TurnEventSeen[]> => {
        const message = lines.join('\n');
        return turnOf(await gateway.stream('/svc/plants/_turn', {}, { conversationId, message }));
      };
      const list = '/_svc-conversations/apps/plants/sessions';
      const events = await build(
        'edit queries/list.js export default () => ["fern"];',
        'call list',
        'say {result}',
        'call svc_draft_check',
        'say {result}',
      );
      assert.deepEqual(
        [events[0]?.sessionId, textOf(events)],
        [sessionId, '["fern"]\n{"app":"plants","findings":[],"warnings":[]}'],
      );
      assert.equal((await gateway.call('GET', '/svc/plants/')).status, 404);
      assert.match((await gateway.call('GET', `/svc/_draft/${sessionId}/plants/`)).text, /Plants/);
      const [row] = (await gateway.call('GET', list)).json;
      assert.deepEqual([row.conversationId, row.counts.turns, row.state], [conversationId, 1, 'ok']);

      const message = 'edit migrations/0001_notes.sql CREATE TABLE\nhang';
      const going = await gateway.stream('/svc/plants/_turn', {}, { conversationId, message });
      const [begun] = await until(going, 'file');
      const refused = await gateway.call('POST', `/svc/_sessions/${sessionId}/publish`, { body: { app: 'plants' } });
      assert.equal(refused.json.error?.code, 'MIGRATION_FAILED', refused.text);
      assert.equal((await gateway.call('GET', list)).json[0].state, 'running', 'the turn goes on');
      assert.equal((await gateway.call('DELETE', `${list}/${conversationId}/turns/${begun?.turnId}`)).status, 200);
      await turnOf(going);
      await build('edit migrations/0001_notes.sql CREATE TABLE plants (name TEXT);');
      const published = await gateway.call('POST', `/svc/_sessions/${sessionId}/publish`, { body: { app: 'plants' } });
      assert.equal(published.status, 201, published.text);
      assert.deepEqual((await gateway.read('plants', 'list')).json.data, ['fern']);

      const { messages, counts } = (await gateway.call('GET', `${list}/${conversationId}`)).json;
      assert.deepEqual([counts.turns, messages[0].kind], [3, 'user'], 'the conversation goes on');
      assert.equal((await gateway.call('GET', '/svc/_runs?app=plants')).json.length, 3);
      const [start] = await build('say and on');
      assert.equal(start?.sessionId, `conversation-${conversationId}`);
      assert.equal((await gateway.call('DELETE', `${list}/${conversationId}`)).status, 200);
    });

  test('a conversation about an app that is nowhere, or in several workspaces, is refused', async (t) => {
    const say = () => gateway.call('POST', '/svc/twice/_turn', { body: { conversationId: 'n1', message: 'say x' } });
    assert.equal((await say()).json.error.code, 'UNKNOWN_APP');
    const workspaces: string[] = [];
    t.after(() => Promise.all(workspaces.map((id) => gateway.call('DELETE', `/svc/_sessions/${id}`))));
    for (const name of ['one', 'two']) {
      const body = { id: 'twice', name };
      workspaces.push((await gateway.call('POST', '/svc/_apps', { body })).json.sessionId);
    }
    const { status, json } = await say();
    assert.deepEqual([status, json.error.code], [409, 'CONFLICT']);
    assert.ok(workspaces.every((id) => json.error.message.includes(id)));
    const body = { windowId: 'w', mode: 'full', message: 'say done' };
    const events = await turnOf(await gateway.stream(`/svc/_draft/${workspaces[0]}/twice/_chat`, {}, body));
    assert.deepEqual([events[0]?.sessionId, textOf(events)], [workspaces[0], 'done']);
  });

  test('an app begins without the conversations about an earlier one of its id', async () => {
    const make = async () => (await gateway.call('POST', '/svc/_apps', { body: { id: 'again' } })).json.sessionId;
    const list = '/_svc-conversations/apps/again/sessions';
    const first = await make();
    await turnOf(await gateway.stream('/svc/again/_turn', {}, { conversationId: 'a1', message: 'say one' }));
    assert.equal((await gateway.call('GET', list)).json.length, 1);
    await gateway.call('DELETE', `/svc/_sessions/${first}`);
    assert.equal((await gateway.call('GET', list)).status, 404);
    const second = await make();
    assert.deepEqual((await gateway.call('GET', list)).json, []);
    await gateway.call('DELETE', `/svc/_sessions/${second}`);
  });

  test('an agent that is no longer needed ends at once', async () => {
    // Except those that are asked for their models at the start.
    const left = (count: number) => eventually(() => taggedWith(tagOf(gateway.dataDir)).length === count);
    const remove = async (path: string, warm = 1): Promise<void> => {
      await left(warm);
      const answer = await gateway.call('DELETE', path);
      assert.equal(answer.status, 200, answer.text);
      await left(0);
    };
    const window = { windowId: 'w1', message: 'say one' };
    await turnOf(await gateway.stream('/svc/notes/_chat', {}, window));
    await remove('/svc/notes/_chat/windows/w1');

    const [start] = await turnOf(await gateway.stream('/svc/notes/_chat', {}, { ...window, mode: 'full' }));
    await remove(`/svc/_sessions/${start?.sessionId}`);

    await sayTurn(gateway, 'say one');
    await remove(CONVERSATION);

    await sayTurn(gateway, 'say one');
    await turnOf(await gateway.stream(`${DRAFT}/notes/_chat`, {}, window));
    await remove('/svc/_sessions/conversation-c1', 2);

    const working = await gateway.stream('/svc/notes/_chat', {}, { windowId: 'w2', message: 'say one\nhang' });
    await until(working, 'assistant.delta');
    await remove('/svc/_apps/notes');
  });

  test('an agent gets the images and texts attached to a message', async () => {
    const attachments: { sha256: string; name: string }[] = [];
    for (const [name, type, body] of [
      ['sketch.png', 'image/png', Buffer.from('89504e470d0a1a0a', 'hex')],
      ['list.csv', 'text/csv', 'milk,bread'],
    ] as const) {
      const headers = { 'content-type': type };
      const stored = await gateway.call('POST', '/_svc-conversations/apps/notes/blobs', { body, headers });
      attachments.push({ sha256: stored.json.sha256, name });
    }
    const text = textOf(await turnOf(await sendTurn(gateway, 'heard\nsay {result}', { attachments })));
    assert.match(text, /\[image\]/);
    assert.match(text, /milk,bread/);
  });

  test("an agent of a draft's window works in that draft", async () => {
    assert.equal((await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 's1' } })).status, 201);
    const body = { windowId: 'w1', mode: 'full', message: 'edit index.html <p>of s1\ncall add {"text":"of s1"}' };
    const events = await turnOf(await gateway.stream('/svc/_draft/s1/notes/_chat', {}, body));
    assert.deepEqual([events[0]?.sessionId, typesOf(events).includes('file')], ['s1', true]);
    assert.match((await gateway.call('GET', '/svc/_draft/s1/notes/')).text, /<p>of s1/);
    assert.deepEqual(await rowsOf(gateway, '/svc/_draft/s1'), ['live', 'of s1']);
    assert.equal((await gateway.call('DELETE', '/svc/_draft/s1/notes/_chat/windows/w1')).status, 200);
    assert.match((await gateway.call('GET', '/svc/_draft/s1/notes/')).text, /<p>of s1/, 'the draft stays');
    assert.equal((await gateway.call('DELETE', '/svc/_sessions/s1')).status, 200);
  });

  test("a draft's windows are separate: they use the draft's data, and are removed with the workspace", async () => {
    const opened = await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 's1' } });
    assert.equal(opened.status, 201, opened.text);
    const draft = '_draft/s1/notes';
    const message =
      'call add {"text":"drafted"}\ncall svc_sql_read {"app":"notes","sql":"SELECT text FROM notes"}\nsay {result}';
    const events = await say(gateway, draft, 'w', message);
    assert.match(textOf(events), /live.*drafted/s);
    assert.equal(events[0]?.sessionId, 's1');
    assert.deepEqual((await gateway.read('notes', 'list')).json.data, [{ text: 'live' }]);
    await say(gateway, 'notes', 'w', 'say live');
    const windowsOf = async (app: string): Promise<string[]> =>
      (await gateway.call('GET', `/svc/${app}/_chat/windows`)).json.map(({ title }: { title: string }) => title);
    assert.deepEqual(
      [await windowsOf(draft), await windowsOf('notes')],
      [['call add {"text":"drafted"}'], ['say live']],
    );

    const origin = await enter(gateway, await signIn(gateway), { app: 'notes', workspace: 's1' });
    const post = { body: { windowId: 'page', message: 'say x' }, headers: { origin: `http://${origin.host}` } };
    const own = { ...post, body: { ...post.body, runner: 'stub' } };
    const unserved = await origin.call('POST', `/svc/${draft}/_chat`, own);
    assert.deepEqual([unserved.status, unserved.json.error.path], [403, 'runner'], 'this runner is not for pages');
    assert.equal((await origin.call('POST', '/svc/notes/_chat', post)).status, 403);

    const running = await send(gateway, draft, { windowId: 'w', message: 'say here\nhang' });
    await until(running, 'assistant.delta');
    assert.equal((await gateway.call('DELETE', '/svc/_sessions/s1')).status, 200);
    await running.ended();
    assert.equal((await gateway.call('GET', `/svc/${draft}/_chat/windows`)).status, 404);
    await gateway.call('POST', '/svc/_sessions', { body: { sessionId: 's1' } });
    assert.deepEqual(await windowsOf(draft), []);
    assert.deepEqual(await windowsOf('notes'), ['say live']);
  });

  test('a gateway that is killed in a turn loses nothing of the conversation, and continues', async () => {
    await say(gateway, 'notes', 'w', 'say first');
    const body = {
      windowId: 'w',
      message: 'say partly done\ncall add {"text":"milk"}\nhang',
      idempotencyKey: 'k',
      detach: true,
    };
    const stream = await send(gateway, 'notes', body);
    const seen = await until(stream, 'tool.result');
    const waiting = await send(gateway, 'notes', { windowId: 'w', message: 'say waits', detach: true });
    const waited = await until(waiting, 'phase');
    // No turn waits until its run is recorded.
    await eventually(async () => (await gateway.call('GET', `/svc/_runs/${turnIdOf(waited)}`)).status === 200);
    await gateway.kill();
    await gateway.start();
    const [listed] = (await gateway.call('GET', '/svc/notes/_chat/windows')).json;
    assert.deepEqual([listed.turns, listed.lastTurn], [3, { turnId: turnIdOf(waited), state: 'interrupted' }]);
    const rows = await historyOf(gateway, 'notes', 'w');
    assert.deepEqual(
      rows.map(({ kind, text, toolName, state, ok }) => [kind, text ?? /add/.test(toolName), state ?? ok]),
      [
        ['user', 'say first', 'ok'],
        ['assistant', 'first', undefined],
        ['user', body.message, 'interrupted'],
        ['assistant', 'partly done', undefined],
        ['tool', true, true],
        ['user', 'say waits', 'interrupted'],
      ],
    );
    // A client that reads on from the last event gets the end; a retry is not a second turn.
    const rest = await replay(gateway, 'notes', 'w', turnIdOf(seen), seen.at(-1)?.id);
    assert.deepEqual(typesOf(rest), ['error', 'end']);
    assert.deepEqual(await turnOf(await send(gateway, 'notes', body)), [...seen, ...rest]);
    assert.deepEqual(await rowsOf(gateway, '/svc'), ['live', 'milk']);
    const next = await say(gateway, 'notes', 'w', 'prompts\nsay {result}');
    assert.equal(next.at(-1)?.type, 'end');
    // The agent was asked twice before, and knows it.
    assert.match(textOf(next), /^[23]$/);
    for (const turnId of [turnIdOf(seen), turnIdOf(waited)]) {
      assert.equal((await gateway.call('GET', `/svc/_runs/${turnId}`)).json.state, 'interrupted');
    }
  });

  test('damage to a transcript loses only the damaged rows', async () => {
    const first = await say(gateway, 'notes', 'w', 'say one');
    await say(gateway, 'notes', 'w', 'say two');
    await gateway.stop();
    const path = join(gateway.dataDir, 'apps/notes/_chat/ww.jsonl');
    const lines = readFileSync(path, 'utf8').split('\n');
    lines.splice(1, 0, '{"kind":"events"', '\0\0\0\0');
    writeFileSync(path, lines.join('\n'));
    appendFileSync(path, '{"kind":"user","turnId":"cut","ts":1,"mess');
    await gateway.start();
    const texts = (await historyOf(gateway, 'notes', 'w')).map(({ text }) => text);
    assert.deepEqual(texts, ['say one', 'one', 'say two', 'two']);
    assert.deepEqual(await replay(gateway, 'notes', 'w', turnIdOf(first)), first);
    assert.equal(textOf(await say(gateway, 'notes', 'w', 'say three')), 'three');
    assert.equal((await historyOf(gateway, 'notes', 'w')).length, 6);
  });

  test('after a kill during a turn the conversation is complete, the turn is interrupted, and the next one continues', async () => {
    const turn = await sendTurn(gateway, 'say before\nedit index.html <p>cut\ncall add {"text":"cut"}\nhang', {
      detach: true,
    });
    const seen = await until(turn, 'tool.result');
    const files = seen.filter(({ type }) => type === 'file');
    const result = seen.at(-1)?.toolName === 'add' ? [] : await until(turn, 'tool.result');
    await gateway.kill();
    await gateway.start();
    const { state, counts, messages } = (await gateway.call('GET', CONVERSATION)).json;
    assert.equal(messages[0].state, 'interrupted');
    assert.ok(
      messages.some(({ text }: { text?: string }) => text === 'before'),
      JSON.stringify(messages),
    );
    const [start] = seen;
    const again = await turnOf(await gateway.stream(`${CONVERSATION}/turns/${start?.turnId}/events`));
    assert.deepEqual(again.slice(0, seen.length + result.length), [...seen, ...result], 'the shown events are stored');
    assert.deepEqual(typesOf(again).slice(-2), ['error', 'end']);
    assert.deepEqual([state, counts.turns], ['interrupted', 1]);
    assert.ok(files.length <= 1);
    assert.match((await gateway.call('GET', `${DRAFT}/notes/`)).text, /<p>cut/);
    const next = await sayTurn(gateway, 'say after', 'read index.html', 'say {result}');
    assert.match(textOf(next), /after\s+<p>cut/);
  });
});
