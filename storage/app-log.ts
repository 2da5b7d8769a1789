/** The apps' logs, `<appsDir>/<id>/logs.jsonl`: collected in memory, written together, never waited for. */
import { type FileHandle, open, rename } from 'node:fs/promises';
import { appOfKey, isDraftKey } from '../protocol/ids.ts';
import { LIMITS } from '../protocol/limits.ts';
import { isMissing } from './atomic-file.ts';
import type { Layout } from './layout.ts';

/** One line of a log as callers get it: `ts` is milliseconds since the epoch (ISO 8601 in the file). */
export type LogEntry = { ts: number; [member: string]: unknown };

/** `line` is the JSON text of a `LogEntry`. */
export type LogFollower = (app: string, line: string) => void;

export class AppLogs {
  readonly #layout: Layout;
  readonly #now: () => number;
  readonly #waiting = new Map<string, { lines: string[]; bytes: number }>();
  /** Lines left out since the app's log last said so. */
  readonly #dropped = new Map<string, number>();
  readonly #followers = new Map<LogFollower, { app: string | null; ended: () => void }>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;
  #droppedLines = 0;

  constructor({ layout, now = Date.now }: { layout: Layout; now?: () => number }) {
    this.#layout = layout;
    this.#now = now;
  }

  /** Lines that were left out because too many waited, or because the disk was full. */
  get droppedLines(): number {
    return this.#droppedLines;
  }

  /** Takes one line, JSON text without the newline. Followers get it at once, the file soon. */
  append(app: string, line: string): void {
    const batch = this.#waiting.get(app) ?? { lines: [], bytes: 0 };
    this.#waiting.set(app, batch);
    this.#timer ??= setTimeout(() => this.#start(), LIMITS.logFlushMs);

    const bytes = Buffer.byteLength(line);
    if (bytes > LIMITS.logLineBytes || batch.bytes + bytes > LIMITS.logBacklogBytes) {
      this.#drop(app, 1);
      return;
    }
    // A raw line break is white space in JSON, but would end the line here.
    const text = /[\r\n]/.test(line) ? line.replace(/[\r\n]+/g, ' ') : line;
    batch.lines.push(text);
    batch.bytes += bytes;
    if (this.#followers.size > 0) this.#tell(app, text);
  }

  /** The last entries before a time in milliseconds, oldest first, without lines that a crash cut off. */
  async tail(app: string, limit: number, before = Number.POSITIVE_INFINITY): Promise<LogEntry[]> {
    await this.flush();
    return lastLines(this.#layout.app(app).logs, limit, (line) => {
      const entry = parseEntry(line);
      return entry && entry.ts < before ? entry : undefined;
    });
  }

  /** Calls `follower` for every line from now on, of one app or (null) of all live ones, until what it returns is called. */
  follow(app: string | null, follower: LogFollower, ended: () => void = () => {}): () => void {
    // Wrapped, so that one function may follow twice.
    const own: LogFollower = (from, line) => follower(from, line);
    this.#followers.set(own, { app, ended });
    return () => this.#followers.delete(own);
  }

  /** The app goes: forgets what waits for it, ends those that follow it, and lets a write that runs end. Its folder can then be removed. */
  async close(app: string): Promise<void> {
    for (const [follower, followed] of [...this.#followers]) {
      if (followed.app !== app) continue;
      this.#followers.delete(follower);
      followed.ended();
    }
    this.#waiting.delete(app);
    this.#dropped.delete(app);
    await this.#writing;
  }

  /** Resolves when everything appended before is written, or was dropped. */
  async flush(): Promise<void> {
    await this.#writing;
    this.#start();
    await this.#writing;
  }

  /** Writes what waits now. What comes meanwhile is collected for the next time. */
  #start(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#writing) return;
    this.#writing = this.#writeAll().finally(() => {
      this.#writing = undefined;
      if (this.#waiting.size > 0) this.#timer ??= setTimeout(() => this.#start(), LIMITS.logFlushMs);
    });
  }

  async #writeAll(): Promise<void> {
    const batches = [...this.#waiting];
    this.#waiting.clear();
    for (const [app, { lines }] of batches) {
      const dropped = this.#dropped.get(app) ?? 0;
      this.#dropped.delete(app);
      const notice = dropped > 0 ? [this.#notice(app, dropped)] : [];
      try {
        await appendLines(this.#layout.app(app).logs, Buffer.from(`${[...lines, ...notice].join('\n')}\n`));
      } catch (error) {
        // Without its folder the app was removed, and its log with it.
        if (isMissing(error)) continue;
        this.#drop(app, lines.length);
        this.#dropped.set(app, (this.#dropped.get(app) ?? 0) + dropped);
      }
    }
  }

  #tell(app: string, line: string): void {
    const isWanted = (wanted: string | null) => (wanted === null ? !isDraftKey(app) : wanted === app);
    const followers = [...this.#followers].filter(([, followed]) => isWanted(followed.app));
    const entry = followers.length === 0 ? undefined : parseEntry(line);
    if (!entry) return;
    const text = JSON.stringify(entry);
    for (const [follower] of followers) follower(app, text);
  }

  #drop(app: string, lines: number): void {
    this.#droppedLines += lines;
    this.#dropped.set(app, (this.#dropped.get(app) ?? 0) + lines);
  }

  #notice(app: string, lines: number): string {
    const msg = `Log lines dropped here: ${lines}. They were too large, too many at once, or the disk was full.`;
    return JSON.stringify({ ts: new Date(this.#now()).toISOString(), level: 'warn', app: appOfKey(app), msg });
  }
}

/** Undefined for what is no JSON object with a time in `ts`. */
export function parseEntry(line: string): LogEntry | undefined {
  try {
    const entry = JSON.parse(line) as { ts?: unknown } | null;
    const ts = typeof entry?.ts === 'string' ? Date.parse(entry.ts) : Number.NaN;
    return Number.isNaN(ts) ? undefined : { ...entry, ts };
  } catch {
    return undefined;
  }
}

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

/** The last lines for which `take` gives a value, oldest first; it is given the newest first. */
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

function openIfThere(path: string): Promise<FileHandle | undefined> {
  return open(path, 'r').catch((error: unknown) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
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
