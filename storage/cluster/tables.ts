/**
 * Makes the tables of a cluster and moves them to the form of this release, while other nodes use them (specification,
 * "Cluster: nodes and buckets").
 */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { LOG_TABLES } from '../replication/log-tables.ts';
import { OBJECT_TABLES } from '../shared-files/large-contents.ts';
import { FILE_TABLES } from '../shared-files/tables.ts';
import { APP_CHANGES, APP_TABLES } from './app-directory.ts';
import { type Database, stateOf } from './database.ts';
import { REPOSITORY_TABLES } from './shared-repository.ts';
import { WEBHOOK_TABLES } from './webhook-directory.ts';
import { WORKSPACE_TABLES } from './workspace-directory.ts';

/**
 * In order; the version of the tables is the number of steps that were made. A step runs in a transaction of its own, does no
 * harm when what it makes is there, and leaves the tables as the releases that know the earlier steps need them.
 */
export const TABLE_STEPS: readonly string[] = [
  LOG_TABLES,
  `CREATE TABLE IF NOT EXISTS svc.nodes (
     name text PRIMARY KEY,
     instance uuid NOT NULL,
     address text NOT NULL,
     lease_until timestamptz NOT NULL,
     version text NOT NULL,
     started timestamptz NOT NULL,
     draining boolean NOT NULL DEFAULT false
   );`,
  FILE_TABLES,
  APP_TABLES,
  // Sealed with the secret of the cluster.
  'CREATE TABLE IF NOT EXISTS svc.keys (name text PRIMARY KEY, sealed bytea NOT NULL);',
  APP_CHANGES,
  REPOSITORY_TABLES,
  WORKSPACE_TABLES,
  WEBHOOK_TABLES,
  // Of all nodes.
  'ALTER TABLE svc.meta ADD COLUMN IF NOT EXISTS store text;',
  OBJECT_TABLES,
];

/** A lock that was not given in time, and two that waited for each other. */
const BUSY = new Set(['55P03', '40P01']);
/** One node at a time makes steps. The lock ends with its transaction. */
const LOCK = `SELECT pg_advisory_xact_lock(hashtextextended('svc.meta', 0))`;
const START = `
  CREATE SCHEMA IF NOT EXISTS svc;
  CREATE TABLE IF NOT EXISTS svc.meta (version integer NOT NULL, one boolean PRIMARY KEY DEFAULT true CHECK (one));
  INSERT INTO svc.meta (version) VALUES (0) ON CONFLICT DO NOTHING;`;

/**
 * Makes the steps that are missing. With none missing it needs no right to make tables. Throws `DATA_FORMAT` when a newer release
 * made more of them, and as the database does.
 */
export async function prepareTables(database: Database, steps: readonly string[] = TABLE_STEPS): Promise<void> {
  let version = await versionOf(database);
  if (version > steps.length) throw tooNew(version, steps.length);
  while (version < steps.length) version = await patiently(() => nextStep(database, steps));
}

/** 0 where no tables are. */
async function versionOf(database: Database): Promise<number> {
  const [found] = await database.rows<{ meta: string | null }>(`SELECT to_regclass('svc.meta')::text AS meta`);
  if (found?.meta == null) return 0;
  const [row] = await database.rows<{ version: number }>('SELECT version FROM svc.meta');
  return row?.version ?? 0;
}

/** Makes the first step that is missing, unless another node just did; answers the version that the tables have then. */
async function nextStep(database: Database, steps: readonly string[]): Promise<number> {
  return database.transaction(async (session) => {
    const run = (text: string) => session.rows<{ version: number }>({ text, answerMs: LIMITS.tablesStepMs });
    await run(LOCK);
    // Whoever uses a table waits behind a change that waits for it.
    await run(`SET LOCAL lock_timeout = ${LIMITS.tablesLockMs}`);
    await run(START);
    const [found] = await run('SELECT version FROM svc.meta');
    const version = found?.version ?? 0;
    const step = steps[version];
    if (step === undefined) return version;
    await run(step);
    await run(`UPDATE svc.meta SET version = ${version + 1}`);
    return version + 1;
  });
}

async function patiently<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (!BUSY.has(stateOf(error) ?? '') || tries >= LIMITS.tablesTries) throw error;
    }
  }
}

function tooNew(found: number, known: number): SvcError {
  return new SvcError(
    'DATA_FORMAT',
    `The tables of the cluster have version ${found}, and this release knows those up to ${known}. Another node runs a newer release: update this one.`,
  );
}
