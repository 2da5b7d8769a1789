/** How fast a write is with everybody who has the app open. */
import type { Workload } from '../workload.ts';
import { workloadOf, write } from './tools.ts';

/** A request counts once its answer and every subscriber's event have arrived. */
export const changesWorkloads: Workload[] = [
  {
    ...workloadOf('sse', 'How soon do 200 subscribers have the event of a write, {n} in flight?', 'full', write),
    subscribers: 200,
    connections: [1, 8],
  },
  {
    ...workloadOf('sse-5000', 'How soon do 5,000 subscribers have the event of a write, {n} in flight?', 'full', write),
    subscribers: 5000,
    connections: [1],
  },
].map(({ store: _, ...workload }) => workload);
