/** Writes what went wrong into `crashes.log`, one JSON object a line, for a person who looks for it later. */
import { join } from 'node:path';
import { LogFile } from '../../../supervisor/operations/log-file.ts';

export const CRASH_LOG = 'crashes.log';

export class CrashLog {
  readonly #file: LogFile;
  readonly #version: string;

  constructor(userData: string, version: string) {
    this.#file = new LogFile({ path: join(userData, CRASH_LOG), maxMb: 1, keep: 1 });
    this.#version = version;
  }

  /** Never throws: what cannot be written is lost. */
  note(what: string, details: Record<string, unknown> = {}): void {
    const entry = { time: new Date().toISOString(), version: this.#version, what, ...details };
    try {
      this.#file.write(Buffer.from(`${JSON.stringify(entry)}\n`));
    } catch {
      // There is no other place for it.
    }
  }

  error(what: string, error: unknown): void {
    const { message, stack } = error instanceof Error ? error : new Error(String(error));
    this.note(what, { message, stack });
  }
}
