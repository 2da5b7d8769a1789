/**
 * Connects a draft with its open pages: sends faults of its handlers to the pages, which show them to the author, and writes
 * errors of the pages to the draft's log, which `svc dev` follows.
 */
import { LIMITS } from '../../protocol/limits.ts';
import { count, listOf, type Of, object, oneOf, text } from '../../protocol/shapes/schema.ts';
import { isRecord, shape, type ValueOf } from '../../protocol/shapes/shape.ts';
import type { Following } from '../../protocol/topic.ts';
import type { AppLogs } from '../../storage/logs/app-log.ts';
import type { LogEntry } from '../../storage/logs/log-pages.ts';
import type { ChangeStreams } from '../dispatch/changes.ts';

/** `console.error`, an uncaught error or rejection, a failed request, a violation of the CSP. */
const KINDS = ['console', 'error', 'rejection', 'request', 'csp'] as const;

const SAID = { kind: oneOf(...KINDS), message: { ...text, cut: LIMITS.pageErrorChars } };
/** `file` is relative to the app's folder, or the address of another site's; `line` and `column` count from 1. */
const ERROR = object(SAID, { file: { ...text, cut: LIMITS.pageFileChars }, line: count, column: count });
export type PageError = Of<typeof ERROR>;

/** A page's report: errors, and the number of `more` that were left out. */
const REPORT = shape(object({ errors: listOf(object(SAID), 'a list of errors') }, { more: count }));
const SOUND = shape(object({ errors: listOf(ERROR) }, { more: count }));
type PageReport = Required<ValueOf<typeof SOUND>>;

/** Fault of a handler for pages: `name` of the error, the app's frames in `stack`, and the first of them parsed. */
type HandlerFault = {
  tool: string | null;
  name: string | null;
  message: string;
  stack: string[];
  file?: string;
  line?: number;
  column?: number;
};

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
  take({ errors, more }: PageReport): void {
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

/** Throws `BAD_REQUEST` for reports that our bridge would not send. Cuts long texts, and leaves out places that are none. */
export function checkPageReport(body: unknown): PageReport {
  REPORT.checked(body, 'BAD_REQUEST', 'The report');
  const { errors, more = 0 } = SOUND.part(body) as PageReport;
  return { errors, more };
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
