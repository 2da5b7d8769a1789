/** Reads and writes `seed.json` beside a draft's data: the data is whole while the file exists. */
import { join } from 'node:path';
import type { DraftMigration } from '../../protocol/wire/jobs.ts';
import { readJson, removeDurable, writeFileAtomic } from '../files/atomic-file.ts';
import type { AppPaths } from '../layout.ts';

/** `userVersion` is that of the live data when it was copied; `applied` are the draft's own migrations since, in order. */
export type DraftSeed = {
  userVersion: number;
  applied: DraftMigration[];
  /** Being applied in one transaction: the data's `user_version` says whether it committed. */
  applying?: DraftMigration[];
};

/** Null when the data was never copied completely. */
export async function readSeed(draft: AppPaths): Promise<DraftSeed | null> {
  const value = (await readJson(seedFile(draft), null)) as Partial<DraftSeed> | null | undefined;
  if (typeof value?.userVersion !== 'number' || !Array.isArray(value.applied)) return null;
  const { userVersion, applied, applying } = value;
  return { userVersion, applied, ...(Array.isArray(applying) ? { applying } : {}) };
}

export async function writeSeed(draft: AppPaths, seed: DraftSeed): Promise<void> {
  await writeFileAtomic(seedFile(draft), `${JSON.stringify(seed, null, 2)}\n`);
}

/** Before the data is replaced. */
export async function removeSeed(draft: AppPaths): Promise<void> {
  await removeDurable(seedFile(draft));
}

function seedFile(draft: AppPaths): string {
  return join(draft.dir, 'seed.json');
}
