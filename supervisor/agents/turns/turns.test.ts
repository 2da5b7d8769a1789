import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { pino } from 'pino';
import type { TurnEvent } from '../../../protocol/agents/agents.ts';
import type { ConversationName } from '../../../protocol/agents/session-key.ts';
import type { OpenConversation } from '../../../protocol/agents/stored-turns.ts';
import type { RunEvent, RunRecord } from '../../../protocol/automations/runs.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { Layout } from '../../../storage/layout.ts';
import { startLedger } from '../../../testing/run-ledger.ts';
import { type ScriptedRunner, scriptedRunner } from '../../../testing/scripted-runner.ts';
import { inTime } from '../../../testing/waiting.ts';
import { RunEngine } from '../../runs/engine.ts';
import type { RunLedger } from '../../runs/ledger.ts';
import { OneRuntimeDatabase, RuntimeTables } from '../../runtime/runtime-databases.ts';
import { ChatStore, makeChatTables } from '../conversations/chat-store.ts';
import { type AskedRunner, type HeldTurn, Turns, type TurnsOptions } from './turns.ts';

type Scene = {
  turns: Turns;
  runner: ScriptedRunner;
  windows: ChatStore;
  engine: RunEngine;
  ledger: RunLedger;
  /** Runs of turns that have ended. */
  ended: RunRecord[];
  /** What turns asked their runner for. */
  asked: AskedRunner[];
  /** The conversations that were opened, and not closed. */
  open: Set<OpenConversation>;
};

async function sceneOf(
  t: TestContext,
  permissionMs?: number,
  wrap = (one: OpenConversation) => one,
  drafts: TurnsOptions['drafts'] = null,
): Promise<Scene> {
  const { writer, ledger, runtime } = await startLedger(t);
  const layout = new Layout(writer.folder);
  mkdirSync(layout.app('notes').dir, { recursive: true });
  const tables = new RuntimeTables(new OneRuntimeDatabase(runtime), makeChatTables);
  const windows = new ChatStore({ tables, layout, log: { warn: () => {} } });
  const runner = scriptedRunner();
  const ended: RunRecord[] = [];
  const publish = (event: RunEvent) => {
    if (event.type === 'run.end') ended.push(event.run);
  };
  const log = pino({ enabled: false });
  const engine = new RunEngine({ ledger, events: { publish }, log, pause: async () => {} });
  const asked: AskedRunner[] = [];
  const open = new Set<OpenConversation>();
  const turns = new Turns({
    open: async (name) => {
      const one = wrap(await windows.open(name));
      open.add(one);
      const close = one.close.bind(one);
      one.close = async () => {
        open.delete(one);
        await close();
      };
      return one;
    },
    runner: {
      choose: (one) => {
        asked.push(one);
        return { runner: one.runner ?? one.usual ?? 'stub' };
      },
      run: runner,
    },
    drafts,
    engine,
    log,
    ...(permissionMs === undefined ? {} : { permissionMs }),
  });
  return { turns, runner, windows, engine, ledger, ended, asked, open };
}

/** Turns that run or wait. */
function countOf(engine: RunEngine): number {
  const { running, waiting } = engine.load('chat');
  return running + waiting;
}

const nameOf = (id: string): ConversationName => ({ kind: 'window', app: 'notes', id });

/** All events of a turn, once it has ended. */
async function eventsOf({ turn, leave }: HeldTurn): Promise<TurnEvent[]> {
  const events: TurnEvent[] = [];
  for (let at = 0; !turn.isOver || at < turn.lastId; ) {
    for await (const { id, bytes } of turn.after(at)) {
      const group = parsed(bytes);
      assert.deepEqual(
        group.map((one) => one.id),
        Array.from({ length: id - at }, (_, i) => at + i + 1),
      );
      at = id;
      events.push(...group.map(({ event }) => event));
    }
    if (!turn.isOver) await inTime(turn.changed(), 'the next event');
  }
  leave();
  return events;
}

function parsed(bytes: Buffer): { id: number; event: TurnEvent }[] {
  const sent = bytes.toString().matchAll(/^event: .*\nid: (\d+)\ndata: (.*)\n\n/gm);
  return [...sent].map(([, id, data]) => ({ id: Number(id), event: JSON.parse(data as string) }));
}

