/**
 * The git store: a version is a tag of one bare repository, and its code is checked out once to be served (decisions, section
 * 7). What serves is said by the app's pointer; refs follow it, and a crash between the two is put right by `recover`.
 */

import { readFile } from 'node:fs/promises';
import type { Logger } from 'pino';
import type { VersionRecord } from '../../../protocol/answers.ts';
import { SvcError } from '../../../protocol/errors.ts';
import type { GitAuthor, GitTag, GitVersion } from '../../../protocol/git-jobs.ts';
import { versionNumber, versionTag } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { VersionSummary } from '../../../protocol/manifest.ts';
import { clearPlace, exists, isThere, mkdirDurable, writeFileAtomic } from '../../../storage/atomic-file.ts';
import {
  type ChangeUnderWay,
  listChanges,
  readChange,
  removeChange,
  writeChange,
} from '../../../storage/changes-under-way.ts';
import { crashPoint } from '../../../storage/crash-point.ts';
import type { CodeStorePaths, Layout } from '../../../storage/layout.ts';
import {
  commitOf,
  installLinked,
  removeLinked,
  removeMaterialized,
  sweepMaterialized,
} from '../../../storage/materialized.ts';
import type { AppState } from '../../../storage/registry.ts';
import { sweepTemporary } from '../../../storage/trash.ts';
import { readVersion } from '../../../storage/versions.ts';
import { SerialByKey } from '../../serial.ts';
import type { VersionPage } from '../app-record.ts';
import type { Change, CodeStore, Staged, StageRequest } from './code-store.ts';
import type { GitRepository } from './git-jobs.ts';
import { Packer } from './packer.ts';
import { type StageJobs, stageVersion } from './staging.ts';

export type GitStoreOptions = {
  layout: Layout;
  paths: CodeStorePaths;
  jobs: StageJobs;
  git: GitRepository;
  author: GitAuthor;
  log: Pick<Logger, 'error' | 'warn'>;
  now?(): number;
};

export class GitStore implements CodeStore {
  readonly backend = 'git';
  readonly keepsDiscarded = true;
  readonly #options: Required<GitStoreOptions>;
  /** Refs are moved one after the other. */
  readonly #refs = new SerialByKey();
  readonly #packer: Packer;

  constructor(options: GitStoreOptions) {
    this.#options = { now: Date.now, ...options };
    this.#packer = new Packer(options);
  }

