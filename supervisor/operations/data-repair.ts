/**
 * Gives an app data again whose database is lost or damaged: that of a backup, or none (specification, "Damaged data"). What
 * was there is put aside, never deleted. A crash at any step leaves the data lost or whole, and the repair can be run again.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { isDiskFull, SvcError } from '../../protocol/errors.ts';
import type { repairApp } from '../../protocol/routes/apps/apps-rows.ts';
import type { AnswerOf } from '../../protocol/routes/row.ts';
import { type Registry, unknownApp } from '../../storage/apps/registry.ts';
import { exists, renameDurable } from '../../storage/files/atomic-file.ts';
import type { Layout } from '../../storage/layout.ts';
import type { Databases } from '../databases.ts';
import { migrationFiles } from '../deployments/activation.ts';
import type { Deployments } from '../deployments/deploy.ts';
import { type Apps, noActiveVersion } from '../dispatch/apps.ts';
import type { Jobs } from '../jobs/jobs.ts';
import type { Backups } from './backups.ts';

type DataRepairOptions = {
  layout: Layout;
  registry: Registry;
  databases: Databases;
  apps: Apps;
  jobs: Jobs;
  deployments: Deployments;
  backups: Backups;
  log: Logger;
};

type RepairResult = AnswerOf<typeof repairApp>;

export class DataRepair {
  readonly #options: DataRepairOptions;

  constructor(options: DataRepairOptions) {
    this.#options = options;
  }

  /**
   * With the data in `backup`, a file on this machine, or with new data. Rejects with `UNKNOWN_APP`, `NO_ACTIVE_VERSION`, `CONFLICT`
   * where the data is whole, `NOT_FOUND`, `INVALID_BACKUP`, `MIGRATION_FAILED` and `STORAGE_FULL`: the data is then as it was.
   */
  async repair(id: string, backup: string | null): Promise<RepairResult> {
    let repaired: RepairResult | null = null;
    const held = await this.#options.deployments.hold(id, async () => {
      repaired = await this.#repair(id, backup);
    });
    if (held === null || repaired === null) throw unknownApp(id);
    return repaired;
  }

  async #repair(id: string, backup: string | null): Promise<RepairResult> {
    const { registry, layout, databases, apps, backups, log } = this.#options;
    const { active } = await registry.state(id);
    if (active === null) throw noActiveVersion(id);
    await this.#refuseWhole(id);
    const app = layout.app(id);
    const staging = join(layout.tmpDir, `repair-${randomUUID()}`);
    const staged = join(staging, 'data.sqlite');
    try {
      await mkdir(staging, { mode: 0o700 });
      const done = backup === null ? 0 : await backups.extractData(id, backup, staged);
      const files = done < active.migrations ? await migrationFiles(app, active.versionId, done) : [];
      const migrationsApplied = files.length === 0 ? [] : await databases.migrateStaged(staged, files);
      const aside = await apps.whileStopped(id, async () => {
        const name = await databases.putAside(id, app.data, Date.now());
        if (await exists(staged)) await renameDurable(staged, app.data);
        await databases.settle(id);
        registry.forget(id);
        return (await exists(join(app.dir, name))) ? name : null;
      });
      log.warn({ app: id, from: backup, aside }, 'Repaired the data of an app.');
      await apps.swap(id, (await registry.state(id)).active ?? active);
      return { id, activeVersion: active.versionId, migrationsApplied, aside };
    } catch (error) {
      if (!isDiskFull(error)) throw error;
      throw new SvcError('STORAGE_FULL', 'The disk is full; the data is as it was.', { cause: error });
    } finally {
      await rm(staging, { recursive: true, force: true });
    }
  }

  async #refuseWhole(id: string): Promise<void> {
    const { registry, layout, jobs } = this.#options;
    const { data } = layout.app(id);
    await registry.checkData(id).catch((error: unknown) => {
      if (registry.damages.of(id) === null) throw error;
    });
    if (registry.damages.of(id) !== null) return;
    if ((await exists(data)) && (await jobs.appData({ check: data })).integrity !== 'ok') return;
    throw new SvcError('CONFLICT', `The data of "${id}" is whole: there is nothing to repair.`);
  }
}
