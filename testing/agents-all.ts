// Real agents that speak ACP, by `npm run agents:all`: separate from the tests, because they are large and slow.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { RunnerSpec } from '../protocol/agents/agents.ts';
import { acpRunner } from '../workers/agents/acp/acp.ts';
import { makeGateway } from './gateway.ts';
import { eventsOf, finalOf, makePlace, type RunnerPlace, RunnerTurns } from './runner-turns.ts';

const programs = fileURLToPath(new URL('../scripts/agents-all/node_modules/.bin/', import.meta.url));
const skip = existsSync(programs) ? false : 'They are not installed: npm install --no-save --prefix scripts/agents-all';

const { gateway, remove } = makeGateway({ apps: ['todos'] });
before(() => gateway.start());
after(remove);

/** With a separate home, so that it does not read or change the user's files. */
function environment(folder: string): Record<string, string> {
  const home = join(folder, 'home');
  mkdirSync(home, { recursive: true });
  return { HOME: home, PATH: process.env.PATH ?? '', XDG_CONFIG_HOME: home, XDG_DATA_HOME: home, XDG_CACHE_HOME: home };
}

function opencode({ stub, folder }: RunnerPlace): RunnerSpec {
  const options = { baseURL: `${stub.url}/v1`, apiKey: 'none' };
  const models = { 'stub-model': {}, 'stub-small': {} };
  const config = {
    model: 'stub/stub-model',
    small_model: 'stub/stub-small',
    autoupdate: false,
    share: 'disabled',
    provider: { stub: { npm: '@ai-sdk/openai-compatible', name: 'Stub', options, models } },
    permission: { bash: 'ask' },
  };
  const env = { ...environment(folder), OPENCODE_CONFIG_CONTENT: JSON.stringify(config) };
  return { name: 'opencode', kind: 'acp', command: [join(programs, 'opencode'), 'acp'], env };
}

function gemini({ folder }: RunnerPlace): RunnerSpec {
  const env = { ...environment(folder), GEMINI_API_KEY: 'none' };
  return { name: 'gemini', kind: 'acp', command: [join(programs, 'gemini'), '--acp'], env };
}

function agentTest(
  title: string,
  specOf: (place: RunnerPlace) => RunnerSpec,
  body: (turns: RunnerTurns) => Promise<void>,
) {
  test(title, { skip }, async (t) => {
    const place = await makePlace(t);
    const tools = { url: `${gateway.url}/svc/todos/_mcp`, token: gateway.token };
    const turns = new RunnerTurns(place, acpRunner, specOf(place), tools);
    try {
      await body(turns);
    } finally {
      await turns.end();
    }
  });
}

agentTest(
  'opencode answers, calls a tool of the app, asks before a command, and remembers',
  opencode,
  async (turns) => {
    assert.match((await turns.probe('version')).version ?? '', /^\d+\.\d+/);
    // Its first start in a new home takes the longest.
    await turns.run('say: hello');
    const called = await turns.run('call: svc_add {"title":"tea"}\nsay: done');
    assert.equal(finalOf(called), 'done');
    const [start] = eventsOf(called, 'tool.start');
    assert.deepEqual({ name: start?.toolName, args: start?.args }, { name: 'add', args: { title: 'tea' } });
    assert.equal(eventsOf(called, 'tool.result')[0]?.ok, true);
    const asking = turns.start('call: bash {"command":"echo hi","description":"says hi"}\nsay: done');
    const question = await asking.event('permission');
    assert.match(question.detail, /echo hi/);
    asking.answer(question.requestId, question.options.find(({ kind }) => kind === 'allow_once')?.optionId ?? null);
    assert.match(JSON.stringify(eventsOf(await asking.done, 'tool.result')[0]?.result), /hi/);
    const [session] = eventsOf(called, 'session');
    await turns.restart();
    const again = await turns.run('say: again', { resume: session?.id ?? null });
    assert.deepEqual(eventsOf(again, 'session')[0], session);
    assert.equal(finalOf(again), 'again');
  },
);

agentTest('gemini opens a session', gemini, async (turns) => {
  assert.ok(Array.isArray((await turns.probe('models')).models));
});
