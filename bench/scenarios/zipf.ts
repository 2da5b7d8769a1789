/** Many apps, of which a few get most of the calls: all of them live, or more of them than may be. */
import type { Config } from '../../supervisor/config.ts';
import { Random } from '../../testing/random.ts';
import { APP, ROWS } from '../bench-app.ts';
import type { Scenario } from '../context.ts';
import { plainRequest, type Workload } from '../workload.ts';
import { loadScenario, read } from './tools.ts';

const APPS = 100;
const LIVE = 64;
const SMOKE_APPS = 10;
const SMOKE_LIVE = 6;
/** Calls after which they come round again. */
const CALLS = 5000;
const SEED = 1;
const question = (live: string) =>
  `How many reads a second over ${APPS} apps under a Zipf load, ${live}, at {n} in flight?`;

export const zipfScenario = zipfWith('zipf', question('as many live as fit'), {});
export const zipfFewScenario = zipfWith('zipf-few', question(`${LIVE} live at a time`), {
  maxLiveActors: LIVE,
});

function zipfWith(scenario: string, question: string, { maxLiveActors }: Partial<Config>): Scenario {
  return loadScenario(scenario, question, (smoke) => {
    const apps = Array.from({ length: smoke ? SMOKE_APPS : APPS }, (_, i) => `${APP}-zipf-${i}`);
    const random = new Random(SEED);
    const rank = zipf(apps.length, random);
    const calls = Array.from({ length: CALLS }, () => ({ app: apps[rank()] as string, id: random.between(1, ROWS) }));
    const workload: Workload = {
      scenario,
      question,
      durability: null,
      requests: calls.map(({ app, id }) => read(id, app).request),
      plain: calls.map(({ app, id }) => plainRequest('get', { id }, app)),
      apps,
      config: maxLiveActors === undefined ? {} : { maxLiveActors: smoke ? SMOKE_LIVE : maxLiveActors },
    };
    return Promise.resolve(workload);
  });
}

/** Ranks from 0 whose frequency is one over their place: the second half as often as the first, the third a third. */
function zipf(count: number, random: Random): () => number {
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
