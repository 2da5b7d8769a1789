/** The requirements for every runner, with any agent: the test file of each runner calls this. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { RunnerEvent, RunnerSpec, TurnAttachment, TurnOrder } from '../protocol/agents/agents.ts';
import type { Runner } from '../workers/agents/runner.ts';
import { makeGateway, type TestGateway } from './gateway.ts';
import { eventsOf, finalOf, makePlace, type RunnerPlace, RunnerTurns, textOf } from './runner-turns.ts';
import { inTime, LONG_MS } from './waiting.ts';

export type RunnerCases = {
  name: string;
  runner: Runner;
  /** Why it cannot be tested here; false when it can. */
  skip: string | false;
  /** The runner with its model at `place.stub.url`, and its files below `place.folder`. */
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
  /** A step of a script that makes it ask for permission in mode `full`, and what happens if it is granted. */
  asks?: { step(folder: string): string; granted(folder: string): boolean };
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

/** Declares a suite; `more` adds tests of this runner alone. */
export function runnerCases(cases: RunnerCases, more?: (runnerTest: RunnerTester) => void): void {
  describe(cases.name, { skip: cases.skip }, () => {
    before(() => {
      started ??= gateway.start();
      return started;
    });

    const left = new Set(Object.keys(cases.cannot ?? {}));
    const runnerTest: RunnerTester = (title, body) => {
      if (left.delete(title)) return;
      test(title, async (t) => {
        const place = await makePlace(t);
        const tools: TurnOrder['gateway'] = { url: `${gateway.url}/svc/todos/_mcp`, token: gateway.token };
        const turns = new RunnerTurns(place, cases.runner, cases.spec(place), tools);
        try {
          await body({ turns, place, gateway });
        } finally {
          await turns.end();
        }
      });
    };
    answers(cases, runnerTest);
    callsTools(runnerTest);
    remembers(cases, runnerTest);
    ends(cases, runnerTest);
    fails(cases, runnerTest);
    if (cases.asks) asksPermission(cases.asks, runnerTest);
    assert.deepEqual([...left], [], 'There are no such cases.');
    more?.(runnerTest);
  });
}

export type RunnerTester = (title: string, body: (test: RunnerTest) => Promise<void>) => void;

