/** Writes the apps' logs, `<appsDir>/<id>/logs.jsonl`: collects lines in memory and writes them together; no caller waits. */
import { type FileHandle, open, rename } from 'node:fs/promises';
import { appOfKey, isDraftKey } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { type Following, Topic } from '../../protocol/topic.ts';
import { isMissing } from '../files/atomic-file.ts';
import type { Layout } from '../layout.ts';
import { type LogCursor, type LogPage, NEWLINE, parseEntry, readPage } from './log-pages.ts';

/** `line` is the JSON text of a `LogEntry`. Answers false when it could not take it; that line and those until `resume` it misses. */
export type LogFollower = (app: string, line: string) => unknown;

export class AppLogs {
  readonly #layout: Layout;
  readonly #now: () => number;
  readonly #waiting = new Map<string, { lines: string[]; bytes: number }>();
  /** Lines left out since the app's log last said so. */
  readonly #dropped = new Map<string, number>();
  /** What is followed of an app, or (null) of all live ones. */
  readonly #topics = new Map<string | null, Topic<{ app: string; line: string }>>();
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
    if (this.#topics.size > 0) this.#tell(app, text);
  }

  /**
   * The last entries, at most `limit`; with `before` those before a time in milliseconds or before the place of a cursor. Null
   * for a cursor of what this log does not have, or has no longer.
   */
  async page(
    app: string,
    limit: number,
    before: number | LogCursor = Number.POSITIVE_INFINITY,
  ): Promise<LogPage | null> {
    await this.flush();
    return readPage(this.#layout.app(app).logs, limit, before);
  }

  /** Calls `follower` for every line from now on, of one app or (null) of all live ones. */
  follow(app: string | null, follower: LogFollower, ended: () => void = () => {}): Following {
    const topic = this.#topics.get(app) ?? new Topic({ form: (line) => line });
    this.#topics.set(app, topic);
    return topic.follow({ take: ({ app: from, line }) => follower(from, line) !== false, ended });
  }

  /**
   * Before an app is removed: drops its waiting lines, ends its followers and waits for a running write, so that its folder can
   * be removed.
   */
  async close(app: string): Promise<void> {
    this.#topics.get(app)?.close();
    this.#topics.delete(app);
    this.#waiting.delete(app);
    this.#dropped.delete(app);
    await this.#writing;
  }

  /** Writes what waits for an app, and ends its followers: another node goes on with it. */
  async release(app: string): Promise<void> {
    await this.flush();
    await this.close(app);
  }

  /** Resolves when everything appended before is written or dropped. */
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
    const keys = isDraftKey(app) ? [app] : [app, null];
    const topics = keys.map((key) => this.#topics.get(key)).filter((topic) => topic && topic.followers > 0);
    const entry = topics.length === 0 ? undefined : parseEntry(line);
    if (!entry) return;
    const logged = { app, line: JSON.stringify(entry) };
    for (const topic of topics) topic?.append(logged);
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

/**
 * Appends `lines` (each ends in a newline), after moving a file that would get too large to `<path>.1`. A line that a crash
 * or a full disk cut off before is closed first. Rejects with `ENOENT` when the folder is gone: it is never created here.
 */
async function appendLines(path: string, lines: Buffer): Promise<void> {
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

async function endsInNewline(file: FileHandle, size: number): Promise<boolean> {
  if (size === 0) return true;
  const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size - 1);
  return buffer[0] === NEWLINE;
}
