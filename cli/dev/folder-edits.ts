/**
 * Waits for edits of a folder. The system's watchers are quick, but miss changes in a folder before it is watched, so
 * the files are also scanned regularly.
 */
import { isMissing } from '../../storage/files/atomic-file.ts';
import { FolderWatch, WatchBudget } from '../../storage/files/folder-watch.ts';
import { scanAppFolder } from './app-folder.ts';

/** Editors write a file in several steps, and many files at once. */
const QUIET_MS = 40;
/** Time between scans, in milliseconds. */
export const LOOK_MS = 500;
const LOOK_SHARE = 20;
const GONE = 'gone';

/** Edits while nothing waits count as one. */
export class FolderEdits {
  readonly #folder: string;
  #looking: NodeJS.Timeout;
  readonly #watch: FolderWatch;
  #following: Promise<unknown> = Promise.resolve();
  #settling: NodeJS.Timeout | undefined;
  /** Duration of the last scan, in milliseconds. */
  #lookedMs = 0;
  #state: string;
  #came = false;
  #waiting: (() => void) | null = null;

  constructor(folder: string) {
    this.#folder = folder;
    this.#state = stateOf(folder);
    this.#watch = new FolderWatch(new WatchBudget(), () => {
      this.#settling ??= setTimeout(() => this.#look(), QUIET_MS);
    });
    this.#follow();
    this.#looking = this.#lookLater();
  }

  /** Whether there were edits since the last `next`. */
  get came(): boolean {
    return this.#came;
  }

  /** Counts as an edit. */
  wake(): void {
    this.#came = true;
    this.#waiting?.();
  }

  /** Resolves with the next edit, or after `ms` without one. */
  async next(ms: number | null = null): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    if (!this.#came)
      await new Promise<void>((resolve) => {
        this.#waiting = resolve;
        if (ms !== null) timer = setTimeout(resolve, ms);
      });
    clearTimeout(timer);
    this.#waiting = null;
    this.#came = false;
  }

  close(): void {
    clearTimeout(this.#looking);
    clearTimeout(this.#settling);
    this.#watch.close();
  }

  /** Watches new folders too. The next scan notices one that vanishes before. */
  #follow(): void {
    this.#following = this.#following.then(() => this.#watch.follow(this.#folder)).catch(() => {});
  }

  /** A folder of thousands of files is scanned less often: scans take at most a twentieth of the time. */
  #lookLater(): NodeJS.Timeout {
    return setTimeout(
      () => {
        this.#look();
        this.#looking = this.#lookLater();
      },
      Math.max(LOOK_MS, LOOK_SHARE * this.#lookedMs),
    );
  }

  #look(): void {
    clearTimeout(this.#settling);
    this.#settling = undefined;
    const since = performance.now();
    const state = stateOf(this.#folder);
    this.#lookedMs = performance.now() - since;
    if (state === this.#state) return;
    // A folder that reappears is a different one.
    if (state === GONE || this.#state === GONE) this.#watch.stop();
    this.#state = state;
    this.#follow();
    this.wake();
  }
}

/** Differs whenever a file that is sent was written, renamed, made or removed. */
function stateOf(folder: string): string {
  try {
    return scanAppFolder(folder).state;
  } catch (error) {
    // Too large, or a folder that cannot be read: the following sync reports it.
    return isMissing(error) ? GONE : String(error);
  }
}
