/** Collects metrics by app, from its meter, its actor and its files. */
import type { Services } from '../../services.ts';
import type { Actor } from '../../tree/actor/actor.ts';
import { type AppDiskUsage, DiskUsage } from './disk-usage.ts';
import type { Family, Value } from './families.ts';
import { CALL_BUCKETS_MS, type Meter } from './meters.ts';

const CALL_BUCKETS = CALL_BUCKETS_MS.map((ms) => ms / 1000);

export function appFamilies(services: Services): Family[] {
  const { tree, blobs } = services;
  const { meters } = tree;
  /** Some values of each label. */
  const byApp = (values: (meter: Meter, app: string) => Value[]): Value[] =>
    meters.all.flatMap(([app, meter]) => values(meter, app));
  /** Sums over the live apps of each label. */
  const ofActors = (count: (actor: Actor) => number): Value[] =>
    sums(tree.apps.all, (actor) => meters.labelOf(actor.app), count);
  const ofFiles = (count: 'files' | 'bytes'): Value[] =>
    sums(
      blobs.known,
      ([app]) => meters.labelOf(app),
      ([, usage]) => usage[count],
    );
  const disk = new DiskUsage(services);
  const onDisk = (kind: keyof AppDiskUsage): Value[] =>
    sums(
      disk.known,
      ([app]) => meters.labelOf(app),
      ([, usage]) => usage[kind],
    ).map(([labels, bytes]) => [{ ...labels, kind }, bytes]);
  return [
    {
      name: 'svc_calls_total',
      help: 'Queries and actions that ended, by how: refused with a status below 500, or failed.',
      type: 'counter',
      collect: () =>
        byApp(({ queries, actions }, app) =>
          [{ kind: 'query', counts: queries } as const, { kind: 'action', counts: actions } as const].flatMap(
            ({ kind, counts }) =>
              (['ok', 'refused', 'failed'] as const).map((result): Value => [{ app, kind, result }, counts[result]]),
          ),
        ),
    },
    {
      name: 'svc_call_duration_seconds',
      help: 'How long queries and actions took, waiting included.',
      type: 'histogram',
      collect: () =>
        meters.all.map(([app, { buckets, callMs }]) => ({
          labels: { app },
          bounds: CALL_BUCKETS,
          counts: buckets,
          sum: callMs / 1000,
        })),
    },
    {
      name: 'svc_kept_results_total',
      help: 'Queries that were answered with a kept result (hit), and those that found none (miss).',
      type: 'counter',
      collect: () =>
        byApp(({ keptHits, keptMisses }, app) => [
          [{ app, result: 'hit' }, keptHits],
          [{ app, result: 'miss' }, keptMisses],
        ]),
    },
    {
      name: 'svc_mailbox_calls',
      help: 'Calls that wait for a thread.',
      type: 'gauge',
      collect: () => ofActors(({ mailbox }) => mailbox.size),
    },
    {
      name: 'svc_calls_in_flight',
      help: 'Calls that threads work on.',
      type: 'gauge',
      collect: () =>
        ofActors(({ generations }) => generations.reduce((count, { inFlight }) => count + inFlight.size, 0)),
    },
    {
      name: 'svc_quarantined',
      help: 'Apps that are given up on until they are restarted.',
      type: 'gauge',
      collect: () => ofActors(({ state }) => Number(state === 'quarantined' || state === 'failed_to_start')),
    },
    {
      name: 'svc_thread_restarts_total',
      help: 'Threads of apps and their automations that ended unexpectedly.',
      type: 'counter',
      collect: () => byApp(({ restarts }, app) => [[{ app }, restarts]]),
    },
    {
      name: 'svc_commons_apps',
      help: 'Apps in the commons now.',
      type: 'gauge',
      collect: () => [[{}, tree.apps.all.filter(({ inCommons }) => inCommons).length]],
    },
    {
      name: 'svc_commons_left_total',
      help: 'Apps that left the commons for a thread of their own, by why.',
      type: 'counter',
      collect: () => Object.entries(tree.leftCommons).map(([reason, count]): Value => [{ reason }, count]),
    },
    {
      name: 'svc_runs_total',
      help: 'Runs of automations and turns of chats that ended, by their state.',
      type: 'counter',
      collect: () => byApp(({ runs }, app) => [...runs].map(([state, count]): Value => [{ app, state }, count])),
    },
    {
      name: 'svc_agent_tokens_total',
      help: 'Tokens that agents used in runs and turns.',
      type: 'counter',
      collect: () =>
        byApp(({ inputTokens, outputTokens }, app) => [
          [{ app, direction: 'input' }, inputTokens],
          [{ app, direction: 'output' }, outputTokens],
        ]),
    },
    {
      name: 'svc_agent_cost_usd_total',
      help: 'What agents cost in runs and turns, in US dollars.',
      type: 'counter',
      collect: () => byApp(({ costUsd }, app) => [[{ app }, costUsd]]),
    },
    {
      name: 'svc_files',
      help: 'Files that apps keep, of apps whose files were used since the start.',
      type: 'gauge',
      collect: () => ofFiles('files'),
    },
    {
      name: 'svc_files_bytes',
      help: 'Bytes of these files.',
      type: 'gauge',
      collect: () => ofFiles('bytes'),
    },
    {
      name: 'svc_app_disk_bytes',
      help: 'What databases, and the code of all versions that are kept, take on the disk, as measured every five minutes.',
      type: 'gauge',
      collect: () => [...onDisk('data'), ...onDisk('versions')],
    },
  ];
}

/** In one loop, because there may be thousands. */
function sums<T>(items: Iterable<T>, labelOf: (item: T) => string, count: (item: T) => number): Value[] {
  const all = new Map<string, number>();
  for (const item of items) {
    const app = labelOf(item);
    all.set(app, (all.get(app) ?? 0) + count(item));
  }
  return [...all].map(([app, count]) => [{ app }, count]);
}
