/**
 * Keeps the files of an app in a workspace equal to a local folder. Others may edit the workspace too (a publication that
 * merged, an agent): a file that is unchanged here takes their text. Where both changed one, the local one wins. One that they
 * deleted stays in the folder, and is sent again only after a local edit.
 */
import { mkdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { requestOf } from '../../protocol/http/client.ts';
import { GatewayError } from '../../protocol/http/gateway-error.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { RowIn } from '../../protocol/routes/api.ts';
import { ArchiveRules } from '../../protocol/rules/archive-rules.ts';
import { isLeftOut } from '../../protocol/rules/left-out.ts';
import { formatBytes, formatCount } from '../../protocol/text/units.ts';
import { inParallel, isMissing, StagedFile } from '../../storage/files/atomic-file.ts';
import { objectId } from '../../storage/git/object.ts';
import { CommandError, reasonOf, systemStep, UnreachableError } from '../failure.ts';
import { type Client, ofFile } from '../gateway/client.ts';
import { checkContent, listedFiles, ReceivedFiles } from '../gateway/received.ts';
import { packBytes, scanAppFolder } from './app-folder.ts';
import type { BundleFiles } from './app-reader.ts';
import { Packages, refusal } from './packages.ts';

const NEW_FILE = 0o644;
/** Requests for single files at the same time. */
const AT_ONCE = 4;
/** From this number of files on, they are sent in one request. */
const TOGETHER_FROM = 8;

/**
 * `written` and `deleted` in the workspace, `taken` from it; `overwritten` are those of `written` that somebody else had changed
 * there. `gone` are local files that somebody deleted there, each reported once.
 */
export type SyncResult = Record<'written' | 'deleted' | 'taken' | 'overwritten' | 'gone', string[]>;

/** Why one file could not be synced. */
export type FileFault = { path: string; error: unknown };

/** `files` are those that both sides have now, `bundles` among them; those with a fault may differ. */
export type Synced = { result: SyncResult; faults: FileFault[]; files: string[]; bundles: BundleFiles };

/** What the sync did with one file; null for nothing. */
type Outcome = keyof SyncResult | null;

/** A file to be sent. */
type LocalFile = { path: string; bytes: Buffer };

export class FolderSync {
  /** The app in the workspace. */
  readonly #draft: { sid: string; id: string };
  readonly #folder: string;
  readonly #packages: Packages;
  /** Contents that replace files of the folder. */
  #bundles: BundleFiles = new Map();
  /** The files that both sides last had in common: path → git's id of the content. */
  readonly #common = new Map<string, string>();
  /** Local files that the workspace no longer has. */
  readonly #gone = new Set<string>();
  /** Where the workspace's files go. */
  #received: ReceivedFiles;
  #agreed = false;

  constructor(workspace: string, app: string, folder: string) {
    this.#draft = { sid: workspace, id: app };
    this.#folder = folder;
    this.#received = new ReceivedFiles(folder);
    this.#packages = new Packages(folder);
  }

  /** For another workspace of the same name: nothing is taken from it before the first sync. */
  forget(): void {
    this.#common.clear();
    this.#gone.clear();
    this.#agreed = false;
  }

  /**
   * Sends what differs; `progress` is told how many bytes of the folder's files are done. A file that is refused does not stop
   * the others. Rejects with errors that are not about a single file.
   */
  async sync(client: Client, progress: (done: number, total: number) => void = () => {}): Promise<Synced> {
    if (!statSync(this.#folder, { throwIfNoEntry: false })?.isDirectory())
      throw new CommandError(
        'The folder is gone.',
        'The workspace keeps its files. Syncing continues when the folder is back.',
      );
    const there = await this.#list(client);
    const scanned = scanAppFolder(this.#folder);
    const bundles = await this.#packages.bundle(scanned.files);
    this.#bundles = bundles.files;
    const files = [...new Set([...scanned.files, ...bundles.files.keys()])];
    const total = scanned.bytes + [...bundles.files.values()].reduce((sum, { length }) => sum + length, 0);
    const here = new Set(files);
    this.#received = new ReceivedFiles(this.#folder, files);
    const onlyThere = [...there].filter(([path]) => !here.has(path));
    const result: SyncResult = { written: [], deleted: [], taken: [], overwritten: [], gone: [] };
    const faults: FileFault[] = [];
    const [unbundled] = bundles.issues;
    if (unbundled !== undefined) faults.push({ path: unbundled.path, error: refusal(bundles) });
    const note = async (path: string, work: Promise<Outcome>): Promise<void> => {
      try {
        const outcome = await work;
        if (outcome === 'overwritten') result.written.push(path);
        if (outcome !== null) result[outcome].push(path);
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
    const toSend: LocalFile[] = [];
    const compare = async (path: string): Promise<Outcome> => {
      const bytes = this.#read(path);
      if (bytes === null) return null;
      const outcome = await this.#reconcile(client, path, objectId('blob', bytes), there.get(path));
      if (outcome === 'edited') return compare(path);
      if (outcome === 'differs') toSend.push({ path, bytes });
      else count(bytes.length);
      return outcome === 'differs' ? null : outcome;
    };
    await inParallel(files, AT_ONCE, (path) => note(path, compare(path)));
    const alone = await this.#sendTogether(client, toSend, async ({ path, bytes }, sha) => {
      await note(path, Promise.resolve(this.#sent(path, sha, there.get(path))));
      count(bytes.length);
    });
    await inParallel(alone, AT_ONCE, async ({ path, bytes }) => {
      await note(path, this.#put(client, path, bytes, there.get(path)));
      count(bytes.length);
    });
    await inParallel(onlyThere, AT_ONCE, ([path, sha]) => note(path, this.#follow(client, path, sha)));
    for (const path of this.#common.keys()) if (!here.has(path) && !there.has(path)) this.#drop(path);
    this.#agreed = true;
    // The order must not depend on the order of the answers.
    for (const paths of Object.values(result)) paths.sort();
    faults.sort((a, b) => (a.path < b.path ? -1 : 1));
    return { result, faults, files: files.filter((path) => !this.#gone.has(path)), bundles: bundles.files };
  }

  /** Path → git's id of the content. */
  async #list(client: Client): Promise<Map<string, string>> {
    const files = listedFiles(await client.call('GET /svc/_sessions/:sid/apps/:id/files', { params: this.#draft }));
    return new Map(files.map(({ path, sha }) => [path, sha]));
  }

  #at(path: string) {
    return { ...this.#draft, '*': path };
  }

  /** What to do about a file whose content is `here`; `there` is its content in the workspace. */
  #reconcile(
    client: Client,
    path: string,
    here: string,
    there: string | undefined,
  ): Promise<Outcome | 'edited'> | Outcome | 'differs' {
    if (here === there) return this.#keep(path, here, null);
    if (here !== this.#common.get(path) || this.#bundles.has(path)) return 'differs';
    if (there !== undefined) return this.#take(client, path, here, there);
    if (this.#gone.has(path)) return null;
    this.#gone.add(path);
    return 'gone';
  }

  /**
   * Sends many files in one request, and reports for each what the workspace has of it now. Returns those to send one by
   * one: a small number of files, those that an archive may not hold, and all if the gateway refuses the archive,
   * because single requests show which file is at fault.
   */
  async #sendTogether(
    client: Client,
    files: LocalFile[],
    sent: (file: LocalFile, sha: string) => Promise<void>,
  ): Promise<LocalFile[]> {
    if (files.length < TOGETHER_FROM) return files;
    const [fit, unfit] = fitForArchive(files);
    let stored: RowIn<'POST /svc/_sessions/:sid/apps/:id/files'>[];
    try {
      const sent = { params: this.#draft, body: await packBytes(fit) };
      stored = await client.call('POST /svc/_sessions/:sid/apps/:id/files', sent, ofFile());
    } catch (error) {
      if (!(error instanceof GatewayError) || isPassing(error) || isFinal(error)) throw error;
      return files;
    }
    const shas = new Map(stored.map(({ path, sha }) => [path, sha]));
    for (const file of fit) await sent(file, shas.get(file.path) ?? objectId('blob', file.bytes));
    return unfit;
  }

  async #put(client: Client, path: string, bytes: Buffer, there: string | undefined): Promise<Outcome> {
    const sent = { params: this.#at(path), body: bytes };
    const { sha } = await client.call('PUT /svc/_sessions/:sid/apps/:id/files/*', sent);
    return this.#sent(path, sha, there);
  }

  #sent(path: string, sha: string, there: string | undefined): Outcome {
    const overwrites = there !== undefined && this.#changedThere(path, there);
    return this.#keep(path, sha, overwrites ? 'overwritten' : 'written');
  }

  /** A file that only the workspace had when the folder was scanned. The next sync finds one that is new here. */
  async #follow(client: Client, path: string, sha: string): Promise<Outcome> {
    if (!this.#changedThere(path, sha)) return this.#delete(client, path);
    if (isLeftOut(path)) return null;
    const here = idOf(this.#received.place(path));
    if (here !== null && scanAppFolder(this.#folder).files.includes(path)) return null;
    const outcome = await this.#take(client, path, here, sha);
    return outcome === 'edited' ? null : outcome;
  }

  /** Somebody else changed it since both sides were equal. Before the first sync, the local folder wins. */
  #changedThere(path: string, sha: string): boolean {
    return this.#agreed && this.#common.get(path) !== sha;
  }

  /** What the workspace has, by its list, or by another one when it has changed since. */
  async #fetch(client: Client, path: string, sha: string): Promise<Buffer> {
    const bytes = await client.bytesOf(
      requestOf('GET /svc/_sessions/:sid/apps/:id/files/*', { params: this.#at(path) }),
    );
    if (objectId('blob', bytes) !== sha) checkContent(path, bytes, (await this.#list(client)).get(path));
    return bytes;
  }

  /**
   * Gives the folder what the workspace has, unless the local file was edited meanwhile. `here` is what it was, null for none;
   * `there` what the workspace has.
   */
  async #take(client: Client, path: string, here: string | null, there: string): Promise<Outcome | 'edited'> {
    const file = this.#received.place(path);
    const bytes = await this.#fetch(client, path, there);
    try {
      mkdirSync(dirname(file), { recursive: true });
      const staged = await StagedFile.write(file, bytes, statSync(file, { throwIfNoEntry: false })?.mode ?? NEW_FILE);
      let isSame = false;
      try {
        isSame = idOf(file) === here;
      } finally {
        if (!isSame) await staged.discard();
      }
      if (!isSame) return 'edited';
      await staged.place();
    } catch (error) {
      // The folder itself vanishes.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw error;
      throw refusedBySystem(path, 'written', error);
    }
    return this.#keep(path, objectId('blob', bytes), 'taken');
  }

  async #delete(client: Client, path: string): Promise<Outcome> {
    try {
      await client.call('DELETE /svc/_sessions/:sid/apps/:id/files/*', { params: this.#at(path) });
    } catch (error) {
      if (!(error instanceof GatewayError && error.code === 'NOT_FOUND')) throw error;
    }
    this.#drop(path);
    return 'deleted';
  }

  /** Both sides are equal now. */
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

  /** Null for a file that vanished after it was listed. */
  #read(path: string): Buffer | null {
    const bundle = this.#bundles.get(path);
    if (bundle !== undefined) return bundle;
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

/** Those that the rules let into one archive, and the others. */
function fitForArchive(files: LocalFile[]): [LocalFile[], LocalFile[]] {
  const rules = new ArchiveRules();
  const fits = ({ path, bytes }: LocalFile): boolean => {
    try {
      return rules.admit({ path, type: 'File', size: bytes.length }).path === path;
    } catch {
      return false;
    }
  };
  const fit = new Set(files.filter(fits));
  return [[...fit], files.filter((file) => !fit.has(file))];
}

/** The gateway's own error: it may hang up before it has read so many bytes. */
function tooLarge(path: string, size: number): GatewayError {
  const limit = LIMITS.archiveFileBytes;
  const message = `${path} has ${formatCount(size)} bytes; a file of an app may have ${formatCount(limit)} (${formatBytes(limit)}).`;
  return new GatewayError(413, { code: 'PAYLOAD_TOO_LARGE', message, path });
}

/** The id of a file's content, as in a repository; null for a file that is not there. */
export function idOf(file: string): string | null {
  try {
    return objectId('blob', readFileSync(file));
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

/** The gateway is stopping, starting, or elsewhere. */
export function isPassing(error: unknown): boolean {
  return error instanceof UnreachableError || (error instanceof GatewayError && error.code === 'OVERLOADED');
}

/** No file can be sent any more: the workspace was closed, or the token is refused. */
export function isFinal(error: unknown): boolean {
  if (!(error instanceof GatewayError)) return false;
  return error.status === 401 || error.status === 403 || error.code === 'UNKNOWN_SESSION';
}

/** Null for an error that is not about this file alone. */
function faultOf(path: string, error: unknown): FileFault | null {
  if (isPassing(error) || isFinal(error)) return null;
  if (error instanceof CommandError) return { path, error };
  return error instanceof GatewayError
    ? { path, error: new GatewayError(error.status, { path, ...error.toBody() }) }
    : null;
}

/** The system refused a local file; the error names its path in the folder. */
function refusedBySystem(path: string, done: 'read' | 'written', error: unknown): CommandError {
  const cause = error as NodeJS.ErrnoException;
  // A file would be replaced, so a folder above it exists as a file.
  const reason = cause.code === 'EEXIST' ? 'a file is where its folder should be' : reasonOf(cause);
  return new CommandError(`${path} cannot be ${done}: ${reason}.`, systemStep(cause));
}
