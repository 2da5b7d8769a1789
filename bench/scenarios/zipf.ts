/** Many apps, of which a few get most of the calls. */
import { Random } from '../../testing/random.ts';
import { APP, ROWS } from '../bench-app.ts';
import { plainRequest, type Workload } from '../workload.ts';
import { asScenario, read } from './workloads.ts';

const APPS = 100;
const SMOKE_APPS = 10;
/** Calls after which they come round again. */
const CALLS = 5000;
const SEED = 1;

export const zipfScenario = asScenario(zipfOver(APPS), zipfOver(SMOKE_APPS));

function zipfOver(count: number): Workload {
  const apps = Array.from({ length: count }, (_, i) => `${APP}-zipf-${i}`);
  const random = new Random(SEED);
  const rank = zipf(count, random);
  const calls = Array.from({ length: CALLS }, () => ({ app: apps[rank()] as string, id: random.between(1, ROWS) }));
  return {
    scenario: 'zipf',
    question: `How many reads a second over ${APPS} apps under a Zipf load, at {n} in flight?`,
    durability: null,
    requests: calls.map(({ app, id }) => read(id, app).request),
    plain: calls.map(({ app, id }) => plainRequest('get', { id }, app)),
    apps,
  };
}

/** Ranks from 0 whose frequency is one over their place: the second half as often as the first, the third a third. */
export function zipf(count: number, random: Random): () => number {
  const upTo: number[] = [];
  let sum = 0;
  for (let place = 1; place <= count; place++) {
    sum += 1 / place;
    upTo.push(sum);
  }
  return () => {
    const at = random.next() * sum;
    return upTo.findIndex((end) => at < end);
  };
}
