/** What a loss of nodes costs a cluster, in a simulation that runs the decisions of the product. */
import { ClusterSimulation, type Outcome } from '../../testing/cluster-model/simulation.ts';
import { type Scenario, sized } from '../context.ts';
import { type Finding, fact } from '../measurements.ts';

const SEEDS = { full: 3, smoke: 1 };
const SCALE = {
  full: { nodes: 100, apps: 100_000, losses: 10, lostMessages: 0.01, lateMessages: 0.02, cuts: 0 },
  smoke: { nodes: 10, apps: 10_000, losses: 1, lostMessages: 0.01, lateMessages: 0.02, cuts: 0 },
};

export const placementScenario: Scenario = {
  name: 'placement',
  question:
    'How soon is everything of 10 lost nodes of a cluster of 100 with 100,000 apps placed again, and how evenly?',
  run: async (context) => {
    const scale = sized(context, SCALE);
    const seeds = Array.from({ length: sized(context, SEEDS) }, (_, n) => n + 1);
    const outcomes = seeds.map((seed) => {
      const outcome = new ClusterSimulation(seed, scale).run();
      for (const violation of outcome.violations) context.progress(`  seed ${seed}: ${violation}`);
      return outcome;
    });
    const detail = `the worst of ${seeds.length} simulations: ${scale.losses} of ${scale.nodes} nodes lost, ${scale.apps} apps, clocks 0.2 % apart, 1 % of the messages lost and 2 % up to 2 s late`;
    const worst = (name: string, of: (outcome: Outcome) => number, unit: Finding['unit']): Finding =>
      fact(name, Math.max(...outcomes.map(of)), unit, detail);
    return [
      worst('from the loss until every bucket is served', ({ placedMs }) => placedMs, 'ms'),
      worst('most buckets of a node, of the mean', ({ unevenBuckets }) => unevenBuckets, '×'),
      worst('most apps of a node, of the mean', ({ unevenApps }) => unevenApps, '×'),
      worst('buckets of the lost nodes, which moved', ({ orphans }) => orphans, ''),
      worst('other buckets that moved', ({ movedOthers }) => movedOthers, ''),
      worst('questions to the directory by all nodes, at rest', ({ questionsAtRest }) => questionsAtRest, '/s'),
      worst('the same until everything is served', ({ questionsAfterLoss }) => questionsAfterLoss, '/s'),
      worst('buckets with two owners at once', ({ violations }) => violations.length, ''),
    ];
  },
};
