import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '../../testing/random.ts';
import { type Fault, ResultsModel } from '../../testing/results-model/model.ts';

const STEPS = 150;
const SCHEDULES = 3000;

test(`no read is old in ${SCHEDULES} schedules of the model, and many are hits`, async () => {
  let hits = 0;
  let reads = 0;
  for (let seed = 1; seed <= SCHEDULES; seed++) {
    const model = new ResultsModel(new Random(seed));
    await model.run(STEPS);
    assert.deepEqual(model.violations, [], `seed ${seed}`);
    hits += model.hits;
    reads += model.reads;
  }
  assert.ok(hits > reads / 20, `${hits} of ${reads} reads were hits`);
});

const FAULTS: Fault[] = [
  'messages only',
  'schema not told',
  'runs shared for ever',
  'writes during a run not told',
  'subscribers told at once',
  'callers share',
];
for (const fault of FAULTS) {
  test(`the model finds a supervisor with this fault: ${fault}`, async () => {
    for (let seed = 1; seed <= SCHEDULES; seed++) {
      const model = new ResultsModel(new Random(seed), fault);
      await model.run(STEPS);
      if (model.violations.length > 0) return;
    }
    assert.fail('It found nothing.');
  });
}
