/** Takes a backup of a data directory, for a running gateway or a command that holds the lock. */
import { basename, join } from 'node:path';
import type { BackupHead, BackupSource, DamagedPart, PackJob, PackResult } from '../../protocol/wire/jobs.ts';
import { lostDataOf } from '../apps/app-data.ts';
import { exists } from '../files/atomic-file.ts';
import type { AppPaths, CodeStorePaths, Layout } from '../layout.ts';
import { BACKUP_FORMAT, BackupSize } from './format.ts';

type BackupPlan = {
  layout: Layout;
  /** The configuration that differs from the defaults, as JSON; null when unknown. */
  config: string | null;
  svcVersion: string;
  /** Milliseconds since the epoch. */
  takenAt: number;
  /** Of the data directory. */
  dataFormat: number;
  /** Ids of the apps that are registered. */
  apps: string[];
  /**
   * Runs `work` while the app cannot change. Resolves with its time of registration, or null if the app is gone and `work` did
   * not run.
   */
  hold(app: string, work: () => Promise<void>): Promise<number | null>;
  /** The id of the person who made an app; null or undefined for none. */
  makerOf?(app: string): string | null | undefined;
  /** Why the data of an app is lost, as a running gateway knows; null where it is not. */
  lostData?(app: string): string | null;
  pack(work: PackJob['work']): Promise<PackResult>;
};

/** Resolves with the size of the archive. Rejects with `BACKUP_TOO_LARGE`, and as `hold` and `pack` do. */
export async function takeBackup(plan: BackupPlan): Promise<number> {
  const { layout, config, svcVersion, dataFormat, hold, pack } = plan;
  const size = new BackupSize();
  const add = async (sources: BackupSource[]): Promise<void> => {
    const { files, bytes } = await pack({ sources });
    size.add(files, bytes);
  };
  await add(gatewaySources(layout, config));
  const lost: DamagedPart[] = [];
  const addApp = async (id: string): Promise<void> => {
    const app = layout.app(id);
    const what = plan.lostData?.(id) ?? (await lostDataOf(app));
    const sources = appSources(id, app);
    if (what !== null) lost.push({ path: `apps/${id}/${basename(app.data)}`, integrity: `it ${what}` });
    await add(what === null ? sources : sources.filter(({ kind }) => kind !== 'database'));
  };
  const registered: [id: string, entry: { registeredAt: string; madeBy?: string | undefined }][] = [];
  for (const id of plan.apps) {
    const at = await hold(id, () => addApp(id));
    const madeBy = plan.makerOf?.(id) ?? undefined;
    if (at !== null) registered.push([id, { registeredAt: new Date(at).toISOString(), madeBy }]);
  }
  if (layout.codeStore !== null) {
    const isLost = registered.length > 0 && !(await exists(layout.codeStore.repository));
    if (isLost) lost.push({ path: 'code-store/apps.git', integrity: 'it is missing' });
    await add(storeSources(layout.codeStore));
  }
  const registry = `${JSON.stringify({ apps: Object.fromEntries(registered) }, null, 2)}\n`;
  await add([{ kind: 'text', path: 'apps/_registry.json', text: registry }]);
  const takenAt = new Date(plan.takenAt).toISOString();
  const head: BackupHead = { format: BACKUP_FORMAT, svcVersion, takenAt, dataFormat, ...(lost.length > 0 && { lost }) };
  return (await pack({ finish: head })).bytes;
}

// Paths in a backup are those of a data directory whose apps lie in it, as `backupPathKind` knows them.

/** The gateway's own. Packed before the apps: an idempotency key must be older than the data that it speaks of. */
function gatewaySources(layout: Layout, config: string | null): BackupSource[] {
  const databases = [layout.runtimeDb, layout.identityDb, layout.analyticsDb];
  return [
    ...databases.map((from): BackupSource => ({ kind: 'database', path: basename(from), from })),
    { kind: 'file', path: basename(layout.profile), from: layout.profile },
    ...(config === null ? [] : [{ kind: 'text', path: 'config.json', text: config } as const]),
  ];
}

/** One app, without its log and the copies of its data from before migrations. */
function appSources(id: string, app: AppPaths): BackupSource[] {
  const part = (kind: 'file' | 'database' | 'versions' | 'folder', from: string): BackupSource => ({
    kind,
    path: `apps/${id}/${basename(from)}`,
    from,
  });
  return [
    part('file', app.current),
    part('file', app.pending),
    part('database', app.data),
    part('file', app.settings),
    part('file', app.webhookKeys),
    part('file', app.secrets),
    part('folder', app.attachmentsDir),
    // After the data: a file is stored before the row that names it.
    part('folder', app.blobsDir),
    part('folder', app.chatDir),
    part('versions', app.versionsDir),
    part('versions', app.preparedDir),
  ];
}

/** After the apps, so that each live version has its tag; refs before the objects that they name. */
function storeSources({ repository, sessionsDir }: CodeStorePaths): BackupSource[] {
  const part = (kind: 'file' | 'folder', name: string): BackupSource => ({
    kind,
    path: `code-store/apps.git/${name}`,
    from: join(repository, name),
  });
  return [
    { kind: 'text', path: 'apps/_store.json', text: '{"appsStoreRoot":"code-store"}\n' },
    part('file', 'HEAD'),
    part('file', 'config'),
    part('folder', 'refs'),
    part('file', 'packed-refs'),
    part('folder', 'objects'),
    { kind: 'sessions', path: 'code-store/worktrees/sessions', from: sessionsDir },
  ];
}
