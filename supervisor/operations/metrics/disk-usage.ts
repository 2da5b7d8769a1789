/** Measures the disk usage of apps, one after the other in the background, so that no scrape waits for the disk. */
import { stat } from 'node:fs/promises';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Registry } from '../../../storage/apps/registry.ts';
import { listVersions } from '../../../storage/apps/versions.ts';
import type { Layout } from '../../../storage/layout.ts';

/** Bytes: the database with its log, and the code of all versions that are kept. */
export type AppDiskUsage = { data: number; versions: number };

type DiskUsageOptions = {
  registry: Registry;
  layout: Layout;
  now?(): number;
};

export class DiskUsage {
  readonly #options: Required<DiskUsageOptions>;
  #known: [app: string, usage: AppDiskUsage][] = [];
  #nextAt = Number.NEGATIVE_INFINITY;
  #measuring: Promise<void> | null = null;

  constructor({ now = () => performance.now(), ...options }: DiskUsageOptions) {
    this.#options = { now, ...options };
  }

  /** The last measurement; starts a new one if due. */
  get known(): readonly [app: string, usage: AppDiskUsage][] {
    if (this.#measuring === null && this.#options.now() >= this.#nextAt) {
      this.#measuring = this.#measure().finally(() => {
        this.#measuring = null;
        this.#nextAt = this.#options.now() + LIMITS.diskUsageMs;
      });
    }
    return this.#known;
  }

  /** Resolves when no measurement runs. */
  async settled(): Promise<void> {
    await this.#measuring;
  }

  async #measure(): Promise<void> {
    const { registry, layout } = this.#options;
    const found: [string, AppDiskUsage][] = [];
    for (const id of [...registry.ids()]) {
      const paths = layout.app(id);
      // An app that is removed meanwhile has nothing.
      const versions = await listVersions(paths).catch(() => []);
      const data = (await sizeOf(paths.data)) + (await sizeOf(`${paths.data}-wal`));
      found.push([id, { data, versions: versions.reduce((sum, { bytes }) => sum + bytes, 0) }]);
    }
    this.#known = found;
  }
}

async function sizeOf(file: string): Promise<number> {
  return await stat(file).then(
    ({ size }) => size,
    () => 0,
  );
}
