/**
 * Stores versions in git: a version is a tag of one bare repository, and its code is checked out once to be served
 * (specification, "Stores of code"). The app's pointer decides which version serves. Refs follow it, and the start repairs what
 * a crash left between the two.
 */
import { readFile } from 'node:fs/promises';
import type { Logger } from 'pino';
import type { VersionRecord } from '../../../protocol/answer-types.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { versionNumber, versionTag } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { VersionSummary } from '../../../protocol/manifest.ts';
import type { GitAuthor, GitTag, GitVersion } from '../../../protocol/wire/git-jobs.ts';
import type { CommitOrder } from '../../../protocol/wire/jobs.ts';
import type { Intent, VersionIntent } from '../../../storage/apps/journal.ts';
import {
  commitOf,
  installLinked,
  removeLinked,
  removeMaterialized,
  sweepMaterialized,
} from '../../../storage/apps/linked-code.ts';
import { readEntries } from '../../../storage/apps/registry.ts';
import { sweepTemporary } from '../../../storage/apps/trash.ts';
import { readVersion } from '../../../storage/apps/versions.ts';
import { clearPlace, isThere, mkdirDurable, writeFileAtomic } from '../../../storage/files/atomic-file.ts';
import { isObjectId } from '../../../storage/git/object.ts';
import { isPackable, PACK_LIMITS } from '../../../storage/git/packing.ts';
import { isOpenAt } from '../../../storage/git/repository.ts';
import type { CodeStorePaths, Layout, VersionPaths } from '../../../storage/layout.ts';
import type { SharedGit } from '../../cluster/shared-git.ts';
import { SerialByKey } from '../../serial.ts';
import type { CodeStore, VersionPage } from './code-store.ts';
import type { Git } from './git-operations.ts';

/** How operations on the repository are done; see `GitStoreOptions`. */
export type RepositoryAccess = Pick<GitStoreOptions, 'git' | 'shared'>;

type GitStoreOptions = {
  layout: Layout;
  paths: CodeStorePaths;
  git: Git;
  /** Follows the repositories of the other nodes of a cluster; null for a gateway of its own. */
  shared: Pick<SharedGit, 'refresh' | 'share'> | null;
  author: GitAuthor;
  log: Logger;
  now?(): number;
};

export class GitStore implements CodeStore {
  readonly backend = 'git';
  readonly keepsDiscarded = true;
  readonly #options: Required<GitStoreOptions>;
  /** Refs are moved one after the other. */
  readonly #refs = new SerialByKey();
  readonly #packer: Packer;
  /** The newest commit of `main`; null while the repository could not be read. */
  #main: string | null = null;

  constructor(options: GitStoreOptions) {
    this.#options = { now: Date.now, ...options };
    this.#packer = new Packer(options);
  }

  async open(): Promise<void> {
    const { layout, paths, git, log, shared } = this.#options;
    for (const dir of [paths.mainDir, paths.workspacesDir]) await mkdirDurable(dir);
    await sweepTemporary(paths.dir);
    try {
      const apps = (await readEntries(layout.registry))?.size ?? 0;
      // A node of a cluster may get all of it from the others.
      const existing = shared === null && (apps > 0 || (await isThere(paths.activeMain)));
      // As the last gateway left it, it takes no job, and so no process that nobody asked for.
      const left = shared === null ? await this.#asLeft() : null;
      this.#main = left ?? (await git('openRepository', { ...this.#signed(), existing })).main;
      await this.#writeActiveMain();
    } catch (error) {
      // The live version is served from its own files.
      log.error({ err: error }, 'The git repository cannot be used; what is live is served all the same.');
    }
  }

