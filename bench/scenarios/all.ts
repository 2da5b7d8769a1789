/** Every scenario, in the order of the report. */
import type { Scenario } from '../context.ts';
import { blobsScenario } from './blobs.ts';
import { clusterScenario } from './cluster.ts';
import { consoleScenario } from './console.ts';
import { densityScenario } from './density.ts';
import { embeddingScenario } from './embedding.ts';
import { historyScenario } from './history.ts';
import { loopScenario } from './loop.ts';
import { memoryScenario } from './memory.ts';
import { metricsScenario } from './metrics.ts';
import { mixedScenario } from './mixed.ts';
import { pageLogScenario } from './page-log.ts';
import { peersScenario } from './peers.ts';
import { peopleScenario } from './people.ts';
import { placementScenario } from './placement.ts';
import { publishScenario } from './publish.ts';
import { runawayScenario } from './runaway.ts';
import { scheduleScenario } from './schedule.ts';
import { sharedFilesScenario } from './shared-files.ts';
import { coldFireScenario, coldManyScenario, coldScenario, coldWriteScenario, readyScenario } from './start.ts';
import { startCostScenario } from './start-cost.ts';
import { turnsScenario } from './turns.ts';
import { webhooksScenario } from './webhooks.ts';
import { asScenario, WORKLOADS } from './workloads.ts';
import { zipfScenario } from './zipf.ts';

export const SCENARIOS: Scenario[] = [
  ...WORKLOADS.map((workload) => asScenario(workload)),
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
  coldWriteScenario,
  coldFireScenario,
  readyScenario,
  startCostScenario,
  embeddingScenario,
  clusterScenario,
  loopScenario,
  memoryScenario,
  densityScenario,
  metricsScenario,
  pageLogScenario,
  peopleScenario,
  consoleScenario,
  placementScenario,
  sharedFilesScenario,
];
