/** Says how a cluster is, as one of its nodes knows it (specification, "Cluster: nodes and buckets"). */
import { BUCKETS } from '../../protocol/buckets.ts';
import type { ClusterStatus, NodeStatus } from '../../protocol/routes/operations/cluster-rows.ts';
import { withoutPassword } from '../../storage/cluster/database.ts';
import type { NodeRow, Owned } from './directory.ts';
import type { ClusterSettings } from './settings.ts';

/** What a node knows, see `Membership`. */
export type Known = {
  readonly nodes: readonly NodeRow[];
  readonly draining: boolean;
  readonly leaseMs: number;
  readonly databaseFault: string | null;
  ownerOf(bucket: number): Owned;
};

export function clusterStatus({ node, urls }: Pick<ClusterSettings, 'node' | 'urls'>, known: Known): ClusterStatus {
  const owned = ownedBuckets(known);
  return {
    node,
    nodes: known.nodes.map((row) => {
      const { name, address, version, started } = row;
      return {
        name,
        address,
        version,
        state: stateOf(row, node, known),
        started: Date.parse(started),
        buckets: owned.get(name) ?? 0,
        self: name === node,
      };
    }),
    freeBuckets: owned.get(null) ?? 0,
    database: {
      addresses: urls.map(withoutPassword),
      answers: known.databaseFault === null,
      error: known.databaseFault,
    },
  };
}

/** How many buckets each node owns; those of nobody under null. */
function ownedBuckets(known: Known): Map<string | null, number> {
  const owned = new Map<string | null, number>();
  for (let bucket = 0; bucket < BUCKETS; bucket++) {
    const { owner } = known.ownerOf(bucket);
    owned.set(owner, (owned.get(owner) ?? 0) + 1);
  }
  return owned;
}

/** What the node says of itself it knows better than the directory. */
function stateOf({ name, draining, isLive }: NodeRow, self: string, known: Known): NodeStatus['state'] {
  const isHere = name === self;
  if (isHere ? known.leaseMs === 0 : !isLive) return 'gone';
  return (isHere ? known.draining : draining) ? 'draining' : 'live';
}
