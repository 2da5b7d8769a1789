/**
 * Waits for edits of a folder. The system's watchers are quick, but miss what happens in a folder before it is watched: so the
 * files are looked at regularly as well.
 */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { FolderWatch, WatchBudget } from '../../storage/folder-watch.ts';
import { scanAppFolder } from './app-folder.ts';

/** Editors write a file in several steps, and many files at once. */
const QUIET_MS = 40;
/** How often it looks by itself, in milliseconds. */
export const LOOK_MS = 500;
const GONE = 'gone';

/** Edits while nothing waits count as one. */
export class FolderEdits {
  readonly #folder: string;
  readonly #looking: NodeJS.Timeout;
  readonly #watch: FolderWatch;
  #following: Promise<unknown> = Promise.resolve();
  #settling: NodeJS.Timeout | undefined;
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
    this.#looking = setInterval(() => this.#look(), LOOK_MS);
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
    clearInterval(this.#looking);
    clearTimeout(this.#settling);
    this.#watch.close();
  }

  /** Watches new folders too. The next look notices one that vanishes before. */
  #follow(): void {
    this.#following = this.#following.then(() => this.#watch.follow(this.#folder)).catch(() => {});
  }

  #look(): void {
    clearTimeout(this.#settling);
    this.#settling = undefined;
    const state = stateOf(this.#folder);
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
    return scanAppFolder(folder)
      .files.map((path) => {
        const stat = statSync(join(folder, path), { throwIfNoEntry: false });
        return `${path}\0${stat?.mtimeMs}\0${stat?.size}\0${stat?.ino}`;
      })
      .join('\n');
  } catch (error) {
    // Too large, or a folder in it has just vanished: the sync that follows tells.
    return (error as NodeJS.ErrnoException).path === folder ? GONE : String(error);
  }
}
