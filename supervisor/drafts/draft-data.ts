/** Makes the data of one draft: a copy of the live data, with the draft's own migrations applied. */
import { join } from 'node:path';
import { appOfKey } from '../../protocol/ids.ts';
import type { DraftMigration } from '../../protocol/wire/jobs.ts';
import { type DraftSeed, readSeed, removeSeed, writeSeed } from '../../storage/authoring/draft-seed.ts';
import { exists } from '../../storage/files/atomic-file.ts';
import type { AppPaths } from '../../storage/layout.ts';
import type { Databases } from '../databases.ts';
import type { Jobs } from '../jobs/jobs.ts';

type DraftDataOptions = {
  /** The draft's key. */
  key: string;
  draft: AppPaths;
  live: AppPaths;
  databases: Databases;
  jobs: Jobs;
  /** Ends what has the data open, and keeps it from being opened again until the data is there. */
  release(): Promise<void>;
  /** In a cluster: resolves when another node would find the record of the data. Rejects with `STORAGE_UNAVAILABLE`. */
  share(): Promise<void>;
  /** To the draft's log. */
  say(level: 'info' | 'warn', message: string): void;
};

/** What was done to the data: whether it was copied from live, and the numbers of the migrations that were applied. */
export type FittedData = { seeded: boolean; migrationsApplied: number[] };

/** Its owner calls one method at a time. */
export class DraftData {
  readonly #options: DraftDataOptions;
  #seed: DraftSeed | null = null;

  constructor(options: DraftDataOptions) {
    this.#options = options;
  }

  /**
   * Makes the data fit the migrations in `migrationsDir`, of which `migrations` are all. Rejects with `MIGRATION_FAILED`, the
   * file in `path`; the data is then as before that migration.
   */
  async fitTo(migrations: DraftMigration[], migrationsDir: string): Promise<FittedData> {
    const kept = this.#seed ?? (await this.#stored());
    const fits = kept !== null && this.#fits(kept, migrations);
    if (kept !== null && !fits) {
      this.#options.say(
        'warn',
        'A migration that the draft had applied was edited or removed: its data was copied from live again.',
      );
    }
    const seed = fits ? kept : await this.#copy();
    return { seeded: !fits, migrationsApplied: await this.#migrate(seed, migrations, migrationsDir) };
  }

  /** The same, on a fresh copy of the live data. */
  async reset(migrations: DraftMigration[], migrationsDir: string): Promise<FittedData> {
    const seed = await this.#copy();
    return { seeded: true, migrationsApplied: await this.#migrate(seed, migrations, migrationsDir) };
  }

  /** The draft is being removed. */
  async close(): Promise<void> {
    const { draft, databases, key } = this.#options;
    if (await exists(draft.data)) await databases.detach(key, null);
  }

  async #stored(): Promise<DraftSeed | null> {
    const { draft, databases, key } = this.#options;
    const seed = await readSeed(draft);
    if (seed === null) return null;
    const migrated = (await exists(draft.data)) ? await databases.userVersion(key) : 0;
    const { userVersion, applied, applying = [] } = seed;
    for (const arrived of [applied, [...applied, ...applying]])
      if (migrated === userVersion + arrived.length) return { userVersion, applied: arrived };
    // The file is gone, or is not the one that was copied.
    return null;
  }

  /** The copy has live's migrations as they ran there, even if the draft changed their files. */
  #fits({ userVersion, applied }: DraftSeed, migrations: DraftMigration[]): boolean {
    const own = migrations.slice(userVersion);
    return applied.every(({ name, sha256 }, at) => own[at]?.name === name && own[at]?.sha256 === sha256);
  }

  async #copy(): Promise<DraftSeed> {
    const { draft, live, jobs, databases, key, release, share } = this.#options;
    await release();
    await this.close();
    this.#seed = null;
    await removeSeed(draft);
    await share();
    const { userVersion } = await jobs.seed({ from: live.data, to: draft.data }, appOfKey(key));
    await databases.settle(key);
    return this.#remember({ userVersion, applied: [] });
  }

  async #migrate(seed: DraftSeed, migrations: DraftMigration[], dir: string): Promise<number[]> {
    const { databases, key } = this.#options;
    const pending = migrations.slice(seed.userVersion + seed.applied.length);
    if (pending.length === 0) return [];
    const { userVersion, applied } = seed;
    const files = pending.map(({ name }) => ({ name, path: join(dir, name) }));
    // A crash between the migrations and their record must not lose the draft's writes.
    await this.#remember({ userVersion, applied, applying: pending });
    const numbers = await databases.migrate(key, files, null);
    await this.#remember({ userVersion, applied: [...applied, ...pending] });
    return numbers;
  }

  async #remember(seed: DraftSeed): Promise<DraftSeed> {
    await writeSeed(this.#options.draft, seed);
    await this.#options.share();
    this.#seed = seed;
    return seed;
  }
}
