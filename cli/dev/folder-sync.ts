/**
 * Keeps the files of an app in a session the same as a folder here. Whoever edits the session meanwhile (a publication that
 * merged, an agent) is heard: a file that is unchanged here takes their text. Where both changed one, the folder's wins. One
 * that they deleted is not sent again, and stays in the folder, until it is edited here.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { LIMITS } from '../../protocol/limits.ts';
import { isMissing, writeFileAtomic } from '../../storage/atomic-file.ts';
import { inParallel } from '../../storage/in-parallel.ts';
import { CommandError, GatewayError } from '../failure.ts';
import type { SessionFile } from '../gateway/api.ts';
import type { Client } from '../gateway/client.ts';
import { filesPath } from '../gateway/paths.ts';
import { formatBytes, formatCount } from '../terminal/units.ts';
import { scanAppFolder } from './app-folder.ts';
import { type FileFault, faultOf, refusedBySystem } from './draft-errors.ts';

const NEW_FILE = 0o644;
/** Files that are on their way at the same time. */
const AT_ONCE = 4;

/**
 * `written` and `deleted` in the session, `taken` from it; `overwritten` are those of `written` that somebody else had changed
 * there. `gone` are those of the folder that somebody deleted there, each said once.
 */
export type SyncResult = {
  written: string[];
  deleted: string[];
  taken: string[];
  overwritten: string[];
  gone: string[];
};

/** `files` are those that the folder and the session both have now; of those with a fault, what they have differs. */
export type Synced = { result: SyncResult; faults: FileFault[]; files: string[] };

/** What was done about one file; null for nothing. */
type Outcome = keyof SyncResult | null;

export class FolderSync {
  readonly #session: string;
  readonly #app: string;
  readonly #folder: string;
  /** What folder and session last had in common: path → id of the content as git counts it. */
  readonly #common = new Map<string, string>();
  /** Of those, the ones that are not in the session any more. */
  readonly #gone = new Set<string>();
  #agreed = false;

  constructor(session: string, app: string, folder: string) {
    this.#session = session;
    this.#app = app;
    this.#folder = folder;
  }

  /** The session may be another one now: nothing of it is taken over until it was brought up to date. */
  forget(): void {
    this.#common.clear();
    this.#gone.clear();
    this.#agreed = false;
  }

