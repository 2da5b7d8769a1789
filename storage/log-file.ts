/** A log of JSON lines in two generations: appended in batches, rotated by size, read from its end. */
import { type FileHandle, open, rename } from 'node:fs/promises';
import { LIMITS } from '../protocol/limits.ts';
import { isMissing } from './atomic-file.ts';

const CHUNK_BYTES = 64 * 1024;
const NEWLINE = 0x0a;

/**
 * Appends `lines` (each ends in a newline), after moving a file that would get too large to `<path>.1`. A line that a crash
 * or a full disk cut off before is closed first. Rejects with `ENOENT` when the folder is gone: it is never created here.
 */
export async function appendLines(path: string, lines: Buffer): Promise<void> {
  let file = await open(path, 'a+', 0o600);
  try {
    const { size } = await file.stat();
    if (size > 0 && size + lines.length > LIMITS.logFileBytes) {
      await file.close();
      await rename(path, `${path}.1`);
      file = await open(path, 'a+', 0o600);
      await file.appendFile(lines);
    } else {
      await file.appendFile((await endsInNewline(file, size)) ? lines : Buffer.concat([Buffer.from('\n'), lines]));
    }
  } finally {
    await file.close();
  }
}

/**
 * The last `limit` lines that `take` keeps, oldest first. It gets each line from the newest on and gives what to
 * return for it, or undefined to leave it out.
 */
export async function lastLines<T>(path: string, limit: number, take: (line: string) => T | undefined): Promise<T[]> {
  const files: FileHandle[] = [];
  try {
    // Both are opened before either is read, so that a rotation loses nothing; one in between gives the same file twice.
    for (const name of [path, `${path}.1`]) {
      const file = await openIfThere(name);
      if (file) files.push(file);
    }
    const taken: T[] = [];
    const inodes = new Set<number>();
    for (const file of files) {
      const { size, ino } = await file.stat();
      if (inodes.has(ino)) continue;
      inodes.add(ino);
      for await (const line of linesFromEnd(file, size)) {
        if (taken.length >= limit) break;
        const value = take(line);
        if (value !== undefined) taken.push(value);
      }
    }
    return taken.reverse();
  } finally {
    await Promise.all(files.map((file) => file.close()));
  }
}

async function endsInNewline(file: FileHandle, size: number): Promise<boolean> {
  if (size === 0) return true;
  const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size - 1);
  return buffer[0] === NEWLINE;
}

async function openIfThere(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, 'r');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Lines without their newlines, the last first; empty ones are left out. */
async function* linesFromEnd(file: FileHandle, size: number): AsyncGenerator<string> {
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
      if (line.length > 0) yield line.toString();
    }
    tail = [chunk, ...tail];
    end = start;
  }
  const first = Buffer.concat(tail);
  if (first.length > 0) yield first.toString();
}
