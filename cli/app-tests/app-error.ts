/** A call of an app under test rejects with this: the gateway's error, and the stack of the handler that threw. */
import { join } from 'node:path';
import type { ErrorBody, InputIssue } from '../../protocol/errors.ts';
import type { LogEntry } from '../../storage/logs/log-pages.ts';

/** A place in a file of the app, as its log has it. */
const FRAME = /^(\s+at .*?)((?:[\w.@+~-]+\/)*[\w.-]+\.(?:m?js|ts)):(\d+:\d+\)?)$/gm;

export class AppError extends Error {
  readonly code: string;
  readonly status: number;
  /** The body that an action or a webhook answered with. */
  declare readonly body?: unknown;
  declare readonly path?: string;
  declare readonly issues?: InputIssue[];

  constructor(status: number, { code, message, path, issues }: ErrorBody, body?: unknown) {
    super(message);
    this.name = 'AppError';
    this.code = code;
    this.status = status;
    if (body !== undefined) this.body = body;
    if (path !== undefined) this.path = path;
    if (issues !== undefined) this.issues = issues;
  }
}

/** The same error with the frames of the handler, if its log has them, above those of the test; files are below `folder`. */
export function withStackOf(error: AppError, entry: LogEntry | undefined, folder: string, caller: string): AppError {
  const thrown = (entry?.err as { stack?: unknown } | undefined)?.stack;
  const handler = typeof thrown === 'string' ? framesOf(thrown) : '';
  const placed = handler.replace(FRAME, (_, before: string, file: string, place: string) => {
    return `${before}${join(folder, file)}:${place}`;
  });
  const stack = [`${error.name} [${error.code}]: ${error.message}`, placed, framesOf(caller)].filter(Boolean);
  error.stack = stack.join('\n');
  return error;
}

function framesOf(stack: string): string {
  return stack
    .split('\n')
    .filter((line) => /^\s+at /.test(line))
    .join('\n');
}
