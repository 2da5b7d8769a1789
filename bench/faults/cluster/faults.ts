/** What is done to a cluster: to its nodes, to the ways between them and its database, to clocks and to a disk. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { fill } from '../../../testing/full-disk.ts';
import type { Postgres } from '../../../testing/postgres.ts';
import { childrenOf } from '../../../testing/processes.ts';
import type { Random } from '../../../testing/random.ts';
import { pause } from '../../../testing/waiting.ts';
import { signal } from '../killer.ts';
import { type Cluster, DATABASES, type Node } from './nodes.ts';

/** `needs` is what the machine must let us change. It lasts `leastMs` at least. `strike` answers what ends it. */
export type Fault = {
  name: string;
  needs?: 'network' | 'disk' | 'clock';
  leastMs?: number;
  strike(cluster: Cluster, random: Random): Promise<() => Promise<void> | void>;
};

const SECOND = 1000;
/** Longer than a lease, and than it takes the others to see its end. */
const TAKEN_OVER_MS = 9 * SECOND;
/** The same on a machine that is not too busy, with an answer before a query that waits is late. */
const LEASE_OVER_MS = 7 * SECOND;
/** A clock that is further off than a minute has its node's requests refused. */
const STEPS = [-3600, -40, -8, 8, 40, 3600];

const nodeOf = ({ nodes }: Cluster, random: Random): Node => random.pick(nodes);
const networkOf = ({ network }: Cluster) => {
  if (network === null) throw new Error('This fault needs a network.');
  return network;
};

/** Of the pairs, what the first one sends to the second one is lost; now and then also what the second one sends. */
function cut(cluster: Cluster, pairs: [string, string][], isOneWay: boolean): () => void {
  const network = networkOf(cluster);
  for (const [from, to] of pairs) {
    network.cut(from, to);
    if (!isOneWay) network.cut(to, from);
  }
  return () => network.mend();
}

function cutOff(cluster: Cluster, { name }: Node, random: Random): () => void {
  const [isOneWay, isOutward] = [random.next() < 0.5, random.next() < 0.5];
  const pairs = DATABASES.map((database): [string, string] => (isOutward ? [name, database] : [database, name]));
  return cut(cluster, pairs, isOneWay);
}

/** Stands still, and goes on. */
function stop(pids: number[]): () => void {
  for (const pid of pids) signal(pid, 'SIGSTOP');
  return () => {
    for (const pid of pids) signal(pid, 'SIGCONT');
  };
}

function stepClock(node: Node, cluster: Cluster, seconds: number): () => void {
  cluster.setClock(node, seconds * SECOND);
  return () => cluster.setClock(node, 0);
}

