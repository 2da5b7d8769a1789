/** Starts PostgreSQL with a synchronous standby and the nodes of a cluster, each in a place of its own, and ends and restarts them. */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type pg from 'pg';
import { freePort } from '../../../testing/free-port.ts';
import type { TestGateway } from '../../../testing/gateway.ts';
import { mountSmall, whyNoSmallDisk } from '../../../testing/mount.ts';
import { Network, whyNoNetwork } from '../../../testing/network.ts';
import { type Place, type Postgres, postgres } from '../../../testing/postgres.ts';
import { childrenOf } from '../../../testing/processes.ts';
import type { Random } from '../../../testing/random.ts';
import { compileShim, whyNoShim } from '../../../testing/shim/compile.ts';
import { eventually, LONG_MS } from '../../../testing/waiting.ts';
import type { CampaignContext } from '../campaign.ts';
import { signal } from '../killer.ts';

export const NODES = ['one', 'two', 'three'] as const;
export const DATABASES = ['db-a', 'db-b'] as const;
const NODE_PORT = 8787;
const DATABASE_PORT = 5432;
const CLOCK_BYTES = 8;
const STARTS = 5;
/** Room for what a node keeps, and little to fill. */
const DISK = '96m';

/** `disk` is a file system of its own, and `clock` the file that sets its time of day, where it can have them. */
export type Node = {
  name: string;
  gateway: TestGateway;
  port: number;
  folder: string;
  disk: string | null;
  clock: string | null;
};

/** What this machine does not let us change, and why. */
export type Missing = { what: 'network' | 'disk' | 'clock'; why: string };

export class Cluster {
  readonly nodes: Node[] = [];
  /** Null where none can be made. */
  readonly network: Network | null;
  /** The server at each of the two places, and which of them takes writes. */
  readonly servers: Postgres[] = [];
  primary = 0;
  readonly missing: Missing[];
  readonly #places: Place[];
  readonly #unmounts: (() => void)[] = [];

  private constructor(network: Network | null, places: Place[], missing: Missing[]) {
    this.network = network;
    this.#places = places;
    this.missing = missing;
  }

  /** Resolves when all serve. */
  static async start(context: CampaignContext): Promise<Cluster> {
    const reasons = { network: whyNoNetwork(), disk: whyNoSmallDisk(), clock: whyNoShim() };
    const missing = (Object.keys(reasons) as Missing['what'][]).flatMap((what) => {
      const why = reasons[what];
      return why === null ? [] : { what, why };
    });
    const network = reasons.network === null ? new Network() : null;
    const placeOf = async (name: string, port: number): Promise<Place> =>
      network?.place(name, port) ?? { host: '127.0.0.1', port: await freePort(), within: [] };
    const places: Place[] = [];
    for (const name of DATABASES) places.push(await placeOf(name, DATABASE_PORT));
    const cluster = new Cluster(network, places, missing);
    try {
      const first = await postgres(undefined, places[0]);
      cluster.servers.push(first, await postgres(first, places[1]));
      for (const name of NODES) await cluster.#add(context, name, await placeOf(name, NODE_PORT));
      return cluster;
    } catch (error) {
      await cluster.end();
      throw error;
    }
  }

