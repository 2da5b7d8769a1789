/** Reads the log of an app backwards, page by page; a cursor says where a page begins. */
import { createHash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { LIMITS } from '../../protocol/limits.ts';
import { isMissing } from '../files/atomic-file.ts';

/** One line of a log as callers get it: `ts` is milliseconds since the epoch (ISO 8601 in the file). */
export type LogEntry = { ts: number; [member: string]: unknown };

/** Entries, oldest first, without lines that a crash cut off; `earlier` is the cursor for those before, null when there are none. */
export type LogPage = { entries: LogEntry[]; earlier: string | null };

/**
 * The line that begins at this byte of its file, and the beginning of its SHA-256. Lines can share a time, and a full file gets
 * another name: so the place finds the line, and the hash confirms it.
 */
export type LogCursor = { offset: number; digest: string };

type Line = { text: string; offset: number };
type OpenFile = { file: FileHandle; end: number };

const CHUNK_BYTES = 64 * 1024;
export const NEWLINE = 0x0a;
const DIGEST_CHARS = 16;

/** Undefined for an invalid cursor. */
export function parseCursor(text: string): LogCursor | undefined {
  const [, offset, digest] = /^(\d{1,15})\.([0-9a-f]{16})$/.exec(text) ?? [];
  return offset === undefined || digest === undefined ? undefined : { offset: Number(offset), digest };
}

/** Undefined unless the line is a JSON object with a time in `ts`. */
export function parseEntry(line: string): LogEntry | undefined {
  try {
    const entry = JSON.parse(line) as { ts?: unknown } | null;
    const ts = typeof entry?.ts === 'string' ? Date.parse(entry.ts) : Number.NaN;
    return Number.isNaN(ts) ? undefined : { ...entry, ts };
  } catch {
    return undefined;
  }
}

/** `path` is that of the file that is written now. As `AppLogs.page`. */
export async function readPage(path: string, limit: number, before: number | LogCursor): Promise<LogPage | null> {
  const files = await openFiles(path);
  try {
    const wanted = typeof before === 'number' ? files : await filesBefore(files, before);
    if (wanted === null) return null;
    const entries: LogEntry[] = [];
    let first: Line | undefined;
    for (const { file, end } of wanted) {
      for await (const line of linesFromEnd(file, end)) {
        const entry = parseEntry(line.text);
        if (entry === undefined || (typeof before === 'number' && entry.ts >= before)) continue;
        if (first !== undefined && entries.length === limit)
          return { entries: entries.reverse(), earlier: `${first.offset}.${digestOf(first.text)}` };
        entries.push(entry);
        first = line;
      }
    }
    return { entries: entries.reverse(), earlier: null };
  } finally {
    await Promise.all(files.map(({ file }) => file.close()));
  }
}

/** The files of a log, the newest first; both are opened before either is read, so that a rotation loses nothing. */
async function openFiles(path: string): Promise<OpenFile[]> {
  const files: OpenFile[] = [];
  const inodes = new Set<number>();
  try {
    for (const name of [path, `${path}.1`]) {
      const file = await openIfThere(name);
      if (!file) continue;
      const { size, ino } = await file.stat();
      // A rotation in between gives the same file twice.
      if (inodes.has(ino)) await file.close();
      else files.push({ file, end: size });
      inodes.add(ino);
    }
    return files;
  } catch (error) {
    await Promise.all(files.map(({ file }) => file.close()));
    throw error;
  }
}

/** What is before the place of a cursor; null when that line is in none of the files. */
async function filesBefore(files: OpenFile[], { offset, digest }: LogCursor): Promise<OpenFile[] | null> {
  for (const [index, { file }] of files.entries()) {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(LIMITS.logLineBytes + 1), 0, undefined, offset);
    const newline = buffer.subarray(0, bytesRead).indexOf(NEWLINE);
    const length = newline < 0 ? bytesRead : newline;
    if (length > 0 && digestOf(buffer.toString('utf8', 0, length)) === digest)
      return [{ file, end: offset }, ...files.slice(index + 1)];
  }
  return null;
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, DIGEST_CHARS);
}

function openIfThere(path: string): Promise<FileHandle | undefined> {
  return open(path, 'r').catch((error: unknown) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
}

/** Lines without their newlines, the last first; empty ones are left out. */
async function* linesFromEnd(file: FileHandle, size: number): AsyncGenerator<Line> {
  let end = size;
  /** The pieces of a line whose start is not read yet, in order. */
  let tail: Buffer[] = [];
  while (end > 0) {
    const start = Math.max(0, end - CHUNK_BYTES);
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(end - start), 0, end - start, start);
    let chunk = buffer.subarray(0, bytesRead);
    for (let newline = chunk.lastIndexOf(NEWLINE); newline >= 0; newline = chunk.lastIndexOf(NEWLINE)) {
      const line = Buffer.concat([chunk.subarray(newline + 1), ...tail]);
      tail = [];
      chunk = chunk.subarray(0, newline);
      if (line.length > 0) yield { text: line.toString(), offset: start + newline + 1 };
    }
    tail = [chunk, ...tail];
    end = start;
  }
  const first = Buffer.concat(tail);
  if (first.length > 0) yield { text: first.toString(), offset: 0 };
}
