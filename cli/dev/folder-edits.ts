/**
 * Tells when a folder was edited. The system's watchers are quick, but they miss what happens in a folder before it is watched:
 * so the files are looked at every now and then as well.
 */
import { type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import { FolderWatch, WatchBudget } from '../../storage/folder-watch.ts';
import { scanAppFolder } from './app-folder.ts';

/** Editors write a file in several steps, and many files at once. */
const QUIET_MS = 40;
/** How often it looks by itself, in milliseconds. */
export const LOOK_MS = 500;
const GONE = 'gone';

export class FolderEdits {
  readonly #folder: string;
  readonly #changed: () => void;
  readonly #looking: NodeJS.Timeout;
  readonly #watch: FolderWatch;
  #following: Promise<unknown> = Promise.resolve();
  #settling: NodeJS.Timeout | undefined;
  #state: string;

  /** `changed` is called a moment after the folder was edited, until `close`. */
  constructor(folder: string, changed: () => void) {
    this.#folder = folder;
    this.#changed = changed;
    this.#state = stateOf(folder);
    this.#watch = new FolderWatch(new WatchBudget(), () => {
      this.#settling ??= setTimeout(() => this.#look(), QUIET_MS);
    });
    this.#follow();
    this.#looking = setInterval(() => this.#look(), LOOK_MS);
  }

  close(): void {
    clearInterval(this.#looking);
    clearTimeout(this.#settling);
    this.#watch.close();
  }

  /** Folders that are new, too. One that goes meanwhile is found by the next look. */
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
    this.#changed();
  }
}

/** Differs whenever a file that is sent was written, renamed, made or removed. */
function stateOf(folder: string): string {
  try {
    return scanAppFolder(folder)
      .files.map((path) => {
        const stat: Stats | undefined = statSync(join(folder, path), { throwIfNoEntry: false });
        return `${path}\0${stat?.mtimeMs}\0${stat?.size}\0${stat?.ino}`;
      })
      .join('\n');
  } catch (error) {
    // Too large, or a folder in it that has just gone: whoever is told finds out.
    return (error as NodeJS.ErrnoException).path === folder ? GONE : String(error);
  }
}
