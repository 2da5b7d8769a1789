/**
 * Reads and writes what a data directory says of itself: the kind of gateway that uses it (`profile.json`), and its format
 * (`format.json`). Migrates it to the next format, and undoes a migration that was interrupted. All steps of a start count together or
 * not at all: the files that they change are copied first, `migration.json` says where, and writing `format.json` decides.
 */
import { existsSync, mkdirSync } from 'node:fs';
import { copyFile, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DATA_FORMAT, type DataFormat, tooNew } from '../protocol/data-format.ts';
import { isDiskFull, SvcError } from '../protocol/errors.ts';
import { LIMITS } from '../protocol/limits.ts';
import { count, matching, object, text } from '../protocol/shapes/schema.ts';
import { shape } from '../protocol/shapes/shape.ts';
import {
  exists,
  isMissing,
  namesIn,
  readJson,
  readShaped,
  removeDurable,
  renameDurable,
  syncTree,
  writeFileAtomic,
} from './files/atomic-file.ts';
import type { Layout } from './layout.ts';

/**
 * Moves a directory to format `to`. `files` are all that it changes, from the data directory; what ends with `.sqlite` is a
 * database. If `run` is interrupted anywhere, the files are restored and it runs again.
 */
export type FormatStep = { to: number; files: string[]; run(dataDir: string): Promise<void> };

/** In order. Format 0 is that of releases without format numbers; it equals format 1. */
const STEPS: FormatStep[] = [{ to: 1, files: [], run: async () => {} }];

const FORMAT = shape(object({ format: count, svcVersion: text }));
const DAEMON = shape(object({ version: matching(/^[\w.+-]{1,64}$/, 'a version') }));

/** `migration.json`: a move that was begun, with the folder of the copies, a name in `migrations/`. */
type Journal = { to: number; copy: string; files: string[] };

/** The directory's format record; null when no gateway has run. Throws `DATA_FORMAT` for one that this release cannot read. */
export async function checkFormat(layout: Layout): Promise<DataFormat | null> {
  const found = await readShaped(layout.format, FORMAT);
  if (found === undefined) {
    const isUsed = (await exists(layout.profile)) || (await exists(layout.registry));
    return isUsed ? { format: 0, svcVersion: '0.1.0' } : null;
  }
  if (found === null) throw damaged(layout.format, await lastRelease(layout));
  if (found.format > DATA_FORMAT) throw tooNew(found);
  return found;
}

/** The release that a damaged `format.json` still names, or that left `daemon.json` when it was killed; null for neither. */
async function lastRelease(layout: Layout): Promise<string | null> {
  const named = /"svcVersion"\s*:\s*"([\w.+-]{1,64})"/.exec(await readFile(layout.format, 'utf8'))?.[1];
  if (named !== undefined) return named;
  const daemon = await readShaped(join(layout.runDir, 'daemon.json'), DAEMON).catch(() => null);
  return daemon?.version ?? null;
}

function damaged(file: string, release: string | null): SvcError {
  const [wrote, same] =
    release === null
      ? ['It does not say which release ran here last.', 'If it was this one']
      : [`The release that ran here last is svc ${release}.`, 'If this is that release'];
  return new SvcError(
    'DATA_FORMAT',
    `${file} is damaged. ${wrote} Nothing was changed. ${same} (svc --version), remove the file: the next start writes it again. If not, restore a backup: svc restore <file> --data-dir <new directory>.`,
  );
}

/**
 * Migrates a directory that `checkFormat` accepted to this release's format, once no one else writes to it. Throws
 * `DATA_FORMAT` when a step fails, or Node's error when there is no room for the copies; the directory is then unchanged. If
 * only the note of this release has no room, calls `onFull`: the next start writes it.
 */
