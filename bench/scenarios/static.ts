/** What a file of an app costs. */
import { APP } from '../bench-app.ts';
import { compare } from '../compare.ts';
import type { Scenario } from '../context.ts';

export const staticScenario: Scenario = {
  name: 'static',
  summary: 'a static file of 2 KiB',
  run: (context) =>
    compare(context, { scenario: 'static', requests: [{ method: 'GET', path: `/svc/${APP}/style.css` }] }),
};
