/**
 * Makes the folder of a gateway's sockets, outside the data directory, and notes its path so that the next gateway can remove
 * it after a kill.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { isDiskFull } from '../../protocol/errors.ts';
import { compareIdentity, identityOf, type ProcessIdentity } from './process-identity.ts';

type Note = { folder: string; owner: ProcessIdentity };

/**
 * Makes an empty folder that only this user may enter, noted in the file at `notePath`, and removes the one that a dead
 * gateway noted there. It lies in the system's temporary folder: the path of a Unix socket may have little more than 100
 * bytes, and that of a data directory may have any number.
 */
export function makeSocketFolder(notePath: string): string {
  const left = readNote(notePath);
  // A copied data directory names the folder of a gateway that may still run.
  if (left !== null && /^svc-[0-9a-f]{12}$/.test(basename(left.folder)) && compareIdentity(left.owner) === 'gone')
    rmSync(left.folder, { recursive: true, force: true });
  const folder = join(tmpdir(), `svc-${randomBytes(6).toString('hex')}`);
  const note: Note = { folder, owner: identityOf(process.pid) };
  mkdirSync(dirname(notePath), { recursive: true, mode: 0o700 });
  // Noted first: an unknown folder would stay for ever.
  writeNote(notePath, JSON.stringify(note));
  mkdirSync(folder, { mode: 0o700 });
  return folder;
}

/** The folder that is noted at `notePath`; null where its owner has ended. */
export function socketFolderAt(notePath: string): string | null {
  const note = readNote(notePath);
  return note === null || compareIdentity(note.owner) === 'gone' ? null : note.folder;
}

/** On a full disk the note that is there is written over, which needs no room; without one the folder is not noted. */
function writeNote(path: string, text: string): void {
  try {
    writeFileSync(`${path}.tmp`, text, { mode: 0o600 });
    renameSync(`${path}.tmp`, path);
  } catch (error) {
    rmSync(`${path}.tmp`, { force: true });
    if (!isDiskFull(error)) throw error;
    if (existsSync(path)) writeFileSync(path, text.padEnd(statSync(path).size), { flag: 'r+' });
  }
}

/** An unreadable note names no folder. */
function readNote(path: string): Note | null {
  try {
    const value = JSON.parse(readFileSync(path, 'utf8')) as Note | null;
    const whole = typeof value?.folder === 'string' && typeof value.owner?.pid === 'number';
    return whole ? value : null;
  } catch {
    return null;
  }
}
