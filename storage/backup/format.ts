/** Defines the format of a backup: a gzipped tar archive of these files, `manifest.json` last, so that one pass verifies it. */
import { DATA_FORMAT, tooNew } from '../../protocol/data-format.ts';
import { SvcError } from '../../protocol/errors.ts';
import { isAppId, isSessionId, isVersionId } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { BackupHead, DamagedPart } from '../../protocol/wire/jobs.ts';

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

const GATEWAY_DATABASES = new Set(['runtime.sqlite', 'identity.sqlite', 'analytics.sqlite']);
const GATEWAY_FILES = new Set(['profile.json', 'config.json', 'apps/_registry.json', 'apps/_store.json']);
const REPOSITORY_FILES = new Set(['HEAD', 'config', 'packed-refs']);
/** Folders of an app whose files are named by their content. */
const APP_FOLDERS: Record<string, RegExp> = { _attachments: /^[0-9a-f]{64}$/, _blobs: /^[0-9a-f]{64}(?:\.type)?$/ };
const APP_FILES = new Set(['current.json', 'pending.json', 'settings.json', 'webhook-keys.json', 'secrets.json']);

/** The kind of a path in a backup. Throws `INVALID_BACKUP` for any other path. */
export function backupPathKind(path: string): 'manifest' | 'database' | 'file' {
  if (path === BACKUP_MANIFEST) return 'manifest';
  if (GATEWAY_DATABASES.has(path)) return 'database';
  if (GATEWAY_FILES.has(path)) return 'file';
  const kind = kindInApp(path);
  if (kind !== null) return kind;
  if (isInStore(path)) return 'file';
  throw invalidBackup('it holds a file that no backup has', path);
}

/** Null for a path that is not part of an app. */
function kindInApp(path: string): 'database' | 'file' | null {
  const [apps, id = '', name = '', version = '', ...rest] = path.split('/');
  if (apps !== 'apps' || !isAppId(id)) return null;
  if (path === `apps/${id}/data.sqlite`) return 'database';
  if (path === `apps/${id}/${name}`) return APP_FILES.has(name) ? 'file' : null;
  const byContent = APP_FOLDERS[name];
  if (byContent !== undefined) return rest.length === 0 && byContent.test(version) ? 'file' : null;
  if (name === '_chat') return rest.length === 0 && isSafeSegment(version) ? 'file' : null;
  const inVersion = (name === 'versions' || name === 'prepared') && isVersionFolder(id, version) && rest.length > 0;
  return inVersion && rest.every(isSafeSegment) ? 'file' : null;
}

/** Of the git store: the repository's objects and refs, and the sessions' files. */
function isInStore(path: string): boolean {
  const [store, folder, ...rest] = path.split('/');
  if (store !== 'code-store' || !rest.every(isSafeSegment)) return false;
  const [first = '', second = ''] = rest;
  if (folder === 'apps.git')
    return rest.length === 1 ? REPOSITORY_FILES.has(first) : first === 'objects' || first === 'refs';
  return folder === 'worktrees' && first === 'sessions' && isSessionId(second) && rest.length > 2;
}

/** The folder of a version: an archive's is called as the version, a tag's `v<n>`. */
export function isVersionFolder(app: string, name: string): boolean {
  return isVersionId(name.startsWith('v_') ? name : `${app}/${name}`);
}

/** What an uploaded file may be called, and never another folder. */
function isSafeSegment(segment: string): boolean {
  return segment !== '' && segment !== '.' && segment !== '..' && !/[\\\0\ufffd]/.test(segment);
}

/** Throws `INVALID_BACKUP` unless the text is a manifest of a known format. */
export function parseBackupManifest(text: string): BackupManifest {
  let value: Partial<BackupManifest> | null;
  try {
    value = JSON.parse(text) as Partial<BackupManifest> | null;
  } catch (error) {
    throw invalidBackup('its manifest is not JSON', BACKUP_MANIFEST, error);
  }
  if (typeof value?.format === 'number' && value.format > BACKUP_FORMAT)
    throw invalidBackup(
      `it has format ${value.format}, made by a newer svc (${String(value.svcVersion)}); this one reads ${BACKUP_FORMAT}`,
      BACKUP_MANIFEST,
    );
  const isWhole = hasShape(value, MANIFEST) && (value?.lost === undefined || hasShape(value, LOST));
  if (value?.format !== BACKUP_FORMAT || !isWhole)
    throw invalidBackup('its manifest does not have the shape of one', BACKUP_MANIFEST);
  const { dataFormat = 0, svcVersion } = value;
  if (!Number.isSafeInteger(dataFormat) || dataFormat < 0)
    throw invalidBackup('its manifest does not have the shape of one', BACKUP_MANIFEST);
  if (dataFormat > DATA_FORMAT) throw tooNew({ format: dataFormat, svcVersion: svcVersion as string });
  return value as BackupManifest;
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

/** What each member must be; a list holds objects of the shape in it. */
type Shape = { [member: string]: 'text' | 'integer' | 'count' | [Shape] };

const TABLE: Shape = { name: 'text', rows: 'count' };
const MANIFEST: Shape = {
  svcVersion: 'text',
  takenAt: 'text',
  databases: [{ path: 'text', userVersion: 'integer', integrity: 'text', tables: [TABLE] }],
  files: [{ path: 'text', bytes: 'count', sha256: 'text' }],
};
const LOST: Shape = { lost: [{ path: 'text', integrity: 'text' }] };

function hasShape(value: unknown, shape: Shape): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(shape).every(([name, wanted]) => {
    const member = (value as Record<string, unknown>)[name];
    if (Array.isArray(wanted)) return Array.isArray(member) && member.every((item) => hasShape(item, wanted[0]));
    if (wanted === 'text') return typeof member === 'string';
    return Number.isSafeInteger(member) && (wanted === 'integer' || (member as number) >= 0);
  });
}
