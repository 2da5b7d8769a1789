/** The phase of a start in which a gateway with `cluster` in its configuration becomes a node. Without it nothing of this is loaded. */
import type { Logger } from 'pino';
import type { Layout } from '../../storage/layout.ts';
import type { ClusterNode } from '../cluster/node.ts';
import type { Config } from '../config.ts';
import type { Phases } from './phases.ts';

type ClusterOptions = { config: Config; layout: Layout; log: Logger; version: string };

/** The node has not joined yet. Rejects with `ConfigError` where it cannot. */
export async function openCluster(
  phases: Phases,
  { config, layout, log, version }: ClusterOptions,
): Promise<ClusterNode | null> {
  if (config.cluster === null) return null;
  phases.begin('cluster');
  const [{ ClusterNode: Node }, { clusterSettings }] = await Promise.all([
    import('../cluster/node.ts'),
    import('../cluster/settings.ts'),
  ]);
  const node = await Node.open({ settings: clusterSettings(config.cluster, config), layout, log, version });
  phases.ends(() => node.close());
  return node;
}
