/** How fast a write is with everybody who has the app open. */

import { ROWS } from '../bench-app.ts';
import { compare } from '../compare.ts';
import type { Scenario } from '../context.ts';
import { putRequest } from './tools.ts';

const SUBSCRIBERS = 200;

export const changesScenario: Scenario = {
  name: 'sse',
  summary: `writes with ${SUBSCRIBERS} subscribers: a request counts once all of them have its event`,
  run: (context) =>
    compare(context, {
      scenario: 'sse',
      requests: Array.from({ length: 100 }, (_, i) => putRequest(1 + (i % ROWS))),
      subscribers: SUBSCRIBERS,
    }),
};