test('a turn is read behind any of its events, while it runs and afterwards', async (t) => {
  const { turns } = await sceneOf(t, 1);
  const message = `${'say:a\u00e9\u{1f600} '.repeat(3)}say:${'b'.repeat(LIMITS.chatTailBytes)} say:c say:d`;
  const held = await turns.accept(nameOf('w'), { message });
  const { turn } = held;
  const all = await eventsOf(held);
  const stored = await turns.hold(nameOf('w'), turn.turnId);
  for (const read of [turn, stored.turn])
    for (let at = 0; at <= turn.lastId; at++) {
      const events: TurnEvent[] = [];
      for await (const { bytes } of read.after(at)) events.push(...parsed(bytes).map(({ event }) => event));
      assert.deepEqual(events, all.slice(at));
    }
  stored.leave();
});

test('a permission without an answer in time is denied, and the turn continues', async (t) => {
  const { turns } = await sceneOf(t, 1);
  const keep = setInterval(() => {}, 1000);
  const events = await eventsOf(await turns.accept(nameOf('w'), { message: 'ask say:on' }));
  clearInterval(keep);
  assert.deepEqual(events[2], { type: 'permission.result', requestId: 'q1', optionId: null, ok: false });
  assert.equal(
    events.map((event) => (event.type === 'assistant.delta' ? event.delta : '')).join(''),
    'answered nullon',
  );
  assert.deepEqual(events.at(-1), { type: 'end' });
});

for (const [name, message] of [
  ['until its events are stored', 'big:60 deaf'],
  ['for an answer too', 'big:60 quiet'],
] as const) {
  test(`a silent runner fails, but one is not silent while it waits ${name}`, async (t) => {
    let store = () => {};
    const mayStore = new Promise<void>((resolve) => {
      store = resolve;
    });
    const stored: string[] = [];
    let isHeld = false;
    const { turns, ended, runner } = await sceneOf(t, LIMITS.permissionMs, (one) => {
      const append = one.append.bind(one);
      one.append = async (turn, events, more) => {
        isHeld = true;
        await mayStore;
        await append(turn, events, more);
        stored.push(...events.map(({ type }) => type));
      };
      return one;
    });
    t.mock.timers.enable({ apis: ['setTimeout'] });
    /** Lets files be written, and now and then a moment pass. */
    const until = async (holds: () => boolean) => {
      for (let looks = 1; !holds(); looks++) {
        await new Promise(setImmediate);
        if (looks % 100 === 0) t.mock.timers.tick(1);
      }
    };
    const isGivenUp = async () => {
      await new Promise(setImmediate);
      return runner.turns[0]?.signal.aborted;
    };
    const { leave } = await turns.accept(nameOf('w'), { message });
    await inTime(
      until(() => isHeld),
      'the first events',
    );
    for (let looks = 0; looks < 100; looks++) await new Promise(setImmediate);
    t.mock.timers.tick(LIMITS.agentSilentMs + 1);
    store();
    await inTime(
      until(() => stored.filter((type) => type === 'tool.result').length === 60),
      'all events',
    );
    if (message.endsWith('quiet')) {
      await until(() => stored.includes('permission'));
      t.mock.timers.tick(LIMITS.permissionMs);
      await until(() => stored.includes('permission.result'));
    }
    t.mock.timers.tick(LIMITS.agentSilentMs - 10_000);
    assert.equal(await isGivenUp(), false);
    t.mock.timers.tick(10_000);
    assert.equal(await isGivenUp(), true);
    t.mock.timers.tick(LIMITS.chatAbortMs);
    await until(() => ended.length > 0);
    assert.deepEqual(ended[0]?.error, { code: 'AGENT_FAILED', message: 'The agent said nothing for 10 minutes.' });
    leave();
  });
}

test('waiting and running turns are stored side by side, and read separately', async (t) => {
  const { turns, windows } = await sceneOf(t);
  const messages = Array.from({ length: LIMITS.chatQueue }, (_, i) => `say:${i} big:3 count:50 say:end${i}`);
  const held = await Promise.all(
    messages.map(async (message, i) => {
      const one = await turns.accept(nameOf('w'), { message });
      if (i === 3) one.abandon();
      return one;
    }),
  );
  const all = await Promise.all(held.map(eventsOf));
  for (const [i, events] of all.entries()) {
    const text = events.map((event) => (event.type === 'assistant.delta' ? event.delta : '')).join('');
    if (i === 3) assert.deepEqual(events.slice(-2), [{ type: 'aborted' }, { type: 'end' }]);
    else assert.match(text, new RegExp(`^${i}0 1 .*49 end${i}$`), `turn ${i}`);
    const again = await turns.hold(nameOf('w'), held[i]?.turn.turnId ?? '');
    assert.deepEqual(await eventsOf(again), events);
  }
  const rows = await windows.history(nameOf('w'));
  assert.deepEqual(rows.filter(({ kind }) => kind === 'user').length, messages.length);
});

