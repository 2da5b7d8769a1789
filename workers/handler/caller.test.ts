import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type FrameOf, Kind, ToolKind } from '../../protocol/wire/frames.ts';
import { CALLER_KINDS, callerKey, callerText } from '../../protocol/wire/handler-caller.ts';
import { Calls, HandlerCall } from './calls.ts';
import { ShownCaller } from './context/context-caller.ts';

function callOf(kind: (typeof CALLER_KINDS)[number], name = ''): HandlerCall {
  const at = CALLER_KINDS.indexOf(kind);
  const frame: FrameOf<'dispatch'> = [Kind.dispatch, 1, 1000, ToolKind.query, 'tool', Buffer.alloc(0), 'trace', 0];
  return new HandlerCall(frame, 0, new ShownCaller(at, name));
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

test('a call keeps its caller when another one has taken the number', async () => {
  const seen: unknown[] = [];
  let go: () => void = () => {};
  const gone = new Promise<void>((resolve) => {
    go = resolve;
  });
  const runner = {
    run: async (call: HandlerCall) => {
      await gone;
      seen.push(call.user ?? call.caller);
      return { status: 200, body: Buffer.from('1') };
    },
  };
  const answers = new Promise<void>((resolve) => {
    const send = (): void => {
      if (seen.length === 2) resolve();
    };
    const given = [runner, {}, {}, { json: (body: Buffer) => body }, send];
    const calls = new Calls(...(given as unknown as ConstructorParameters<typeof Calls>));
    const ada = { kind: 'person', name: 'Ada', user: { id: 'u1', name: 'Ada', role: 'editor' } } as const;
    for (const [id, caller] of [ada, { kind: 'token', name: 'backup' } as const].entries()) {
      calls.told([Kind.caller, 0, CALLER_KINDS.indexOf(caller.kind), callerText(caller)]);
      calls.dispatch([Kind.dispatch, id, 60_000, ToolKind.query, 'tool', Buffer.alloc(0), 'trace', 0]);
    }
    go();
  });
  await answers;
  assert.deepEqual(seen, [
    { id: 'u1', name: 'Ada', role: 'editor' },
    { kind: 'token', name: 'backup' },
  ]);
});
