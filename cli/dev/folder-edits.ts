/**
 * Waits for edits of a folder. The system's watchers are quick, but miss what happens in a folder before it is watched: so the
 * files are looked at regularly as well.
 */
import { isMissing } from '../../storage/files/atomic-file.ts';
import { FolderWatch, WatchBudget } from '../../storage/files/folder-watch.ts';
import { scanAppFolder } from './app-folder.ts';

/** Editors write a file in several steps, and many files at once. */
const QUIET_MS = 40;
/** How often it looks by itself, in milliseconds. */
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
  /** How long the last look took, in milliseconds. */
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

  /** Watches new folders too. The next look notices one that vanishes before. */
  #follow(): void {
    this.#following = this.#following.then(() => this.#watch.follow(this.#folder)).catch(() => {});
  }

  /** A folder of thousands of files is looked at less often: looking takes a twentieth of the time at most. */
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
    // A folder that came back is another one.
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
    // Too large, or a folder that cannot be read: the sync that follows tells.
    return isMissing(error) ? GONE : String(error);
  }
}