  async #add(context: CampaignContext, name: string, { host, port, within }: Place): Promise<void> {
    const folder = context.newFolder();
    const has = (wanted: Missing['what']) => !this.missing.some(({ what }) => what === wanted);
    const disk = has('disk') ? join(folder, 'disk') : null;
    if (disk !== null) this.#unmounts.push(mountSmall(disk, DISK));
    const clock = has('clock') ? join(folder, 'clock') : null;
    const env: Record<string, string> = { SVC_CLUSTER_SECRET: 'of this campaign', TMPDIR: folder };
    if (clock !== null) {
      const shim = join(folder, 'clock.so');
      compileShim('clock.c', shim);
      writeFileSync(clock, Buffer.alloc(CLOCK_BYTES));
      // Of the supervisor: it gives its environment to none of its processes.
      Object.assign(env, { LD_PRELOAD: shim, CLOCK_FILE: clock });
    }
    const urls = this.servers.map(({ url }) => url);
    const gateway = context.newGateway(
      {
        store: 'tarball',
        config: { host, handlerHosts: 1, cluster: { urls, node: name } },
        env,
        within,
      },
      disk ?? folder,
    );
    await startAgain(gateway, port);
    this.nodes.push({ name, gateway, port, folder, disk, clock });
  }

  /** The node that has one of the apps. */
  async ownerOfAny(random: Random): Promise<Node> {
    const { url } = this.servers[this.primary] as Postgres;
    const query = 'SELECT DISTINCT b.owner FROM svc.apps a JOIN svc.buckets b USING (bucket) ORDER BY b.owner';
    const owners = await ask<{ owner: string | null }>(url, query);
    const { owner } = random.pick(owners);
    const node = this.nodes.find(({ name }) => name === owner);
    if (node === undefined) throw new Error('The apps have no owners.');
    return node;
  }

  /** The processes of a node, its own first. */
  family({ gateway }: Node): number[] {
    return [gateway.pid, ...childrenOf(gateway.pid).map(({ pid }) => pid)];
  }

  /** SIGKILL of all of its processes at once. */
  async kill(node: Node): Promise<void> {
    const family = this.family(node);
    // None starts another one meanwhile.
    for (const pid of family) signal(pid, 'SIGSTOP');
    for (const pid of new Set([...family, ...this.family(node)])) signal(pid, 'SIGKILL');
    await node.gateway.exited();
  }

  /** On what it had, or on an empty data directory. */
  async restart({ gateway, port }: Node, isEmpty: boolean): Promise<void> {
    if (isEmpty) rmSync(gateway.dataDir, { recursive: true, force: true });
    await startAgain(gateway, port);
  }

  /** The primary is dead for good: the standby takes its place, and a new standby the place of the old primary. */
  async failOver(): Promise<() => Promise<void>> {
    const [old, next] = [this.servers[this.primary], this.servers[1 - this.primary]] as [Postgres, Postgres];
    await old.kill();
    await ask(next.url, 'SELECT pg_promote()');
    return async () => {
      await old.stop();
      this.servers[this.primary] = await postgres(next, this.#places[this.primary]);
      this.primary = 1 - this.primary;
    };
  }

  /** So many milliseconds are added to its time of day from now on. */
  setClock({ clock }: Node, ms: number): void {
    const bytes = Buffer.alloc(CLOCK_BYTES);
    bytes.writeBigInt64LE(BigInt(ms) * 1000n);
    // In place: the process has it in its memory.
    if (clock !== null) writeFileSync(clock, bytes, { flag: 'r+' });
  }

  /** The gateways end in order, with the database there. What each logged is beside its data directory then. */
  async end(): Promise<void> {
    this.network?.mend();
    await Promise.allSettled(this.nodes.map(({ gateway }) => gateway.stop()));
    for (const { folder, name, gateway } of this.nodes) writeFileSync(join(folder, `${name}.log`), gateway.log);
    for (const server of this.servers) await server.stop();
    for (const unmount of this.#unmounts) await eventually(LONG_MS, () => succeeds(unmount));
    this.network?.close();
  }
}

/** As a service manager does: a node whose database does not answer in a second, on a busy machine, does not start. */
async function startAgain(gateway: TestGateway, port: number): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await gateway.start(String(port));
      return;
    } catch (error) {
      // One that was only late would have the data directory.
      await gateway.kill();
      if (tries === STARTS) throw error;
    }
  }
}

/** A process that ends may have files of it open. */
function succeeds(work: () => void): boolean {
  try {
    work();
    return true;
  } catch {
    return false;
  }
}

/** Of the database, past the nodes. */
export async function ask<T>(url: string, sql: string): Promise<T[]> {
  const { default: driver } = await import('pg');
  const client: pg.Client = new driver.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows as T[];
  } finally {
    await client.end();
  }
}