export async function moveFormat(
  layout: Layout,
  found: DataFormat | null,
  svcVersion: string,
  onFull: (error: unknown) => void,
  steps: FormatStep[] = STEPS,
): Promise<void> {
  const format = steps.reduce((last, { to }) => Math.max(last, to), 0);
  let isMoved = false;
  await settleMove(layout, found);
  if (found !== null && found.format < format) {
    const due = steps.filter(({ to }) => to > found.format);
    const files = [...new Set(due.flatMap((step) => step.files))].filter((path) =>
      existsSync(join(layout.dataDir, path)),
    );
    const journal = { to: format, copy: `before-format-${format}-${Date.now()}`, files };
    isMoved = files.length > 0;
    if (isMoved) await beginMove(layout, found, journal);
    try {
      for (const step of due) await step.run(layout.dataDir);
    } catch (cause) {
      await settleMove(layout, found);
      const message = `The data directory could not be moved from format ${found.format} to ${format}, and is as it was: ${(cause as Error).message}. Run svc ${found.svcVersion} on it, and report this.`;
      throw new SvcError('DATA_FORMAT', message, { cause });
    }
  }
  if (found?.format !== format || found.svcVersion !== svcVersion) {
    await writeFileAtomic(layout.format, `${JSON.stringify({ format, svcVersion })}\n`).catch((error: unknown) => {
      if (isMoved || !isDiskFull(error)) throw error;
      onFull(error);
    });
  }
  if (found?.format !== format) await settleMove(layout, { format, svcVersion });
}

/** Copies the files that will change, and the one that names the format. */
async function beginMove(layout: Layout, found: DataFormat, journal: Journal): Promise<void> {
  const copy = join(layout.migrationsDir, journal.copy);
  const making = `${copy}.tmp`;
  await rm(making, { recursive: true, force: true });
  mkdirSync(making, { recursive: true, mode: 0o700 });
  try {
    for (const path of journal.files) await copyOf(join(layout.dataDir, path), join(making, path));
    await writeFileAtomic(join(making, 'format.json'), `${JSON.stringify(found)}\n`);
    await syncTree(making);
    await renameDurable(making, copy);
    await writeFileAtomic(layout.formatJournal, `${JSON.stringify(journal)}\n`);
  } catch (error) {
    await rm(making, { recursive: true, force: true });
    await rm(copy, { recursive: true, force: true });
    throw error;
  }
}

/** Finishes a migration that reached its format; undoes any other. Does nothing without one. */
async function settleMove(layout: Layout, found: DataFormat | null): Promise<void> {
  const journal = (await readJson(layout.formatJournal)) as Journal | undefined;
  if (journal === undefined) return;
  if ((found?.format ?? 0) < journal.to) {
    for (const path of journal.files) {
      const place = join(layout.dataDir, path);
      await copyOf(join(layout.migrationsDir, journal.copy, path), `${place}.tmp`);
      // SQLite would use the log of another database.
      for (const end of path.endsWith('.sqlite') ? ['-wal', '-shm'] : []) await rm(`${place}${end}`, { force: true });
      await renameDurable(`${place}.tmp`, place);
    }
  } else await removeOldCopies(layout);
  await removeDurable(layout.formatJournal);
}

async function removeOldCopies({ migrationsDir }: Layout): Promise<void> {
  const age = (name: string): number => Number(name.split('-').at(-1));
  const copies = (await namesIn(migrationsDir)).sort((one, other) => age(other) - age(one));
  for (const name of copies.slice(LIMITS.backups))
    await rm(join(migrationsDir, name), { recursive: true, force: true });
}

/** A database is copied with what is in its log. Loaded on use: most starts move nothing. */
async function copyOf(from: string, to: string): Promise<void> {
  await rm(to, { force: true });
  mkdirSync(dirname(to), { recursive: true, mode: 0o700 });
  if (!from.endsWith('.sqlite')) return await copyFile(from, to);
  const { copyDatabase } = await import('./backup/backup-database.ts');
  await copyDatabase(from, to, () => {});
}

/**
 * Makes `profile.json` once (specification, "Data directory"); later only its `kind` changes. A damaged file is left alone.
 */
export async function writeProfile(path: string, kind: 'daemon' | 'desktop' | 'plugin'): Promise<void> {
  let profile: object = { id: 'local', kind, label: 'Local gateway', createdAt: new Date().toISOString() };
  try {
    const stored = JSON.parse(await readFile(path, 'utf8')) as { kind?: unknown };
    if (stored.kind === kind) return;
    profile = { ...stored, kind };
  } catch (error) {
    if (!isMissing(error)) return;
  }
  await writeFileAtomic(path, `${JSON.stringify(profile, null, 2)}\n`);
}
