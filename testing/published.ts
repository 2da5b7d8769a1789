/**
 * Makes the data directory that many gateways of a test run begin with once, and copies it for each: a publication starts a
 * process of its own, a copy takes a few files.
 */
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ORIGIN_FILE } from '../protocol/rules/archive-rules.ts';

export type AppFiles = Record<string, string | Buffer>;

/** Apps, by id, that a store has from the beginning. */
export type Published = { store: 'tarball' | 'git'; apps: Record<string, AppFiles> };

/** What was made in this run is kept here; scripts/test.mjs names one folder for all files. */
let kept: string | undefined = process.env.SVC_TEST_PUBLISHED;

/** Fills `dataDir`, which does not exist yet, with these apps; `make` publishes them in a new one, if nobody has yet. */
export async function copyPublished(
  dataDir: string,
  published: Published,
  make: (dataDir: string) => Promise<void>,
): Promise<void> {
  const folder = join(keptFolder(), keyOf(published));
  if (!existsSync(folder)) await keep(folder, make);
  cpSync(folder, dataDir, { recursive: true, verbatimSymlinks: true });
}

/** The files in an app's folder, as an upload has them: without the note of an earlier push. */
export function filesOf(folder: string): AppFiles {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const entries = files.filter(({ name }) => name !== ORIGIN_FILE);
  return Object.fromEntries(
    entries.map(({ parentPath, name }) => {
      const path = join(parentPath, name);
      return [path.slice(folder.length + 1), readFileSync(path)];
    }),
  );
}

function keptFolder(): string {
  if (kept === undefined) {
    const own = mkdtempSync(join(tmpdir(), 'svc-published-'));
    process.on('exit', () => rmSync(own, { recursive: true, force: true }));
    kept = own;
  }
  return kept;
}

function keyOf({ store, apps }: Published): string {
  const hash = createHash('sha256').update(store);
  for (const [id, files] of Object.entries(apps))
    for (const [path, content] of Object.entries(files))
      hash.update(JSON.stringify([id, path, content.length])).update(content);
  return hash.digest('hex');
}

async function keep(folder: string, make: (dataDir: string) => Promise<void>): Promise<void> {
  const work = mkdtempSync(join(keptFolder(), 'work-'));
  try {
    await make(join(work, 'data'));
    renameSync(join(work, 'data'), folder);
  } catch (error) {
    // Another file of tests may have been quicker.
    if (!existsSync(folder)) throw error;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
