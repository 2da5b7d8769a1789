/** Collects metrics of the whole gateway: HTTP, processes, writers, event loop, disk. */
import { statfs } from 'node:fs/promises';
import { performance } from 'node:perf_hooks';
import { version as nodeVersion } from 'node:process';
import type { ProcessStatus } from '../../../protocol/routes/operations/system-rows.ts';
import { GROUP_BUCKETS } from '../../../protocol/wire/frames.ts';
import type { Services } from '../../services.ts';
import { streamOf } from '../log-stream.ts';
import { processes } from '../status.ts';
import type { Distribution, Family, Value } from './families.ts';

const NONE = {};

export function gatewayFamilies(services: Services): Family[] {
  return [
    ...httpFamilies(services),
    ...processFamilies(services),
    ...writerFamilies(services),
    ...loopFamilies(services),
    ...stateFamilies(services),
    ...backupFamilies(services),
  ];
}

function httpFamilies({ version, httpMeter }: Services): Family[] {
  return [
    {
      name: 'svc_info',
      help: 'Versions of the gateway and of Node.js; always 1.',
      type: 'gauge',
      collect: () => [[{ version, node: nodeVersion }, 1]],
    },
    {
      name: 'svc_start_time_seconds',
      help: 'When the supervisor started, in seconds since the epoch.',
      type: 'gauge',
      collect: () => [[NONE, performance.timeOrigin / 1000]],
    },
    {
      name: 'svc_http_answers_total',
      help: 'Answers to HTTP requests, by the class of their status.',
      type: 'counter',
      collect: () => [2, 3, 4, 5].map((hundreds): Value => [{ status: `${hundreds}xx` }, httpMeter.total(hundreds)]),
    },
    {
      name: 'svc_http_duration_seconds',
      help: 'How long HTTP requests waited for the beginning of their answer, by kind of route and class of status.',
      type: 'histogram',
      collect: () => httpMeter.distributions,
    },
  ];
}

function processFamilies(services: Services): Family[] {
  const each = async (value: (status: ProcessStatus) => number | null): Promise<Value[]> =>
    (await processes(services)).flatMap((status): Value[] => {
      const found = value(status);
      return found === null ? [] : [[{ process: status.name }, found]];
    });
  return [
    {
      name: 'svc_process_resident_bytes',
      help: 'Resident memory of each process.',
      type: 'gauge',
      collect: () => each(({ rss }) => rss),
    },
    {
      name: 'svc_process_cpu_seconds_total',
      help: 'Processor time of each process since it started.',
      type: 'counter',
      collect: () => each(({ cpuMs }) => (cpuMs === null ? null : cpuMs / 1000)),
    },
    {
      name: 'svc_process_restarts_total',
      help: 'How often each process was started again.',
      type: 'counter',
      collect: () => each(({ restarts }) => restarts),
    },
  ];
}

/** As the writers said in their latest heartbeat, at most a second ago. */
function writerFamilies({ tree }: Services): Family[] {
  const counter = (what: 'commits' | 'statements' | 'rows' | 'checkpoints', help: string): Family => ({
    name: `svc_writer_${what}_total`,
    help,
    type: 'counter',
    collect: () => tree.writers.all.map(({ name, stats }): Value => [{ process: name }, stats?.counters?.[what] ?? 0]),
  });
  return [
    counter('statements', 'Statements that writers ran.'),
    counter('rows', 'Rows that these changed.'),
    counter('checkpoints', 'Checkpoints of databases.'),
    {
      name: 'svc_writer_group_size',
      help: 'Operations that writers committed together.',
      type: 'histogram',
      collect: () =>
        tree.writers.all.flatMap(({ name, stats }): Distribution[] =>
          stats?.groups === undefined
            ? []
            : [
                {
                  labels: { process: name },
                  bounds: GROUP_BUCKETS,
                  counts: stats.groups.buckets,
                  sum: stats.groups.operations,
                },
              ],
        ),
    },
  ];
}