  async tidy(): Promise<void> {
    await sweepMaterialized(this.#options.layout, this.#options.paths);
    this.#packer.look();
  }

  close(): Promise<void> {
    return this.#packer.close();
  }

  async refresh(): Promise<void> {
    await this.#options.shared?.refresh();
  }

  async share(id: string, commit: string): Promise<void> {
    await this.#options.shared?.share(id, commit);
  }

  commitOrder(message: string | null): CommitOrder {
    const { author, paths } = this.#options;
    return { repository: paths.repository, author, message };
  }

  async commitActivation(id: string, versionId: string): Promise<string | null> {
    const message = `Activate ${versionId}\n`;
    const job = { app: id, from: versionId, message, ...this.#signed() };
    const { commit, unchanged } = await this.#options.git('commitTree', job);
    return unchanged ? null : commit;
  }

  async untagged(id: string, versionId: string): Promise<string | null> {
    const { layout, paths } = this.#options;
    if ((await this.#tag(id, versionId)) !== null) return null;
    // Where its code lies says the commit.
    return commitOf(layout.app(id), versionId, paths);
  }

  async install(id: string, versionId: string, staged: VersionPaths, commit: string | null): Promise<void> {
    const { layout, paths } = this.#options;
    await installLinked(layout.app(id), versionId, staged, paths.materialized(commit as string, id));
  }

  settle(id: string, intent: Intent): Promise<void> {
    return this.#refs.run('refs', async () => {
      if (intent.kind === 'remove') await this.#settleRemoval(id);
      else if (intent.commit === null) return;
      else await this.#settle(id, intent, intent.commit);
      await this.#writeActiveMain();
      this.#packer.changed();
    });
  }

  async find(id: string, versionId: string): Promise<VersionRecord | null> {
    const tag = await this.#tag(id, versionId);
    return tag === null ? null : recordOf(tag, null);
  }

  async checkOut(id: string, versionId: string, to: string): Promise<void> {
    await this.#options.git('checkout', { app: id, from: versionId, to });
  }

  async list(id: string, active: VersionSummary | null, { limit, before }: VersionPage): Promise<VersionRecord[]> {
    const number = before === undefined ? null : versionNumber(id, before);
    if (before !== undefined && number === null)
      throw new SvcError('BAD_REQUEST', `"before" must be a version of "${id}", such as ${versionTag(id, 3)}.`, {
        path: 'before',
      });
    const job = { app: id, limit: limit ?? LIMITS.versionsListed, before: number };
    return (await this.#options.git('listVersions', job)).versions.map((version) => recordOf(version, active));
  }

  discard(id: string, versionId: string): Promise<void> {
    const { layout, paths } = this.#options;
    return removeLinked(layout.app(id), versionId, { store: paths, tmpDir: layout.tmpDir });
  }

  async delete(id: string, versionId: string): Promise<void> {
    // The tag last: until it is gone the version can be brought back.
    await this.discard(id, versionId);
    await this.#refs.run('refs', () => this.#options.git('retire', { app: id, tag: versionId }));
  }

  async numbers(id: string): Promise<number[]> {
    return (await this.#options.git('versionNumbers', { app: id })).numbers;
  }

  revive(id: string, numbers: number[], activeVersion: string | null): Promise<void> {
    const { git } = this.#options;
    return this.#refs.run('refs', async () => {
      await git('revive', { app: id, numbers });
      if (activeVersion === null) return;
      if ((await this.#tag(id, activeVersion)) === null)
        throw new SvcError('STORE_DAMAGED', `The git repository has no version ${activeVersion} any more.`);
      const message = `Restore ${id}\n`;
      const job = { app: id, ...this.#signed() };
      const { commit, unchanged } = await git('commitTree', { ...job, from: activeVersion, message });
      if (!unchanged) this.#main = (await git('settle', { ...job, commit, tag: null })).main;
      await this.#writeActiveMain();
      this.#packer.changed();
    });
  }

  async #settle(id: string, { kind, versionId }: VersionIntent, commit: string): Promise<void> {
    const { layout, git } = this.#options;
    const tag = kind === 'activate' ? null : tagOf(versionId, await readVersion(layout.app(id), versionId));
    const job = { commit, ...this.#signed() };
    if (kind === 'store') await git('tagOnly', { ...job, tag: tag as GitTag });
    else this.#main = (await git('settle', { ...job, app: id, tag })).main;
  }

  async #settleRemoval(id: string): Promise<void> {
    const { paths, git } = this.#options;
    const job = { app: id, ...this.#signed() };
    const removal = await git('commitApp', { ...job, folder: null, message: `Remove ${id}\n` });
    if (!removal.unchanged) this.#main = (await git('settle', { ...job, commit: removal.commit, tag: null })).main;
    // At once: the tags may stay behind when the job that moves them dies, and `main` has moved.
    await this.#writeActiveMain();
    await git('retire', { app: id, tag: null });
    await removeMaterialized(paths, id);
  }

  async #tag(id: string, versionId: string): Promise<GitVersion | null> {
    const number = versionNumber(id, versionId);
    if (number === null) return null;
    const [found] = (await this.#options.git('listVersions', { app: id, limit: 1, before: number + 1 })).versions;
    return found?.number === number ? found : null;
  }

  /** The commit that was live last, if `main` still stands for it; otherwise null. */
  async #asLeft(): Promise<string | null> {
    const noted = (await this.#noted())?.trim() ?? '';
    return isObjectId(noted) && (await isOpenAt(this.#options.paths.repository, noted)) ? noted : null;
  }

  #noted(): Promise<string | null> {
    return readFile(this.#options.paths.activeMain, 'utf8').catch(() => null);
  }

  async #writeActiveMain(): Promise<void> {
    if (this.#main === null) return;
    const { activeMain } = this.#options.paths;
    await clearPlace(activeMain);
    const text = `${this.#main}\n`;
    // A start mostly finds what it would write, and the disk may be full.
    if ((await this.#noted()) !== text) await writeFileAtomic(activeMain, text);
  }

  #signed(): { author: GitAuthor; at: number } {
    return { author: this.#options.author, at: this.#options.now() };
  }
}

/** Has the loose objects of the repository packed in the background, one small job after the other. */
class Packer {
  readonly #options: GitStoreOptions;
  #changes = 0;
  #running: Promise<void> | null = null;
  #closed = false;

  constructor(options: GitStoreOptions) {
    this.#options = options;
  }

  /** The repository has more objects than before: every so often it looks. */
  changed(): void {
    this.#changes++;
    if (this.#changes >= LIMITS.gitPackEvery) this.look();
  }

  /** Packs what there is to pack, unless that is under way. */
  look(): void {
    if (this.#running !== null || this.#closed) return;
    this.#changes = 0;
    this.#running = this.#pack().finally(() => {
      this.#running = null;
    });
  }

  /** Resolves when the current job has ended; no other follows. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#running;
  }

  /** Other jobs that came meanwhile run between two of these. */
  async #pack(): Promise<void> {
    const { git, paths, log } = this.#options;
    try {
      // Mostly not, and packing starts a process.
      if (!isPackable(paths.repository, PACK_LIMITS)) return;
      while (!this.#closed) {
        const { packed, joined } = await git('packLoose', {});
        if (packed === 0 && joined === 0) return;
      }
    } catch (error) {
      // A stop takes the job away: the next start looks again.
      if (this.#closed) return;
      log.warn({ err: error }, 'The objects of the git repository could not be packed; that is tried again.');
    }
  }
}

/** The tag's data of a version on disk. */
function tagOf(versionId: string, version: VersionSummary | null): GitTag {
  if (version === null) return { name: versionId, message: versionId };
  const { name, sha256, uploadedAt, files, bytes, by } = version;
  const at = new Date(uploadedAt).toISOString();
  const info = { sha256, version: version.version, uploadedAt: at, files, bytes, ...(by !== undefined && { by }) };
  return { name: versionId, message: `${name} ${version.version}`, info };
}

/** A tag that was made by hand says only its time. A commit without a message of its own has the tag's. */
function recordOf(
  { tag, at, info, commit, message, commitMessage }: GitVersion,
  active: VersionSummary | null,
): VersionRecord {
  const { uploadedAt, by, ...known } = info ?? { uploadedAt: null, sha256: '', version: '', files: 0, bytes: 0 };
  return {
    versionId: tag,
    active: tag === active?.versionId,
    ...known,
    uploadedAt: uploadedAt === null ? at : Date.parse(uploadedAt),
    ...(info !== null && commitMessage !== message && { message: commitMessage }),
    ...(by !== undefined && { by }),
    commit,
  };
}
