/** Turns of the residents of the commons: their order, their ends, and what comes between them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MessageChannel } from 'node:worker_threads';
import { type Frame, Kind } from '../../protocol/wire/frames.ts';
import { TurnPulse } from './pulse.ts';
import { Turns } from './turns.ts';

const START = [Kind.start, {}] as unknown as Frame;
const CALLER = [Kind.caller, 0, 0, ''] as unknown as Frame;
const CALL = [Kind.dispatch, 1] as unknown as Frame;
const NAMES = new Map([
  [START, 'start'],
  [CALLER, 'caller'],
  [CALL, 'call'],
]);

/** What happens, in order. `onReceived` runs in the turn. */
function begin(onReceived: (actorId: number, frame: Frame) => void = () => {}) {
  const seen: string[] = [];
  const pulse = new TurnPulse();
  let idle = (): void => {};
  const turns = new Turns(pulse, {
    flush: () => seen.push('flush'),
    receive: (actorId, frame) => {
      seen.push(`${NAMES.get(frame)} ${actorId}`);
      onReceived(actorId, frame);
    },
    onEnded: (actorId) => seen.push(`end ${actorId}`),
    onIdle: () => idle(),
  });
  const isIdle = () => new Promise<void>((resolve) => (idle = resolve));
  return { turns, seen, pulse, isIdle };
}

test('what others have said leaves before a turn begins, and the turn before it has ended', async () => {
  const { turns, seen, isIdle } = begin();
  for (const actorId of [1, 2]) turns.enqueue(actorId, CALL);
  await isIdle();
  assert.deepEqual(seen, ['flush', 'call 1', 'end 1', 'flush', 'call 2', 'end 2', 'flush']);
});

test('each turn has a turn of the event loop, in which what comes meanwhile is read', async () => {
  const { port1, port2 } = new MessageChannel();
  const seen: string[] = [];
  const { turns, isIdle } = begin((actorId) => {
    seen.push(`call ${actorId}`);
    if (actorId === 1) port2.postMessage('');
  });
  port1.on('message', () => seen.push('message'));
  for (const actorId of [1, 2, 3]) turns.enqueue(actorId, CALL);
  await isIdle();
  port1.close();
  assert.deepEqual(seen, ['call 1', 'message', 'call 2', 'call 3']);
});

test('a turn lasts until what follows from it in promises has run', async () => {
  const after: number[] = [];
  const { turns, pulse, isIdle } = begin(() => {
    void Promise.resolve()
      .then(() => null)
      .then(() => after.push(pulse.read().resident));
  });
  for (const actorId of [1, 2]) turns.enqueue(actorId, CALL);
  await isIdle();
  assert.deepEqual([after, pulse.read().resident], [[1, 2], 0]);
});

test('one that starts is told all it needs for its first call in one turn, after the calls of those that run', async () => {
  const { turns, seen, isIdle } = begin();
  for (const frame of [START, CALLER, CALL, CALL]) turns.enqueue(1, frame);
  turns.enqueue(2, START);
  turns.enqueue(3, CALL);
  await isIdle();
  const turn = (actorId: number, ...frames: string[]) => [
    'flush',
    ...frames.map((name) => `${name} ${actorId}`),
    `end ${actorId}`,
  ];
  const expected = [...turn(3, 'call'), ...turn(1, 'start', 'caller', 'call'), ...turn(1, 'call'), ...turn(2, 'start')];
  assert.deepEqual(seen, [...expected, 'flush']);
});

test('a timer of a resident takes a turn of its own', async () => {
  const { turns, seen, pulse } = begin();
  turns.take(1, () => turns.take(2, () => assert.equal(pulse.read().resident, 2)));
  await new Promise(setImmediate);
  assert.deepEqual(seen, ['flush', 'end 1', 'flush', 'end 2']);
});
