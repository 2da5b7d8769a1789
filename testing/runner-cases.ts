/**
 * The requirements for every runner, with any agent: the test file of each runner calls this. A program takes seconds to start,
 * so the cases of a runner share a place and a conversation, and those that end a program come before those that need one.
 */
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { EarlierMessage, RunnerEvent, RunnerSpec, TurnAttachment, TurnOrder } from '../protocol/agents/agents.ts';
import type { Runner } from '../workers/agents/runner.ts';
import { makeGateway, type TestGateway } from './gateway.ts';
import {
  conversation,
  eventsOf,
  finalOf,
  makePlace,
  type RunnerPlace,
  RunnerTurns,
  type TurnWish,
  textOf,
} from './runner-turns.ts';
import { inTime, LONG_MS } from './waiting.ts';

export type RunnerCases = {
  name: string;
  runner: Runner;
  /** Why it cannot be tested here; false when it can. */
  skip: string | false;
  /** The runner with its model at `place.stub.url`, and its files below `place.folder`; asked for once. */
  spec(place: RunnerPlace): RunnerSpec;
  /** Whether it has a program, which keeps the conversation and can be killed. */
  hasProgram: boolean;
  /** Whether its model gets the instructions as its system text; else they come with the first message. */
  hasSystem: boolean;
  /** Its pieces of text come through a turn of a window, which joins pieces that wait to be stored. */
  joinsPieces?: true;
  /** Whether it shows the reasoning of its model. */
  reasons: boolean;
  /** The model's effort in a request; undefined if the request has none. */
  effortOf(body: RequestBody): unknown;
  /** A step of a script that has it make a file beside its folder, for which it asks for permission in mode `full`. */
  asks?: (path: string) => string;
  /** Cases that do not apply to it, by their titles, and why. */
  cannot?: Record<string, string>;
};

// biome-ignore lint/suspicious/noExplicitAny: each protocol has its own form
export type RequestBody = Record<string, any>;

export type RunnerTest = { turns: RunnerTurns; place: RunnerPlace; gateway: TestGateway };

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

/** One for all suites of a file. */
const { gateway, remove } = makeGateway({ apps: ['todos'] });
let started: Promise<void> | null = null;
after(remove);

/** A turn that may change files; its conversation has a program of its own. */
export const FULL: TurnWish = { ...conversation('full'), mode: 'full' };

/** A turn that has the tools of the dispatcher. */
export function dispatcherTools({ url, token }: TestGateway): TurnWish {
  return { ...conversation('dispatcher'), gateway: { url: `${url}/svc/_mcp`, token } };
}

/** Declares a suite; `more` adds tests of this runner alone. */
export function runnerCases(cases: RunnerCases, more?: (runnerTest: RunnerTester) => void): void {
  describe(cases.name, { skip: cases.skip }, () => {
    let one: RunnerTest;
    const ends: (() => Promise<void> | void)[] = [];
    before(async () => {
      started ??= gateway.start();
      await started;
      const place = await makePlace({ after: (end) => ends.push(end) });
      const tools: TurnOrder['gateway'] = { url: `${gateway.url}/svc/todos/_mcp`, token: gateway.token };
      one = { turns: new RunnerTurns(place, cases.runner, cases.spec(place), tools), place, gateway };
    });
    after(async () => {
      await one.turns.end();
      for (const end of ends) await end();
    });

    const left = new Set(Object.keys(cases.cannot ?? {}));
    const runnerTest: RunnerTester = (title, body) => {
      if (left.delete(title)) return;
      test(title, async () => {
        one.place.stub.requests.length = 0;
        try {
          await body(one);
        } finally {
          await one.turns.cancelRest();
        }
      });
    };
    remembers(cases, runnerTest);
    answers(cases, runnerTest);
    callsTools(runnerTest);
    takesTokens(cases, runnerTest);
    stops(cases, runnerTest);
    if (cases.asks) asksPermission(cases.asks, runnerTest);
    more?.(runnerTest);
    fails(runnerTest);
    assert.deepEqual([...left], [], 'There are no such cases.');
  });
}

