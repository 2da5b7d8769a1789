import assert from 'node:assert/strict';
import { once } from 'node:events';
import { afterEach, test } from 'node:test';
import { isMainThread, Worker } from 'node:worker_threads';
import { bytesOutsideHeap, MemoryWatch, type Watched } from './memory-watch.ts';

/** Of the threads that run this file: how often each measures. */
const TIMES = 40;
if (!isMainThread) {
  for (let time = 0; time < TIMES; time++) bytesOutsideHeap(0);
  process.exit();
}

const BUDGET = 100;

class Thread implements Watched {
  asked = 0;
  pageFaults = 0;
  ended = false;
  ask = () => void this.asked++;
  faults = (): number => this.pageFaults;
  end = () => {
    this.ended = true;
  };
}

const threads: Thread[] = [];
let watch: MemoryWatch;
let rss = 1000;

function watching(count: number): Thread[] {
  rss = 1000;
  watch = new MemoryWatch(BUDGET, () => rss);
  threads.push(...Array.from({ length: count }, () => new Thread()));
  for (const thread of threads) watch.add(thread);
  watch.look();
  return threads;
}
afterEach(() => {
  for (const thread of threads.splice(0)) watch.remove(thread);
});

test('no thread is asked while memory stays about the same', () => {
  const [thread] = watching(1);
  for (const bytes of [1040, 900, 940]) {
    rss = bytes;
    watch.look();
  }
  assert.equal(thread?.asked, 0);
});

test('when memory has grown everybody is asked, and who holds more than the budget ends', () => {
  const [good, bad] = watching(2) as [Thread, Thread];
  rss = 1060;
  watch.look();
  assert.deepEqual([good.asked, bad.asked], [1, 1]);
  watch.measured(good, BUDGET);
  watch.measured(bad, BUDGET + 1);
  assert.deepEqual([good.ended, bad.ended], [false, true]);
});

test('growth that no thread caused becomes the new level', () => {
  const [thread] = watching(1) as [Thread];
  rss = 1060;
  watch.look();
  watch.measured(thread, 10);
  for (let n = 0; n < 3; n++) watch.look();
  assert.equal(thread.asked, 1);
  rss = 1120;
  watch.look();
  assert.equal(thread.asked, 2);
});

test('one that answered and goes on growing is asked again, and who only keeps silent does not pay for it', () => {
  const [busy, growing] = watching(2) as [Thread, Thread];
  rss = 1060;
  watch.look();
  watch.measured(growing, 60);
  growing.pageFaults += 500;
  rss += BUDGET + 1;
  watch.look();
  assert.deepEqual([busy.ended, growing.ended, growing.asked], [false, false, 2]);
  watch.measured(growing, 161);
  assert.deepEqual([busy.ended, growing.ended], [false, true]);
});

test('of those that do not answer, the one that touches new memory ends, and only while memory grows', () => {
  const [busy, greedy, good] = watching(3) as [Thread, Thread, Thread];
  busy.pageFaults = 1_000_000;
  rss = 1060;
  watch.look();
  watch.measured(good, 0);
  busy.pageFaults += 10;
  greedy.pageFaults += 500;
  watch.look();
  rss = 1060 + BUDGET;
  watch.look();
  assert.deepEqual([busy.ended, greedy.ended], [false, false]);
  rss += 1;
  watch.look();
  assert.deepEqual([busy.ended, greedy.ended, good.ended], [false, true, false]);
  watch.remove(greedy);
  rss += BUDGET;
  watch.look();
  assert.equal(busy.ended, false);
});

test('threads that collect garbage at the same time do not fail', async () => {
  const started = Array.from({ length: 4 }, () => new Worker(process.argv[1] as string));
  const ends = await Promise.all(started.map((thread) => once(thread, 'exit')));
  assert.deepEqual(ends, [[0], [0], [0], [0]]);
});
