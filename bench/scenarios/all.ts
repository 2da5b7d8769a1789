/** Every scenario, in the order of the report. */
import type { Scenario } from '../context.ts';
import { blobsScenario } from './blobs.ts';
import { changesWorkloads } from './changes.ts';
import { consoleScenario } from './console.ts';
import { historyScenario } from './history.ts';
import { loopScenario } from './loop.ts';
import { memoryScenario } from './memory.ts';
import { metricsScenario } from './metrics.ts';
import { mixedScenario } from './mixed.ts';
import { peersScenario } from './peers.ts';
import { publishScenario } from './publish.ts';
import { runawayScenario } from './runaway.ts';
import { scheduleScenario } from './schedule.ts';
import { coldFireScenario, coldManyScenario, coldScenario, readyScenario } from './start.ts';
import { staticWorkloads } from './static.ts';
import { asScenario, toolWorkloads } from './tools.ts';
import { turnsScenario } from './turns.ts';
import { webhooksScenario } from './webhooks.ts';
import { zipfScenario } from './zipf.ts';

export const SCENARIOS: Scenario[] = [
  ...[...toolWorkloads, ...staticWorkloads, ...changesWorkloads].map((workload) => asScenario(workload)),
  peersScenario,
  blobsScenario,
  publishScenario,
  historyScenario,
  zipfScenario,
  runawayScenario,
  mixedScenario,
  webhooksScenario,
  scheduleScenario,
  turnsScenario,
  coldScenario,
  coldManyScenario,
  coldFireScenario,
  readyScenario,
  loopScenario,
  memoryScenario,
  metricsScenario,
  consoleScenario,
];
