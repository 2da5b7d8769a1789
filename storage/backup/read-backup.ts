/** Reads and verifies a whole backup, and writes its files to a folder if one is given. */
import { createHash } from 'node:crypto';
import {
  closeSync,
  createReadStream,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { syncDir, syncFile, syncTree, temporaryBeside, writeFileAtomic } from '../files/atomic-file.ts';
import { makeFolder } from '../files/make-folder.ts';
import { inspectDatabase } from './backup-database.ts';
import {
  BACKUP_MANIFEST,
  type BackupDatabase,
  type BackupFile,
  type BackupManifest,
  BackupSize,
  backupPathKind,
  checkAgainstManifest,
  invalidBackup,
  parseBackupManifest,
} from './format.ts';
import { type ArchivedFile, archivedFiles, joined } from './tar-format.ts';

const CHUNK_BYTES = 256 * 1024;
const FOLLOWED = 'something follows its end';

type Reading = {
  /** Where to unpack a file; null for nowhere. */
  place?(path: string): string | null;
  /** The file is unpacked. */
  placed?(path: string): void;
  /** Called between chunks; what it throws ends the work. */
  check?(): void;
};
type Inspected = ReturnType<typeof inspectDatabase>;

/**
 * The manifest, with which every file agrees. Throws `INVALID_BACKUP` for anything else, `BACKUP_TOO_LARGE`, Node's error when a
 * file cannot be unpacked (`ENOSPC`, …), and what `check` throws. What was unpacked by then stays.
 */
export async function readBackup(file: string, reading: Reading = {}): Promise<BackupManifest> {
  const { size } = statSync(file);
  const gunzip = createGunzip({ chunkSize: CHUNK_BYTES });
  const found = new Map<string, BackupFile>();
  let manifest: string | null = null;
  try {
    await pipeline(
      createReadStream(file, { highWaterMark: CHUNK_BYTES }),
      gunzip,
      async (bytes: AsyncIterable<Buffer>) => {
        manifest = await unpackAll(bytes, found, reading);
      },
    );
  } catch (error) {
    const { code } = error as { code?: unknown };
    // The pipeline's error code when the reader ends before the file.
    if (code === 'ABORT_ERR') throw invalidBackup(FOLLOWED, undefined, error);
    throw String(code).startsWith('Z_')
      ? invalidBackup(`gunzip says "${(error as Error).message}"`, undefined, error)
      : error;
  }
  // Zeros behind the end, which gunzip takes for filling.
  if (gunzip.bytesWritten !== size) throw invalidBackup(FOLLOWED);
  if (manifest === null) throw invalidBackup('it has no manifest', BACKUP_MANIFEST);
  const parsed = parseBackupManifest(manifest);
  checkAgainstManifest(parsed, found);
  return parsed;
}

/** Resolves with the text of the manifest, null without one; puts the others into `found`. */
async function unpackAll(
  bytes: AsyncIterable<Buffer>,
  found: Map<string, BackupFile>,
  { place = () => null, placed = () => {}, check = () => {} }: Reading,
): Promise<string | null> {
  const total = new BackupSize();
  let manifest: string | null = null;
  for await (const archived of archivedFiles(bytes)) {
    const { path, size, content } = archived;
    check();
    if (manifest !== null) throw invalidBackup('something follows its manifest', path);
    if (backupPathKind(path) === 'manifest') {
      if (size > LIMITS.backupManifestBytes) throw invalidBackup('its manifest is too large', path);
      manifest = (await joined(content)).toString();
      continue;
    }
    // A name that the file system takes for an existing one fails below.
    if (found.has(path)) throw invalidBackup('it holds a file twice', path);
    total.add(1, size);
    const to = place(path);
    const sha256 = await unpack(archived, to, check);
    found.set(path, { path, bytes: size, sha256 });
    if (to !== null) placed(path);
  }
  return manifest;
}

/** Resolves with the SHA-256 of the content in hex. */
async function unpack({ path, content }: ArchivedFile, to: string | null, check: () => void): Promise<string> {
  const hash = createHash('sha256');
  const fd = to === null ? null : create(to, path);
  try {
    for await (const chunk of content) {
      check();
      hash.update(chunk);
      if (fd !== null) writeFileSync(fd, chunk);
    }
  } finally {
    if (fd !== null) closeSync(fd);
  }
  return hash.digest('hex');
}

function create(file: string, path: string): number {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  try {
    return openSync(file, 'wx', 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw invalidBackup('it holds a file twice', path, error);
    throw error;
  }
}

/**
 * As `readBackup`, and each database is looked at as a restore would: SQLite's own check, and the number of rows of each table.
 * They are unpacked one at a time to `scratch`, a name in an existing folder, which is free again in the end.
 */
export async function verifyBackup(
  file: string,
  scratch: string,
  check: () => void = () => {},
): Promise<BackupManifest> {
  const inspected = new Map<string, Inspected>();
  try {
    const manifest = await readBackup(file, {
      place: (path) => (backupPathKind(path) === 'database' ? scratch : null),
      placed: (path) => {
        inspected.set(path, inspectDatabase(scratch));
        rmSync(scratch);
        check();
      },
      check,
    });
    for (const database of manifest.databases) checkDatabase(inspected.get(database.path) as Inspected, database);
    return manifest;
  } finally {
    rmSync(scratch, { force: true });
  }
}

/**
 * Verifies the backup and puts the data of one app at `to`, durably, in a folder that exists. Resolves with the number of migrations
 * that it has had. Throws as `verifyBackup` does, and `NOT_FOUND` where the backup has no whole data of the app; there is no file then.
 */
export async function extractData(
  file: string,
  app: string,
  to: string,
  check: () => void,
): Promise<{ userVersion: number }> {
  const path = `apps/${app}/data.sqlite`;
  try {
    const manifest = await readBackup(file, { place: (found) => (found === path ? to : null), check });
    const database = manifest.databases.find((one) => one.path === path);
    if (database?.integrity !== 'ok') {
      const why = database === undefined ? 'no data' : 'only damaged data';
      throw new SvcError('NOT_FOUND', `The backup has ${why} of "${app}". Name another one.`);
    }
    checkDatabase(inspectDatabase(to), database);
    await syncFile(to, 'r+');
    return { userVersion: database.userVersion };
  } catch (error) {
    rmSync(to, { force: true });
    throw error;
  }
}

/** The error code of rename(2) when the target is a mount point. */
const IS_MOUNTED = new Set(['EBUSY', 'EXDEV']);

/**
 * Restores into `target`, which is missing or empty; answers the manifest. Everything is unpacked beside it and checked: every
 * checksum, every database by SQLite's own check and by the number of rows of each table. Only then is it renamed. Throws
 * `RESTORE_TARGET`, `INVALID_BACKUP`, `BACKUP_TOO_LARGE`, Node's own error, or the signal's reason; nothing is left then.
 */
export async function restoreBackup(file: string, target: string, signal?: AbortSignal): Promise<BackupManifest> {
  const place = resolve(target);
  checkTarget(place);
  checkRoom(file, place);
  const made = makeFolder(dirname(place));
  const arriving = temporaryBeside(place);
  try {
    mkdirSync(arriving, { mode: 0o700 });
    const manifest = await readBackup(file, {
      place: (path) => join(arriving, path),
      check: () => signal?.throwIfAborted(),
    });
    for (const database of manifest.databases) {
      signal?.throwIfAborted();
      checkDatabase(inspectDatabase(join(arriving, database.path)), database);
    }
    const { dataFormat: format = 0, svcVersion } = manifest;
    if (format > 0) await writeFileAtomic(join(arriving, 'format.json'), `${JSON.stringify({ format, svcVersion })}\n`);
    await syncTree(arriving);
    signal?.throwIfAborted();
    putInPlace(arriving, place);
    await syncDir(dirname(place));
    return manifest;
  } catch (error) {
    rmSync(arriving, { recursive: true, force: true });
    if (made !== undefined) removeEmpty(dirname(place), made);
    throw error;
  }
}

/** What is unpacked is larger than the archive. Throws `STORAGE_FULL`. */
function checkRoom(file: string, place: string): void {
  let there = dirname(place);
  while (!existsSync(there)) there = dirname(there);
  const { bavail, bsize } = statfsSync(there);
  const [needed, free] = [statSync(file).size, bavail * bsize];
  if (needed > free)
    throw new SvcError(
      'STORAGE_FULL',
      `The backup needs at least ${needed} bytes of disk space, but only ${free} are free. Nothing was written; free some space, or restore to another disk.`,
    );
}

function checkTarget(place: string): void {
  let names: string[];
  try {
    names = readdirSync(place);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return;
    if (code !== 'ENOTDIR') throw error;
    throw new SvcError('RESTORE_TARGET', 'The target is a file; name a directory.');
  }
  if (names.length > 0) throw targetNotEmpty();
}

/** The checksum is right and SQLite disagrees with the manifest: so the manifest is wrong. */
function checkDatabase(found: Inspected, { path, ...wanted }: BackupDatabase): void {
  if (found.integrity !== wanted.integrity) throw invalidBackup(`SQLite says of a database: ${found.integrity}`, path);
  if (found.userVersion !== wanted.userVersion)
    throw invalidBackup(`a database has had ${found.userVersion} migrations instead of ${wanted.userVersion}`, path);
  const rows = new Map(found.tables.map((table) => [table.name, table.rows]));
  for (const table of wanted.tables) {
    if (rows.get(table.name) !== table.rows)
      throw invalidBackup(`the table "${table.name}" has ${rows.get(table.name)} rows instead of ${table.rows}`, path);
  }
  if (rows.size !== wanted.tables.length) throw invalidBackup('a database has other tables than it should', path);
}

/** Renaming replaces an empty directory, and fails when something has come into it meanwhile. */
function putInPlace(arriving: string, place: string): void {
  try {
    renameSync(arriving, place);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? '';
    if (code === 'ENOTEMPTY' || code === 'EEXIST') throw targetNotEmpty();
    if (!IS_MOUNTED.has(code)) throw error;
    throw new SvcError('RESTORE_TARGET', 'The directory is a mount point; restore to a directory inside it.');
  }
}

/** The folders that were made above the target, as far as nothing else is in them. */
function removeEmpty(deepest: string, first: string): void {
  try {
    for (let folder = deepest; folder.startsWith(first); folder = dirname(folder)) rmdirSync(folder);
  } catch {
    // A folder with other files stays.
  }
}

function targetNotEmpty(): SvcError {
  return new SvcError('RESTORE_TARGET', 'The directory is not empty. Restore to an empty or missing directory.');
}
