/** What a file of an app costs. */
import { APP, LARGE_FILE } from '../bench-app.ts';
import type { Workload } from '../workload.ts';

function file(scenario: string, question: string, name: string): Workload {
  return {
    scenario,
    question,
    durability: null,
    requests: [{ method: 'GET', path: `/svc/${APP}/${name}` }],
    plain: [{ method: 'GET', path: `/${APP}/${name}` }],
  };
}

export const staticWorkloads: Workload[] = [
  file('static', 'How many files of 2 KiB a second at {n} in flight?', 'style.css'),
  file('static-large', 'How many files of 1 MiB a second at {n} in flight?', LARGE_FILE),
];
