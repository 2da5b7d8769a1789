import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '../../testing/random.ts';
import { type Fault, ResultsModel } from '../../testing/results-model/model.ts';

const STEPS = 150;
const SCHEDULES = 1000;

/** Each with the first seed whose schedule shows it; should the model change, a later one does. */
const FAULTS: [fault: Fault, seed: number][] = [
  ['messages only', 11],
  ['schema not told', 1207],
  ['runs shared for ever', 49],
  ['writes during a run not told', 2],
  ['subscribers told at once', 25],
  ['callers share', 6],
];

test(`no read is old or unanswered in ${SCHEDULES} schedules of the model, and many are hits`, async () => {
  let hits = 0;
  let reads = 0;
  const seeds = Array.from({ length: SCHEDULES }, (_, i) => i + 1);
  for (const seed of [...seeds, ...FAULTS.map(([, seed]) => seed)]) {
    const model = new ResultsModel(new Random(seed));
    await model.run(STEPS);
    assert.deepEqual(model.violations, [], `seed ${seed}`);
    hits += model.hits;
    reads += model.reads;
  }
  assert.ok(hits > reads / 20, `${hits} of ${reads} reads were hits`);
});

for (const [fault, first] of FAULTS) {
  test(`the model finds a supervisor with this fault: ${fault}`, async () => {
    for (let seed = first; seed < first + 3 * SCHEDULES; seed++) {
      const model = new ResultsModel(new Random(seed), fault);
      await model.run(STEPS);
      if (model.violations.length > 0) return;
    }
    assert.fail('It found nothing.');
  });
}