export type RunnerTester = (title: string, body: (test: RunnerTest) => Promise<void>) => void;

function answers({ reasons, hasProgram, joinsPieces, effortOf }: RunnerCases, runnerTest: RunnerTester): void {
  runnerTest('answers in deltas, then whole, and counts tokens', async ({ turns }) => {
    const events = await turns.run('say: hello there, you\nusage: 100 20 5');
    assert.equal(finalOf(events), 'hello there, you');
    assert.equal(textOf(events), 'hello there, you');
    assert.ok(eventsOf(events, 'assistant.delta').length > (joinsPieces ? 0 : 1), 'deltas come as the model says them');
    assert.equal(eventsOf(events, 'session').length, hasProgram ? 1 : 0);
    const [usage, ...others] = eventsOf(events, 'usage');
    assert.deepEqual(others, []);
    assert.equal(usage?.inputTokens, 100);
    assert.equal(usage?.outputTokens, 20);
    assert.equal(usage?.cacheReadTokens, 5);
  });

  if (reasons) {
    runnerTest('shows what its model reasons', async ({ turns }) => {
      const events = await turns.run('think: let me see\nsay: done');
      const reasoned = eventsOf(events, 'reasoning.delta').map(({ delta }) => delta);
      assert.equal(reasoned.join(''), 'let me see');
      assert.equal(finalOf(events), 'done');
    });
  }

  runnerTest('asks the model that the turn names, and its usual one otherwise', async ({ turns, place }) => {
    const models: unknown[] = [];
    for (const model of [null, 'stub-small', null]) {
      const message = `say: ${model}${models.length}`;
      await turns.run(message, { model });
      models.push(place.stub.requests.find(({ text }) => text === message)?.model);
    }
    assert.deepEqual(models, [models[0], 'stub-small', models[0]]);
    assert.notEqual(models[0], 'stub-small');
  });

  runnerTest('tells its model to think as much as the turn says, and as usual otherwise', async ({ turns, place }) => {
    const efforts: unknown[] = [];
    for (const thinking of [null, 'high', 'low', null, 'high', null] as const) {
      const message = `say: ${thinking}${efforts.length}`;
      finalOf(await turns.run(message, { thinking }));
      efforts.push(effortOf(place.stub.requests.find(({ text }) => text === message)?.body ?? {}));
    }
    assert.deepEqual(efforts, [efforts[0], 'high', 'low', efforts[0], 'high', efforts[0]]);
    assert.ok(efforts[0] !== 'low', 'this says something');
  });

  runnerTest('hands on texts, images and what the gateway has to say', async ({ turns, place }) => {
    const text: TurnAttachment = { name: 'list.txt', type: 'text/plain', path: join(place.folder, 'a') };
    const image: TurnAttachment = { name: 'dot.png', type: 'image/png', path: join(place.folder, 'b.png') };
    writeFileSync(text.path, 'oat milk');
    writeFileSync(image.path, Buffer.from(PIXEL, 'base64'));
    finalOf(await turns.run('say: got it', { attachments: [text, image], notice: 'The draft is broken.' }));
    const asked = place.stub.requests.find((request) => request.text === 'say: got it');
    assert.match(asked?.said.join('\n') ?? '', /list\.txt[\s\S]*oat milk[\s\S]*The draft is broken\./);
    assert.equal(asked?.images.length, 1);
  });
}