export const FAULTS: readonly Fault[] = [
  {
    name: 'node killed',
    strike: async (cluster, random) => {
      const [node, isEmpty] = [nodeOf(cluster, random), random.next() < 0.3];
      await cluster.kill(node);
      return () => cluster.restart(node, isEmpty);
    },
  },
  {
    name: 'two nodes killed',
    strike: async (cluster, random) => {
      const [one, two] = random.shuffled(cluster.nodes) as [Node, Node];
      await Promise.all([cluster.kill(one), cluster.kill(two)]);
      return async () => {
        await Promise.all([cluster.restart(one, random.next() < 0.3), cluster.restart(two, random.next() < 0.3)]);
      };
    },
  },
  {
    name: 'node stopped',
    strike: async (cluster, random) => stop(cluster.family(nodeOf(cluster, random))),
  },
  {
    name: 'supervisor stopped',
    strike: async (cluster, random) => stop([nodeOf(cluster, random).gateway.pid]),
  },
  {
    name: 'writer stopped',
    strike: async (cluster, random) => {
      const children = childrenOf(nodeOf(cluster, random).gateway.pid);
      return stop(children.filter(({ role }) => role === 'writer').map(({ pid }) => pid));
    },
  },
  {
    name: 'writer goes on after the lease of its node',
    leastMs: LEASE_OVER_MS,
    strike: async (cluster, random) => {
      const { gateway } = await cluster.ownerOfAny(random);
      const children = childrenOf(gateway.pid);
      const pidsOf = (isWanted: (role: string) => boolean) =>
        children.filter(({ role }) => isWanted(role)).map(({ pid }) => pid);
      const goOn = stop(pidsOf((role) => role === 'writer'));
      // Meanwhile transactions of apps that it has wait for the writer.
      await pause(SECOND / 2);
      const goOnWithIt = stop(pidsOf((role) => role === 'host'));
      const goOnAtLast = stop([gateway.pid, ...pidsOf((role) => role !== 'writer' && role !== 'host')]);
      return async () => {
        // They end while nobody there knows that the lease has.
        goOn();
        goOnWithIt();
        await pause(SECOND / 2);
        goOnAtLast();
      };
    },
  },
  {
    name: 'writer killed',
    strike: async (cluster, random) => {
      const children = childrenOf(nodeOf(cluster, random).gateway.pid);
      for (const { pid, role } of children) if (role === 'writer') signal(pid, 'SIGKILL');
      return () => {};
    },
  },
  {
    name: 'node ends and starts again',
    strike: async (cluster, random) => {
      const node = nodeOf(cluster, random);
      await node.gateway.stop();
      return () => cluster.restart(node, random.next() < 0.3);
    },
  },
  {
    name: 'nodes apart',
    needs: 'network',
    strike: async (cluster, random) => {
      const [one, two] = random.shuffled(cluster.nodes) as [Node, Node];
      return cut(cluster, [[one.name, two.name]], random.next() < 0.5);
    },
  },
  {
    name: 'node without the others',
    needs: 'network',
    strike: async (cluster, random) => {
      const [one, two, three] = random.shuffled(cluster.nodes) as [Node, Node, Node];
      const pairs = [two, three].map(({ name }): [string, string] => [one.name, name]);
      return cut(cluster, pairs, random.next() < 0.5);
    },
  },
  {
    name: 'node without the database',
    needs: 'network',
    strike: async (cluster, random) => cutOff(cluster, nodeOf(cluster, random), random),
  },
  {
    name: 'node without anybody',
    needs: 'network',
    strike: async (cluster, random) => {
      const [one, ...others] = random.shuffled(cluster.nodes) as [Node, ...Node[]];
      const names = [...others.map(({ name }) => name), ...DATABASES];
      return cut(
        cluster,
        names.map((name): [string, string] => [one.name, name]),
        random.next() < 0.5,
      );
    },
  },
  {
    name: 'node killed without the database',
    needs: 'network',
    strike: async (cluster, random) => {
      const node = nodeOf(cluster, random);
      const mend = cutOff(cluster, node, random);
      // Meanwhile it commits what the database does not get.
      await pause(random.between(SECOND / 2, 2 * SECOND));
      await cluster.kill(node);
      mend();
      return () => cluster.restart(node, false);
    },
  },
  {
    name: 'node slow',
    needs: 'network',
    strike: async (cluster, random) => {
      const network = networkOf(cluster);
      network.slow(nodeOf(cluster, random).name);
      return () => network.mend();
    },
  },
  {
    name: 'database slow',
    needs: 'network',
    strike: async (cluster) => {
      const network = networkOf(cluster);
      network.slow(DATABASES[cluster.primary] as string);
      return () => network.mend();
    },
  },
  {
    name: 'standby out of reach',
    needs: 'network',
    strike: async (cluster, random) => cut(cluster, [DATABASES as unknown as [string, string]], random.next() < 0.5),
  },
  {
    name: 'database fails over',
    strike: (cluster) => cluster.failOver(),
  },
  {
    name: 'database killed',
    strike: async ({ servers, primary }) => {
      const server = servers[primary] as Postgres;
      await server.kill();
      return () => server.start();
    },
  },
  {
    name: 'disk full',
    needs: 'disk',
    strike: async (cluster, random) => {
      const file = join(nodeOf(cluster, random).disk as string, 'filler');
      fill(file);
      return () => rmSync(file);
    },
  },
  {
    name: 'clock set',
    needs: 'clock',
    strike: async (cluster, random) => stepClock(nodeOf(cluster, random), cluster, random.pick(STEPS)),
  },
  {
    name: 'clock set back without the database',
    needs: 'network',
    leastMs: TAKEN_OVER_MS,
    strike: async (cluster, random) => {
      const node = nodeOf(cluster, random);
      const mend = cutOff(cluster, node, random);
      const setBack = stepClock(node, cluster, -40);
      return () => {
        setBack();
        mend();
      };
    },
  },
];
