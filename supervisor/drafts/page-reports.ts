/**
 * Connects a draft with its open pages: sends faults of its handlers to the pages, which show them to the author, and writes
 * errors of the pages to the draft's log, which `svc dev` follows.
 */
import { LIMITS } from '../../protocol/limits.ts';
import type { HANDLER_FAULT } from '../../protocol/routes/apps/streams-rows.ts';
import type { PAGE_REPORT } from '../../protocol/routes/authoring/drafts-rows.ts';
import type { Of } from '../../protocol/shapes/schema.ts';
import { isRecord } from '../../protocol/shapes/shape.ts';
import type { Following } from '../../protocol/topic.ts';
import type { AppLogs } from '../../storage/logs/app-log.ts';
import type { LogEntry } from '../../storage/logs/log-pages.ts';
import type { ChangeStreams } from '../dispatch/change-streams.ts';

/** A page's report: errors, and the number of `more` that were left out. */
export type PageReport = Of<typeof PAGE_REPORT>;
export type PageError = PageReport['errors'][number];

type HandlerFault = Of<typeof HANDLER_FAULT>;

type PageReportsOptions = {
  key: string;
  app: string;
  logs: AppLogs;
  changes: ChangeStreams;
  now?: () => number;
};

export class PageReports {
  readonly #options: PageReportsOptions;
  readonly #following: Following;
  /** In this window: errors in the log, and those that were only counted. */
  #logged = 0;
  #more = 0;
  #window: NodeJS.Timeout | undefined;
  /** The latest fault that no page was there for. */
  #missed: { fault: HandlerFault; at: number } | null = null;

  constructor(options: PageReportsOptions) {
    const { key, logs, changes } = options;
    this.#options = options;
    this.#following = logs.follow(key, (_key, line) => {
      const fault = handlerFault(JSON.parse(line));
      if (fault === null) return;
      if (changes.watched(key)) changes.fault(key, fault);
      else this.#missed = { fault, at: performance.now() };
    });
  }

  /** A page follows the draft now. What it calls while it loads may have failed before. */
  greet(): void {
    const { key, changes } = this.#options;
    const missed = this.#missed;
    this.#missed = null;
    if (missed !== null && performance.now() - missed.at < LIMITS.pageErrorsMs) changes.fault(key, missed.fault);
  }

  /** The draft's files are others now. */
  forget(): void {
    this.#missed = null;
  }

  /** Puts what a page reports into the log, up to `LIMITS.pageErrors` of them in a window, and then how many more there were. */
  take({ errors, more = 0 }: PageReport): void {
    for (const error of errors) {
      if (this.#logged++ < LIMITS.pageErrors) this.#log(error.message, error);
      else this.#more++;
    }
    this.#more += more;
    this.#window ??= setTimeout(() => this.#endWindow(), LIMITS.pageErrorsMs).unref();
  }

  close(): void {
    clearTimeout(this.#window);
    this.#following.stop();
  }

  #endWindow(): void {
    const more = this.#more;
    this.#window = undefined;
    this.#logged = 0;
    this.#more = 0;
    if (more > 0) this.#log(`… ${more.toLocaleString('en')} more`, { kind: 'more' });
  }

  #log(msg: string, { kind, file, line, column }: Partial<Omit<PageError, 'kind'>> & { kind: string }): void {
    const { key, app, logs, now = Date.now } = this.#options;
    const head = { ts: new Date(now()).toISOString(), level: 'error', app, versionId: null, tool: null, traceId: null };
    logs.append(key, JSON.stringify({ ...head, msg, page: { kind, file, line, column } }));
  }
}

const FRAME = /^\s+at (?:.*\()?([^()]+?):(\d+):(\d+)\)?$/;

/** Null for an entry of the log that is about no error of a handler. */
export function handlerFault({ level, tool, msg, err, page }: LogEntry): HandlerFault | null {
  if (level !== 'error' || !isRecord(err) || page !== undefined) return null;
  const frames = typeof err.stack === 'string' ? err.stack.split('\n').filter((line) => FRAME.test(line)) : [];
  const [, file, line, column] = FRAME.exec(frames[0] ?? '') ?? [];
  // Our own error explains the fault of the handler's value; its name would not help.
  const name = typeof err.name === 'string' && err.code !== 'HANDLER_ERROR' ? err.name : null;
  return {
    tool: typeof tool === 'string' ? tool : null,
    name,
    message: String(msg ?? '').slice(0, LIMITS.errorMessageChars),
    stack: frames.map((frame) => frame.trim()),
    ...(file === undefined ? {} : { file, line: Number(line), column: Number(column) }),
  };
}
