import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildsTable } from './builds.ts';
import type { Contender } from './contenders.ts';
import type { Context } from './context.ts';
import type { LoadResult } from './load/task.ts';
import { takeTurns } from './turns.ts';

const CONTEXT = { options: { smoke: false }, progress: () => {} } as unknown as Context;
const LOAD = { scenario: 'read', question: 'How many at {n}?', connections: 1, rounds: 6, measureMs: 1000 };

/** Answers at a given rate, more of it in each round; one request in ten is answered late. */
function contender(name: string, rates: number[], log: string[]): Contender {
  let round = 0;
  return {
    name,
    processes: () => [],
    run: ({ measureMs }) => {
      log.push(name);
      const answered = ((rates[round++] as number) * measureMs) / 1000;
      const result: LoadResult = {
        answered,
        elapsedMs: measureMs,
        latencies: Array.from({ length: answered }, (_, i) => (i % 10 === 0 ? 5 : 1)),
        delivery: [],
        requests: answered,
        events: 0,
        failed: 0,
        firstFailure: null,
        cpuMs: answered / 100,
      };
      return Promise.resolve(result);
    },
  };
}

test('every other round goes backwards, and neighbours are divided by each other', async () => {
  const log: string[] = [];
  const drift = [100, 200, 300, 400, 500, 600];
  const turns = await takeTurns(
    CONTEXT,
    [
      contender('gateway', drift, log),
      contender(
        'bare edge',
        drift.map((rate) => rate * 4),
        log,
      ),
    ],
    { ...LOAD, durability: null },
  );
  assert.deepEqual(log.slice(0, 4), ['gateway', 'bare edge', 'bare edge', 'gateway']);
  assert.equal(turns.question, 'How many at 1?');
  assert.deepEqual(turns.ratios, { 'bare edge': { estimate: 0.25, low: 0.25, high: 0.25 } });
  const side = turns.sides.gateway;
  assert.equal(side?.requestsPerSecond, 350);
  assert.deepEqual([side?.p50, side?.worst], [1, 5]);
  assert.equal(side.cpu.load?.toFixed(3), '10.000', 'microseconds a request');
  assert.equal(side.fsyncsPerSecond, null);
});

test('fsyncs a second come from the commits that were counted', async () => {
  const rates = [100, 100, 100, 100, 100, 100];
  let looks = 0;
  const gateway: Contender = {
    ...contender('gateway', rates, []),
    // 600 requests in all, ten rows a commit.
    commits: () => Promise.resolve(looks++ === 0 ? { commits: 5, rows: 50 } : { commits: 65, rows: 650 }),
  };
  const plain = contender('plain server', rates, []);
  const { sides, rowsPerCommit } = await takeTurns(CONTEXT, [gateway, plain], { ...LOAD, durability: 'full' });
  assert.equal(rowsPerCommit, 10);
  assert.equal(sides.gateway?.fsyncsPerSecond, 10);
  assert.equal(sides['plain server']?.fsyncsPerSecond, null, 'it counts none');
});

test('two builds are told apart by the interval of their ratio', async () => {
  const rates = [100, 101, 99, 100, 102, 98];
  const faster = await takeTurns(
    CONTEXT,
    [
      contender(
        'B',
        rates.map((rate) => rate * 2),
        [],
      ),
      contender('A', rates, []),
    ],
    { ...LOAD, connections: 8, durability: null },
  );
  assert.match(
    buildsTable([faster]),
    /^\| read +\| 8 +\| 100 \| 200 \| 2\.00 \(2\.00 to 2\.00\) \|.*\| B is faster +\|$/m,
  );
});
