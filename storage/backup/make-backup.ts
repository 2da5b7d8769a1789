/** Takes a backup of a data directory, for a running gateway or a command that holds the lock. */
import { basename } from 'node:path';
import type { BackupHead, BackupSource, DamagedPart, PackJob, PackResult } from '../../protocol/wire/jobs.ts';
import { lostDataOf } from '../apps/app-data.ts';
import { exists } from '../files/atomic-file.ts';
import type { Layout } from '../layout.ts';
import { appSources, gatewaySources, storeSources } from './contents.ts';
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
export async function makeBackup(plan: BackupPlan): Promise<number> {
  const { layout, config, svcVersion, dataFormat, hold, pack } = plan;
  const size = new BackupSize();
  const add = async (sources: BackupSource[]): Promise<void> => {
    const { files, bytes } = await pack({ sources });
    size.add(files, bytes);
  };
  await add(await gatewaySources(layout));
  const lost: DamagedPart[] = [];
  const addApp = async (id: string): Promise<void> => {
    const app = layout.app(id);
    const what = plan.lostData?.(id) ?? (await lostDataOf(app));
    const sources = await appSources(id, app, layout.intent(id));
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
    await add(await storeSources(layout.codeStore));
  }
  const written = {
    'apps/_registry.json': `${JSON.stringify({ apps: Object.fromEntries(registered) }, null, 2)}\n`,
    'apps/_store.json': layout.codeStore && '{"appsStoreRoot":"code-store"}\n',
    'config.json': config,
  };
  await add(Object.entries(written).flatMap(([path, text]) => (text === null ? [] : { kind: 'text', path, text })));
  const takenAt = new Date(plan.takenAt).toISOString();
  const head: BackupHead = { format: BACKUP_FORMAT, svcVersion, takenAt, dataFormat, ...(lost.length > 0 && { lost }) };
  return (await pack({ finish: head })).bytes;
}