test('all turns together have a limit, also for a burst, and one that ended makes room', async (t) => {
  const { turns, engine } = await sceneOf(t);
  const windows = Array.from({ length: LIMITS.chatTurns + 3 }, (_, i) => nameOf(`w${i % 100}`));
  const results = await Promise.allSettled(windows.map((name) => turns.accept(name, { message: 'hang' })));
  const refused = results.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
  assert.deepEqual(
    refused.map(({ code, headers }) => [code, headers['retry-after']]),
    Array(3).fill(['OVERLOADED', '5']),
  );
  assert.equal(countOf(engine), LIMITS.chatTurns);
  const begun = results.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const [first] = begun;
  assert.ok(first);
  await turns.abort(nameOf('w0'), first.turn.turnId);
  begun.push(await turns.accept(nameOf('new'), { message: 'say:x' }));
  await turns.stop();
  for (const { leave } of begun) leave();
  assert.equal(countOf(engine), 0);
});

test('a message that could not be stored takes no place', async (t) => {
  const full = Object.assign(new Error('no space'), { code: 'ENOSPC' });
  const { turns, engine } = await sceneOf(t, undefined, (one) =>
    Object.assign(one, { begin: () => Promise.reject(full) }),
  );
  await assert.rejects(turns.accept(nameOf('w'), { message: 'say:x' }), full);
  assert.equal(countOf(engine), 0);
});

test('a full disk in the middle ends the turn with that error, which followers see', async (t) => {
  let left = 1;
  const { turns, runner, engine, ended } = await sceneOf(t, undefined, (one) => {
    const append = one.append.bind(one);
    one.append = async (...args) => {
      if (left-- > 0) await append(...args);
      else throw Object.assign(new Error('no space left'), { code: 'ENOSPC' });
    };
    return one;
  });
  const events = await eventsOf(await turns.accept(nameOf('w'), { message: 'say:a slow:50 say:never' }));
  assert.deepEqual(events.at(-1), { type: 'end' });
  const error = events.at(-2);
  assert.ok(error?.type === 'error' && error.code === 'STORAGE_FULL', JSON.stringify(error));
  assert.ok(!JSON.stringify(events).includes('never'));
  await engine.idle('chat');
  assert.equal(ended[0]?.state, 'error');
  assert.ok(runner.turns[0]?.signal.aborted);
  left = 100;
  const next = await eventsOf(await turns.accept(nameOf('w'), { message: 'say:b' }));
  assert.deepEqual(next.at(-2), { type: 'final', text: 'b' });
});

test('the end of a turn that cannot be stored is tried again, together with its run', async (t) => {
  const { turns, engine, ledger, windows, ended } = await sceneOf(t);
  const end = ledger.end.bind(ledger);
  let faults = LIMITS.runEndTries - 1;
  ledger.end = async (...args) => {
    if (faults-- > 0) throw Object.assign(new Error('no space left'), { code: 'ENOSPC' });
    await end(...args);
  };
  const held = await turns.accept(nameOf('w'), { message: 'say:a' });
  assert.deepEqual((await eventsOf(held)).at(-2), { type: 'final', text: 'a' });
  await engine.idle('chat');
  const { turnId } = held.turn;
  const [row] = await windows.history(nameOf('w'));
  assert.deepEqual([row?.kind === 'user' && row.state, ended[0]?.state], ['ok', 'ok']);
  const stored = await ledger.get(turnId);
  assert.deepEqual([stored?.state, stored?.summary], ['ok', 'a']);
});

test('a turn is cancelled by the id of its run', async (t) => {
  const { turns, engine } = await sceneOf(t);
  const held = await turns.accept(nameOf('w'), { message: 'say:a hang' });
  const { kind, state, error } = await engine.cancel(held.turn.turnId);
  assert.deepEqual([kind, state, error], ['chat', 'aborted', null]);
  assert.deepEqual((await eventsOf(held)).at(-2), { type: 'aborted' });
});

test('a conversation is open only while it is in use', async (t) => {
  const { turns, open, engine } = await sceneOf(t);
  const first = await turns.accept(nameOf('a'), { message: 'ask' });
  const second = await turns.hold(nameOf('a'), first.turn.turnId);
  assert.equal(open.size, 1);
  first.leave();
  second.leave();
  assert.equal(open.size, 1, 'its turn runs');
  await turns.abort(nameOf('a'), first.turn.turnId);
  assert.deepEqual([open.size, countOf(engine)], [0, 0]);
  await assert.rejects(turns.hold(nameOf('a'), 'none'), { code: 'UNKNOWN_TURN' });
  assert.equal(open.size, 0);
});

