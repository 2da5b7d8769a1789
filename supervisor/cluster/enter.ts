/**
 * Takes a data directory into a cluster: the first one gives it its keys and all that it has, in one transaction, and the others have
 * nothing of their own (specification, "Begin of a cluster").
 */
import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { plural } from '../../protocol/text/units.ts';
import { Database, type Session, stateOf } from '../../storage/cluster/database.ts';
import type { Copied, FirstData } from '../../storage/cluster/first-data.ts';
import { removeWhole } from '../../storage/cluster/first-workspaces.ts';
import { readNodeRecord, writeNodeRecord } from '../../storage/cluster/node-record.ts';
import type { Layout } from '../../storage/layout.ts';
import type { LargeContents } from '../../storage/shared-files/large-contents.ts';
import { ConfigError } from '../config.ts';
import { hasKeys, type Keys } from './keys.ts';
import { checkStore } from './start-checks.ts';

/** A run of a node, and the one of the same data directory before it, null where none is known. */
export type Run = { instance: string; previous: string | null };

/** `large` is the store of large files, null where the database has them; `node` is the name of the node. */
type EnterOptions = {
  database: Database;
  keys: Keys;
  layout: Layout;
  large: LargeContents | null;
  node: string;
  log: Pick<Logger, 'info'>;
};

const IN_USE = '55P03';
const LOCK = `SELECT pg_advisory_xact_lock(hashtextextended('svc.begin', 0))`;

/** Rejects with `ConfigError`, which says what to do, where the directory and the cluster do not belong together, and as `Keys.share` does. */
export async function enterCluster(options: EnterOptions): Promise<Run> {
  const { database, keys, layout } = options;
  const recorded = await readNodeRecord(layout);
  const run: Run = { instance: randomUUID(), previous: recorded?.instance ?? null };
  const { firstDataOf } = await import('../../storage/cluster/first-data.ts');
  if (!(await hasKeys(database))) {
    if (recorded?.isBringing === false) throw otherDatabase();
    const data = await firstDataOf(layout).catch(whatToDo);
    await writeNodeRecord(layout, { instance: run.instance, isBringing: true });
    await begin(options, data);
  } else if (recorded === null && hasAnything(await firstDataOf(layout).catch(whatToDo))) throw hasBegun();
  await checkStore(database, layout);
  await keys.share();
  if (layout.codeStore !== null) await removeWhole(layout.codeStore);
  await writeNodeRecord(layout, { instance: run.instance, isBringing: false });
  return run;
}

/** Nothing of it is in the cluster until all of it is. */
async function begin({ database, keys, layout, large, node, log }: EnterOptions, data: FirstData): Promise<void> {
  const { storeFirst } = await import('../../storage/cluster/first-data.ts');
  const { markCopy } = await import('../../storage/replication/first-snapshot.ts');
  const own = new Database(database.urls, { connections: 1, answerMs: LIMITS.beginAnswerMs });
  try {
    const copied = await own.transaction(async (session): Promise<Copied[]> => {
      await locked(session);
      if (await hasKeys(session)) return [];
      const said = new Progress(data, log);
      const stored = await storeFirst(session, { layout, large, node }, data, () => said.step());
      await checkStore(session, layout);
      await keys.share(session);
      return stored;
    });
    for (const { file, mark } of copied) markCopy(file, mark);
    if (copied.length > 0) log.info('The cluster has all that this data directory had.');
  } finally {
    await own.close();
  }
}

/** One node at a time begins the cluster; the lock ends with the transaction, which may be silent while large files are read. */
async function locked(session: Session): Promise<void> {
  await session.rows(`SET LOCAL idle_in_transaction_session_timeout = ${LIMITS.beginAnswerMs}`);
  await session.rows(`SET LOCAL lock_timeout = ${LIMITS.beginAnswerMs / 2}`);
  try {
    await session.rows(LOCK);
  } catch (error) {
    if (stateOf(error) !== IN_USE) throw error;
    throw new ConfigError(
      'Another node brings its apps into the cluster at this moment. Start this one when that one serves.',
      'cluster',
    );
  }
}

/** Says in the log how far it is. */
class Progress {
  readonly #log: Pick<Logger, 'info'>;
  readonly #of: number;
  #done = 0;
  #saidAt = performance.now();

  constructor({ apps, databases, workspaces }: FirstData, log: Pick<Logger, 'info'>) {
    this.#log = log;
    this.#of = apps.length + databases.length + workspaces.length;
    if (this.#of === 0) return;
    const what = `${plural(apps.length, 'app')}, ${plural(databases.length, 'database')} and ${plural(workspaces.length, 'workspace')}`;
    log.info(`Brings ${what} into the cluster.`);
  }

  step(): void {
    this.#done++;
    if (performance.now() - this.#saidAt < LIMITS.beginProgressMs) return;
    this.#saidAt = performance.now();
    this.#log.info(`Has brought ${this.#done} of ${this.#of} apps, databases and workspaces into the cluster.`);
  }
}

function hasAnything({ apps, databases, runtime, workspaces }: FirstData): boolean {
  return apps.length + databases.length + workspaces.length > 0 || runtime !== null;
}

/** A workspace that is damaged is closed by the gateway that has it. */
function whatToDo(error: unknown): never {
  if (!(error instanceof SvcError) || error.code !== 'SESSION_DAMAGED') throw error;
  throw new ConfigError(`${error.message}. Until then start the gateway without "cluster".`, 'cluster');
}

function hasBegun(): ConfigError {
  return new ConfigError(
    'The data directory is of a gateway of its own, and the cluster has begun with another one. Start this node with an empty data directory, and bring those apps one at a time; or let this gateway begin a cluster in another database.',
    'cluster',
  );
}

function otherDatabase(): ConfigError {
  return new ConfigError(
    'The data directory is of a node of a cluster, and the database of "cluster" is of none. Name the database of that cluster, or restore it from its backup; or start this node with an empty data directory.',
    'cluster',
  );
}
