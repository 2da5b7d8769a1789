import assert from 'node:assert/strict';
import test from 'node:test';
import { SvcError } from '../../../protocol/errors.ts';
import { draftKey } from '../../../protocol/ids.ts';
import type { Exchange } from '../../edge/edge.ts';
import { AgentCaller, AgentTokens, agentCaller } from './agent-tokens.ts';
import { may } from './grants.ts';

const KEY = 'svc-chat:todos:w1';

function presenting(token: string): Exchange {
  return { header: (name: string) => (name === 'authorization' ? `Bearer ${token}` : undefined) } as Exchange;
}

test('a token is good while its turn runs, and each turn has another one', () => {
  const tokens = new AgentTokens();
  const first = tokens.begin({ runner: 'codex', conversation: KEY });
  assert.deepEqual(tokens.find(first.token), {
    conversation: KEY,
    runner: 'codex',
    app: 'todos',
    draft: null,
    may: ['read', 'write'],
    sql: 'write',
    alone: false,
  });
  const second = tokens.begin({ runner: 'codex', conversation: KEY });
  assert.notEqual(second.token, first.token);
  let ends = 0;
  tokens.on('ended', () => ends++);
  first.end();
  first.end();
  assert.equal(ends, 1);
  assert.equal(tokens.find(first.token), undefined);
  assert.notEqual(tokens.find(second.token), undefined);
  second.end();
  assert.equal(tokens.find(second.token), undefined);
});

test('tokens differ for other conversations, for a draft, and in another gateway', () => {
  const tokens = new AgentTokens();
  const all = [
    tokens.begin({ runner: 'codex', conversation: KEY }),
    tokens.begin({ runner: 'codex', conversation: 'svc-chat:todos:w2' }),
    tokens.begin({ runner: 'codex', conversation: 'svc-chat:notes:w1' }),
    tokens.begin({ runner: 'codex', conversation: KEY, draft: 's1' }),
    tokens.begin({ runner: 'codex', conversation: 'svc-draft:s1:todos:w1' }),
    new AgentTokens().begin({ runner: 'codex', conversation: KEY }),
  ].map(({ token }) => token);
  assert.equal(new Set(all).size, all.length);
  assert.equal(tokens.find(all[3] as string)?.app, draftKey('s1', 'todos'));
  assert.equal(tokens.find(all[4] as string)?.app, draftKey('s1', 'todos'));
  assert.throws(() => tokens.begin({ runner: 'codex', conversation: `x ${KEY}` }), TypeError);
});

test('the person is asked while the turn runs, nobody for an automation, and after the turn the answer is no', async () => {
  const asked: string[] = [];
  const tokens = new AgentTokens(async (conversation) => void asked.push(conversation));
  const confirm = async (alone: boolean, ended: boolean) => {
    const turn = tokens.begin({ runner: 'codex', conversation: KEY, alone });
    const caller = agentCaller(presenting(turn.token), tokens);
    assert.ok(caller instanceof AgentCaller);
    if (ended) turn.end();
    await caller.confirm({ app: 'todos', action: 'clear', detail: '' });
  };
  await confirm(true, false);
  assert.deepEqual(asked, []);
  await confirm(false, false);
  assert.deepEqual(asked, [KEY]);
  for (const alone of [false, true]) await assert.rejects(confirm(alone, true), { code: 'NOT_CONFIRMED' });
  assert.deepEqual(asked, [KEY]);
});

test('an agent may use only the tools of its app', () => {
  const tokens = new AgentTokens();
  const turn = tokens.begin({ runner: 'codex', conversation: KEY });
  const caller = agentCaller(presenting(turn.token), tokens);
  assert.ok(caller instanceof AgentCaller);
  assert.deepEqual(caller.shown(), { kind: 'agent', name: 'codex' });
  for (const capability of ['read', 'write'] as const) {
    assert.equal(may(caller, capability, 'todos'), true);
    assert.equal(may(caller, capability, 'notes'), false);
    assert.equal(may(caller, capability, draftKey('s1', 'todos')), false);
    assert.equal(may(caller, capability, null), false);
  }
  for (const capability of ['page', 'stream', 'settings', 'manage', 'admin'] as const) {
    assert.equal(may(caller, capability, 'todos'), false, capability);
  }
  caller.guard('todos', 'write');
  assert.throws(() => caller.guard('notes', 'read'), { code: 'FORBIDDEN' });
  turn.end();
  assert.equal(may(caller, 'read', 'todos'), false);
  assert.throws(() => caller.guard('todos', 'read'), { code: 'FORBIDDEN' });
});

test('an agent of an automation has the rights that the automation gives it', () => {
  const tokens = new AgentTokens();
  const callerWith = (rights: ('read' | 'write')[]) => {
    const { token } = tokens.begin({ runner: 'codex', conversation: `svc-chat:todos:w${rights.length}`, may: rights });
    return agentCaller(presenting(token), tokens) as AgentCaller;
  };
  const reader = callerWith(['read']);
  assert.deepEqual([may(reader, 'read', 'todos'), may(reader, 'write', 'todos')], [true, false]);
  reader.guard('todos', 'read');
  assert.throws(() => reader.guard('todos', 'write'), { code: 'FORBIDDEN', message: /"requires\.tools"/ });
  assert.equal(may(callerWith([]), 'read', 'todos'), false);
});

test('an agent has the SQL tools that its turn gives it', () => {
  const tokens = new AgentTokens();
  for (const [sql, read, write] of [
    [false, false, false],
    ['read', true, false],
    ['write', true, true],
  ] as const) {
    const { token, end } = tokens.begin({ runner: 'codex', conversation: KEY, sql });
    const caller = agentCaller(presenting(token), tokens) as AgentCaller;
    assert.deepEqual([caller.hasSql('read'), caller.hasSql('write')], [read, write]);
    const attempt = (capability: 'read' | 'write') => () => caller.guardSql('todos', capability);
    if (!read) assert.throws(attempt('read'), { code: 'FORBIDDEN', message: /"sql": "read"/ });
    if (!write) assert.throws(attempt('write'), { code: 'FORBIDDEN', message: /"sql": "write"/ });
    if (write) attempt('write')();
    assert.throws(() => caller.guardSql('notes', 'read'), { code: 'FORBIDDEN' });
    end();
  }
});

test('the token of an ended turn never identifies another caller', () => {
  const tokens = new AgentTokens();
  const turn = tokens.begin({ runner: 'codex', conversation: KEY });
  turn.end();
  const refused = agentCaller(presenting(turn.token), tokens);
  assert.ok(refused instanceof SvcError && refused.code === 'UNAUTHORIZED');
  assert.equal(agentCaller(presenting('svct_0'), tokens), null);
  assert.equal(agentCaller({ header: () => undefined } as unknown as Exchange, tokens), null);
});
