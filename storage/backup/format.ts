/** Defines the format of a backup: a gzipped tar archive of these files, `manifest.json` last, so that one pass verifies it. */
import { DATA_FORMAT, tooNew } from '../../protocol/data-format.ts';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { count, listOf, object, text } from '../../protocol/shapes/schema.ts';
import { isRecord, shape } from '../../protocol/shapes/shape.ts';
import type { BackupHead, DamagedPart } from '../../protocol/wire/jobs.ts';
import { kindOfPath } from './contents.ts';

export const BACKUP_FORMAT = 1;
export const BACKUP_EXTENSION = '.svc-backup.tar.gz';
export const BACKUP_MANIFEST = 'manifest.json';

/** `path` is relative with `/`; `sha256` in hex. */
export type BackupFile = { path: string; bytes: number; sha256: string };

/**
 * `integrity` is `ok`, or SQLite's report on a database that was already damaged at the backup, which is restored unchanged.
 * `tables` are those of the main schema without virtual ones, sorted by name.
 */
export type BackupDatabase = {
  path: string;
  userVersion: number;
  integrity: string;
  tables: { name: string; rows: number }[];
};

/** Backups of older releases, without format numbers, have no `dataFormat`. */
export type BackupManifest = Omit<BackupHead, 'dataFormat'> & {
  dataFormat?: number;
  databases: BackupDatabase[];
  files: BackupFile[];
};

const MANIFEST = shape(
  object(
    {
      format: { const: BACKUP_FORMAT },
      svcVersion: text,
      takenAt: text,
      databases: listOf(
        object({
          path: text,
          userVersion: { type: 'integer' },
          integrity: text,
          tables: listOf(object({ name: text, rows: count })),
        }),
      ),
      files: listOf(object({ path: text, bytes: count, sha256: text })),
    },
    { dataFormat: count, lost: listOf(object({ path: text, integrity: text })) },
  ),
);

/** The kind of a path in a backup. Throws `INVALID_BACKUP` for any other path. */
export function backupPathKind(path: string): 'manifest' | 'database' | 'file' {
  const kind = path === BACKUP_MANIFEST ? 'manifest' : kindOfPath(path);
  if (kind === null) throw invalidBackup('it holds a file that no backup has', path);
  return kind;
}

/** Throws `INVALID_BACKUP` unless the text is a manifest of a known format. */
export function parseBackupManifest(text: string): BackupManifest {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw invalidBackup('its manifest is not JSON', BACKUP_MANIFEST, error);
  }
  const { format, svcVersion: maker } = isRecord(value) ? value : {};
  if (typeof format === 'number' && format > BACKUP_FORMAT)
    throw invalidBackup(
      `it has format ${format}, made by a newer svc (${String(maker)}); this one reads ${BACKUP_FORMAT}`,
      BACKUP_MANIFEST,
    );
  if (!MANIFEST.holds(value)) throw invalidBackup('its manifest does not have the shape of one', BACKUP_MANIFEST);
  const { dataFormat = 0, svcVersion } = value;
  if (dataFormat > DATA_FORMAT) throw tooNew({ format: dataFormat, svcVersion });
  return value;
}

/** What was damaged when the backup was taken, or was not there. */
export function damagedIn({ databases, lost = [] }: BackupManifest): DamagedPart[] {
  const damaged = databases.filter(({ integrity }) => integrity !== 'ok');
  return [...damaged.map(({ path, integrity }) => ({ path, integrity })), ...lost];
}

/** Compares what was found with the manifest. Throws `INVALID_BACKUP` with the first path that differs. */
export function checkAgainstManifest(manifest: BackupManifest, found: ReadonlyMap<string, BackupFile>): void {
  const databases = new Set(manifest.databases.map(({ path }) => path));
  for (const { path, bytes, sha256 } of manifest.files) {
    const file = found.get(path);
    if (file === undefined) throw invalidBackup('a file is missing', path);
    if (file.bytes !== bytes) throw invalidBackup(`a file has ${file.bytes} bytes instead of ${bytes}`, path);
    if (file.sha256 !== sha256) throw invalidBackup('the checksum of a file is wrong', path);
    if ((backupPathKind(path) === 'database') !== databases.delete(path))
      throw invalidBackup('its manifest does not describe a database', path);
  }
  const [unknown] = databases;
  if (unknown !== undefined) throw invalidBackup('its manifest describes a database that is not there', unknown);
  const listed = new Set(manifest.files.map(({ path }) => path));
  if (listed.size !== manifest.files.length) throw invalidBackup('its manifest lists a file twice', BACKUP_MANIFEST);
  for (const path of found.keys()) if (!listed.has(path)) throw invalidBackup('it holds a file too many', path);
}

/** Counts the files and bytes of a backup as it is written or read. Throws `BACKUP_TOO_LARGE`. */
export class BackupSize {
  #files = 0;
  #bytes = 0;

  add(files: number, bytes: number): void {
    this.#files += files;
    this.#bytes += bytes;
    if (this.#files > LIMITS.backupFiles)
      throw new SvcError('BACKUP_TOO_LARGE', `A backup may hold ${LIMITS.backupFiles} files.`);
    if (this.#bytes > LIMITS.backupBytes)
      throw new SvcError('BACKUP_TOO_LARGE', `A backup may hold ${LIMITS.backupBytes} bytes.`);
  }
}

export function invalidBackup(reason: string, path?: string, cause?: unknown): SvcError {
  const extra = path === undefined ? {} : { path: path.slice(0, 500) };
  return new SvcError('INVALID_BACKUP', `The backup is incomplete or changed: ${reason}.`, { ...extra, cause });
}
