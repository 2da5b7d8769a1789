/** For tests: deployments into a real directory on either backend, with the databases opened here instead of in the writer. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type Database from 'better-sqlite3';
import type { Logger } from 'pino';
import { SvcError } from '../protocol/errors.ts';
import { isAppId } from '../protocol/ids.ts';
import type { VersionSummary } from '../protocol/manifest.ts';
import { listIntents } from '../storage/apps/journal.ts';
import { Registry } from '../storage/apps/registry.ts';
import { Layout } from '../storage/layout.ts';
import { openSqlite } from '../storage/sqlite.ts';
import { resolveConfig } from '../supervisor/config.ts';
import type { Databases } from '../supervisor/databases.ts';
import type { FollowWorkspace, WorkspaceCopy } from '../supervisor/deployments/change.ts';
import { Deployments } from '../supervisor/deployments/deploy.ts';
import { checkStore, openStore } from '../supervisor/deployments/store/open-store.ts';
import type { Jobs } from '../supervisor/jobs/jobs.ts';
import { openRepository } from '../supervisor/start/cluster.ts';
import { appFiles, tarball } from './archive.ts';
import { openJobs } from './jobs.ts';
import { standIn } from './stand-in.ts';

/** Moments at which a test may look at the disk in the state that a crash would leave. */
export type Moments = Partial<
  Record<
    | 'staged'
    | 'preparing'
    | 'migrating'
    | 'migrated'
    | 'flushing'
    | 'swapping'
    | 'stopping'
    | 'forgetting'
    | 'regaining',
    () => void
  >
>;

export type StartOptions = { store?: 'tarball' | 'git'; moments?: Moments; versionRetention?: number };

/** Job threads and a folder for the data directories of one test file; `close` after all its tests. */
export async function openDeployments() {
  const root = mkdtempSync(join(tmpdir(), 'deploy-'));
  const opened = await openJobs(root);
  const { jobs } = opened;
  let directories = 0;
  return {
    root,
    jobs,
    newDataDir: (): string => join(root, `data-${++directories}`),
    start: (dataDir: string, options?: StartOptions) => startIn(dataDir, jobs, options),
    async close(): Promise<void> {
      await opened.close();
      rmSync(root, { recursive: true, force: true });
    },
  };
}

/**
 * The parts that run on one data directory: the real ones, except that databases are opened here instead of in the
 * writer.
 */
async function startIn(
  dataDir: string,
  jobs: Jobs,
  { store = 'tarball', moments = {}, versionRetention = 5 }: StartOptions = {},
) {
  const layout = new Layout(dataDir, undefined, store === 'git' ? 'code-store' : undefined);
  await checkStore(layout);
  const events: string[] = [];
  const forgotten: string[] = [];
  const warnings: string[] = [];
  const atWork = new Set<string>();
  /** Slug → app. */
  const holders = new Map<string, string>();
  const warn = (_: unknown, text?: string) => void warnings.push(text ?? '');
  const log = standIn<Logger>({ info: () => {}, warn, error: warn });
  const withData = <T>(app: string, work: (db: Database.Database) => T): T => {
    const db = openSqlite(layout.app(app).data);
    try {
      return work(db);
    } finally {
      db.close();
    }
  };
  const databases = standIn<Databases>({
    userVersion: async (app: string) => withData(app, (db) => db.pragma('user_version', { simple: true }) as number),
    async migrate(app: string, files: { name: string; path: string }[], backupTo: string | null) {
      moments.migrating?.();
      const applied = files.map(({ name }) => Number(name.slice(0, 4)));
      withData(app, (db) => {
        if (backupTo !== null) db.prepare('VACUUM INTO ?').run(backupTo);
        db.transaction(() => {
          for (const { name, path } of files) {
            try {
              db.exec(readFileSync(path, 'utf8'));
            } catch (error) {
              throw new SvcError('MIGRATION_FAILED', (error as Error).message, { path: `migrations/${name}` });
            }
          }
          db.pragma(`user_version = ${applied.at(-1)}`);
        })();
      });
      moments.migrated?.();
      return applied;
    },
    async makeDurable(app: string) {
      moments.flushing?.();
      events.push(`flush ${app}`);
    },
    close: async (app: string) => void events.push(`close ${app}`),
    detach: async (app: string) => void events.push(`close ${app}`),
    attach: async () => {},
    purge: async () => {},
    settle: async () => {},
  });
  const registry = await Registry.open({
    layout,
    userVersion: (app) => databases.userVersion(app),
    makeDurable: (app) => databases.makeDurable(app),
    prepareAnew: (app, versionId) => deployments.prepareAnew(app, versionId),
    restoreFiles: (app, versionId) => deployments.restoreFiles(app, versionId),
    log,
  });
  const watched = standIn<Jobs>({
    review: (job) => jobs.review(job),
    async prepareAgain(job) {
      moments.preparing?.();
      await jobs.prepareAgain(job);
    },
    async ingest(job) {
      const result = await jobs.ingest(job);
      moments.staged?.();
      return result;
    },
  });
  const deployments: Deployments = new Deployments({
    layout,
    registry,
    store: openStore({ layout, config: resolveConfig(dataDir), repository: openRepository(null, layout, jobs), log }),
    share: async () => {},
    jobs: watched,
    databases,
    apps: standIn({
      async swap(app: string, active: VersionSummary | null) {
        moments.swapping?.();
        events.push(`swap ${app} ${active?.version}`);
      },
      versionsAtWork: () => atWork,
      async stop(app: string) {
        moments.stopping?.();
        events.push(`stop ${app}`);
      },
      async forget(app: string) {
        moments.forgetting?.();
        forgotten.push(app);
      },
      async loadRestored(app: string) {
        moments.regaining?.();
        events.push(`load ${app}`);
      },
    }),
    versionRetention,
    addresses: { holderOf: (slug) => holders.get(slug), of: () => [], shared: null },
    log,
  });
  await deployments.open();
  const folders = readdirSync(layout.appsDir).filter(isAppId);
  await deployments.serve(new Set([...registry.registered(), ...(await listIntents(layout)), ...folders]));
  await deployments.tidy();
  /** What workspaces were given of what was published. */
  const followed: string[] = [];
  const follow: FollowWorkspace = async (workspace, app, { commit, same }) => {
    followed.push(`${workspace}/${app} ${commit} ${same ? 'same' : 'merged'}`);
    return true;
  };
  deployments.followWorkspaces(follow);
  await deployments.catchUp((_workspace, _app, work) => work(), follow);
  const upload = (archive: Buffer, options?: Parameters<Deployments['upload']>[2], id = 'notes') =>
    deployments.upload(id, Readable.from([archive]), options);
  return {
    layout,
    registry,
    deployments,
    databases,
    events,
    followed,
    forgotten,
    warnings,
    atWork,
    holders,
    upload,
    withData,
  };
}

/** A workspace for a publication. */
export function workspaceCopy(folder: string, base: string | null): WorkspaceCopy {
  return { id: 'mine', folder, base };
}

/** A version of the app with this many migrations: a table, and a column for each further one. */
export function version(name: string, migrations = 0, more: Record<string, string> = {}): Buffer {
  const sql = Array.from({ length: migrations }, (_, i) => [
    `migrations/000${i + 1}_m.sql`,
    i === 0 ? 'CREATE TABLE notes (c0);' : `ALTER TABLE notes ADD c${i};`,
  ]);
  return tarball({ ...appFiles('notes', { version: name }), ...Object.fromEntries(sql), ...more });
}
