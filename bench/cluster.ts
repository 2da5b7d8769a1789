/** Starts gateways that share a PostgreSQL server of their own, and says which of them has what. */
import { BUCKETS, bucketOf } from '../protocol/buckets.ts';
import { Database } from '../storage/cluster/database.ts';
import { place } from '../supervisor/cluster/placement.ts';
import { freePort } from '../testing/free-port.ts';
import { type Postgres, postgres } from '../testing/postgres.ts';
import { eventually, LIMIT_MS, LONG_MS } from '../testing/waiting.ts';
import { APP, benchApp } from './bench-app.ts';
import type { Context } from './context.ts';
import { Daemon } from './daemon.ts';
import { appIds } from './scenarios/crowd.ts';

/** Buckets that may still have to move once the nodes are said to be settled. */
const LEFT = 40;
const SETTLE_POLL_MS = 500;
const WRITE_POLL_MS = 20;

export class Cluster {
  readonly postgres: Postgres;
  readonly #database: Database;
  readonly #nodes = new Map<string, Daemon>();

  private constructor(server: Postgres) {
    this.postgres = server;
    this.#database = new Database([server.url]);
  }

  /** Resolves when nearly each bucket is where it stays. */
  static async start(context: Context, names: string[]): Promise<Cluster> {
    const cluster = new Cluster(await postgres());
    try {
      for (const name of names) {
        const config = { ...context.config, cluster: { url: cluster.postgres.url, node: name } };
        const env = { SVC_CLUSTER_SECRET: 'of this bench' };
        const { profileDir } = context;
        const node = await Daemon.start({
          dataDir: context.newFolder(),
          config,
          env,
          port: await freePort(),
          profileDir,
        });
        cluster.#nodes.set(name, node);
      }
      await cluster.settled();
      return cluster;
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  get nodes(): Daemon[] {
    return [...this.#nodes.values()];
  }

  /** Waits until hardly a bucket has to move any more between the nodes that run. */
  async settled(): Promise<void> {
    const isSettled = await eventually(
      LONG_MS,
      async () => {
        const owners = await this.#owners();
        const running = [...this.#nodes].filter(([, node]) => node.isRunning).map(([name]) => name);
        return place(owners, running).filter((node, bucket) => node !== owners[bucket]).length <= LEFT;
      },
      SETTLE_POLL_MS,
    );
    if (!isSettled) throw new Error('The nodes do not share the buckets.');
  }

  /** The node that has the app. */
  async ownerOf(app: string): Promise<Daemon> {
    return this.#nodes.get((await this.#owners())[bucketOf(app)] ?? '') as Daemon;
  }

  /** For each node the id of an app that it has, which is uploaded there. */
  async installEverywhere(): Promise<string[]> {
    const owners = await this.#owners();
    const names = [...this.#nodes.keys()];
    const placed = place(owners, names);
    const isAt = (name: string, bucket: number): boolean => owners[bucket] === name && placed[bucket] === name;
    const ids = names.map((name) => appIds(BUCKETS).find((id) => isAt(name, bucketOf(id))) as string);
    for (const [at, id] of ids.entries()) await this.install(this.nodes[at] as Daemon, id);
    return ids;
  }

  /** Uploads the app of the bench, again for as long as a bucket is on its way. */
  async install(node: Daemon, id: string): Promise<void> {
    let failure: unknown;
    const isDone = await eventually(LIMIT_MS, () =>
      node.install(id, benchApp(id)).then(
        () => true,
        (error: unknown) => {
          failure = error;
          return false;
        },
      ),
    );
    if (!isDone) throw failure;
  }

  /** Milliseconds from the end of the node that has the app until another one has acknowledged a write to it; then it is started again. */
  async takeOver(app: string): Promise<number> {
    const victim = await this.ownerOf(app);
    const other = this.nodes.find((node) => node !== victim) as Daemon;
    const { port } = victim;
    const killedAt = performance.now();
    await victim.kill();
    if (!(await eventually(LIMIT_MS, () => wasWritten(other, app), WRITE_POLL_MS)))
      throw new Error('Nobody took over.');
    const took = performance.now() - killedAt;
    await victim.start(String(port));
    await victim.refresh();
    await this.settled();
    return took;
  }

  /** Nothing of it is kept. */
  async stop(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.kill()));
    await this.#database.close();
    await this.postgres.stop();
  }

  /** By bucket. */
  async #owners(): Promise<(string | null)[]> {
    const rows = await this.#database.rows<{ owner: string | null }>('SELECT owner FROM svc.buckets ORDER BY bucket');
    return rows.map(({ owner }) => owner);
  }
}

async function wasWritten(node: Daemon, app: string): Promise<boolean> {
  const body = JSON.stringify({ app, action: 'put', input: { id: 1, title: APP, body: APP } });
  return node.request('POST', '/svc/_tool/svc_write', body).then(
    async (answer) => (await answer.text()) !== '',
    () => false,
  );
}
