/** The routes of the cluster: its nodes, what they own, and a node that is taken out of service (specification, "Cluster: nodes and buckets"). */
import { count, flag, listOf, type Of, object, oneOf, orNull, text, textOrNull } from '../../shapes/schema.ts';
import { TIME } from '../pieces.ts';
import { resource, row } from '../row.ts';

/** `draining` has a lease like `live`, and hands over what it has; the lease of one that is `gone` has ended. */
export const NODE_STATES = ['live', 'draining', 'gone'] as const;

const NODE = object({
  name: text,
  address: { ...text, says: 'Where the other nodes reach it' },
  version: { ...text, says: 'Its release' },
  state: {
    ...oneOf(...NODE_STATES),
    says: '`draining`: it hands its buckets over, and answers by sending requests on; `gone`: its lease has ended',
  },
  started: TIME,
  buckets: { ...count, says: 'Those that it owns' },
  self: { ...flag, says: 'Whether it is the node that answers' },
});

/** As the node sees it that was asked. */
export const CLUSTER_STATUS = object({
  node: { ...textOrNull, says: 'The name of the node that answers; null for a gateway that is in no cluster' },
  nodes: { ...listOf(NODE), says: 'In the order of names; one that did not come back is forgotten after a day' },
  freeBuckets: { ...count, says: 'Buckets without an owner: nobody answers for their apps' },
  database: {
    ...orNull(object({ addresses: listOf(text), answers: flag, error: textOrNull })),
    says: 'Its addresses without passwords, and whether it answered when the node last asked, a second ago at most',
  },
});

export type ClusterStatus = Of<typeof CLUSTER_STATUS>;
export type NodeStatus = ClusterStatus['nodes'][number];

/** Of a gateway of its own. */
export const NO_CLUSTER: ClusterStatus = { node: null, nodes: [], freeBuckets: 0, database: null };

export const CLUSTER_STATUS_EXAMPLE = {
  node: 'node-1',
  nodes: [
    {
      name: 'node-1',
      address: 'http://10.0.0.5:8787',
      version: '0.2.0',
      state: 'live',
      started: 1_767_225_600_000,
      buckets: 2048,
      self: true,
    },
    {
      name: 'node-2',
      address: 'http://10.0.0.6:8787',
      version: '0.2.0',
      state: 'live',
      started: 1_767_229_200_000,
      buckets: 2048,
      self: false,
    },
  ],
  freeBuckets: 0,
  database: { addresses: ['postgres://svc@db.example.org/svc'], answers: true, error: null },
};

export const showCluster = row({
  method: 'GET',
  path: '/svc/_cluster',
  needs: 'admin',
  title: 'Show the cluster',
  does: 'Answers which nodes there are and what they own, as the node knows it that is asked.',
  answer: { json: CLUSTER_STATUS },
  example: CLUSTER_STATUS_EXAMPLE,
});

export const drainNode = row({
  method: 'POST',
  path: '/svc/_cluster/drain',
  needs: 'admin',
  title: 'Drain the node',
  does: 'Lets the node that is asked hand its buckets over and take no new ones, or lets it take them again. It answers at once, and the node goes on answering, by sending requests on: it is done when `buckets` of the node is 0.',
  body: object({ draining: flag }),
  answer: { json: CLUSTER_STATUS },
  errors: { NO_CLUSTER: '', LAST_NODE: '' },
  example: {
    ...CLUSTER_STATUS_EXAMPLE,
    nodes: CLUSTER_STATUS_EXAMPLE.nodes.map((node) => (node.self ? { ...node, state: 'draining' } : node)),
  },
});

export const CLUSTER = resource({
  name: 'Cluster',
  page: 'cluster',
  about: 'What nodes that share a database do, and how to run them, is in [clusters](cluster.md).',
  rows: [showCluster, drainNode],
});