function callsTools(runnerTest: RunnerTester): void {
  runnerTest('calls a tool of the app, which others see', async ({ turns, gateway }) => {
    const stream = await gateway.stream('/svc/todos/_changes');
    try {
      const events = await turns.run('say: I add it.\ncall: add {"title":"tea"}\nsay: It is there.');
      const [start] = eventsOf(events, 'tool.start');
      assert.deepEqual({ name: start?.toolName, args: start?.args }, { name: 'add', args: { title: 'tea' } });
      const [result] = eventsOf(events, 'tool.result');
      assert.equal(result?.ok, true, JSON.stringify(result));
      const { result: told } = result as { result?: unknown };
      assert.equal(typeof told, 'string', 'each runner gives the text');
      assert.match(JSON.stringify(JSON.parse(told as string)), /"title":"tea"/);
      assert.equal(finalOf(events), 'It is there.');
      for (let seen = ''; !seen.includes('todos'); ) seen = JSON.stringify(await stream.next());
    } finally {
      stream.close();
    }
  });

  runnerTest('shows a tool for SQL under its own name, with its statement', async ({ turns, gateway }) => {
    const sql = 'SELECT count(*) AS n FROM todos';
    const script = `call: svc_sql_read ${JSON.stringify({ app: 'todos', sql })}`;
    const events = await turns.run(script, dispatcherTools(gateway));
    const [start] = eventsOf(events, 'tool.start');
    assert.deepEqual({ name: start?.toolName, sql: start?.sql }, { name: 'svc_sql_read', sql });
    assert.equal(eventsOf(events, 'tool.result')[0]?.ok, true, JSON.stringify(events));
  });

  runnerTest('calls several tools, and goes on after one that refuses', async ({ turns, place }) => {
    const script = 'call: add {"title":"one"}\ncall: add {"title":5}\nthen\ncall: stats {}';
    const events = await turns.run(script);
    const names = eventsOf(events, 'tool.result').map(({ toolName }) => toolName);
    assert.deepEqual(names, ['add', 'add', 'stats']);
    const failed = eventsOf(events, 'tool.result').filter(({ ok }) => !ok);
    assert.equal(failed.length, 1);
    assert.match(failed[0]?.errorText ?? '', /title/);
    assert.match(finalOf(events), /stats: /);
    assert.equal(place.stub.requests.filter(({ text }) => text === script).length, 3);
  });
}

function takesTokens({ name, hasProgram }: RunnerCases, runnerTest: RunnerTester): void {
  runnerTest('calls tools with the token of each turn', async (one) => {
    const { turns, gateway } = one;
    let resume: string | null = null;
    const pids: number[][] = [];
    for (const nth of ['first', 'second']) {
      const made = await gateway.call('POST', '/svc/_tokens', { body: { name: nth, tools: 'write', apps: ['todos'] } });
      const { id, token } = made.json;
      const message = `call: stats {}\nsay: ${nth} turn`;
      const events = await turns.run(message, {
        ...conversation('tokens'),
        gateway: { ...turns.gateway, token },
        resume,
      });
      assert.equal(finalOf(events), `${nth} turn`);
      assert.equal(eventsOf(events, 'tool.result')[0]?.ok, true, JSON.stringify(events));
      resume = eventsOf(events, 'session').at(-1)?.id ?? null;
      pids.push([...turns.pids]);
      await gateway.call('DELETE', `/svc/_tokens/${id}`);
    }
    if (!hasProgram) return;
    const last = one.place.stub.requests.find(({ text }) => text.includes('second turn'));
    assert.match(JSON.stringify(last?.body), /first turn/, 'it remembers');
    if (!name.includes('odex')) assert.deepEqual(pids[1], pids[0], 'the same program does both turns');
  });
}

