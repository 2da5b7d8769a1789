// The order in which jobs start, without any process.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FairQueue, type Queued } from './fair-queue.ts';

type Job = Queued & { name: string };

const job = (name: string, party: string | null, pool = 'work'): Job => ({ name, party, pool, alone: false });
const queue = (work = 2, waiting = 8) => new FairQueue<Job>({ threads: { work, drafts: 1, long: 1 }, waiting });

function add(to: FairQueue<Job>, ...jobs: Job[]): boolean[] {
  return jobs.map((one) => to.add(one));
}

/** Starts as many as may start; their names. */
function started(from: FairQueue<Job>): string[] {
  const names: string[] = [];
  for (let one = from.next(); one !== null; one = from.next()) names.push(one.name);
  return names;
}

function end(of: FairQueue<Job>, name: string): void {
  of.remove([...of.running].find((one) => one.name === name) as Job);
}

test('an app has half of the threads, and others have the rest', () => {
  const jobs = queue(4);
  add(jobs, job('a1', 'a'), job('a2', 'a'), job('a3', 'a'), job('b1', 'b'));
  assert.deepEqual(started(jobs), ['a1', 'b1', 'a2']);
  add(jobs, job('c1', 'c'));
  assert.deepEqual(started(jobs), ['c1']);
  end(jobs, 'b1');
  assert.deepEqual(started(jobs), [], 'a thread stays free rather than going to the same app');
  end(jobs, 'a1');
  assert.deepEqual(started(jobs), ['a3']);
});

test('apps that wait take turns, whoever has more', () => {
  const jobs = queue(1);
  add(jobs, job('a1', 'a'), job('a2', 'a'), job('a3', 'a'), job('b1', 'b'));
  const order: string[] = [];
  for (let names = started(jobs); names.length > 0; names = started(jobs)) {
    order.push(...names);
    end(jobs, names[0] as string);
  }
  assert.deepEqual(order, ['a1', 'b1', 'a2', 'a3']);
});

test('an app has half of the places to wait, the gateway itself all', () => {
  const jobs = queue(2, 4);
  assert.deepEqual(add(jobs, job('a1', 'a'), job('a2', 'a'), job('a3', 'a')), [true, true, false]);
  assert.deepEqual(add(jobs, job('g1', null), job('g2', null), job('g3', null)), [true, true, false]);
});

test('the gateway itself may have all threads', () => {
  const jobs = queue();
  add(jobs, job('g1', null), job('g2', null));
  assert.deepEqual(started(jobs), ['g1', 'g2']);
});

test('each pool has separate threads', () => {
  const jobs = queue(1);
  add(jobs, job('a1', 'a'), job('a2', 'a', 'drafts'), job('a3', 'a', 'long'), job('a4', 'a', 'drafts'));
  assert.deepEqual(started(jobs), ['a1', 'a2', 'a3']);
});

test('a repeated job runs alone, before all others', () => {
  const jobs = queue();
  const [a, b] = [job('a', 'a'), job('b', 'b')];
  add(jobs, a, b, job('c', 'c', 'drafts'));
  assert.deepEqual(started(jobs), ['a', 'b', 'c']);
  jobs.putBack([a, b], true);
  assert.deepEqual(started(jobs), [], 'c is still there');
  end(jobs, 'c');
  add(jobs, job('d', 'd'));
  assert.deepEqual(started(jobs), ['a']);
  end(jobs, 'a');
  assert.deepEqual(started(jobs), ['b']);
  end(jobs, 'b');
  assert.deepEqual(started(jobs), ['d']);
  assert.equal(jobs.isEmpty, false);
  end(jobs, 'd');
  assert.equal(jobs.isEmpty, true);
});