function answers(
  { reasons, hasProgram, hasSystem, joinsPieces, effortOf }: RunnerCases,
  runnerTest: RunnerTester,
): void {
  runnerTest('answers in deltas, then whole, and counts tokens', async ({ turns, place }) => {
    const events = await turns.run('say: hello there, you\nusage: 100 20 5', { instructions: 'You like brevity.' });
    assert.equal(finalOf(events), 'hello there, you');
    assert.equal(textOf(events), 'hello there, you');
    assert.ok(eventsOf(events, 'assistant.delta').length > (joinsPieces ? 0 : 1), 'deltas come as the model says them');
    assert.equal(eventsOf(events, 'session').length, hasProgram ? 1 : 0);
    const [usage, ...others] = eventsOf(events, 'usage');
    assert.deepEqual(others, []);
    assert.equal(usage?.inputTokens, 100);
    assert.equal(usage?.outputTokens, 20);
    assert.equal(usage?.cacheReadTokens, 5);
    const asked = place.stub.requests.find(({ text }) => text.includes('hello there'));
    assert.match((hasSystem ? asked?.system : asked?.said.join('\n')) ?? '', /You like brevity\./);
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

  runnerTest('hands on texts and images', async ({ turns, place }) => {
    const text: TurnAttachment = { name: 'list.txt', type: 'text/plain', path: join(place.folder, 'a') };
    const image: TurnAttachment = { name: 'dot.png', type: 'image/png', path: join(place.folder, 'b.png') };
    writeFileSync(text.path, 'oat milk');
    writeFileSync(image.path, Buffer.from(PIXEL, 'base64'));
    finalOf(await turns.run('say: got it', { attachments: [text, image] }));
    const asked = place.stub.requests.find((request) => request.text === 'say: got it');
    assert.match(asked?.said.join('\n') ?? '', /list\.txt[\s\S]*oat milk/);
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
      assert.match(JSON.stringify(result?.result), /tea/);
      assert.equal(finalOf(events), 'It is there.');
      for (let seen = ''; !seen.includes('todos'); ) seen = JSON.stringify(await stream.next());
    } finally {
      stream.close();
    }
  });

  runnerTest('shows a tool for SQL under its own name, with its statement', async ({ turns, gateway }) => {
    const sql = 'SELECT count(*) AS n FROM todos';
    const tools = { url: `${gateway.url}/svc/_mcp`, token: gateway.token };
    const script = `call: svc_sql_read ${JSON.stringify({ app: 'todos', sql })}`;
    const events = await turns.run(script, { gateway: tools });
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

function remembers({ hasProgram }: RunnerCases, runnerTest: RunnerTester): void {
  const history: TurnOrder['history'] = [
    { role: 'user', text: 'My favourite is oolong.' },
    { role: 'assistant', text: 'Noted.' },
  ];
  const told = ({ place }: RunnerTest, message: string): string => {
    const asked = place.stub.requests.find(({ text }) => text === message);
    return JSON.stringify(asked?.body ?? null);
  };

  if (!hasProgram) {
    runnerTest('is told what was said before', async (one) => {
      finalOf(await one.turns.run('say: yes', { history }));
      assert.match(told(one, 'say: yes'), /oolong/);
    });
    return;
  }

  runnerTest('goes on in the same session, warm and after its program ended', async (one) => {
    const { turns } = one;
    const [session] = eventsOf(await turns.run('say: first answer'), 'session');
    const resume = session?.id ?? null;
    finalOf(await turns.run('say: second answer', { resume }));
    assert.match(told(one, 'say: second answer'), /first answer/);
    await turns.restart();
    const events = await turns.run('say: third answer', { resume, history });
    assert.equal(finalOf(events), 'third answer');
    assert.match(told(one, 'say: third answer'), /first answer[\s\S]*second answer/);
    assert.doesNotMatch(told(one, 'say: third answer'), /oolong/, 'it has its own memory');
    assert.equal(eventsOf(events, 'session')[0]?.id, resume);
  });

  runnerTest('begins anew with what was said when its session is lost', async (one) => {
    const resume = '01a206b2-f71b-74d1-8618-8738bcd67fff';
    const events = await one.turns.run('say: hello again', { resume, history });
    assert.equal(finalOf(events), 'hello again');
    assert.notEqual(eventsOf(events, 'session')[0]?.id, resume);
    assert.match(told(one, 'say: hello again'), /oolong/);
  });
}

function ends({ hasProgram }: RunnerCases, runnerTest: RunnerTester): void {
  runnerTest('stops when it is told to, and takes the next turn', async ({ turns, place }) => {
    const turn = turns.start('say: one two\nhang');
    await inTime(place.stub.reached('hang'), 'the hanging', LONG_MS);
    await turn.event('assistant.delta');
    turn.cancel();
    const types = (await turn.done).map(({ type }) => type);
    assert.ok(!types.includes('final') && !types.includes('error'), types.join());
    const [before] = turns.pids;
    assert.equal(finalOf(await turns.run('say: again')), 'again');
    if (hasProgram) assert.ok(before !== undefined && turns.pids.has(before), 'the same program does both turns');
  });

  runnerTest('stops while it is being started', async ({ turns }) => {
    const turn = turns.start('say: never');
    turn.cancel();
    const types = (await turn.done).map(({ type }) => type);
    assert.ok(!types.includes('final') && !types.includes('error'), types.join());
  });

  if (!hasProgram) return;

  runnerTest('says so when its program is killed, and takes the next turn', async ({ turns, place }) => {
    const turn = turns.start('say: one\ncall: add {"title":"kept"}\nhang');
    await inTime(place.stub.reached('hang'), 'the hanging', LONG_MS);
    const [session] = eventsOf(turn.events, 'session');
    for (const pid of turns.pids) process.kill(-pid, 'SIGKILL');
    const last = (await turn.done).at(-1);
    assert.equal(last?.type, 'error', JSON.stringify(last));
    assert.equal(finalOf(await turns.run('say: again', { resume: session?.id ?? null })), 'again');
  });

  runnerTest('says what to do when its program is missing', async ({ turns }) => {
    const last = (await turns.run('say: x', { spec: { command: ['/nowhere/agent'] } })).at(-1);
    assert.equal(last?.type, 'error');
    assert.equal((last as { code?: string }).code, 'NO_RUNNER');
    assert.match((last as { message: string }).message, /install/);
  });

  runnerTest('fails when its program is not what it should be', async ({ turns }) => {
    for (const command of [['/bin/echo', 'not JSON'], ['/bin/false']]) {
      const last = (await turns.run('say: x', { spec: { command } })).at(-1);
      assert.equal(last?.type, 'error');
      assert.equal((last as { code?: string }).code, 'AGENT_FAILED');
    }
  });
}

function fails(_cases: RunnerCases, runnerTest: RunnerTester): void {
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
    assert.equal((await turns.run('say: x')).at(-1)?.type, 'error');
  });
}

function asksPermission({ step, granted }: NonNullable<RunnerCases['asks']>, runnerTest: RunnerTester): void {
  const decide = async ({ turns, place }: RunnerTest, kind: 'allow_once' | 'reject_once'): Promise<boolean> => {
    const turn = turns.start(`${step(place.folder)}\nsay: done`, { mode: 'full' });
    const question = await turn.event('permission');
    const option = question.options.find((each) => each.kind === kind);
    assert.ok(option, JSON.stringify(question));
    turn.answer(question.requestId, option.optionId);
    const events = await turn.done;
    assert.equal(finalOf(events), 'done');
    assert.equal(eventsOf(events, 'permission').length, 1);
    return granted(place.folder);
  };

  runnerTest('asks, and does what it may', async (one) => {
    assert.equal(await decide(one, 'allow_once'), true);
  });

  runnerTest('asks, and does not do what it may not', async (one) => {
    assert.equal(await decide(one, 'reject_once'), false);
  });

  runnerTest('says what the policy decided, and asks nobody', async ({ turns, place }) => {
    const script = `${step(place.folder)}\nsay: done`;
    const decided = (events: RunnerEvent[]) =>
      eventsOf(events, 'permission').map(({ optionId, options }) => {
        assert.notEqual(optionId, undefined, 'it asked');
        return options.find((option) => option.optionId === optionId)?.kind.startsWith('allow') ?? false;
      });
    const denied = await turns.run(script, { mode: 'full', permission: 'deny' });
    assert.deepEqual(decided(denied), [false]);
    assert.equal(granted(place.folder), false);
    assert.equal(finalOf(denied), 'done');
    const allowed = await turns.run(script, { mode: 'full', permission: 'allow' });
    assert.deepEqual(decided(allowed), [true]);
    assert.equal(granted(place.folder), true);
  });
}
