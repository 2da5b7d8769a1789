import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { AgentModel, RunnerEntry, RunnerEvent, TurnOrder } from '../../../protocol/agents/agents.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { Layout } from '../../../storage/layout.ts';
import { gitStoreOf } from '../../authoring/open-authoring.ts';
import type { Scope, Scopes } from '../../dispatch/scope.ts';
import type { ConversationTurn } from '../../extension-points.ts';
import { AgentTokens } from '../../http/access/agent-tokens.ts';
import { OwnRunner, type OwnRunnerOptions } from './own-runner.ts';
import { Runners } from './runners.ts';

/** The live apps, or the drafts of a workspace. */
const scopes = (workspace: string | null | undefined, code: object = {}) =>
  ({
    of: (app: string) => ({ app, workspace, get: async () => ({}), code: async () => ({ manifest: code }) }),
  }) as unknown as Scopes;
const EVENTS: RunnerEvent[] = [
  { type: 'assistant.delta', delta: 'Done.' },
  { type: 'final', text: 'Done.' },
];
const LOCAL: Record<string, RunnerEntry> = {
  local: { kind: 'model', baseUrl: 'http://127.0.0.1:1/v1', model: 'small', permission: 'allow' },
  other: { kind: 'model', baseUrl: 'http://127.0.0.1:2/v1', model: 'big', cwd: '.' } as RunnerEntry,
};

function world(t: TestContext, more: Partial<OwnRunnerOptions> & { models?: AgentModel[] } = {}) {
  const dataDir = mkdtempSync(join(tmpdir(), 'svc-own-runner-'));
  t.after(() => rmSync(dataDir, { recursive: true }));
  const layout = new Layout(dataDir);
  const tokens = new AgentTokens();
  const orders: TurnOrder[] = [];
  const grounded: { scope: Scope }[] = [];
  const seen: { granted?: unknown; folder?: string[] } = {};
  const own = new OwnRunner({
    runners: new Runners({ runners: LOCAL, runner: null, env: {} }),
    known: { models: () => more.models ?? [], tools: () => [{ name: 'Bash' }] },
    agents: {
      async *run(order) {
        orders.push(order);
        seen.granted = tokens.find(order.gateway.token);
        if (existsSync(order.folder)) seen.folder = readdirSync(order.folder);
        yield* EVENTS;
      },
    },
    grounding: {
      of: async (asked) => {
        grounded.push(asked);
        return 'Be good.';
      },
    },
    tokens,
    scopes,
    gitStore: null,
    layout,
    listening: () => ({ url: 'http://127.0.0.1:8787' }),
    ...more,
  });
  const turn = async (asked: Partial<ConversationTurn> = {}) => {
    const events: unknown[] = [];
    const { signal } = new AbortController();
    for await (const event of own.run({ app: 'todos', windowId: 'a', message: 'Hello', signal, ...asked }))
      events.push(event);
    return { events, order: orders.at(-1) as TurnOrder };
  };
  return { own, turn, orders, grounded, seen, layout, tokens };
}

test('a turn becomes a complete order, and the agent’s events are passed on', async (t) => {
  const { turn, seen, grounded, layout, tokens } = world(t);
  const { events, order } = await turn();
  assert.deepEqual(events, EVENTS);
  const { turnId, gateway, ...rest } = order;
  assert.match(turnId, /^[0-9a-f-]{36}$/);
  assert.deepEqual(rest, {
    conversation: 'svc-chat:todos:wa',
    runner: {
      name: 'local',
      kind: 'model',
      baseUrl: 'http://127.0.0.1:1/v1',
      model: 'small',
      permission: 'allow',
      env: {},
    },
    mode: 'data',
    app: 'todos',
    folder: layout.agentFolder('todos', 'a'),
    instructions: 'Be good.',
    message: 'Hello',
    attachments: [],
    model: 'small',
    thinking: null,
    resume: null,
    history: [],
    begins: true,
    permission: 'deny',
  });
  assert.equal(gateway.url, 'http://127.0.0.1:8787/svc/todos/_mcp');
  assert.deepEqual(seen, {
    granted: {
      conversation: 'svc-chat:todos:wa',
      runner: 'local',
      app: 'todos',
      draft: null,
      may: ['read', 'write'],
      sql: 'write',
      alone: false,
    },
    folder: [],
  });
  assert.equal(tokens.find(gateway.token), undefined, 'the token outlives its turn');
  assert.equal(statSync(order.folder).mode & 0o777, 0o700);
  assert.deepEqual(
    grounded.map(({ scope: { app, workspace }, ...rest }) => ({ ...rest, app, workspace })),
    [{ mode: 'data', app: 'todos', workspace: undefined, hostTools: [{ name: 'Bash' }] }],
  );
});

test('the model and effort of a turn are in its order', async (t) => {
  const { turn } = world(t);
  const given = {
    conversation: 'svc-chat:todos:cb',
    runner: 'other',
    model: 'other/big',
    thinking: 'high' as const,
    resume: 'session-1',
    history: [{ role: 'user' as const, text: 'Before' }],
    attachments: [{ name: 'a.png', type: 'image/png', path: '/a' }],
    answer: async () => null,
  };
  const { order } = await turn(given);
  const { conversation, model, thinking, resume, history, begins, attachments, permission, folder } = order;
  assert.deepEqual(
    { conversation, model, thinking, resume, history, begins, attachments, permission, folder },
    {
      conversation: given.conversation,
      model: 'big',
      thinking: 'high',
      resume: 'session-1',
      history: given.history,
      begins: false,
      attachments: given.attachments,
      permission: 'ask',
      folder: resolve('.'),
    },
  );
  assert.ok(!('cwd' in order.runner));
});

