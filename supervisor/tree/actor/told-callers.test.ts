import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { type Frame, Kind } from '../../../protocol/wire/frames.ts';
import { ADMIN_CALLER, CALLER_KINDS, callerText, type HandlerCaller } from '../../../protocol/wire/handler-caller.ts';
import { ToldCallers } from './told-callers.ts';

/** Callers as a thread knows them: what it was told, by number. */
function setUp() {
  const told = new ToldCallers();
  const known: [kind: number, text: string][] = [];
  let frames = 0;
  const send = (frame: Frame): void => {
    assert.ok(frame[0] === Kind.caller);
    known[frame[1]] = [frame[2], frame[3]];
    frames++;
  };
  /** Names a caller, and checks that the thread takes the number for it. How many frames that took. */
  const name = (caller: HandlerCaller): number => {
    const before = frames;
    const number = told.numberOf(caller, { send });
    assert.deepEqual(known[number], [CALLER_KINDS.indexOf(caller.kind), callerText(caller)]);
    return frames - before;
  };
  return { name, known };
}

function person(id: string, role = 'viewer'): HandlerCaller {
  return { kind: 'person', name: 'Ada', user: { id, name: 'Ada', role } };
}

test('a thread is told of each caller once, and of one with another role or kind anew', () => {
  const { name } = setUp();
  const named = [ADMIN_CALLER, person('u1'), person('u2'), person('u1', 'editor'), { kind: 'session' } as const];
  const alike = { kind: 'token', name: callerText(person('u1')) } as const;
  for (const caller of [...named, alike]) assert.equal(name(caller), 1);
  for (const caller of [...named, alike, person('u1')]) assert.equal(name(caller), 0);
});

test('a thread knows so many callers and no more, and always the one who calls', () => {
  const { name, known } = setUp();
  for (let count = 0; count < 2.5 * LIMITS.toldCallers; count++) {
    name(person(`u${count}`));
    assert.equal(name(person(`u${count}`)), 0);
    name(ADMIN_CALLER);
  }
  assert.equal(known.length, LIMITS.toldCallers);
});
