// Chats, runs and logs of people: whose a window is, who caused what, and that nobody reaches a window of somebody else.
import assert from 'node:assert/strict';
import { join as joined } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { send as openChat, say, turnIdOf, turnOf, until } from '../testing/chat.ts';
import { eventually, gatewayOfSuite } from '../testing/edges.ts';
import { openEvents } from '../testing/exchange-server.ts';
import { type Answer, root } from '../testing/gateway.ts';
import { startModelStub } from '../testing/model-stub.ts';
import { enter, type Origin } from '../testing/origins.ts';
import { type Joined, join } from '../testing/people.ts';
import { runToEnd } from '../testing/runs.ts';
import { inTime } from '../testing/waiting.ts';

const APP = {
  manifest: { chat: { sql: 'write' } },
  queries: { me: '({ ctx }) => ctx.user', who: '({ ctx }) => ctx.caller' },
  actions: {
    add: {
      run: `async ({ db, input, log }) => {
        log.info('adds');
        await db.run('INSERT INTO t VALUES (?)', input.n);
        return { body: (await db.get('SELECT count(*) AS all_of_them FROM t')).all_of_them };
      }`,
      writes: ['t'],
    },
  },
  migrations: ['CREATE TABLE t (n INTEGER);'],
  automations: { tidy: `({ log }) => { log.info('tidies'); }` },
  files: { 'index.html': '<title>Notes</title>' },
};
const model = await startModelStub();
after(() => model.close());

