/** Notices changes below a folder, with a watcher for each folder: Node's recursive one misses changes on Linux. */
import { type FSWatcher, watch } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { LIMITS } from '../../protocol/limits.ts';
import { isMissing } from './atomic-file.ts';

/** How many more folders may be watched, over all drafts. */
export class WatchBudget {
  #left: number;

  constructor(folders: number = LIMITS.watchedFolders) {
    this.#left = folders;
  }

  /** False when none is left. */
  take(): boolean {
    if (this.#left === 0) return false;
    this.#left--;
    return true;
  }

  give(): void {
    this.#left++;
  }
}

export class FolderWatch {
  readonly #budget: WatchBudget;
  readonly #onChange: () => void;
  /** `inode` shows whether another folder has replaced this one, by a move of what is above it. */
  readonly #folders = new Map<string, { watcher: FSWatcher; inode: number }>();
  #complete = false;
  /** Watchers ever made. */
  #begun = 0;
  #closed = false;

  /** `onChange` is called at each sign of a change, several times for some. */
  constructor(budget: WatchBudget, onChange: () => void) {
    this.#budget = budget;
    this.#onChange = onChange;
  }

  /** Whether every change since the last `follow` was or will be noticed. */
  get complete(): boolean {
    return this.#complete;
  }

  /** Resolves when every change that was made before the call, by any process, was noticed if its folder is watched. */
  async caughtUp(): Promise<void> {
    // One poll of the system may bring a request before the change that its sender made first. The second immediate comes after
    // a poll that began after the call.
    await setImmediate();
    await setImmediate();
  }

  /** Watches `root`, the folders below it, and those that replaced one. Returns whether there were new ones. */
  async follow(root: string): Promise<boolean> {
    const found = new Set<string>();
    let complete = true;
    const before = this.#begun;
    const visit = async (folder: string): Promise<void> => {
      found.add(folder);
      // Watched before it is read, so no change is missed.
      if (!(await this.#watch(folder))) complete = false;
      for (const entry of await readdir(folder, { withFileTypes: true })) {
        // Apps have no such folder; a local folder's would take all watchers.
        if (!entry.isDirectory() || entry.name === 'node_modules') continue;
        if (found.size < LIMITS.draftFolders) await visit(join(folder, entry.name)).catch(ignoreMissing);
        else complete = false;
      }
    };
    await visit(root);
    const gone = [...this.#folders.keys()].filter((folder) => !found.has(folder));
    for (const folder of gone) this.#drop(folder);
    this.#complete = complete && !this.#closed;
    const isNew = this.#begun !== before;
    // Removed folders may free watchers for others.
    if (!complete && gone.length > 0) return (await this.follow(root)) || isNew;
    return isNew;
  }

  /** May be followed by another `follow`. */
  stop(): void {
    this.#complete = false;
    for (const folder of [...this.#folders.keys()]) this.#drop(folder);
  }

  close(): void {
    this.#closed = true;
    this.stop();
  }

  /** Whether the folder is watched. */
  async #watch(folder: string): Promise<boolean> {
    const { ino } = await stat(folder);
    const known = this.#folders.get(folder);
    if (known?.inode === ino) return true;
    if (known) this.#drop(folder);
    if (this.#closed || !this.#budget.take()) return false;
    try {
      const watcher = watch(folder, { persistent: false }, (event, name) => {
        // The folder itself is gone, or an entry with its name: one that is made in its place may get the same inode.
        if (event === 'rename' && name === basename(folder)) lose();
        this.#onChange();
      });
      const lose = () => {
        this.#complete = false;
        if (this.#folders.get(folder)?.watcher === watcher) this.#drop(folder);
      };
      watcher.on('error', () => {
        lose();
        this.#onChange();
      });
      this.#folders.set(folder, { watcher, inode: ino });
      this.#begun++;
      return true;
    } catch {
      // The system gives no more watches.
      this.#budget.give();
      return false;
    }
  }

  #drop(folder: string): void {
    this.#folders.get(folder)?.watcher.close();
    if (this.#folders.delete(folder)) this.#budget.give();
  }
}

function ignoreMissing(error: unknown): void {
  if (!isMissing(error)) throw error;
}
