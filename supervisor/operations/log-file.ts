/** Writes the file of the gateway's log, and rotates it before it exceeds its limit. */
import { closeSync, fstatSync, openSync, renameSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { isMissing } from '../../storage/files/atomic-file.ts';
import { makeFolder } from '../../storage/files/make-folder.ts';

const MiB = 1024 * 1024;
const NEWLINE = 10;

type LogFileOptions = {
  /** `keep` older files beside it are called `<path>.1`, the newest, `<path>.2` and so on. */
  path: string;
  maxMb: number;
  keep: number;
};

/** Opened by `open`, or with the first line. The next line retries after any failure. */
export class LogFile {
  readonly #path: string;
  readonly #maxBytes: number;
  readonly #keep: number;
  #fd: number | null = null;
  #bytes = 0;
  /** Whether the next byte begins a line. */
  #isAtLine = true;

  constructor({ path, maxMb, keep }: LogFileOptions) {
    this.#path = path;
    this.#maxBytes = maxMb * MiB;
    this.#keep = keep;
  }

  /** Throws Node's error where that cannot be done. */
  open(): void {
    this.#open();
  }

  /** Answers how many bytes were written. Throws when that is none. */
  write(bytes: Buffer): number {
    let fd = this.#open();
    if (this.#isAtLine && this.#bytes > 0 && this.#bytes + bytes.length > this.#maxBytes) {
      this.close();
      this.#turnOver();
      fd = this.#open();
    }
    const written = writeSync(fd, bytes);
    this.#bytes += written;
    if (written > 0) this.#isAtLine = bytes[written - 1] === NEWLINE;
    return written;
  }

  /** The next line opens it again. */
  close(): void {
    const fd = this.#fd;
    this.#fd = null;
    if (fd !== null) closeSync(fd);
  }

  #open(): number {
    if (this.#fd !== null) return this.#fd;
    makeFolder(dirname(this.#path));
    const fd = openSync(this.#path, 'a', 0o600);
    this.#fd = fd;
    this.#bytes = fstatSync(fd).size;
    return fd;
  }

  /** The oldest file is written over. */
  #turnOver(): void {
    const named = (n: number): string => (n === 0 ? this.#path : `${this.#path}.${n}`);
    for (let n = this.#keep - 1; n >= 0; n--) {
      try {
        renameSync(named(n), named(n + 1));
      } catch (error) {
        if (!isMissing(error)) throw error;
      }
    }
  }
}