test('a conversation goes on with its last runner, also behind a turn that waits', async (t) => {
  const { turns, runner, asked } = await sceneOf(t);
  const messages = [{}, { runner: 'other' }, {}].map((more) => ({ message: 'say:x', ...more }));
  const held = await Promise.all(messages.map((request) => turns.accept(nameOf('w'), request)));
  for (const one of held) await eventsOf(one);
  assert.deepEqual(
    runner.turns.map((turn) => turn.runner),
    ['stub', 'other', 'other'],
  );
  assert.deepEqual(asked, [
    { limited: false },
    { runner: 'other', usual: 'stub', limited: false },
    { usual: 'other', limited: false },
  ]);
});

test('a window stays as limited as the most limited of its senders', async (t) => {
  const { turns, runner, windows } = await sceneOf(t);
  const limitedOf = async (id: string, senders: boolean[]): Promise<unknown[]> => {
    for (const limited of senders) await eventsOf(await turns.accept(nameOf(id), { message: 'say:x', limited }));
    return runner.turns.filter(({ windowId }) => windowId === id).map(({ limited }) => limited);
  };
  assert.deepEqual(await limitedOf('page', [true, false]), [true, true]);
  assert.deepEqual(await limitedOf('console', [false, true, false]), [false, true, true]);
  const read = await windows.open(nameOf('page'));
  assert.equal(read.limited, true);
  await read.close();
});

test('an action that needs a confirmation is refused where no turn runs that could ask', async (t) => {
  const { turns } = await sceneOf(t);
  const asked = { app: 'todos', action: 'clear', detail: '' };
  await assert.rejects(turns.confirm('svc-chat:todos:w', asked), { code: 'NOT_CONFIRMED' });
});

test('a turn goes on while one request that sent its message wants it', async (t) => {
  const { turns, runner } = await sceneOf(t);
  const request = { message: 'say:a hang', idempotencyKey: 'k' };
  const first = await turns.accept(nameOf('w'), request);
  const second = await turns.accept(nameOf('w'), request);
  const reader = await turns.hold(nameOf('w'), first.turn.turnId);
  await new Promise(setImmediate);
  first.abandon();
  assert.equal(runner.turns[0]?.signal.aborted, false);
  second.abandon();
  assert.equal(runner.turns[0]?.signal.aborted, true);
  const events = await eventsOf(reader);
  assert.deepEqual(events.slice(-2), [{ type: 'aborted' }, { type: 'end' }]);
  const third = await turns.accept(nameOf('w'), request);
  third.abandon();
  assert.deepEqual(await eventsOf(third), events);
  for (const one of [first, second]) one.leave();
});

test('a turn ends with the right of all who sent its message, though they are detached', async (t) => {
  const { turns, runner } = await sceneOf(t);
  const [one, other] = [{ ended: false }, { ended: false }];
  const request = { message: 'say:a hang', idempotencyKey: 'k' };
  const held = await turns.accept(nameOf('w'), { ...request, asker: one });
  const again = await turns.accept(nameOf('w'), { ...request, asker: other });
  const waiting = await turns.accept(nameOf('w'), { message: 'say:never', asker: one });
  await new Promise(setImmediate);
  one.ended = true;
  turns.endRefused();
  assert.equal(runner.turns[0]?.signal.aborted, false, 'another one wants it');
  assert.deepEqual((await eventsOf(waiting)).slice(-2), [{ type: 'aborted' }, { type: 'end' }]);
  other.ended = true;
  turns.endRefused();
  assert.equal(runner.turns[0]?.signal.aborted, true);
  assert.deepEqual((await eventsOf(held)).slice(-2), [{ type: 'aborted' }, { type: 'end' }]);
  again.leave();
  const late = await eventsOf(await turns.accept(nameOf('w'), { message: 'say:late', asker: one }));
  assert.deepEqual(late.at(-2), { type: 'aborted' }, 'its right ended before the turn began');
  assert.equal(runner.turns.length, 1);
});

