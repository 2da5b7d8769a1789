/** Tells which files below a folder come, change and go, while it is looked at. */
import type { Dirent } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { LIMITS } from '../protocol/limits.ts';
import { isMissing } from './atomic-file.ts';
import { FolderWatch, type WatchBudget } from './folder-watch.ts';

/** Swap files and unfinished copies. No name like these could be published. */
const MOMENTARY = /^\..*\.(?:tmp|sw[a-z])$|~$|^4913$/;

/** What editors and our own writing put beside a file for a moment. Locks are links that lead nowhere. */
export function isMomentary(entry: Dirent): boolean {
  if (entry.isDirectory()) return false;
  return MOMENTARY.test(entry.name) || (entry.isSymbolicLink() && entry.name.startsWith('.#'));
}

/** `path` is relative with `/`; the status is what became of it since the first look. */
export type FileChange = { path: string; status: 'added' | 'changed' | 'removed' };

/** Path → what tells one content of a file from the next, without reading it. */
type Look = ReadonlyMap<string, string>;

export class FolderChanges {
  readonly #folder: string;
  readonly #tell: (change: FileChange) => void;
  readonly #watch: FolderWatch;
  #first: Look = new Map();
  #last: Look = new Map();
  readonly #told = new Map<string, FileChange['status']>();
  #looking: Promise<void> = Promise.resolve();
  #settling: NodeJS.Timeout | null = null;

  private constructor(folder: string, budget: WatchBudget, tell: (change: FileChange) => void) {
    this.#folder = folder;
    this.#tell = tell;
    this.#watch = new FolderWatch(budget, () => this.#soon());
  }

  /** From now on each change is told, once for each status that a file comes to have. Rejects when the folder cannot be read. */
  static async begin(folder: string, budget: WatchBudget, tell: (change: FileChange) => void): Promise<FolderChanges> {
    const changes = new FolderChanges(folder, budget, tell);
    await changes.#watch.follow(folder);
    changes.#first = (await lookAt(folder)) ?? new Map();
    changes.#last = changes.#first;
    return changes;
  }

  /** Everything that changed until now was told when it resolves, and nothing is any more. Never rejects. */
  async end(): Promise<void> {
    this.#watch.close();
    if (this.#settling !== null) clearTimeout(this.#settling);
    this.#settling = null;
    await this.#look();
  }

  /** Programs write a file in several steps. */
  #soon(): void {
    this.#settling ??= setTimeout(() => {
      this.#settling = null;
      void this.#look();
    }, LIMITS.draftSettleMs).unref();
  }

  #look(): Promise<void> {
    this.#looking = this.#looking.then(async () => {
      try {
        // There are new folders: what came into them before they were watched was not told.
        if (await this.#watch.follow(this.#folder)) this.#soon();
        const look = await lookAt(this.#folder);
        if (look !== null) this.#compare(look);
      } catch {
        // The folder is being replaced as a whole: the next look finds what took its place.
      }
    });
    return this.#looking;
  }

  #compare(look: Look): void {
    for (const path of new Set([...this.#last.keys(), ...look.keys()])) {
      if (this.#last.get(path) === look.get(path)) continue;
      const status = statusOf(this.#first.has(path), look.has(path));
      const told = this.#told.get(path);
      // One that came and went between two looks was not there for anybody.
      if (status === told || (status === 'removed' && told === undefined && !this.#first.has(path))) continue;
      this.#told.set(path, status);
      this.#tell({ path, status });
    }
    this.#last = look;
  }
}

function statusOf(wasThere: boolean, isThere: boolean): FileChange['status'] {
  if (!isThere) return 'removed';
  return wasThere ? 'changed' : 'added';
}

/** Null for a folder with more files than an app may have: that cannot be published, and would take long. */
async function lookAt(folder: string): Promise<Look | null> {
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

/** One below may go meanwhile; when the folder itself is not there, nothing can be said. */
async function entriesOf(folder: string, below: string): Promise<Dirent[]> {
  const entries = readdir(join(folder, below), { withFileTypes: true });
  return below === '' ? await entries : ((await entries.catch(noneWhenMissing)) ?? []);
}

function noneWhenMissing(error: unknown): null {
  if (isMissing(error)) return null;
  throw error;
}
