/**
 * Tells when a folder was edited. The system's watchers are quick, but they miss folders that are made or moved, and end with
 * the folder they look at: so the files are looked at every now and then as well.
 */
import { type FSWatcher, type Stats, statSync, watch } from 'node:fs';
import { join } from 'node:path';
import { scanAppFolder } from './app-folder.ts';

/** Editors write a file in several steps, and many files at once. */
const QUIET_MS = 40;
/** How often it looks by itself, in milliseconds. */
export const LOOK_MS = 500;

export class FolderWatch {
  readonly #folder: string;
  readonly #changed: () => void;
  readonly #looking: NodeJS.Timeout;
  #watcher: FSWatcher | null = null;
  #settling: NodeJS.Timeout | undefined;
  #state: string;

  /** `changed` is called a moment after the folder was edited, until `close`. */
  constructor(folder: string, changed: () => void) {
    this.#folder = folder;
    this.#changed = changed;
    this.#state = stateOf(folder);
    this.#watch();
    this.#looking = setInterval(() => this.#look(), LOOK_MS);
  }

  close(): void {
    clearInterval(this.#looking);
    clearTimeout(this.#settling);
    this.#watcher?.close();
  }

  #watch(): void {
    try {
      this.#watcher = watch(this.#folder, { recursive: true }, () => {
        this.#settling ??= setTimeout(() => this.#look(), QUIET_MS);
      });
      this.#watcher.on('error', () => this.#unwatch());
    } catch {
      this.#watcher = null;
    }
  }

  #unwatch(): void {
    this.#watcher?.close();
    this.#watcher = null;
  }

  #look(): void {
    clearTimeout(this.#settling);
    this.#settling = undefined;
    const state = stateOf(this.#folder);
    if (state === this.#state) return;
    // A folder that came back is another one.
    if (state === GONE || this.#state === GONE) this.#unwatch();
    this.#state = state;
    if (this.#watcher === null && state !== GONE) this.#watch();
    this.#changed();
  }
}

const GONE = 'gone';

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
