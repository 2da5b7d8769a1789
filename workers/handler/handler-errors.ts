/** Converts errors of handlers for their callers and for the app's log. */
import { damageCode, type ErrorBody, isDiskFault, isDiskFull, SvcError } from '../../protocol/errors.ts';
import { whyTerminated } from '../../protocol/http/network-errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Redactor } from '../../protocol/text/redactor.ts';
import { DbError } from '../../protocol/wire/db-error.ts';
import type { SourcePositions } from './source-positions.ts';

const { stringify } = JSON;

/** Our frames do not help an app's author, and show where the gateway is installed. */
const FOREIGN_FRAME = /^\s+at .*(?:file:\/\/|node:|[\\/]node_modules[\\/]).*$/gm;

const DISK_FULL: ErrorBody = {
  code: 'STORAGE_FULL',
  message: 'The disk is full, and the statement took no effect. Free some space and try again.',
};

/** A refusal of `ctx`: `code` as in the table of error codes, `path` where there is one. */
export class AskError extends Error {
  readonly code: string;
  readonly path?: string;

  constructor({ code, message, path }: ErrorBody) {
    super(message);
    this.name = 'AskError';
    this.code = code;
    if (path !== undefined) this.path = path;
  }
}

export class HandlerErrors {
  readonly #roots: string[];
  readonly #redactor: Redactor;
  readonly #positions: SourcePositions;

  /** Hides secrets and `roots`, absolute paths: the actor reads no other folders, so no error names others. */
  constructor(roots: string[], redactor: Redactor, positions: SourcePositions) {
    this.#redactor = redactor;
    this.#positions = positions;
    this.#roots = [...roots].sort((a, b) => b.length - a.length);
  }

  /**
   * `HANDLER_ERROR` with the thrown message; the body of a gateway's error; the gateway's words for a full or broken disk; the codes of
   * lost and damaged data, and of data that the log of a cluster does not take.
   */
  toBody(thrown: unknown): ErrorBody {
    if (safely(() => thrown instanceof SvcError, false)) return this.#redactor.value((thrown as SvcError).toBody());
    if (safely(() => isDiskFull(thrown), false)) return DISK_FULL;
    const message = this.message(thrown);
    const damage = safely(() => damageCode(thrown), undefined);
    if (damage !== undefined) return { code: damage, message };
    if (safely(() => thrown instanceof DbError && thrown.code === 'STORAGE_UNAVAILABLE', false))
      return { code: 'STORAGE_UNAVAILABLE', message };
    if (!safely(() => isDiskFault(thrown), false)) return { code: 'HANDLER_ERROR', message };
    return {
      code: 'INTERNAL',
      message: `The disk failed (${message}); whether the statement took effect is unknown. Check the disk.`,
    };
  }

  message(thrown: unknown): string {
    const message = this.#positions.text(messageOf(thrown));
    // Cut after that: half a secret is not found.
    return this.#hidePaths(this.#redactor.text(message)).slice(0, LIMITS.errorMessageChars);
  }

  /** Name, stack and code for the log, which puts places in sources; the stack has the app's frames only. */
  fields(thrown: unknown): { err: Record<string, unknown> } {
    return { err: safely(() => this.#describe(thrown), {}) };
  }

  #describe(thrown: unknown): Record<string, unknown> {
    if (!(thrown instanceof Error)) return {};
    const { name, code, cause, stack } = thrown as Error & { code?: unknown };
    const frames = ownFrames(this.#redactor.text(String(stack)));
    return {
      name,
      stack: this.#hidePaths(frames),
      ...(code === undefined ? {} : { code }),
      ...(cause === undefined ? {} : { cause: this.message(cause) }),
    };
  }

  #hidePaths(text: string): string {
    return this.#roots.reduce((hidden, root) => hidden.replaceAll(`${root}/`, '').replaceAll(root, '.'), text);
  }
}

function messageOf(thrown: unknown): string {
  return safely(() => {
    if (thrown instanceof Error)
      return whyTerminated(thrown) ?? (String(thrown.message) || `The handler threw ${thrown.name} without a message.`);
    if (typeof thrown === 'string' && thrown !== '') return thrown;
    return `The handler threw ${stringify(thrown) ?? String(thrown)}, which is no Error.`;
  }, 'The handler threw a value that cannot be shown.');
}

/** A stack without our frames. */
export function ownFrames(stack: string): string {
  return stack.replace(FOREIGN_FRAME, '').replace(/\n+/g, '\n').trimEnd();
}

/** App code may throw a proxy, or an object whose `message` throws. */
export function safely<T>(read: () => T, otherwise: T): T {
  try {
    return read();
  } catch {
    return otherwise;
  }
}
