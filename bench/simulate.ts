/** `npm run simulate`: runs random schedules of the model of kept results, and prints each violation with the seed that repeats it. */
import { parseArgs } from 'node:util';
import { Random } from '../testing/random.ts';
import { ResultsModel } from '../testing/results-model/model.ts';

const { values } = parseArgs({
  options: {
    schedules: { type: 'string', default: '100000' },
    steps: { type: 'string', default: '150' },
    seed: { type: 'string', default: '1' },
  },
});
const first = Number(values.seed);
const schedules = Number(values.schedules);
let reads = 0;
let hits = 0;
let told = 0;
let violations = 0;
for (let seed = first; seed < first + schedules; seed++) {
  const model = new ResultsModel(new Random(seed));
  await model.run(Number(values.steps));
  reads += model.reads;
  hits += model.hits;
  told += model.told;
  violations += model.violations.length;
  for (const violation of model.violations) console.log(`--schedules 1 --seed ${seed}: ${violation}`);
}
console.log(
  `${schedules} schedules from seed ${first}: ${reads} reads, ${hits} of them hits, ${told} results told to those who ` +
    `follow live queries, ${violations} violations.`,
);
process.exitCode = violations === 0 ? 0 : 1;
