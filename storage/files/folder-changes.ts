/** Watches a folder and reports which files are added, changed and removed. */
import type { Dirent } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { LIMITS } from '../../protocol/limits.ts';
import { isMissing } from './atomic-file.ts';
import { FolderWatch, type WatchBudget } from './folder-watch.ts';

/** Swap files and unfinished copies. Such names cannot be published. */
const MOMENTARY = /^\..*\.(?:tmp|sw[a-z])$|\.tmp\.\d+\.[0-9a-f]+$|~$|^4913$/;

/** Files that editors and our own writes put beside a file for a moment. Locks are broken links. */
export function isMomentary(entry: Dirent): boolean {
  if (entry.isDirectory()) return false;
  return MOMENTARY.test(entry.name) || (entry.isSymbolicLink() && entry.name.startsWith('.#'));
}

/** `path` is relative with `/`; `status` compares with the begin of the watch. */
export type FileChange = { path: string; status: 'added' | 'changed' | 'removed' };

/** Path → inode, size and time of change: enough to notice a change without reading the file. */
type Snapshot = ReadonlyMap<string, string>;

export class FolderChanges {
  readonly #folder: string;
  readonly #tell: (change: FileChange) => void;
  readonly #watch: FolderWatch;
  #first: Snapshot = new Map();
  #last: Snapshot = new Map();
  readonly #reported = new Map<string, FileChange['status']>();
  #checking: Promise<void> = Promise.resolve();
  #settling: NodeJS.Timeout | null = null;

  private constructor(folder: string, budget: WatchBudget, tell: (change: FileChange) => void) {
    this.#folder = folder;
    this.#tell = tell;
    this.#watch = new FolderWatch(budget, () => this.#soon());
  }

  /** Calls `tell` for each change from now on, once for each new status of a file. Rejects when the folder cannot be read. */
  static async begin(folder: string, budget: WatchBudget, tell: (change: FileChange) => void): Promise<FolderChanges> {
    const changes = new FolderChanges(folder, budget, tell);
    await changes.#watch.follow(folder);
    changes.#first = (await readSnapshot(folder)) ?? new Map();
    changes.#last = changes.#first;
    return changes;
  }

  /** Stops, and resolves when every change until now is reported. Never rejects. */
  async end(): Promise<void> {
    this.#watch.close();
    if (this.#settling !== null) clearTimeout(this.#settling);
    this.#settling = null;
    await this.#check();
  }

  /** Programs write a file in several steps. */
  #soon(): void {
    this.#settling ??= setTimeout(() => {
      this.#settling = null;
      void this.#check();
    }, LIMITS.draftSettleMs).unref();
  }

  #check(): Promise<void> {
    this.#checking = this.#checking.then(async () => {
      try {
        // Files may have come into a new folder before it was watched: check once more.
        if (await this.#watch.follow(this.#folder)) this.#soon();
        const snapshot = await readSnapshot(this.#folder);
        if (snapshot !== null) this.#compare(snapshot);
      } catch {
        // The folder is being replaced as a whole: the next check finds the new one.
      }
    });
    return this.#checking;
  }

  #compare(snapshot: Snapshot): void {
    for (const path of new Set([...this.#last.keys(), ...snapshot.keys()])) {
      if (this.#last.get(path) === snapshot.get(path)) continue;
      const status = statusOf(this.#first.has(path), snapshot.has(path));
      const reported = this.#reported.get(path);
      // Its creation was never reported, so its removal is not either.
      if (status === reported || (status === 'removed' && reported === undefined && !this.#first.has(path))) continue;
      this.#reported.set(path, status);
      this.#tell({ path, status });
    }
    this.#last = snapshot;
  }
}

function statusOf(wasThere: boolean, isThere: boolean): FileChange['status'] {
  if (!isThere) return 'removed';
  return wasThere ? 'changed' : 'added';
}

/** Null for a folder with more files than an app may have: that cannot be published, and would take long. */
async function readSnapshot(folder: string): Promise<Snapshot | null> {
  const found = new Map<string, string>();
  const folders = [''];
  for (const below of folders) {
    for (const entry of await entriesOf(folder, below)) {
      if (isMomentary(entry)) continue;
      const path = below === '' ? entry.name : `${below}/${entry.name}`;
      if (entry.isDirectory()) {
        folders.push(path);
        continue;
      }
      const file = await lstat(join(folder, path)).catch(noneWhenMissing);
      if (file !== null) found.set(path, `${file.ino} ${file.size} ${file.mtimeMs}`);
      if (found.size > LIMITS.archiveEntries) return null;
    }
  }
  return found;
}

/** A folder below may be removed meanwhile. Rejects when the folder itself is missing. */
async function entriesOf(folder: string, below: string): Promise<Dirent[]> {
  const entries = readdir(join(folder, below), { withFileTypes: true });
  return below === '' ? await entries : ((await entries.catch(noneWhenMissing)) ?? []);
}

function noneWhenMissing(error: unknown): null {
  if (isMissing(error)) return null;
  throw error;
}