  async open(): Promise<string[]> {
    const { paths, git, log } = this.#options;
    for (const dir of [paths.mainDir, paths.sessionsDir]) await mkdirDurable(dir);
    await sweepTemporary(paths.root);
    try {
      // A new one in the place of one that was lost would give the numbers of versions a second time.
      const isLost = (await isThere(paths.activeMain)) && !(await exists(paths.repository));
      if (isLost) throw new SvcError('STORE_DAMAGED', `The git repository ${paths.repository} is gone.`);
      const { main } = await git.openRepository(this.#signed());
      await this.#writeActiveMain(main);
    } catch (error) {
      // What is live is served from its own files.
      log.error({ err: error }, 'The git repository cannot be used; what is live is served all the same.');
    }
    return listChanges(paths);
  }

  async tidy(): Promise<void> {
    await sweepMaterialized(this.#options.layout, this.#options.paths);
    this.#packer.look();
  }

  close(): Promise<void> {
    return this.#packer.close();
  }

  async recover(id: string, now: AppState | null): Promise<void> {
    const { paths, log } = this.#options;
    const change = await readChange(paths, id);
    if (change === null) return;
    if (change === 'damaged') {
      log.error({ app: id }, 'The note of a change of an app that was cut off is damaged; what is live counts.');
      await this.#settleLive(id, now);
      await this.abandon(id);
    } else if (await this.#happened(id, change, now)) await this.finish(id);
    else await this.abandon(id);
    crashPoint('store.recovered');
  }

  async stage(id: string, request: StageRequest): Promise<Staged> {
    const { layout, jobs, git, author, paths } = this.#options;
    const { repository } = paths;
    const versionId =
      'tag' in request.source ? request.source.tag : versionTag(id, (await git.nextNumber({ app: id })).number);
    const commit = { repository, author, versionId, message: request.message ?? null };
    return stageVersion(jobs, id, layout.app(id), request, commit);
  }

  async begin(id: string, change: Change): Promise<void> {
    const { paths, git } = this.#options;
    if (change.kind === 'remove') return writeChange(paths, id, change);
    if (change.kind !== 'activate') {
      const { version, commit } = change.staged;
      if (commit === null) throw new Error('A version that is to be published was not committed.');
      return writeChange(paths, id, { kind: change.kind, versionId: version.versionId, commit });
    }
    const { versionId } = change;
    const message = `Activate ${versionId}\n`;
    const job = { app: id, from: versionId, message, ...this.#signed() };
    const { commit, unchanged } = await git.commitTree(job);
    crashPoint('store.tree-committed');
    if (!unchanged) await writeChange(paths, id, { kind: 'activate', versionId, commit });
  }

  async install(id: string, { version, staged, commit }: Staged): Promise<void> {
    if (staged === null) return;
    const { layout, paths } = this.#options;
    const app = layout.app(id);
    const sha = commit ?? (await this.#tag(id, version.versionId))?.commit;
    if (sha === undefined) throw new Error(`There is no tag ${version.versionId}.`);
    await installLinked(app, version.versionId, staged, paths.materialized(sha, id));
  }

  finish(id: string): Promise<void> {
    return this.#refs.run('refs', async () => {
      const { paths } = this.#options;
      const change = await readChange(paths, id);
      if (change === null) return;
      if (change === 'damaged') throw new Error(`The note of the change of "${id}" was damaged meanwhile.`);
      if (change.kind === 'remove') await this.#finishRemoval(id);
      else await this.#settle(id, change);
      crashPoint('store.settled');
      await removeChange(paths, id);
      crashPoint('store.finished');
      this.#packer.changed();
    });
  }

  abandon(id: string): Promise<void> {
    return removeChange(this.#options.paths, id);
  }

  async find(id: string, versionId: string): Promise<VersionRecord | null> {
    const tag = await this.#tag(id, versionId);
    return tag === null ? null : recordOf(tag, null);
  }

  async list(id: string, active: VersionSummary | null, { limit, before }: VersionPage): Promise<VersionRecord[]> {
    const { git } = this.#options;
    const number = before === undefined ? null : versionNumber(id, before);
    if (before !== undefined && number === null)
      throw new SvcError('BAD_REQUEST', `"before" must be a version of "${id}", such as ${versionTag(id, 3)}.`, {
        path: 'before',
      });
    const { versions } = await git.listVersions({
      app: id,
      limit: limit ?? LIMITS.versionsListed,
      before: number,
    });
    return versions.map((version) => recordOf(version, active));
  }

  discard(id: string, versionId: string): Promise<void> {
    const { layout, paths } = this.#options;
    return removeLinked(layout.app(id), versionId, { store: paths, tmpDir: layout.tmpDir });
  }

  async delete(id: string, versionId: string): Promise<void> {
    // The tag last: until it is gone the version can be brought back.
    await this.discard(id, versionId);
    const { git } = this.#options;
    await this.#refs.run('refs', async () => {
      await git.retire({ app: id, tag: versionId });
    });
    crashPoint('store.tag-retired');
  }

  async #happened(id: string, change: ChangeUnderWay, now: AppState | null): Promise<boolean> {
    if (change.kind === 'remove' || now === null) return change.kind === 'remove' && now === null;
    if (change.kind === 'store') return (await readVersion(this.#options.layout.app(id), change.versionId)) !== null;
    return now.active?.versionId === change.versionId;
  }

  /** A live version without its tag was being published: where its code lies says the commit. Else its number would be given again. */
  async #settleLive(id: string, now: AppState | null): Promise<void> {
    const active = now?.active ?? null;
    if (active === null || (await this.#tag(id, active.versionId)) !== null) return;
    const { layout, paths } = this.#options;
    const commit = await commitOf(layout.app(id), active.versionId, paths);
    if (commit === null) return;
    await this.#refs.run('refs', () => this.#settle(id, { kind: 'publish', versionId: active.versionId, commit }));
  }

  async #settle(id: string, { kind, versionId, commit }: Exclude<ChangeUnderWay, { kind: 'remove' }>): Promise<void> {
    const { layout, git } = this.#options;
    const tag = kind === 'activate' ? null : tagOf(versionId, await readVersion(layout.app(id), versionId));
    if (kind === 'store') {
      if (tag !== null) await git.tagOnly({ commit, tag, ...this.#signed() });
      return;
    }
    const { main } = await git.settle({ app: id, commit, tag, ...this.#signed() });
    crashPoint('store.refs-moved');
    await this.#writeActiveMain(main);
  }

  async #finishRemoval(id: string): Promise<void> {
    const { paths, git } = this.#options;
    const message = `Remove ${id}\n`;
    const removal = await git.commitApp({ app: id, folder: null, message, ...this.#signed() });
    if (!removal.unchanged) {
      const { main } = await git.settle({ app: id, commit: removal.commit, tag: null, ...this.#signed() });
      crashPoint('store.removal-committed');
      await this.#writeActiveMain(main);
    }
    await git.retire({ app: id, tag: null });
    crashPoint('store.tags-retired');
    await removeMaterialized(paths, id);
  }

  async #tag(id: string, versionId: string): Promise<GitVersion | null> {
    const number = versionNumber(id, versionId);
    if (number === null) return null;
    const { git } = this.#options;
    const job = { app: id, limit: 1, before: number + 1 };
    const [found] = (await git.listVersions(job)).versions;
    return found?.number === number ? found : null;
  }

  async #writeActiveMain(main: string): Promise<void> {
    const { activeMain } = this.#options.paths;
    await clearPlace(activeMain);
    const text = `${main}\n`;
    // A start says mostly what is said already, and may be one on a full disk.
    if ((await readFile(activeMain, 'utf8').catch(() => null)) !== text) await writeFileAtomic(activeMain, text);
  }

  #signed(): { author: GitAuthor; at: number } {
    return { author: this.#options.author, at: this.#options.now() };
  }
}

/** What the tag says of a version that is on disk. */
function tagOf(versionId: string, version: VersionSummary | null): GitTag {
  if (version === null) return { name: versionId, message: versionId };
  const { name, sha256, uploadedAt, files, bytes } = version;
  const info = { sha256, version: version.version, uploadedAt: new Date(uploadedAt).toISOString(), files, bytes };
  return { name: versionId, message: `${name} ${version.version}`, info };
}

/** A tag that somebody made by hand says nothing but its time. */
function recordOf({ tag, at, info }: GitVersion, active: VersionSummary | null): VersionRecord {
  const known = info ?? { sha256: '', version: '', files: 0, bytes: 0 };
  const uploadedAt = info === null ? at : Date.parse(info.uploadedAt);
  const { sha256, version, files, bytes } = known;
  return { versionId: tag, active: tag === active?.versionId, sha256, version, uploadedAt, files, bytes };
}
