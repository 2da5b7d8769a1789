/**
 * Checks at the start whether the database can carry a cluster, and whether this node can be in it (specification, "Cluster:
 * nodes and buckets").
 */
import { setTimeout as wait } from 'node:timers/promises';
import { LIMITS } from '../../protocol/limits.ts';
import { type Database, isAway, type Session, stateOf } from '../../storage/cluster/database.ts';
import { prepareTables } from '../../storage/cluster/tables.ts';
import type { Layout } from '../../storage/layout.ts';
import { hasObjects, LargeContents } from '../../storage/shared-files/large-contents.ts';
import { ObjectStoreError, S3, type S3Settings } from '../../storage/shared-files/s3.ts';
import { ConfigError } from '../config.ts';
import { Directory, type NodeRow } from './directory.ts';

/** As PostgreSQL says them of the session that was asked; times in milliseconds since the epoch. */
export type DatabaseFacts = {
  versionNumber: number;
  version: string;
  readOnly: string;
  synchronousCommit: string;
  standbyNames: string;
  fsync: string;
  fullPageWrites: string;
  now: number;
};

const OLDEST = 140_000;
const NO_RIGHT = '42501';
const UNREACHED = /no answer within|ECONNREFUSED|ENOTFOUND|EAI_AGAIN|E(?:HOST|NET)UNREACH|ETIMEDOUT/;
/** How a connection fails whose server may be there in a moment, as the driver or `Database` says it. */
const SLOW = /no answer within|timeout|terminated|ECONNRESET|starting up/;
const LOOPBACK = /^(?:(?:.+\.)?localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;

const FACTS = `
  SELECT current_setting('server_version_num')::integer AS "versionNumber", current_setting('server_version') AS version,
    current_setting('transaction_read_only') AS "readOnly",
    current_setting('synchronous_commit') AS "synchronousCommit", current_setting('synchronous_standby_names') AS "standbyNames",
    current_setting('fsync') AS fsync, current_setting('full_page_writes') AS "fullPageWrites",
    (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now`;

/**
 * Checks the database, makes its tables or moves them to this release, and checks the node beside the others. Answers warnings.
 * Throws `ConfigError`, which names the setting and its value, and `DATA_FORMAT` when the tables are of a newer release.
 */
export async function checkStart(database: Database, node: { name: string; address: string }): Promise<string[]> {
  const askedAt = Date.now();
  const facts = await factsOf(database);
  const wrong = faultOf(facts);
  if (wrong !== null) throw new ConfigError(wrong, 'cluster');
  await withRights(() => prepareTables(database));
  const away = addressFault(node, await withRights(() => new Directory(database).nodes()));
  if (away !== null) throw new ConfigError(away, 'cluster');
  return clockWarning(facts.now, askedAt, Date.now());
}

/** Checks that the node has the kind of store that the first one of the cluster had. Rejects with `ConfigError`, which names the setting. */
export async function checkStore(session: Pick<Session, 'rows'>, { codeStore }: Layout): Promise<void> {
  const own = codeStore === null ? 'tarball' : 'git';
  await session.rows('UPDATE svc.meta SET store = $1 WHERE store IS NULL', [own]);
  const [meta] = await session.rows<{ store: string }>('SELECT store FROM svc.meta');
  if (meta?.store === own) return;
  const message =
    codeStore === null
      ? 'The nodes of the cluster have the git store, and this one the tarball store, as "appsStoreRoot" is not set. Start it without --store tarball, with an empty data directory.'
      : `The nodes of the cluster have the tarball store, and this one the git store, as "appsStoreRoot" is "${codeStore.dir}". Start it with --store tarball and an empty data directory.`;
  throw new ConfigError(message, 'appsStoreRoot');
}

/**
 * Opens the store of large files, and checks that it works and is the one of the cluster; null where the database has them. Throws
 * `ConfigError`, which names the setting and its value. The tables are there.
 */
export async function openLargeContents(database: Database, s3: S3Settings | null): Promise<LargeContents | null> {
  if (s3 === null) {
    if (!(await hasObjects(database))) return null;
    throw new ConfigError(
      'Files of this cluster are in an S3-compatible store, and the configuration names none. Set "blobs.s3" as at the other nodes.',
      'blobs',
    );
  }
  const large = new LargeContents(new S3(s3), database);
  try {
    await large.check();
    return large;
  } catch (error) {
    if (!(error instanceof ObjectStoreError)) throw error;
    throw new ConfigError(error.message, 'blobs');
  }
}

/** Of the first address that answers and is no standby. One that is slow, or starts itself, has some seconds. */
async function factsOf(database: Database): Promise<DatabaseFacts> {
  const until = performance.now() + LIMITS.nodeStartMs;
  for (;;) {
    try {
      const [facts] = await database.rows<DatabaseFacts>(FACTS);
      return facts as DatabaseFacts;
    } catch (error) {
      if (!isAway(error)) throw error;
      if (SLOW.test(causeOf(error)) && performance.now() < until) await wait(LIMITS.nodeMovingLookMs);
      else throw silent(database, error);
    }
  }
}

function silent(database: Database, error: unknown): ConfigError {
  const name = database.urls.length === 1 ? 'cluster.url' : 'cluster.urls';
  const why = causeOf(error);
  const what = UNREACHED.test(why) ? ' See that its PostgreSQL runs, and that this machine reaches it there.' : '';
  return new ConfigError(`The database of "${name}" does not answer (${why}).${what}`, 'cluster');
}

/** What a cluster cannot work with; null for a database that it can. */
export function faultOf(facts: DatabaseFacts): string | null {
  const { versionNumber, version, readOnly, synchronousCommit, standbyNames, fsync, fullPageWrites } = facts;
  if (versionNumber < OLDEST) return `The database of "cluster" is PostgreSQL ${version}. A cluster needs 14 or newer.`;
  if (readOnly === 'on')
    return 'The database of "cluster" takes no writes: its setting default_transaction_read_only is "on". Set it to "off".';
  if (synchronousCommit === 'off')
    return 'The database of "cluster" would lose acknowledged writes: its setting synchronous_commit is "off". Set it to "on".';
  if (synchronousCommit === 'local' && standbyNames !== '')
    return `The database of "cluster" does not wait for its standbys (synchronous_standby_names is "${standbyNames}"): its setting synchronous_commit is "local". Set it to "on".`;
  if (fsync === 'off')
    return 'The database of "cluster" would lose acknowledged writes: its setting fsync is "off". Set it to "on".';
  if (fullPageWrites === 'off')
    return 'The database of "cluster" could be damaged by a crash: its setting full_page_writes is "off". Set it to "on".';
  return null;
}

/** What is wrong with a node's address beside those of the others that are there; null if nothing is. */
export function addressFault(
  { name, address }: { name: string; address: string },
  nodes: readonly NodeRow[],
): string | null {
  if (!isLoopback(address)) return null;
  const other = nodes.find((node) => node.name !== name && node.isLive && !isLoopback(node.address));
  if (other === undefined) return null;
  return `"cluster.address" is "${address}", which only this machine reaches, and node "${other.name}" runs at ${other.address}. Set an address that the other nodes reach.`;
}

/** Nothing depends on it; but logs and times of versions are compared by people. */
export function clockWarning(databaseNow: number, askedAt: number, answeredAt: number): string[] {
  const apart = Math.max(databaseNow - answeredAt, askedAt - databaseNow);
  if (apart <= LIMITS.nodeClockMs) return [];
  return [
    `The clock of this machine and that of the cluster's database are ${(apart / 1000).toFixed(1)} s apart. Let NTP set both.`,
  ];
}

/** A right that the user lacks is told with what to do about it. */
async function withRights<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (stateOf(error) !== NO_RIGHT) throw error;
    throw new ConfigError(
      `The user of "cluster" may not make or change the tables of the cluster (${causeOf(error)}). Let it own the schema svc, or grant it CREATE on the database.`,
      'cluster',
    );
  }
}

function causeOf(error: unknown): string {
  return ((error as Error).cause as Error).message;
}

function isLoopback(address: string): boolean {
  return LOOPBACK.test(new URL(address).hostname);
}