test('in mode full the agent works in the draft, and reaches its tools', async (t) => {
  const gitStore = {
    workspaces: { folder: async (workspace: string, app: string) => `/drafts/${workspace}/${app}` },
  };
  const { turn, seen, grounded } = world(t, { gitStore });
  const fault = {
    code: 'INVALID_HANDLER',
    path: 'queries/list.js',
    message: 'It ends too early.',
    keyword: 'syntax',
  } as const;
  const { order } = await turn({ mode: 'full', draft: 's1', findings: [{ ...fault, line: 3 }] });
  assert.deepEqual([order.mode, order.folder], ['full', '/drafts/s1/todos']);
  assert.match(order.notice ?? '', /faults[\s\S]*\n- `queries\/list\.js:3`: It ends too early\. \(INVALID_HANDLER\)$/);
  assert.equal(order.gateway.url, 'http://127.0.0.1:8787/svc/_draft/s1/todos/_mcp');
  assert.equal((seen.granted as { draft: string }).draft, 's1');
  assert.deepEqual([grounded[0]?.scope.app, grounded[0]?.scope.workspace], ['todos', 's1']);
});

test('without a git store there is no draft', async (t) => {
  const drafts = () => gitStoreOf({ gitStore: null }) as never;
  await assert.rejects(world(t, { scopes: drafts }).turn({ draft: 's1', mode: 'full' }), { code: 'NO_GIT_STORE' });
});

test('the folder and the policy of an automation are its own', async (t) => {
  const { turn, seen } = world(t);
  const run = { runId: 'r1', automationRef: 'todos/digest' };
  const { order } = await turn({ windowId: 'r1-1', run, answer: async () => null });
  assert.deepEqual(seen.folder, []);
  assert.equal(existsSync(order.folder), false, 'the folder of a run that is over is left');
  assert.equal(order.once, true, 'an agent that is never asked again is kept');
  assert.equal(order.permission, 'ask', 'an automation may do what a person may allow');
  assert.equal((await turn({ run })).order.permission, 'deny');
  for (const [tools, may] of [
    [undefined, ['read', 'write']],
    [['svc_write', 'WebFetch'], ['write']],
    [[], []],
  ] as const) {
    await turn({ run: { ...run, ...(tools === undefined ? {} : { tools: [...tools] }) } });
    assert.deepEqual((seen.granted as { may: unknown }).may, may);
  }
});

test('a turn of who does not manage the app asks for nothing, and may by SQL what the app says', async (t) => {
  const manifests = [{}, { chat: {} }, { chat: { sql: false } }, { chat: { sql: 'read' } }, { chat: { sql: 'write' } }];
  const seenSql: unknown[] = [];
  for (const manifest of manifests) {
    const { turn, seen } = world(t, { scopes: (workspace) => scopes(workspace, manifest) });
    const { order } = await turn({ limited: true, answer: async () => null });
    assert.equal(order.permission, 'deny', 'the entry says "allow"');
    seenSql.push((seen.granted as { sql: unknown }).sql);
  }
  assert.deepEqual(seenSql, ['read', 'read', false, 'read', 'write']);
  const runners = new Runners({ runners: { loose: { kind: 'acp', command: ['sh'] } }, runner: null, env: {} });
  await assert.rejects(world(t, { runners }).turn({ limited: true, runner: 'loose' }), { code: 'FORBIDDEN' });
});

test('the address that an agent calls is one of this machine', async (t) => {
  for (const [url, wanted] of [
    ['http://0.0.0.0:8787', 'http://127.0.0.1:8787'],
    ['http://[::]:8787', 'http://127.0.0.1:8787'],
    ['http://[::1]:8787', 'http://[::1]:8787'],
    ['http://192.168.1.5:80', 'http://192.168.1.5'],
  ] as const) {
    const { order } = await world(t, { listening: () => ({ url }) }).turn();
    assert.equal(order.gateway.url, `${wanted}/svc/todos/_mcp`);
  }
});

test('the error for a host that does not say where it listens names the next step', async (t) => {
  const { turn, orders, own } = world(t, { listening: () => null });
  const refusal = { code: 'NO_RUNNER', message: /The host must give a `conversationRunner`/ };
  await assert.rejects(turn(), refusal);
  await assert.rejects(own.choose({}), refusal);
  assert.deepEqual(orders, []);
});

test('who takes a turn is known before it begins', async (t) => {
  const { own } = world(t, { models: [{ id: 'small' }, { id: 'big' }] });
  assert.deepEqual(await own.choose({}), { runner: 'local', model: 'small' });
  assert.deepEqual(await own.choose({ model: 'big' }), { runner: 'local', model: 'big' });
  assert.deepEqual(await own.choose({ model: 'other/small' }), { runner: 'other', model: 'small' });
  await assert.rejects(own.choose({ runner: 'nobody' }), { code: 'BAD_REQUEST', path: 'runner' });
  await assert.rejects(own.choose({ model: 'huge' }), { code: 'BAD_REQUEST', path: 'model' });
});

test('a turn that cannot be prepared leaves no token behind', async (t) => {
  let token = '';
  const tokens = new AgentTokens();
  const { turn } = world(t, {
    tokens: {
      begin: (grant) => {
        const begun = tokens.begin(grant);
        token = begun.token;
        return begun;
      },
    },
    grounding: {
      of: async () => {
        throw new SvcError('UNKNOWN_APP', 'No such app.');
      },
    },
  });
  await assert.rejects(turn(), { code: 'UNKNOWN_APP' });
  assert.notEqual(token, '');
  assert.equal(tokens.find(token), undefined);
});
