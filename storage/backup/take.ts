/** Takes a backup of a data directory, whoever holds it: a gateway that runs, or a command that has its lock. */
import { BACKUP_FORMAT, BackupSize, type BackupSource } from '../../protocol/backup.ts';
import type { PackJob, PackResult } from '../../protocol/jobs.ts';
import type { Layout } from '../layout.ts';
import { appSources, gatewaySources, registrySource, storeSources } from './sources.ts';

export type BackupPlan = {
  layout: Layout;
  /** The configuration that differs from the defaults, as JSON; null when nobody knows it. */
  config: string | null;
  svcVersion: string;
  /** Milliseconds since the epoch. */
  takenAt: number;
  /** Ids of the apps that are registered. */
  apps: string[];
  /**
   * Runs `work` while the app's pointer and versions stay as they are; answers when it was registered, in milliseconds since
   * the epoch, or null, without running it, when it is gone.
   */
  hold(app: string, work: () => Promise<void>): Promise<number | null>;
  pack(work: PackJob['work']): Promise<PackResult>;
};

/** Resolves with the size of the archive. Rejects with `BACKUP_TOO_LARGE`, and as `hold` and `pack` do. */
export async function takeBackup(plan: BackupPlan): Promise<number> {
  const { layout, config, svcVersion, hold, pack } = plan;
  const size = new BackupSize();
  const add = async (sources: BackupSource[]): Promise<void> => {
    const { files, bytes } = await pack({ sources });
    size.add(files, bytes);
  };
  await add(gatewaySources(layout, config));
  const registered: [id: string, entry: { registeredAt: string }][] = [];
  for (const id of plan.apps) {
    const at = await hold(id, () => add(appSources(id, layout.app(id))));
    if (at !== null) registered.push([id, { registeredAt: new Date(at).toISOString() }]);
  }
  const store = storeSources(layout);
  if (store.length > 0) await add(store);
  const registry = { apps: Object.fromEntries(registered) };
  await add([registrySource(`${JSON.stringify(registry, null, 2)}\n`)]);
  const head = { format: BACKUP_FORMAT, svcVersion, takenAt: new Date(plan.takenAt).toISOString() };
  return (await pack({ finish: head })).bytes;
}
