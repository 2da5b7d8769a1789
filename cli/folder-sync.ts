/**
 * Keeps the files of an app in a session the same as a folder here. Whoever edits the session meanwhile (a publication that
 * merged, an agent) is heard: a file that is unchanged here takes their text. Where both changed one, the folder's wins.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { writeFileAtomic } from '../storage/atomic-file.ts';
import type { SessionFile } from './api.ts';
import { scanAppFolder } from './app-folder.ts';
import type { Client } from './client.ts';
import { CommandError, GatewayError } from './failure.ts';
import { filesPath } from './paths.ts';

const NEW_FILE = 0o644;

/** `written` and `deleted` in the session, `taken` from it; `overwritten` are those of `written` that somebody else had changed there. */
export type SyncResult = { written: string[]; deleted: string[]; taken: string[]; overwritten: string[] };

export class FolderSync {
  readonly #session: string;
  readonly #app: string;
  readonly #folder: string;
  /** What folder and session last had in common: path → id of the content as git counts it. */
  readonly #common = new Map<string, string>();
  #agreed = false;

  constructor(session: string, app: string, folder: string) {
    this.#session = session;
    this.#app = app;
    this.#folder = folder;
  }

  /** The session may be another one now: nothing of it is taken over until it was brought up to date. */
  forget(): void {
    this.#common.clear();
    this.#agreed = false;
  }

  /** Sends what differs. A file that is refused does not keep the others back; its error comes at the end. */
  async sync(client: Client): Promise<SyncResult> {
    if (!statSync(this.#folder, { throwIfNoEntry: false })?.isDirectory())
      throw new CommandError(
        'The folder is gone.',
        'The session keeps what it had. It is followed again once it is back.',
      );
    const result: SyncResult = { written: [], deleted: [], taken: [], overwritten: [] };
    const listed = await client.get<SessionFile[]>(filesPath(this.#session, this.#app));
    const there = new Map(listed.map(({ path, sha }) => [path, sha]));
    const failures: unknown[] = [];
    const { files } = scanAppFolder(this.#folder);
    for (const path of files) {
      await this.#bring(client, path, there.get(path), result).catch((error: unknown) => {
        if (!(error instanceof GatewayError)) throw error;
        failures.push(error);
      });
    }
    const here = new Set(files);
    for (const [path, sha] of there) {
      if (here.has(path)) continue;
      if (this.#changedThere(path, sha)) await this.#take(client, path, result);
      else await this.#delete(client, path, result);
    }
    this.#agreed = true;
    if (failures.length > 0) throw failures[0];
    return result;
  }

  async #bring(client: Client, path: string, there: string | undefined, result: SyncResult): Promise<void> {
    const bytes = this.#read(path);
    if (bytes === null) return;
    const here = blobId(bytes);
    const common = this.#common.get(path);
    if (here === there) {
      this.#common.set(path, here);
    } else if (here === common && there !== undefined) {
      await this.#take(client, path, result);
    } else {
      if (there !== undefined && this.#changedThere(path, there)) result.overwritten.push(path);
      const { sha } = await client.put<SessionFile>(filesPath(this.#session, this.#app, path), bytes);
      this.#common.set(path, sha);
      result.written.push(path);
    }
  }

  /** Somebody else did, since both sides were the same. Until they are, the folder has its way. */
  #changedThere(path: string, sha: string): boolean {
    return this.#agreed && this.#common.get(path) !== sha;
  }

  async #take(client: Client, path: string, result: SyncResult): Promise<void> {
    const bytes = await client.getBytes(filesPath(this.#session, this.#app, path));
    const file = join(this.#folder, path);
    mkdirSync(dirname(file), { recursive: true });
    await writeFileAtomic(file, bytes, statSync(file, { throwIfNoEntry: false })?.mode ?? NEW_FILE);
    this.#common.set(path, blobId(bytes));
    result.taken.push(path);
  }

  async #delete(client: Client, path: string, result: SyncResult): Promise<void> {
    try {
      await client.delete(filesPath(this.#session, this.#app, path));
    } catch (error) {
      if (!(error instanceof GatewayError && error.body.code === 'NOT_FOUND')) throw error;
    }
    this.#common.delete(path);
    result.deleted.push(path);
  }

  /** Null for one that has gone since it was listed. */
  #read(path: string): Buffer | null {
    try {
      return readFileSync(join(this.#folder, path));
    } catch {
      return null;
    }
  }
}

function blobId(bytes: Buffer): string {
  return createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex');
}