function loopFamilies({ metricsLoop }: Services): Family[] {
  return [
    {
      name: 'svc_event_loop_delay_seconds',
      help: "How late the supervisor's event loop was, since the scrape before: median, 99th percentile and most.",
      type: 'gauge',
      collect: () => {
        const { p50, p99, max } = metricsLoop.take();
        const quantiles = [
          ['0.5', p50],
          ['0.99', p99],
          ['1', max],
        ] as const;
        return quantiles.map(([quantile, ms]): Value => [{ quantile }, ms / 1000]);
      },
    },
    {
      name: 'svc_event_loop_busy_seconds_total',
      help: "How long the supervisor's event loop worked.",
      type: 'counter',
      collect: () => [[NONE, performance.eventLoopUtilization().active / 1000]],
    },
  ];
}

function backupFamilies({ scheduledBackups }: Services): Family[] {
  return [
    {
      name: 'svc_backup_last_success_timestamp_seconds',
      help: 'When the last backup on schedule was made and verified, in seconds since the epoch.',
      type: 'gauge',
      collect: () => {
        const { lastSuccess } = scheduledBackups.status();
        return lastSuccess === null ? [] : [[NONE, lastSuccess.at / 1000]];
      },
    },
    {
      name: 'svc_backup_failures_total',
      help: 'Backups on schedule that failed.',
      type: 'counter',
      collect: () => [[NONE, scheduledBackups.status().failures]],
    },
  ];
}

function stateFamilies(services: Services): Family[] {
  const { registry, tree, reads, liveStreams, changes, automations, logs, layout, tracing } = services;
  const gauge = (name: string, help: string, collect: () => number): Family => ({
    name,
    help,
    type: 'gauge',
    collect: () => [[NONE, collect()]],
  });
  return [
    gauge('svc_apps', 'Registered apps.', () => registry.ids().length),
    gauge(
      'svc_apps_live',
      'Apps with a running thread.',
      () => tree.apps.all.filter(({ occupied }) => occupied).length,
    ),
    gauge('svc_kept_results_bytes', 'Memory of kept results of queries.', () => reads.keptBytes),
    gauge('svc_live_queries', 'Live queries that are evaluated.', () => liveStreams.queries.counts.queries),
    gauge('svc_live_followers', 'Subscriptions to live queries.', () => liveStreams.queries.counts.followers),
    gauge('svc_live_bytes', 'Memory of the results of live queries.', () => liveStreams.queries.counts.bytes),
    gauge('svc_event_streams', 'Event streams that are open.', () => changes.subscribers),
    {
      name: 'svc_runs_open',
      help: 'Runs of automations under way, and waiting for their turn.',
      type: 'gauge',
      collect: () => {
        const { running, waiting } = automations.status();
        return [
          [{ state: 'running' }, running],
          [{ state: 'queued' }, waiting],
        ];
      },
    },
    {
      name: 'svc_dropped_log_lines_total',
      help: 'Lines that could not be written, of the logs of apps and of the gateway.',
      type: 'counter',
      collect: () => [
        [{ log: 'apps' }, logs.droppedLines],
        [{ log: 'gateway' }, streamOf(services.log)?.droppedLines ?? 0],
      ],
    },
    {
      name: 'svc_trace_spans_total',
      help: 'Spans of traces that the collector took, and those that were dropped.',
      type: 'counter',
      collect: () =>
        tracing === null
          ? []
          : [
              [{ result: 'sent' }, tracing.queue.sent],
              [{ result: 'dropped' }, tracing.queue.dropped],
            ],
    },
    {
      name: 'svc_disk_bytes',
      help: 'Size of the disk of the data directory, and what is free for the gateway.',
      type: 'gauge',
      collect: async () => {
        const disk = await statfs(layout.dataDir).catch(() => null);
        if (disk === null) return [];
        const { bsize, blocks, bavail } = disk;
        return [
          [{ state: 'size' }, blocks * bsize],
          [{ state: 'free' }, bavail * bsize],
        ];
      },
    },
  ];
}