function remembers({ hasProgram, hasSystem }: RunnerCases, runnerTest: RunnerTester): void {
  const historyOf = (tea: string): TurnOrder['history'] => [
    { role: 'user', text: `My favourite is ${tea}.` },
    { role: 'assistant', text: 'Noted.' },
  ];
  const asked = ({ place }: RunnerTest, message: string) => place.stub.requests.find(({ text }) => text === message);
  const told = (one: RunnerTest, message: string): string => JSON.stringify(asked(one, message)?.body ?? null);
  const checkInstructions = (one: RunnerTest, message: string): void => {
    const request = asked(one, message);
    assert.match((hasSystem ? request?.system : request?.said.join('\n')) ?? '', /You help with a list of todos\./);
  };

  if (!hasProgram) {
    runnerTest('is told its instructions, the date, and what was said before', async (one) => {
      finalOf(await one.turns.run('say: yes', { history: historyOf('oolong') }));
      assert.match(told(one, 'say: yes'), /oolong/);
      checkInstructions(one, 'say: yes');
      const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
      const date = new RegExp(`Today is .*${new Date().getFullYear()}.* time zone is ${timeZone}`);
      assert.match(asked(one, 'say: yes')?.system ?? '', date);
    });

    runnerTest('is told the tools that it called before, with their results', async (one) => {
      const called = [
        { toolName: 'list', args: { open: true }, ok: true, result: '["three cups"]' },
        { toolName: 'add', args: {}, ok: false, result: 'no room' },
      ];
      const [message, noted] = historyOf('oolong') as [EarlierMessage, EarlierMessage];
      const silent: EarlierMessage = { role: 'assistant', text: '', tools: called.slice(0, 1) };
      const history = [message, { ...noted, tools: called }, { role: 'user' as const, text: 'And?' }, silent];
      const script = 'call: stats {}\nsay: yes';
      assert.equal(finalOf(await one.turns.run(script, { history })), 'yes');
      assert.match(told(one, script), /oolong.*three cups.*no room.*Noted\..*And\?.*three cups/s);
    });
    return;
  }

  runnerTest('begins anew with instructions and what was said when its session is lost', async (one) => {
    const resume = '01a206b2-f71b-74d1-8618-8738bcd67fff';
    const events = await one.turns.run('say: hello again', { resume, history: historyOf('assam') });
    assert.equal(finalOf(events), 'hello again');
    assert.notEqual(eventsOf(events, 'session')[0]?.id, resume);
    assert.match(told(one, 'say: hello again'), /assam/);
    checkInstructions(one, 'say: hello again');
  });

  runnerTest('goes on in the same session, warm and after its program ended', async (one) => {
    const { turns } = one;
    const [session] = eventsOf(await turns.run('say: first answer'), 'session');
    const resume = session?.id ?? null;
    finalOf(await turns.run('say: second answer', { resume }));
    assert.match(told(one, 'say: second answer'), /first answer/);
    await turns.restart();
    const events = await turns.run('say: third answer', { resume, history: historyOf('oolong') });
    assert.equal(finalOf(events), 'third answer');
    assert.match(told(one, 'say: third answer'), /first answer[\s\S]*second answer/);
    assert.doesNotMatch(told(one, 'say: third answer'), /oolong/, 'it has its own memory');
    assert.equal(eventsOf(events, 'session')[0]?.id, resume);
  });

  runnerTest('says so when its program is killed, and takes the next turn', async ({ turns, place }) => {
    const turn = turns.start('say: one\ncall: add {"title":"kept"}\nwait: kill');
    await inTime(place.stub.reached('kill'), 'the wait', LONG_MS);
    const [session] = eventsOf(turn.events, 'session');
    for (const pid of turns.pids) process.kill(-pid, 'SIGKILL');
    const last = (await turn.done).at(-1);
    assert.equal(last?.type, 'error', JSON.stringify(last));
    assert.equal(finalOf(await turns.run('say: again', { resume: session?.id ?? null })), 'again');
  });
}

