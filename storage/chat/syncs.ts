/** Flushes the files in a folder, a few at a time, so that other work can use the disk. */
import { syncDir } from '../files/atomic-file.ts';

/** Node has four threads for files; one stays free for reads and appends. */
const FILES_AT_ONCE = 3;

export class FolderSyncs {
  readonly #dir: string;
  #last: Promise<void> = Promise.resolve();
  #next: Promise<void> | null = null;
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(dir: string) {
    this.#dir = dir;
  }

  /** Makes the names in the folder durable. Callers during a flush share the next one. */
  names(): Promise<void> {
    if (this.#next) return this.#next;
    const next = this.#last.then(() => {
      this.#next = null;
      return syncDir(this.#dir);
    });
    this.#next = next;
    this.#last = next.catch(() => {});
    return next;
  }

  /** Flushes a file, few at a time, in the order of the calls. Rejects as `sync` does. */
  async file(sync: () => Promise<void>): Promise<void> {
    if (this.#running >= FILES_AT_ONCE) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running++;
    try {
      await sync();
    } finally {
      const next = this.#waiting.shift();
      // It takes this one's place.
      if (next) next();
      else this.#running--;
    }
  }
}
