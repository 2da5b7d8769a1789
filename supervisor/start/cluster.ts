/**
 * The phases of a start in which a gateway with `cluster` in its configuration becomes a node, and joins. Without it nothing of a cluster
 * is loaded.
 */
import type { Logger } from 'pino';
import { runtimeOfBucket } from '../../protocol/buckets.ts';
import { isOwnDatabase } from '../../protocol/ids.ts';
import type { ListedApp } from '../../storage/cluster/app-directory.ts';
import { readNodeRecord } from '../../storage/cluster/node-record.ts';
import { inParallel } from '../../storage/files/atomic-file.ts';
import type { Layout } from '../../storage/layout.ts';
import type { Subject } from '../../storage/shared-files/subjects.ts';
import type { ClusterNode } from '../cluster/node.ts';
import { RuntimeOfBuckets } from '../cluster/runtime-of-buckets.ts';
import { type Config, ConfigError } from '../config.ts';
import type { Databases } from '../databases.ts';
import { gitOn } from '../deployments/store/git-operations.ts';
import type { RepositoryAccess } from '../deployments/store/git-store.ts';
import type { Moved } from '../dispatch/scope.ts';
import type { Places } from '../http/access/places.ts';
import type { Jobs } from '../jobs/jobs.ts';
import type { IdentityDb } from '../people/identity-db.ts';
import { OneRuntimeDatabase, type RuntimeDatabases } from '../runtime/runtime-databases.ts';
import type { Services } from '../services.ts';
import type { Phases } from './phases.ts';

/** Databases at a time. */
const FETCHED_AT_ONCE = 8;
const IDENTITY = '_identity';

type ClusterOptions = { config: Config; layout: Layout; log: Logger; version: string; places: Places | null };

/** The node has not joined yet. Rejects with `ConfigError` where it cannot, and without `cluster` on the data directory of a node. */
export async function openCluster(
  phases: Phases,
  { config, layout, log, version, places }: ClusterOptions,
): Promise<ClusterNode | null> {
  if (config.cluster === null) {
    if (config.blobs !== null)
      throw new ConfigError(
        '"blobs" in the configuration is for the nodes of a cluster: a gateway of its own has its files in the data directory. Remove it, or set "cluster".',
        'blobs',
      );
    const record = await readNodeRecord(layout);
    if (record === null || record.isBringing) return null;
    throw new ConfigError(
      'The data directory is of a node of a cluster, which has what counts: what is here may be old. Start it with "cluster" in its configuration (svc serve --cluster), or with another data directory.',
      'cluster',
    );
  }
  phases.begin('cluster');
  const [{ ClusterNode: Node }, { clusterSettings }] = await Promise.all([
    import('../cluster/node.ts'),
    import('../cluster/settings.ts'),
  ]);
  const node = await Node.open({ settings: clusterSettings(config.cluster, config), layout, log, version, places });
  phases.ends(() => node.close());
  return node;
}

/** What the gateway knows of people: in a cluster what their owner says. */
export function openIdentity(
  cluster: ClusterNode | null,
  databases: Databases,
  layout: Layout,
  log: Logger,
): IdentityDb {
  const own = databases.own(IDENTITY, layout.identityDb);
  const nodes = cluster?.identity(own);
  return { db: nodes?.db ?? own, file: layout.identityDb, log, nodes };
}

/** The gateway's own rows of apps: in a cluster those of each bucket in a database of their own. */
export function openRuntime(cluster: ClusterNode | null, databases: Databases, layout: Layout): RuntimeDatabases {
  if (cluster !== null) return RuntimeOfBuckets.in(layout, databases);
  return new OneRuntimeDatabase(databases.own('_runtime', layout.runtimeDb));
}

/** How operations on the git store's repository are done: in a cluster on a copy that follows those of the others. */
export function openRepository(
  cluster: ClusterNode | null,
  { codeStore }: Layout,
  jobs: Jobs,
): RepositoryAccess | null {
  if (codeStore === null) return null;
  const git = gitOn(jobs, codeStore.repository);
  const shared = cluster?.repository(codeStore, git) ?? null;
  return { git: shared?.run ?? git, shared };
}

type Parts = Pick<Services, 'hosted' | 'registry' | 'databases' | 'tree' | 'gitStore' | 'deployments'> & {
  runtime: RuntimeDatabases;
};

/** Resolves when what the node got at once is served; at once without a cluster. Rejects with `ConfigError` where another node has its name. */
export async function joinCluster(
  phases: Phases,
  cluster: ClusterNode | null,
  { hosted, registry, databases, tree, runtime, gitStore, deployments }: Parts,
): Promise<void> {
  if (cluster === null || !(runtime instanceof RuntimeOfBuckets)) return;
  // First of all: it goes on answering until the others have what it had.
  phases.ends((drainMs) => cluster.stop(drainMs));
  const served = new Map<number, Moved>();
  await cluster.begin({
    own: (buckets) => tree.own(buckets),
    learn: (apps) => {
      const { listed, removed } = sorted(apps);
      return registry.learnElsewhere(listed, removed);
    },
    knows: (app) => registry.has(app),
    serve: async (bucket, { subjects, apps, databases: names, webhooks }) => {
      runtime.serve(bucket, names.includes(runtimeOfBucket(bucket)));
      const { listed, removed } = sorted(apps);
      await registry.learn(listed, removed);
      const idsOf = (wanted: Subject['kind']) => subjects.flatMap(({ kind, id }) => (kind === wanted ? id : []));
      const claiming = webhooks.map(({ app }) => app);
      const moved = {
        apps: [...new Set([...idsOf('app'), ...listed.map(({ id }) => id), ...claiming])],
        workspaces: idsOf('workspace'),
      };
      await gitStore?.workspaces.clear(bucket, moved.workspaces);
      // Most buckets have nothing, and there are thousands.
      if (moved.apps.length + moved.workspaces.length + names.length === 0) return;
      served.set(bucket, moved);
      const ofApps = names.filter((name) => !isOwnDatabase(name));
      await inParallel(ofApps, FETCHED_AT_ONCE, (name) => databases.settle(name));
      await hosted.serve(moved);
      await deployments.claims.takeOver(moved.apps, webhooks);
    },
    release: async (bucket, drainMs, isLost) => {
      // Nothing waits for rows that are another node's.
      if (isLost) runtime.release(bucket);
      const { apps, workspaces } = served.get(bucket) ?? { apps: [], workspaces: [] };
      const parts = (await gitStore?.workspaces.partsIn(bucket)) ?? [];
      const moved = {
        apps: [...new Set([...apps, ...cluster.apps.takePut(bucket)])],
        workspaces: [...new Set([...workspaces, ...parts])],
      };
      if (moved.apps.length + moved.workspaces.length > 0) await hosted.release(moved, drainMs, isLost);
      runtime.release(bucket);
      served.delete(bucket);
    },
  });
}

/** Those that are registered, and the ids of those that were removed. */
function sorted(apps: readonly ListedApp[]) {
  const listed = apps.flatMap((app) => (app.registeredAt === null ? [] : { ...app, registeredAt: app.registeredAt }));
  return { listed, removed: apps.flatMap(({ id, registeredAt }) => (registeredAt === null ? id : [])) };
}
