/**
 * "The store loop": better-sqlite3 in a loop, with no server around it. The limit of what the store can do with the same
 * statements, one after the other, at the same durability.
 *
 * `store-loop.ts <folder> <full|normal>`: for each line of JSON (`StoreTask`) on standard input, prints a line with a
 * `LoadResult`. Prints `{}` when it is ready, ends when standard input does.
 */
import { createInterface } from 'node:readline';
import { Histogram } from './load/histogram.ts';
import type { LoadResult } from './load/task.ts';
import { type Durability, Notes, type Operation } from './notes.ts';

/** `inputs` are given to the operation in turn. Times in milliseconds. */
export type StoreTask = { operation: Operation; inputs: object[]; warmUpMs: number; measureMs: number };

const [folder, durability] = process.argv.slice(2) as [string, Durability];
const notes = new Notes(folder, 'store', durability);

function run({ operation, inputs, warmUpMs, measureMs }: StoreTask): LoadResult {
  const latencies = new Histogram();
  const measureFrom = performance.now() + warmUpMs;
  const measureUntil = measureFrom + measureMs;
  let requests = 0;
  for (let startedAt = performance.now(); startedAt < measureUntil; requests++) {
    notes[operation](inputs[requests % inputs.length] as never);
    const now = performance.now();
    if (startedAt >= measureFrom) latencies.record((now - startedAt) * 1000);
    startedAt = now;
  }
  return {
    answered: latencies.total,
    elapsedMs: performance.now() - measureFrom,
    latencies: latencies.counts(),
    delivery: [],
    requests,
    events: 0,
    failed: 0,
    firstFailure: null,
    cpuMs: 0,
  };
}

const input = createInterface(process.stdin);
input.on('line', (line) => {
  process.stdout.write(`${JSON.stringify(run(JSON.parse(line) as StoreTask))}\n`);
});
input.on('close', () => {
  notes.close();
  process.exit(0);
});
process.stdout.write('{}\n');