  /**
   * Sends what differs; `progress` hears how many bytes of the folder's files are done. A file that is refused does not keep the
   * others back. Rejects with what is about no single file.
   */
  async sync(client: Client, progress: (done: number, total: number) => void = () => {}): Promise<Synced> {
    if (!statSync(this.#folder, { throwIfNoEntry: false })?.isDirectory())
      throw new CommandError(
        'The folder is gone.',
        'The session keeps its files. Syncing continues when the folder is back.',
      );
    const listed = await client.get<SessionFile[]>(filesPath(this.#session, this.#app));
    const there = new Map(listed.map(({ path, sha }) => [path, sha]));
    const { files, bytes: total } = scanAppFolder(this.#folder);
    const here = new Set(files);
    const onlyThere = [...there].filter(([path]) => !here.has(path));
    const outcomes = new Map<string, Outcome>();
    const faults: FileFault[] = [];
    const attend = async (path: string, work: Promise<Outcome>): Promise<void> => {
      try {
        outcomes.set(path, await work);
      } catch (error) {
        const fault = faultOf(path, error);
        if (fault === null) throw error;
        faults.push(fault);
      }
    };
    let done = 0;
    const count = (bytes: number): void => {
      done += bytes;
      progress(done, total);
    };
    await inParallel(files, AT_ONCE, (path) => attend(path, this.#bring(client, path, there.get(path), count)));
    await inParallel(onlyThere, AT_ONCE, ([path, sha]) => attend(path, this.#follow(client, path, sha)));
    for (const path of this.#common.keys()) if (!here.has(path) && !there.has(path)) this.#drop(path);
    this.#agreed = true;
    const paths = [...files, ...onlyThere.map(([path]) => path)];
    return {
      result: resultOf(paths, outcomes),
      // Which comes first must not depend on which was answered first.
      faults: faults.sort((a, b) => (a.path < b.path ? -1 : 1)),
      files: files.filter((path) => !this.#gone.has(path)),
    };
  }

  /** About a file of the folder. */
  async #bring(
    client: Client,
    path: string,
    there: string | undefined,
    count: (bytes: number) => void,
  ): Promise<Outcome> {
    const bytes = this.#read(path);
    if (bytes === null) return null;
    const outcome = await this.#agree(client, path, bytes, there);
    count(bytes.length);
    return outcome;
  }

  async #agree(client: Client, path: string, bytes: Buffer, there: string | undefined): Promise<Outcome> {
    const here = blobId(bytes);
    const common = this.#common.get(path);
    if (here === there) return this.#keep(path, here, null);
    if (here === common) {
      if (there !== undefined) return this.#take(client, path);
      if (this.#gone.has(path)) return null;
      this.#gone.add(path);
      return 'gone';
    }
    const { sha } = await client.put<SessionFile>(filesPath(this.#session, this.#app, path), bytes);
    const overwrites = there !== undefined && this.#changedThere(path, there);
    return this.#keep(path, sha, overwrites ? 'overwritten' : 'written');
  }

  /** About a file that only the session has. */
  #follow(client: Client, path: string, sha: string): Promise<Outcome> {
    return this.#changedThere(path, sha) ? this.#take(client, path) : this.#delete(client, path);
  }

  /** Somebody else did, since both sides were the same. Until they are, the folder has its way. */
  #changedThere(path: string, sha: string): boolean {
    return this.#agreed && this.#common.get(path) !== sha;
  }

  async #take(client: Client, path: string): Promise<Outcome> {
    const bytes = await client.getBytes(filesPath(this.#session, this.#app, path));
    const file = join(this.#folder, path);
    try {
      mkdirSync(dirname(file), { recursive: true });
      await writeFileAtomic(file, bytes, statSync(file, { throwIfNoEntry: false })?.mode ?? NEW_FILE);
    } catch (error) {
      // The folder itself is going.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw error;
      throw refusedBySystem(path, 'written', error);
    }
    return this.#keep(path, blobId(bytes), 'taken');
  }

  async #delete(client: Client, path: string): Promise<Outcome> {
    try {
      await client.delete(filesPath(this.#session, this.#app, path));
    } catch (error) {
      if (!(error instanceof GatewayError && error.body.code === 'NOT_FOUND')) throw error;
    }
    this.#drop(path);
    return 'deleted';
  }

  /** Both sides have the same now. */
  #keep(path: string, sha: string, outcome: Outcome): Outcome {
    this.#common.set(path, sha);
    this.#gone.delete(path);
    return outcome;
  }

  /** Neither side has it now. */
  #drop(path: string): void {
    this.#common.delete(path);
    this.#gone.delete(path);
  }

  /** Null for one that has gone since it was listed. */
  #read(path: string): Buffer | null {
    const file = join(this.#folder, path);
    try {
      const { size } = statSync(file);
      if (size > LIMITS.archiveFileBytes) throw tooLarge(path, size);
      return readFileSync(file);
    } catch (error) {
      if (isMissing(error)) return null;
      throw error instanceof GatewayError ? error : refusedBySystem(path, 'read', error);
    }
  }
}

/** In the order of `paths`, whatever was done first. */
function resultOf(paths: string[], outcomes: Map<string, Outcome>): SyncResult {
  const result: SyncResult = { written: [], deleted: [], taken: [], overwritten: [], gone: [] };
  for (const path of paths) {
    const outcome = outcomes.get(path) ?? null;
    if (outcome === 'overwritten') result.written.push(path);
    if (outcome !== null) result[outcome].push(path);
  }
  return result;
}

/** As the gateway would say it, which may hang up before it has read so much. */
function tooLarge(path: string, size: number): GatewayError {
  const limit = LIMITS.archiveFileBytes;
  const message = `${path} has ${formatCount(size)} bytes; a file of an app may have ${formatCount(limit)} (${formatBytes(limit)}).`;
  return new GatewayError(413, { code: 'PAYLOAD_TOO_LARGE', message, path });
}

function blobId(bytes: Buffer): string {
  return createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex');
}
