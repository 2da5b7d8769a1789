/** What a handler threw, as its caller may see it and as the app's log keeps it. */
import { type ErrorBody, isDiskFault, isDiskFull, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';

const { stringify } = JSON;

/** Our own frames: of no use to an app's author, and they would show where the gateway is installed. */
const FOREIGN_FRAME = /^\s+at .*(?:file:\/\/|node:|[\\/]node_modules[\\/]).*$/gm;

const DISK_FULL: ErrorBody = {
  code: 'STORAGE_FULL',
  message: 'The disk is full, and the statement took no effect. Free some space and try again.',
};

/**
 * Hides the folders that the actor works with, in case an error names one; handlers cannot read any other path, so that
 * they cannot tell it either. `roots` are absolute paths.
 */
export class Failures {
  readonly #roots: string[];

  constructor(roots: string[]) {
    this.#roots = [...roots].sort((a, b) => b.length - a.length);
  }

  /**
   * `HANDLER_ERROR` with the thrown message, or the body of an error of the gateway's own. That the disk is full or fails is
   * no fault of the handler's: it is said in the gateway's words, unless the handler caught it and threw its own.
   */
  toBody(thrown: unknown): ErrorBody {
    if (safely(() => thrown instanceof SvcError, false)) return (thrown as SvcError).toBody();
    if (safely(() => isDiskFull(thrown), false)) return DISK_FULL;
    if (safely(() => isDiskFault(thrown), false)) return { code: 'INTERNAL', message: this.#diskFault(thrown) };
    return { code: 'HANDLER_ERROR', message: this.message(thrown) };
  }

  message(thrown: unknown): string {
    return this.#hidePaths(messageOf(thrown)).slice(0, LIMITS.errorMessageChars);
  }

  /** Name, stack and code for the log; the stack holds the frames of the app only. */
  fields(thrown: unknown): { err: Record<string, unknown> } {
    return { err: safely(() => this.#describe(thrown), {}) };
  }

  #diskFault(thrown: unknown): string {
    return `The disk failed (${this.message(thrown)}); whether the statement took effect is unknown. Check the disk.`;
  }

  #describe(thrown: unknown): Record<string, unknown> {
    if (!(thrown instanceof Error)) return {};
    const { name, code, cause, stack } = thrown as Error & { code?: unknown };
    const frames = String(stack).replace(FOREIGN_FRAME, '').replace(/\n+/g, '\n').trimEnd();
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
    if (thrown instanceof Error) return String(thrown.message) || `The handler threw ${thrown.name} without a message.`;
    if (typeof thrown === 'string' && thrown !== '') return thrown;
    return `The handler threw ${stringify(thrown) ?? String(thrown)}, which is no Error.`;
  }, 'The handler threw a value that cannot be shown.');
}

/** App code may throw anything: a proxy, or an object whose `message` throws when it is read. */
function safely<T>(read: () => T, otherwise: T): T {
  try {
    return read();
  } catch {
    return otherwise;
  }
}
