/** The routes of backups: one that is sent, the schedule, and the kept files (specification, "Backups"). */
import { DEFAULTS, LIMITS } from '../../limits.ts';
import {
  closed,
  count,
  flag,
  integer,
  listOf,
  matching,
  type Of,
  object,
  oneOf,
  orNull,
  text,
} from '../../shapes/schema.ts';
import { TIME, TIME_OR_NULL } from '../pieces.ts';
import { resource, row } from '../row.ts';

export const CRON_FORM = 'a cron expression such as "0 3 * * *" (minute, hour, day, month, day of the week)';
const KEPT = integer(1, LIMITS.backupsKept);

/** The configuration has the same. */
export const BACKUP_SCHEDULE = closed(
  { cron: { type: 'string', wanted: CRON_FORM } },
  {
    keep: { ...KEPT, says: `How many files stay; ${DEFAULTS.backups.keep} by default` },
    dir: {
      ...matching(/^[^\0]+$/, 'a folder'),
      maxLength: LIMITS.backupFolderChars,
      says: "On the gateway's machine; by default `backups` of the data directory",
    },
  },
);

const SUCCESS = object({ at: TIME, file: text, bytes: count, ms: count });
const FAILURE = object({ at: TIME, message: text });
const SCHEDULE = object({ cron: text, keep: KEPT, dir: text, setBy: oneOf('configuration', 'command') });

/** The state of backups on schedule. */
export const BACKUP_STATUS = object({
  state: {
    ...oneOf('off', 'waiting', 'ok', 'failed'),
    says: '`off`: there is no schedule; `waiting`: no backup was made yet; `failed`: from a failure to the next good backup',
  },
  running: { ...flag, says: 'A backup is being made' },
  schedule: { ...orNull(SCHEDULE), says: '`dir` is absolute, and `setBy` says where it can be changed' },
  nextAt: TIME_OR_NULL,
  lastSuccess: orNull(SUCCESS),
  lastFailure: orNull(FAILURE),
  failures: { ...count, says: 'Since the gateway started' },
});

const FILE = object({
  name: text,
  file: { ...text, says: "The path on the gateway's machine" },
  bytes: count,
  madeAt: TIME,
  damaged: { ...flag, says: 'It has a database that was damaged when the backup was made' },
});

export type BackupSuccess = Of<typeof SUCCESS>;
/** The message says what to do. */
export type BackupFailure = Of<typeof FAILURE>;
export type BackupStatus = Of<typeof BACKUP_STATUS>;
export type BackupFile = Of<typeof FILE>;

const NAME = 'svc-20260131T030000Z.svc-backup.tar.gz';
const FILE_EXAMPLE = {
  name: NAME,
  file: `/srv/backups/${NAME}`,
  bytes: 48_210_944,
  madeAt: 1_769_828_403_000,
  damaged: false,
};
export const BACKUP_STATUS_EXAMPLE = {
  state: 'ok',
  running: false,
  schedule: { cron: '0 3 * * *', keep: 14, dir: '/srv/backups', setBy: 'command' },
  nextAt: 1_769_914_800_000,
  lastSuccess: { at: FILE_EXAMPLE.madeAt, file: FILE_EXAMPLE.file, bytes: FILE_EXAMPLE.bytes, ms: 3120 },
  lastFailure: null,
  failures: 0,
};
const CONFIGURED = { CONFLICT: 'the configuration has `backups`' };

export const sendBackup = row({
  method: 'POST',
  path: '/svc/_backup',
  needs: 'admin',
  title: 'Make and send a backup',
  does: 'Makes a backup, then sends it. One is made at a time.',
  answer: { media: 'application/gzip', says: 'Its length is announced.' },
  errors: { CONFLICT: '', STORAGE_FULL: '', BACKUP_TOO_LARGE: '', NOT_IN_CLUSTER: '' },
});

export const showBackups = row({
  method: 'GET',
  path: '/svc/_backups',
  needs: 'admin',
  title: 'Show the schedule',
  does: 'Answers how backups on schedule go.',
  answer: { json: BACKUP_STATUS },
  example: BACKUP_STATUS_EXAMPLE,
});

export const setBackups = row({
  method: 'PUT',
  path: '/svc/_backups',
  needs: 'admin',
  title: 'Set the schedule',
  does: 'Sets the schedule.',
  body: BACKUP_SCHEDULE,
  answer: { json: BACKUP_STATUS },
  errors: { ...CONFIGURED, BACKUP_FOLDER: '', STORAGE_FULL: '', NOT_IN_CLUSTER: '' },
  example: BACKUP_STATUS_EXAMPLE,
});

export const removeBackups = row({
  method: 'DELETE',
  path: '/svc/_backups',
  needs: 'admin',
  title: 'Remove the schedule',
  does: 'Removes the schedule. Existing backups stay.',
  answer: { json: BACKUP_STATUS },
  errors: { ...CONFIGURED, STORAGE_FULL: '' },
  example: { ...BACKUP_STATUS_EXAMPLE, state: 'off', schedule: null, nextAt: null },
});

export const listBackupFiles = row({
  method: 'GET',
  path: '/svc/_backups/files',
  needs: 'admin',
  title: 'List the kept backups',
  does: 'Lists the backups in the folder, the newest first.',
  answer: { json: listOf(FILE) },
  example: [FILE_EXAMPLE],
});

export const makeBackupFile = row({
  method: 'POST',
  path: '/svc/_backups/files',
  needs: 'admin',
  title: 'Make a kept backup now',
  does: `Begins a backup, as the schedule would. Without a schedule it is kept in \`backups\` of the data directory, with the newest ${DEFAULTS.backups.keep}.`,
  answer: { status: 202, json: BACKUP_STATUS, says: 'It is made and verified once `running` is false.' },
  errors: { CONFLICT: 'another is being made', NOT_IN_CLUSTER: '' },
  example: { ...BACKUP_STATUS_EXAMPLE, running: true },
});

export const verifyBackupFile = row({
  method: 'POST',
  path: '/svc/_backups/files/:name/verify',
  needs: 'admin',
  title: 'Verify a kept backup',
  does: 'Reads a backup as a restore would, and answers when all of it is read.',
  params: { name: 'The `name` of the backup' },
  answer: { json: FILE },
  errors: { NOT_FOUND: 'there is no such backup', INVALID_BACKUP: '', STORAGE_FULL: '' },
  example: FILE_EXAMPLE,
});

export const BACKUPS = resource({
  name: 'Backups',
  page: 'backups',
  about:
    'What a backup has, and how to restore one, is in [backup and restore](backup.md); what is kept by the schedule, in [on schedule](backup.md#on-schedule).',
  rows: [sendBackup, showBackups, setBackups, removeBackups, listBackupFiles, makeBackupFile, verifyBackupFile],
});
