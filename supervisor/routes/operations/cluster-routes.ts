/** Serves the cluster over HTTP: its nodes, and a node that is taken out of service (specification, "Cluster: nodes and buckets"). */
import { SvcError } from '../../../protocol/errors.ts';
import { drainNode, NO_CLUSTER, showCluster } from '../../../protocol/routes/operations/cluster-rows.ts';
import type { Route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { serve } from '../serve-row.ts';

export function clusterRoutes({ cluster, audit }: Pick<Services, 'cluster' | 'audit'>): Route[] {
  return [
    ...serve(showCluster, () => cluster?.status ?? NO_CLUSTER),
    ...serve(drainNode, async ({ body: { draining }, caller }) => {
      if (cluster === null)
        throw new SvcError('NO_CLUSTER', 'This gateway is in no cluster: no node could take what it has.');
      const { node, nodes } = cluster.status;
      if (draining && !nodes.some(({ self, state }) => !self && state === 'live'))
        throw new SvcError('LAST_NODE', 'No other node is live, so none could take what this one has.');
      // Before it hands the audit log over.
      await audit.record(caller, draining ? 'node.drained' : 'node.resumed', node);
      cluster.draining = draining;
      return cluster.status;
    }),
  ];
}