function stops({ hasProgram }: RunnerCases, runnerTest: RunnerTester): void {
  runnerTest('stops when it is told to, and takes the next turn', async ({ turns, place }) => {
    const turn = turns.start('say: one two\nwait: stop');
    await inTime(place.stub.reached('stop'), 'the wait', LONG_MS);
    await turn.event('assistant.delta');
    const before = [...turns.pids];
    turn.cancel();
    const types = (await turn.done).map(({ type }) => type);
    assert.ok(!types.includes('final') && !types.includes('error'), types.join());
    assert.equal(finalOf(await turns.run('say: again')), 'again');
    assert.equal(before.length > 0, hasProgram);
    assert.deepEqual([...turns.pids], before, 'the same program does both turns');
  });

  runnerTest('stops while it is being started', async ({ turns }) => {
    const turn = turns.start('say: never', conversation('cancelled'));
    turn.cancel();
    const types = (await turn.done).map(({ type }) => type);
    assert.ok(!types.includes('final') && !types.includes('error'), types.join());
  });

  if (!hasProgram) return;

  runnerTest('says what to do when its program is missing', async ({ turns }) => {
    const last = (await turns.run('say: x', { ...conversation('broken'), spec: { command: ['/nowhere/agent'] } })).at(
      -1,
    );
    assert.equal(last?.type, 'error');
    assert.equal((last as { code?: string }).code, 'NO_RUNNER');
    assert.match((last as { message: string }).message, /install/);
  });

  runnerTest('fails when its program is not what it should be', async ({ turns }) => {
    for (const command of [['/bin/echo', 'not JSON'], ['/bin/false']]) {
      const last = (await turns.run('say: x', { ...conversation('broken'), spec: { command } })).at(-1);
      assert.equal(last?.type, 'error');
      assert.equal((last as { code?: string }).code, 'AGENT_FAILED');
    }
  });
}

function fails(runnerTest: RunnerTester): void {
  runnerTest('says what went wrong with its model, and takes the next turn', async ({ turns }) => {
    const scripts = ['status: 401', 'status: 429', 'status: 500', 'garbage', 'say: half of it\ncut'];
    for (const script of scripts) {
      const last = (await turns.run(script)).at(-1);
      assert.equal(last?.type, 'error', `${script}: ${JSON.stringify(last)}`);
      const { code, message } = last as { code: string; message: string };
      assert.equal(code, 'AGENT_FAILED', script);
      assert.ok(message.length > 10, `${script}: ${message}`);
      if (script === 'status: 401') assert.match(message, /key|sign/i);
    }
    assert.equal(finalOf(await turns.run('say: all is well')), 'all is well');
  });

  runnerTest('says so when there is no model server', async ({ turns, place }) => {
    await place.stub.close();
    assert.equal((await turns.run('say: x', conversation('unserved'))).at(-1)?.type, 'error');
  });
}

function asksPermission(step: NonNullable<RunnerCases['asks']>, runnerTest: RunnerTester): void {
  const decide = async ({ turns, place }: RunnerTest, kind: 'allow_once' | 'reject_once'): Promise<boolean> => {
    const turn = turns.start(`${step(`../${kind}.txt`)}\nsay: done`, FULL);
    const question = await turn.event('permission');
    const option = question.options.find((each) => each.kind === kind);
    assert.ok(option, JSON.stringify(question));
    turn.answer(question.requestId, option.optionId);
    const events = await turn.done;
    assert.equal(finalOf(events), 'done');
    assert.equal(eventsOf(events, 'permission').length, 1);
    return existsSync(join(place.folder, `${kind}.txt`));
  };

  runnerTest('asks, and does what it may', async (one) => {
    assert.equal(await decide(one, 'allow_once'), true);
  });

  runnerTest('asks, and does not do what it may not', async (one) => {
    assert.equal(await decide(one, 'reject_once'), false);
  });

  runnerTest('says what the policy decided, and asks nobody', async ({ turns, place }) => {
    const script = `${step('../policy.txt')}\nsay: done`;
    const isThere = () => existsSync(join(place.folder, 'policy.txt'));
    const decided = (events: RunnerEvent[]) =>
      eventsOf(events, 'permission').map(({ optionId, options }) => {
        assert.notEqual(optionId, undefined, 'it asked');
        return options.find((option) => option.optionId === optionId)?.kind.startsWith('allow') ?? false;
      });
    const denied = await turns.run(script, { ...FULL, permission: 'deny' });
    assert.deepEqual(decided(denied), [false]);
    assert.equal(isThere(), false);
    assert.equal(finalOf(denied), 'done');
    const allowed = await turns.run(script, { ...FULL, permission: 'allow' });
    assert.deepEqual(decided(allowed), [true]);
    assert.equal(isThere(), true);
  });
}
