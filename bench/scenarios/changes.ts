/** How fast a write is with everybody who has the app open. */

import { CACHED_APP } from '../bench-app.ts';
import type { Request, Workload } from '../workload.ts';
import { workloadOf, write } from './tools.ts';

/** One row, which each write of it changes. */
const LIVE: Request = {
  method: 'GET',
  path: `/svc/${CACHED_APP}/_live?query=get&input=${encodeURIComponent('{"id":1}')}`,
};

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
  {
    ...workloadOf(
      'live',
      'How soon do 5,000 who follow a query have its new result after a write, {n} in flight?',
      'full',
      () => write(1, CACHED_APP),
    ),
    live: LIVE,
    apps: [CACHED_APP],
    subscribers: 5000,
    connections: [1],
  },
];
