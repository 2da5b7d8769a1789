/**
 * Stores all that the data directory of a gateway has in the database of a cluster that has nothing: its apps, their files, workspaces,
 * and all databases (specification, "Begin of a cluster"). No gateway may run on the directory meanwhile, which stays as it is.
 */
import { bucketOf, runtimeOfBucket, trashedDatabase } from '../../protocol/buckets.ts';
import { draftKey, isAppId } from '../../protocol/ids.ts';
import { listIntents } from '../apps/journal.ts';
import { readRegistry } from '../apps/registry.ts';
import { listTrash } from '../apps/trash.ts';
import { exists, namesIn } from '../files/atomic-file.ts';
import type { Layout } from '../layout.ts';
import { storeBytes, storeFile } from '../replication/first-snapshot.ts';
import type { Mark } from '../replication/mark.ts';
import type { LargeContents } from '../shared-files/large-contents.ts';
import { SharedFiles } from '../shared-files/shared-files.ts';
import type { Session, Transactions } from './database.ts';
import { type FirstWorkspace, firstWorkspacesOf, storeWorkspaces } from './first-workspaces.ts';
import { runtimeByBucket } from './runtime-split.ts';
import { beginRepository } from './shared-repository.ts';

/** A database file that is what the log of pages has, once the transaction is committed. */
export type Copied = { file: string; mark: Mark };

/** What a data directory has: `apps` are the ids of those that have files or are registered. */
export type FirstData = {
  apps: string[];
  listed: { id: string; registeredAt: number | null; maker: string | null }[];
  /** By the names that the log of pages has for them. */
  databases: [name: string, file: string][];
  /** `runtime.sqlite`; null where there is none. */
  runtime: string | null;
  workspaces: FirstWorkspace[];
};

/** Rejects with `SESSION_DAMAGED` as `firstWorkspacesOf` does. */
export async function firstDataOf(layout: Layout): Promise<FirstData> {
  const { entries, removed, makers } = await readRegistry(layout);
  const folders = (await namesIn(layout.appsDir)).filter(isAppId);
  const trash = await listTrash(layout);
  const intents = await listIntents(layout);
  const workspaces = await firstWorkspacesOf(layout);
  const drafts = workspaces.flatMap(({ id, apps }) => apps.map((app) => draftKey(id, app)));
  const files: [string, string][] = [
    ['_identity', layout.identityDb],
    ...[...folders, ...drafts].map((key): [string, string] => [key, layout.app(key).data]),
    ...trash.map(({ id }): [string, string] => [trashedDatabase(id), layout.trashed(id).data]),
  ];
  const databases: [string, string][] = [];
  for (const [name, file] of files) if (await exists(file)) databases.push([name, file]);
  return {
    apps: [...new Set([...entries.keys(), ...folders, ...trash.map(({ app }) => app), ...intents])].sort(),
    listed: [
      ...[...entries].map(([id, registeredAt]) => ({ id, registeredAt, maker: makers.get(id) ?? null })),
      ...[...removed].filter((id) => !entries.has(id)).map((id) => ({ id, registeredAt: null, maker: null })),
    ],
    databases,
    runtime: (await exists(layout.runtimeDb)) ? layout.runtimeDb : null,
    workspaces,
  };
}

/**
 * Stores it, all in the transaction of the session; the git store's repository follows from the node of this name. Objects in `large`
 * that a transaction without an end has left are deleted there like others. `progress` hears of each app, database and workspace that is stored.
 */
export async function storeFirst(
  session: Session,
  { layout, large, node }: { layout: Layout; large: LargeContents | null; node: string },
  { apps, listed, databases, runtime, workspaces }: FirstData,
  progress: () => void,
): Promise<Copied[]> {
  const buckets = await session.rows<{ epoch: number }>(
    'SELECT epoch::float8 AS epoch FROM svc.buckets ORDER BY bucket',
  );
  const epochs = buckets.map(({ epoch }) => epoch);
  const within: Transactions = { rows: session.rows.bind(session), transaction: (work) => work(session) };
  const filesOf = (of: Layout) => new SharedFiles(of, within, large);
  const files = filesOf(layout);
  for (const id of apps) {
    await files.store({ kind: 'app', id }, epochs[bucketOf(id)] ?? 0);
    progress();
  }
  await storeWorkspaces(session, layout, workspaces, { epochs, filesOf, progress });
  const copied: Copied[] = [];
  for (const [name, file] of databases) {
    const mark = await storeFile(session, name, file);
    if (mark !== null) copied.push({ file, mark });
    progress();
  }
  for (const { bucket, bytes } of runtime === null ? [] : runtimeByBucket(runtime))
    await storeBytes(session, runtimeOfBucket(bucket), bytes);
  await session.rows(
    `INSERT INTO svc.apps (bucket, id, registered_at, maker)
     SELECT * FROM unnest($1::integer[], $2::text[], $3::bigint[], $4::text[])`,
    [
      listed.map(({ id }) => bucketOf(id)),
      listed.map(({ id }) => id),
      listed.map(({ registeredAt }) => registeredAt),
      listed.map(({ maker }) => maker),
    ],
  );
  if (layout.codeStore !== null && (await exists(layout.codeStore.repository))) await beginRepository(session, node);
  return copied;
}