test('a runner without a session gets the tools of earlier turns with their answers, one with a session does not', async (t) => {
  const { turns, runner } = await sceneOf(t);
  for (const message of ['tool:list say:Two.', 'tool:add', 'say:x session:s1', 'say:y'])
    await eventsOf(await turns.accept(nameOf('w'), { message }));
  const called = (toolName: string) => [{ toolName, args: { a: 1 }, ok: true, result: '{"b":2}' }];
  const said = (text: string, answer: string, tools?: unknown) => [
    { role: 'user', text },
    { role: 'assistant', text: answer, ...(tools === undefined ? {} : { tools }) },
  ];
  const first = said('tool:list say:Two.', 'Two.', called('list'));
  assert.deepEqual(
    runner.turns.slice(0, 3).map(({ history }) => history),
    [[], first, [...first, ...said('tool:add', '', called('add'))]],
  );
  assert.equal(runner.turns[3]?.resume, 's1');
  assert.deepEqual(runner.turns[3]?.history?.slice(0, 2), said('tool:list say:Two.', 'Two.'));
});

test('long arguments and results that are remembered are cut, and say so', async (t) => {
  const { turns, runner } = await sceneOf(t);
  for (const message of ['big:3 say:done', 'say:x']) await eventsOf(await turns.accept(nameOf('w'), { message }));
  const [, answer] = runner.turns[1]?.history ?? [];
  assert.equal(answer?.tools?.length, 3);
  assert.match(answer?.tools?.[0]?.result ?? '', /^x{4096}… \[cut\]$/);
});

test('an app that goes away ends its turns, and takes no message in a conversation that was open', async (t) => {
  const { turns } = await sceneOf(t);
  // The time that a runner has to stop alone keeps no process.
  const keep = setInterval(() => {}, 1000);
  t.after(() => clearInterval(keep));
  const held = await turns.accept(nameOf('w'), { message: 'deaf' });
  const stopped = turns.stopApp('notes');
  const late = turns.accept(nameOf('w'), { message: 'say:late' });
  await stopped;
  assert.deepEqual((await eventsOf(held)).at(-2), { type: 'aborted' });
  // It is a conversation of its own, of whatever is there then.
  (await late).leave();
  await turns.stop();
  await assert.rejects(turns.accept(nameOf('w'), { message: 'x' }), { code: 'OVERLOADED' });
});

test('a runner that floods with invalid events leaves time for others', async (t) => {
  const { turns } = await sceneOf(t);
  const events = await eventsOf(await turns.accept(nameOf('w'), { message: 'flood' }));
  assert.deepEqual(events.at(-2), { type: 'final', text: 'free' });
});

test('a turn has ended when its runner has, also behind an error', async (t) => {
  const { turns, runner } = await sceneOf(t);
  const events = await eventsOf(await turns.accept(nameOf('w'), { message: 'linger:no' }));
  assert.deepEqual(events.slice(-2), [{ type: 'error', code: 'AGENT_FAILED', message: 'no' }, { type: 'end' }]);
  assert.equal(runner.lingered, 1);
});

test('a turn that is given up before its runner has begun does not wait for it', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let entered = () => {};
  const drafts = {
    ensure: async () => {},
    enter: async () => {
      await new Promise<void>((resolve) => {
        entered = resolve;
      });
      return { findings: [], leave: async () => {} };
    },
  };
  const { turns } = await sceneOf(t, undefined, undefined, drafts);
  const { turn, leave } = await turns.accept(nameOf('w'), { message: 'deaf', mode: 'full' });
  const aborted = turns.abort(nameOf('w'), turn.turnId);
  await new Promise(setImmediate);
  t.mock.timers.tick(LIMITS.chatAbortMs);
  entered();
  assert.deepEqual(await aborted, { turnId: turn.turnId, state: 'aborted' });
  leave();
});

test('a turn that a dead gateway left ends as interrupted, each of its tools with a result', async (t) => {
  const { turns, windows } = await sceneOf(t);
  const turnId = '0190a8a0-0000-7000-8000-000000000001';
  const start: TurnEvent = { type: 'assistant.start', turnId, runner: 'stub' };
  const tool = { toolCallId: 'b', toolName: 'add' };
  const left = await windows.open(nameOf('left'));
  await left.begin({ turnId, message: 'go', mode: 'data', runner: 'stub', ts: 1 }, [
    start,
    { type: 'tool.start', toolCallId: 'a', toolName: 'list' },
    { type: 'tool.result', toolCallId: 'a', toolName: 'list', ok: true },
    { type: 'tool.start', ...tool },
  ]);
  await left.close();
  const events = await eventsOf(await turns.hold(nameOf('left'), turnId));
  const errorText = 'The gateway stopped before the tool had a result.';
  const message = 'The gateway stopped before the turn had ended; what was done until then stays done.';
  assert.deepEqual(events.slice(4), [
    { type: 'tool.result', ...tool, ok: false, errorText },
    { type: 'error', code: 'RUN_ABORTED', message },
    { type: 'end' },
  ]);
});
