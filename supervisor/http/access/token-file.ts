/** Watches the file of the administrator's token, `token.bin`, and reports a new token (specification, "Access token"). */
import { type FSWatcher, watch } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { Logger } from 'pino';
import { LIMITS } from '../../../protocol/limits.ts';
import { readToken } from '../../../storage/token.ts';

export class TokenFile {
  readonly #path: string;
  readonly #log: Logger;
  readonly #onReplaced: (token: string) => void;
  readonly #poll: NodeJS.Timeout;
  #watcher: FSWatcher | undefined;
  #token: string;
  #complaint = '';
  #reads = 0;

  /** `token` is what the file says now. `onReplaced` runs with a new token, which is in force from then on. */
  constructor(path: string, token: string, log: Logger, onReplaced: (token: string) => void) {
    this.#path = path;
    this.#token = token;
    this.#log = log;
    this.#onReplaced = onReplaced;
    this.#follow();
    this.#poll = setInterval(() => {
      this.#follow();
      this.#reload();
    }, LIMITS.tokenPollMs).unref();
  }

  close(): void {
    clearInterval(this.#poll);
    this.#watcher?.close();
  }

  /**
   * Watches a path for changes of the token file. The file is watched until a rotation renames a new one over it. The folder is
   * watched only where there is no file, because its watcher hears of every write to the gateway's databases.
   */
  #watch(path: string): FSWatcher | undefined {
    const name = basename(this.#path);
    try {
      const watcher = watch(path, { persistent: false }, (_event, changed) => {
        if (changed !== null && changed !== name) return;
        this.#follow();
        this.#reload();
      });
      return watcher.on('error', () => watcher.close());
    } catch {
      return undefined;
    }
  }

  /** Watches the file that has the name now. */
  #follow(): void {
    this.#watcher?.close();
    this.#watcher = this.#watch(this.#path) ?? this.#watch(dirname(this.#path));
  }

  /** Reads the file again. One that is missing or damaged leaves the old token in force. Of several reads the last counts. */
  #reload(): void {
    const read = ++this.#reads;
    readToken(this.#path).then(
      (token) => {
        this.#complaint = '';
        if (read !== this.#reads || token === this.#token) return;
        this.#token = token;
        this.#log.info('The access token was replaced; the old one and every session made with it have ended.');
        this.#onReplaced(token);
      },
      (error: NodeJS.ErrnoException) => {
        const complaint = error.code ?? error.message;
        if (complaint === this.#complaint) return;
        this.#complaint = complaint;
        this.#log.warn({ err: error }, 'The token file cannot be read; the token known so far stays valid.');
      },
    );
  }
}
