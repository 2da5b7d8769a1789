import assert from 'node:assert/strict';
import { once } from 'node:events';
import { afterEach, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { SpareThread } from './spare-thread.ts';

let started: Worker[] = [];

function start(): Worker {
  const thread = new Worker('require("node:worker_threads").parentPort.on("message", () => process.exit());', {
    eval: true,
  });
  started.push(thread);
  return thread;
}

afterEach(async () => {
  await Promise.all(started.map((thread) => thread.terminate()));
  started = [];
});

test('what needs a thread gets the one that is ready, once, and otherwise a new one', () => {
  const spare = new SpareThread(start, () => true);
  spare.now();
  spare.now();
  assert.equal(started.length, 1);
  assert.equal(spare.take(), started[0]);
  assert.equal(started[0]?.listenerCount('exit'), 0, 'it is somebody’s now');
  assert.equal(spare.take(), started[1]);
  spare.now();
  assert.equal(started.length, 3);
});

test('none is kept while there is no room for one', () => {
  let hasRoom = false;
  const spare = new SpareThread(start, () => hasRoom);
  spare.now();
  assert.equal(started.length, 0);
  assert.equal(spare.take(), started[0], 'what needs one gets one all the same');
  hasRoom = true;
  spare.now();
  assert.equal(spare.take(), started[1]);
});

test('one that ended is not given', async () => {
  const spare = new SpareThread(start, () => true);
  spare.now();
  const [first] = started as [Worker];
  first.postMessage('end');
  await once(first, 'exit');
  assert.notEqual(spare.take(), first);
});

test('one that is to start soon starts once, and not before it is asked for again where it was put off', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const spare = new SpareThread(start, () => true);
  spare.soon(50);
  spare.soon(50);
  t.mock.timers.tick(49);
  assert.equal(started.length, 0);
  spare.later();
  t.mock.timers.tick(100);
  assert.equal(started.length, 0);
  spare.soon(50);
  t.mock.timers.tick(50);
  assert.equal(started.length, 1);
});

test('a thread that cannot be started is no spare one, and whoever needs it is told', () => {
  const spare = new SpareThread(
    () => {
      throw new Error('too many threads');
    },
    () => true,
  );
  spare.now();
  assert.throws(() => spare.take(), /too many threads/);
});
