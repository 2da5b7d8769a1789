import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Kind, ToolKind } from '../../protocol/wire/frames.ts';
import { CALLER_KINDS, callerKey, callerText } from '../../protocol/wire/handler-caller.ts';
import { HandlerCall } from './calls.ts';

function callOf(kind: (typeof CALLER_KINDS)[number], name = ''): HandlerCall {
  const at = CALLER_KINDS.indexOf(kind);
  return new HandlerCall([Kind.dispatch, 1, 1000, ToolKind.query, 'tool', Buffer.alloc(0), 'trace', at, name], 0);
}

test('a call knows whether its handler asked who calls', () => {
  const call = callOf('token', 'backup');
  assert.equal(call.readCaller, false);
  const { caller } = call;
  assert.equal(call.readCaller, true);
  assert.deepEqual(caller, { kind: 'token', name: 'backup' });
  assert.equal(call.caller, caller);
  assert.ok(Object.isFrozen(caller));
});

test('a caller of each kind is shown as such, without a name where there is none, and has no user', () => {
  for (const kind of CALLER_KINDS) {
    if (kind === 'person') continue;
    assert.deepEqual(callOf(kind).caller, { kind });
    assert.equal(callOf(kind).user, null);
  }
});

test('an agent has the person who asked it as the user, and its own name as the caller', () => {
  const user = { id: 'u1', name: 'Ada', role: 'editor' };
  for (const name of ['robot', 'a\nrobot}', '']) {
    const call = callOf('agent', callerText({ kind: 'agent', name, user }));
    assert.deepEqual([call.user, call.caller], [user, { kind: 'agent', ...(name && { name }) }]);
    const alone = callOf('agent', callerText({ kind: 'agent', name }));
    assert.deepEqual([alone.user, alone.caller], [null, { kind: 'agent', ...(name && { name }) }]);
    assert.notEqual(
      callerKey({ kind: 'agent', name, user }),
      callerKey({ kind: 'agent', name, user: { ...user, id: 'u2' } }),
      'what is kept for one is not for another',
    );
  }
});

test('a person is the user, and the caller by name alone', () => {
  const user = { id: 'u1', name: 'Ada', email: 'ada@example.org', role: 'editor' };
  for (const member of ['user', 'caller'] as const) {
    const call = callOf('person', callerText({ kind: 'person', name: 'Ada', user }));
    assert.equal(call.readCaller, false);
    assert.deepEqual(call[member], member === 'user' ? user : { kind: 'person', name: 'Ada' });
    assert.equal(call.readCaller, true);
    assert.equal(call[member], call[member]);
    assert.ok(Object.isFrozen(call[member]));
  }
});
