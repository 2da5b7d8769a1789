/** Collects metrics of a node of a cluster: nodes, buckets, the lease, requests for other nodes, and the log of pages. */
import { NODE_STATES } from '../../../protocol/routes/operations/cluster-rows.ts';
import { LOG_WAIT_BUCKETS, type ProcessStats } from '../../../protocol/wire/frames.ts';
import type { ClusterNode } from '../../cluster/node.ts';
import type { Services } from '../../services.ts';
import type { Distribution, Family, Value } from './families.ts';

const NONE = {};

/** Without values for a gateway of its own. */
export function clusterFamilies({ cluster, tree }: Services): Family[] {
  const gauge = (name: string, help: string, collect: (node: ClusterNode) => Value[]): Family => ({
    name,
    help,
    type: 'gauge',
    collect: () => (cluster === null ? [] : collect(cluster)),
  });
  const counter = (...family: Parameters<typeof gauge>): Family => ({ ...gauge(...family), type: 'counter' });
  /** What each writer says. */
  const ofLog = (name: string, help: string, value: (stats: ProcessStats) => number | undefined): Family => ({
    name,
    help,
    type: 'counter',
    collect: () =>
      tree.writers.all.flatMap(({ name: writer, stats }): Value[] => {
        const found = stats === null ? undefined : value(stats);
        return found === undefined ? [] : [[{ process: writer }, found]];
      }),
  });
  return [
    gauge('svc_cluster_nodes', 'Nodes of the cluster, as this one knows them.', ({ status: { nodes } }) =>
      NODE_STATES.map((state) => [{ state }, nodes.filter((node) => node.state === state).length]),
    ),
    gauge('svc_cluster_buckets', 'Buckets of this node, of others and of nobody.', ({ status }) => {
      const owned = (self: boolean) =>
        sum(status.nodes.filter((node) => node.self === self).map(({ buckets }) => buckets));
      return [
        [{ owner: 'this' }, owned(true)],
        [{ owner: 'other' }, owned(false)],
        [{ owner: 'none' }, status.freeBuckets],
      ];
    }),
    gauge('svc_cluster_lease_seconds', 'How long the lease of this node holds if it is not renewed.', ({ counts }) => [
      [NONE, counts.leaseMs / 1000],
    ]),
    counter('svc_cluster_renewals_total', 'Renewals of the lease of this node.', ({ counts: { renewals } }) => [
      [{ result: 'ok' }, renewals.ok],
      [{ result: 'failed' }, renewals.failed],
    ]),
    counter('svc_cluster_forwarded_total', 'Requests for other nodes.', ({ counts: { sent } }) =>
      Object.entries(sent ?? {}).map(([result, count]) => [{ result }, count]),
    ),
    {
      name: 'svc_page_log_wait_seconds',
      help: 'How long commits waited until the log of pages had them.',
      type: 'histogram',
      collect: () =>
        tree.writers.all.flatMap(({ name, stats }): Distribution[] =>
          stats?.logged === undefined
            ? []
            : [
                {
                  labels: { process: name },
                  bounds: LOG_WAIT_BUCKETS.map((ms) => ms / 1000),
                  counts: stats.logged.buckets,
                  sum: stats.logged.ms / 1000,
                },
              ],
        ),
    },
    ofLog('svc_page_log_failures_total', 'Commits that the log of pages did not get.', ({ logged }) => logged?.failed),
    ofLog('svc_page_log_writes_total', 'Writes that the log of pages has.', ({ logged }) => logged?.operations),
    ofLog('svc_page_log_groups_total', 'Transactions of the log of pages.', ({ logGroups }) => logGroups?.groups),
    ofLog(
      'svc_page_log_group_seconds_total',
      'How long these took.',
      ({ logGroups }) => logGroups && logGroups.ms / 1000,
    ),
    ofLog('svc_page_log_bytes_total', 'Bytes of pages in them.', ({ logGroups }) => logGroups?.bytes),
  ];
}

const sum = (counts: readonly number[]): number => counts.reduce((all, count) => all + count, 0);