describe('chats of people', () => {
  const gateway = gatewayOfSuite({
    store: 'git',
    config: {
      runners: {
        robot: { kind: 'model', baseUrl: `${model.url}/v1`, model: 'stub-model' },
        shell: { kind: 'acp', command: [process.execPath, joined(root, 'testing/stub-agent.mjs')] },
      },
    },
  });
  let [ada, ben, mia]: Joined[] = [];
  const nameOf = ({ id }: Joined, name: string) => ({ id, name });

  before(async () => {
    assert.equal((await gateway.upload('notes', appOf('notes', APP))).status, 201);
    ada = await join(gateway, 'Ada', { grants: [{ app: 'notes', role: 'editor' }] });
    ben = await join(gateway, 'Ben', { grants: [{ app: 'notes', role: 'editor' }] });
    mia = await join(gateway, 'Mia', { grants: [{ app: 'notes', role: 'manager' }] });
  });

  const send = (origin: Origin, windowId: string, message: string, more: object = {}) =>
    origin.call('POST', '/svc/notes/_chat', { body: { windowId, message, ...more } });
  /** The text of the agent's answer. */
  const tell = async (origin: Origin, windowId: string, message: string): Promise<string> => {
    const { status, text } = await send(origin, windowId, message);
    assert.equal(status, 200, text);
    const events = [...text.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => JSON.parse(data));
    return events.map(({ type, delta }) => (type === 'assistant.delta' ? delta : '')).join('');
  };
  // biome-ignore lint/suspicious/noExplicitAny: the tests look into rows of every kind
  const list = async (path: string, origin?: Origin): Promise<any[]> => {
    const answer = await (origin?.call('GET', path) ?? gateway.call('GET', path));
    assert.equal(answer.status, 200, answer.text);
    return answer.json;
  };
  const windows = (origin?: Origin) => list('/svc/notes/_chat/windows', origin);
  const idsOf = async (origin?: Origin) => (await windows(origin)).map(({ windowId }) => windowId).sort();
  const history = (windowId: string, origin?: Origin) => list(`/svc/notes/_chat/windows/${windowId}/history`, origin);
  const writersOf = async (windowId: string, origin?: Origin) =>
    (await history(windowId, origin)).filter(({ kind }) => kind === 'user').map(({ by }) => by?.name ?? null);

  test('everybody has their own windows, and who manages the app all of them, with the names', async () => {
    const { origin: a } = ada as Joined;
    await tell(a, 'w-ada', 'say: hello Ada');
    await tell((ben as Joined).origin, 'w-ben', 'say: hello Ben');
    await tell((mia as Joined).origin, 'w-mia', 'say: hello Mia');
    await say(gateway, 'notes', 'w-admin', 'say: hello');
    assert.deepEqual(await idsOf(a), ['w-ada']);
    assert.deepEqual(await idsOf((ben as Joined).origin), ['w-ben']);
    const all = ['w-ada', 'w-admin', 'w-ben', 'w-mia'];
    assert.deepEqual([await idsOf((mia as Joined).origin), await idsOf()], [all, all]);
    const owners = Object.fromEntries((await windows()).map(({ windowId, by }) => [windowId, by]));
    assert.deepEqual(owners['w-ada'], nameOf(ada as Joined, 'Ada'));
    assert.equal(owners['w-admin'], undefined, 'the administrator is no person with an account');
    // A page of the app acts for its person, who has no more there than their own.
    const page = await enter(gateway, (mia as Joined).origin, { app: 'notes' });
    assert.deepEqual(await idsOf(page), ['w-mia']);
  });

  test('a window of somebody else is as good as none, in each route', async () => {
    const { origin } = ben as Joined;
    const { turnId } = (await windows((ada as Joined).origin))[0].lastTurn;
    const without = ({ status, text }: Answer, id: string) => [status, text.replaceAll(id, '…')];
    for (const [method, rest, body] of [
      ['GET', '/history', undefined],
      ['GET', `/turns/${turnId}/events`, undefined],
      ['DELETE', `/turns/${turnId}`, undefined],
      ['POST', `/turns/${turnId}/permissions/q1`, { optionId: 'run' }],
      ['DELETE', '', undefined],
    ] as const) {
      const answers = [];
      for (const id of ['w-ada', 'w-admin', 'w-mia', 'w-none']) {
        const answer = await origin.call(method, `/svc/notes/_chat/windows/${id}${rest}`, { body });
        answers.push(without(answer, id));
      }
      assert.match(String(answers[0]?.[1]), /UNKNOWN_WINDOW/, `${method} ${rest}`);
      for (const answer of answers) assert.deepEqual(answer, answers[3], `${method} ${rest}`);
    }
    const before = await origin.call('GET', '/svc/notes/_chat/windows?before=w-ada');
    assert.deepEqual(
      without(before, 'w-ada'),
      without(await origin.call('GET', '/svc/notes/_chat/windows?before=w-none'), 'w-none'),
    );
    const run = (await list('/svc/_runs?ref=notes/_chat'))[0].runId;
    for (const path of ['', '/events', '/nodes'])
      assert.equal(
        (await origin.call('GET', `/svc/_runs/${run}${path}`)).status,
        403,
        'runs are for who manages the app',
      );
    assert.equal((await origin.call('GET', '/_svc-conversations/apps/notes/sessions')).status, 403);
    assert.deepEqual(await writersOf('w-ada', (ada as Joined).origin), ['Ada'], 'it is as it was');
  });

  test('nobody writes into a window of somebody else, nor reads its turn by the key of a message', async () => {
    await send((ada as Joined).origin, 'w-ada', 'say: secret', { idempotencyKey: 'k1' });
    for (const more of [{}, { idempotencyKey: 'k1' }, { mode: 'full' }]) {
      const refused = await send((ben as Joined).origin, 'w-ada', 'say: secret', more);
      const { code, path } = refused.json.error;
      assert.deepEqual([refused.status, code, path], [409, 'CONFLICT', 'windowId']);
      assert.doesNotMatch(refused.text, /Ada|say/);
    }
    // Of two who begin one at once, one does.
    const both = await Promise.all([ada, ben].map((one) => send((one as Joined).origin, 'w-race', 'say: mine')));
    assert.deepEqual(both.map(({ status }) => status).sort(), [200, 409]);
    assert.equal((await writersOf('w-race')).length, 1);
  });

  test('who manages the app may write into it: it stays its person’s, and says who wrote what', async () => {
    await tell((mia as Joined).origin, 'w-ada', 'say: I am here too');
    assert.deepEqual(await writersOf('w-ada', (ada as Joined).origin), ['Ada', 'Ada', 'Mia']);
    const [row] = (await windows()).filter(({ windowId }) => windowId === 'w-ada');
    assert.equal(row.by.name, 'Ada');
  });

  test('a conversation about code names who began it and who wrote; agents that run commands are for owners', async () => {
    const { origin } = mia as Joined;
    const turn = (message: string, more = {}) =>
      origin.call('POST', '/svc/notes/_turn', { body: { conversationId: 'c-mia', message, ...more } });
    const { status, json } = await turn('say hi', { runner: 'shell' });
    assert.deepEqual([status, json.error.code, json.error.path], [403, 'FORBIDDEN', 'runner']);
    assert.equal((await turn('say: hi')).status, 200);
    await gateway.call('POST', '/svc/notes/_turn', { body: { conversationId: 'c-mia', message: 'say: and I' } });
    const made = await origin.call('POST', '/_svc-conversations/apps/notes/sessions', { body: { title: 'Later' } });
    const all = await list('/_svc-conversations/apps/notes/sessions');
    assert.deepEqual(
      [made.json.by, ...all.map(({ by }) => by)],
      Array.from({ length: 3 }, () => nameOf(mia as Joined, 'Mia')),
    );
    const { messages } = (await gateway.call('GET', '/_svc-conversations/apps/notes/sessions/c-mia')).json;
    const writers = messages.filter(({ kind }: { kind: string }) => kind === 'user');
    assert.deepEqual(
      writers.map(({ by }: { by?: { name: string } }) => by?.name),
      ['Mia', undefined],
    );
  });

  test('what an agent of an owner asks is answered by owners, not by others who manage the app', async () => {
    const stream = await openChat(gateway, 'notes', {
      windowId: 'w-asks',
      message: 'ask rm -r build',
      runner: 'shell',
    });
    const seen = await until(stream, 'permission');
    const { requestId, options } = seen.at(-1) ?? assert.fail();
    const path = `/svc/notes/_chat/windows/w-asks/turns/${turnIdOf(seen)}/permissions/${requestId}`;
    const body = { optionId: options[0].optionId };
    assert.equal((await (mia as Joined).origin.call('POST', path, { body })).status, 403);
    assert.equal((await gateway.call('POST', path, { body })).status, 200);
    await turnOf(stream);
  });

  test('an agent acts for the person of its turn: in handlers, changes, the run and the log', async () => {
    const changes = await gateway.stream('/svc/notes/_changes?tables=t');
    const { origin } = ada as Joined;
    const told = await tell(origin, 'w-agent', 'call: me\ncall: who\ncall: add {"n":1}');
    assert.match(told, /"name":"Ada","email":"ada@example.org","role":"editor"/);
    assert.match(told, /"kind":"agent","name":"robot"/);
    assert.match(
      await tell((ben as Joined).origin, 'w-agent-2', 'call: me'),
      /"name":"Ben"/,
      'not what was kept for Ada',
    );
    const { source, by } = JSON.parse((await inTime(changes.next(), 'a change')).data);
    assert.deepEqual([source, by], ['agent', nameOf(ada as Joined, 'Ada')]);
    await tell(origin, 'w-agent', 'call: svc_sql_write {"app":"notes","sql":"INSERT INTO t VALUES (2)"}');
    const written = JSON.parse((await inTime(changes.next(), 'a change')).data);
    assert.deepEqual([written.action, written.source, written.by?.name], ['sql', 'agent', 'Ada']);
    changes.close();
    const [run] = await list('/svc/_runs?ref=notes/_chat&limit=1');
    assert.deepEqual([run.trigger.origin, run.by], ['w-agent', nameOf(ada as Joined, 'Ada')]);
    const nobodys = await say(gateway, 'notes', 'w-admin', 'call: me\ncall: add {"n":3}');
    assert.match(JSON.stringify(nobodys), /null/);
    assert.equal((await list('/svc/_runs?ref=notes/_chat&limit=1'))[0].by, undefined);
    const lines = (await list('/svc/_logs?app=notes')).filter(({ msg }) => msg === 'adds');
    assert.deepEqual(
      lines.map((line) => ['personId' in line, line.personId]),
      [
        [true, ada?.id],
        [false, undefined],
      ],
    );
  });

  test('a run by hand names who ran it, to those who follow it too; its handler has no person', async () => {
    const events = await openEvents(gateway.port, '/svc/_runs/_events?app=notes', (mia as Joined).origin.headers);
    const ran = await (mia as Joined).origin.call('POST', '/svc/_automations/notes/tidy/run?wait=1', { body: {} });
    assert.deepEqual([ran.status, ran.json.by], [200, nameOf(mia as Joined, 'Mia')], ran.text);
    let event: string | undefined;
    do event = await inTime(events.next(), 'the start of the run');
    while (event !== undefined && !event.includes('run.start'));
    assert.match(String(event), /"by":\{"id":"[^"]+","name":"Mia"\}/);
    events.close();
    assert.equal(((await list(`/svc/_runs/${ran.json.runId}`)) as unknown as { by: { name: string } }).by.name, 'Mia');
    const { rows } = (await list('/svc/_automations?app=notes')) as unknown as { rows: { lastRun: { by: unknown } }[] };
    assert.deepEqual(rows[0]?.lastRun.by, nameOf(mia as Joined, 'Mia'));
    assert.equal('by' in (await runToEnd(gateway, 'notes/tidy')), false);
    const [line] = (await list('/svc/_logs?app=notes')).filter(({ msg }) => msg === 'tidies');
    assert.equal('personId' in line, false);
  });

  test('the stream of somebody else’s turn ends with the role that showed it; the turn goes on', async () => {
    const { id, origin } = mia as Joined;
    const turn = send((ada as Joined).origin, 'w-long', 'wait: gate\nsay: done');
    await model.reached('gate');
    const [{ lastTurn }] = await windows((ada as Joined).origin);
    const path = `/svc/notes/_chat/windows/w-long/turns/${lastTurn.turnId}/events`;
    const own = await openEvents(gateway.port, path, (ada as Joined).origin.headers);
    const others = await openEvents(gateway.port, path, origin.headers);
    assert.deepEqual([own.status, others.status], [200, 200]);
    const shareAs = (role: string) => gateway.call('POST', '/svc/_apps/notes/shares', { body: { person: id, role } });
    assert.ok((await shareAs('editor')).status < 300);
    const drain = async () => {
      while ((await others.next()) !== undefined);
    };
    await inTime(drain(), 'the end of the stream');
    assert.equal((await origin.call('GET', path)).json.error.code, 'UNKNOWN_WINDOW');
    model.release('gate');
    assert.match((await turn).text, /done/);
    own.close();
    assert.ok((await shareAs('manager')).status < 300);
  });

  test('one key of two people is two: each runs once, and gets their own answer again', async () => {
    const add = async ({ origin }: Joined) => {
      const body = { app: 'notes', action: 'add', input: { n: 9 } };
      const answer = await origin.call('POST', '/svc/_tool/svc_write', {
        body,
        headers: { 'idempotency-key': 'same' },
      });
      assert.equal(answer.status, 200, answer.text);
      return [answer.json.data.body, answer.headers['idempotency-replayed'] ?? null];
    };
    const [first, second] = [await add(ada as Joined), await add(ben as Joined)];
    assert.deepEqual(second, [Number(first[0]) + 1, null]);
    assert.deepEqual(
      [await add(ada as Joined), await add(ben as Joined)],
      [
        [first[0], 'true'],
        [second[0], 'true'],
      ],
    );
  });

  test('windows outlive a restart and their person: who manages the app has them, with the name', async () => {
    await gateway.stop();
    await gateway.start();
    assert.equal((await gateway.call('DELETE', `/svc/_people/${ben?.id}`)).status, 200);
    await eventually(async () => (await windows()).some(({ windowId }) => windowId === 'w-ben'));
    const [row] = (await windows((mia as Joined).origin)).filter(({ windowId }) => windowId === 'w-ben');
    assert.deepEqual(row.by, nameOf(ben as Joined, 'Ben'));
    assert.deepEqual(await writersOf('w-ben', (mia as Joined).origin), ['Ben']);
    const other = await join(gateway, 'Ben', { email: 'ben2@example.org', grants: [{ app: 'notes', role: 'editor' }] });
    assert.deepEqual(await idsOf(other.origin), [], 'another one of his name is somebody else');
  });
});
