/** Tells whether the database of an app is lost: its live version has migrations, and the file nothing of what they made. */
import { copyFile, open, stat } from 'node:fs/promises';
import { DATA_DAMAGED, DATA_LOST, type ErrorBody, isDiskFault, SvcError } from '../../protocol/errors.ts';
import { appOfKey, isDraftKey } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { EMPTY, MISSING } from '../existing-file.ts';
import { isMissing } from '../files/atomic-file.ts';
import type { AppPaths } from '../layout.ts';
import { lostFrames } from '../lost-frames.ts';
import { readCurrent, readVersion } from './versions.ts';

/** Why the data of an app or draft cannot be used: `what` goes on where the name of the file ends. `lost`: there is none. */
export type Damage = { what: string; lost: boolean };

/** Whether the data of an app or draft with this version is there, and is never made anew. */
export function isMigrated(key: string, { migrations }: { migrations: number }): boolean {
  return migrations > 0 && !isDraftKey(key);
}

/** What a process said of the data, by the codes for that; null for any other error. */
export function damageIn({ code, message }: ErrorBody): Damage | null {
  if (code === DATA_LOST) return { what: message, lost: true };
  return code === DATA_DAMAGED ? { what: `is damaged (${message})`, lost: false } : null;
}

/**
 * What the disk says when the database and its log are read, up to `LIMITS.damageReadBytes` of each; null where it reads. SQLite calls
 * damage what a disk cannot read. Not for a process that has the database open. Never rejects.
 */
export async function diskFaultOf({ data }: AppPaths): Promise<string | null> {
  const buffer = Buffer.allocUnsafe(READ_BYTES);
  for (const path of [data, `${data}-wal`]) {
    try {
      const file = await open(path);
      try {
        let at = 0;
        for (let read = 1; read > 0 && at < LIMITS.damageReadBytes; at += read)
          read = (await file.read(buffer, 0, READ_BYTES, at)).bytesRead;
      } finally {
        await file.close();
      }
    } catch (error) {
      if (isDiskFault(error)) return (error as Error).message;
    }
  }
  return null;
}

/** The error of data that a disk could not read, by the key of its app or draft; `fault` is what the disk said. */
export function unreadableData(key: string, fault: string): SvcError {
  const message = `The disk cannot read the data of "${appOfKey(key)}" (${fault}). Check the disk; the data is as it was.`;
  return new SvcError('INTERNAL', message);
}

/** The error of the data of an app, or of a draft, by its key. It names the file and the way out. */
export function damagedData(key: string, { what }: Damage): SvcError {
  const app = appOfKey(key);
  const message = isDraftKey(key)
    ? `The copy of the data of "${app}" that the draft works on ${what}. Reset the data of the draft.`
    : `The file apps/${app}/data.sqlite ${what}. ${repairAdvice(app)}`;
  return new SvcError('STORE_DAMAGED', message, { status: 503 });
}

/** Says how the damaged data of an app is repaired. */
export function repairAdvice(app: string): string {
  return `Run: svc repair ${app} --restore <backup>, or to begin with empty data: svc repair ${app} --new-data`;
}

/**
 * Why an app that nobody has open yet does not have all that was committed, as its log says; null where it has, or where that cannot be
 * told. The log as it is found is kept beside: whoever opens it drops the rest.
 */
export async function cutLog(app: AppPaths, now: number): Promise<string | null> {
  const frames = await lostFrames(app.data);
  if (frames === 0) return null;
  const kept = `${app.data}-wal.damaged-${now}`;
  await copyFile(`${app.data}-wal`, kept).catch((error: unknown) => {
    if (!isMissing(error)) throw error;
  });
  return lostPages(frames);
}

/** That a log lost so many frames, each a page; it goes on where the name of the database's file ends. */
export function lostPages(frames: number): string {
  const pages = frames === 1 ? 'the last page' : `the last ${frames} pages`;
  return `lost ${pages} of its log, with the commits in them: data.sqlite-wal was damaged while the gateway was down`;
}

const READ_BYTES = 1024 * 1024;

/** Places in the first page (sqlite.org/fileformat.html): the version of the schema, the kind of page, the number of its cells. */
const USER_VERSION = 60;
const PAGE_KIND = 100;
const CELLS = 103;
const HEAD_BYTES = 105;
/** A table without pages below this one. */
const LEAF = 13;

/**
 * Why the data of an app with this active version is lost; null where it is not, as far as the file's first page says: what only its
 * log says is seen when it is opened. Not for a process that has the database open.
 */
export async function lostData(app: AppPaths, { migrations }: { migrations: number }): Promise<string | null> {
  if (!(migrations > 0)) return null;
  const head = Buffer.alloc(HEAD_BYTES);
  const read = await readHead(app.data, head);
  if (read === null) return MISSING;
  if (read === 0) return EMPTY;
  const isBlank = head.readUInt32BE(USER_VERSION) === 0 && head[PAGE_KIND] === LEAF && head.readUInt16BE(CELLS) === 0;
  if (read < HEAD_BYTES || !isBlank) return null;
  const log = await stat(`${app.data}-wal`).catch(() => null);
  return log === null || log.size === 0 ? EMPTY : null;
}

/** The same for the version that is live as the files of the app say. */
export async function lostDataOf(app: AppPaths): Promise<string | null> {
  const current = await readCurrent(app);
  const active = current === null || current === 'damaged' ? null : await readVersion(app, current.activeVersion);
  return active === null ? null : lostData(app, active);
}

/** How many bytes were read; null without a file. */
async function readHead(path: string, head: Buffer): Promise<number | null> {
  try {
    const file = await open(path);
    try {
      return (await file.read(head, 0, head.length, 0)).bytesRead;
    } finally {
      await file.close();
    }
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}
