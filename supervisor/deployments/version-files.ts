/** Reads the files of an app's versions, and compares them. A version's files never change. */
import { randomUUID } from 'node:crypto';
import { realpath, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isAutomationFile } from '../../protocol/automations/automation.ts';
import type { GitFile, GitFileDiff } from '../../protocol/wire/git-jobs.ts';
import type { WorkspaceFilesResult } from '../../protocol/wire/jobs.ts';
import type { Registry } from '../../storage/apps/registry.ts';
import { exists } from '../../storage/files/atomic-file.ts';
import type { Layout } from '../../storage/layout.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { type CodeStore, unknownVersion } from './store/code-store.ts';

type VersionFilesOptions = {
  layout: Layout;
  registry: Registry;
  store: CodeStore;
  jobs: Jobs;
};

/** `from` is the version that it is compared with, null where none is live; `files` is what changes from that to the other. */
type VersionDiff = { from: string | null; to: string; files: GitFileDiff[] };

export class VersionFiles {
  readonly #options: VersionFilesOptions;

  constructor(options: VersionFilesOptions) {
    this.#options = options;
  }

  /** Sorted by path. Rejects with `UNKNOWN_APP`, `UNKNOWN_VERSION`, `STORE_DAMAGED`. */
  list(id: string, versionId: string): Promise<GitFile[]> {
    const { jobs } = this.#options;
    return this.#asSent(id, versionId, (folder) => jobs.workspaceFiles({ work: 'list', folder }));
  }

  /** Rejects as `list` does, and with `NOT_FOUND`. */
  read(id: string, versionId: string, path: string): Promise<WorkspaceFilesResult['read']> {
    const { jobs } = this.#options;
    const work = (folder: string) => jobs.workspaceFiles({ work: 'read', folder, path });
    return isAutomationFile(path) ? this.#asSent(id, versionId, work) : this.#within(id, versionId, work);
  }

  /** Has `send` send a gzipped tar archive of all files, which is gone when it resolves. Rejects as `list` does. */
  async archive(id: string, versionId: string, send: (path: string) => Promise<void>): Promise<void> {
    const { layout, jobs } = this.#options;
    const to = join(layout.tmpDir, `archive-${randomUUID()}.tgz`);
    try {
      await this.#asSent(id, versionId, (folder) => jobs.workspaceFiles({ work: 'archive', folder, to }));
      await send(to);
    } finally {
      await rm(to, { force: true });
    }
  }

  /** The changes from the version `from`, by default from the one that is live: then it is what becoming live changes. Rejects as `list` does. */
  async diff(id: string, versionId: string, from?: string): Promise<VersionDiff> {
    const { layout, registry, jobs } = this.#options;
    const compare = (before: string | null) =>
      this.#within(id, versionId, (folder) => jobs.workspaceFiles({ work: 'diff', folder, before, app: id }));
    if (from !== undefined) return { from, to: versionId, files: await this.#within(id, from, compare) };
    const { active } = await registry.state(id);
    const before = active === null ? null : await realpath(layout.app(id).version(active.versionId).code);
    return { from: active?.versionId ?? null, to: versionId, files: await compare(before) };
  }

  /** With the automations as their author wrote them, which the git store has beside those with switches and addresses in them. */
  async #asSent<T>(id: string, versionId: string, work: (folder: string) => Promise<T>): Promise<T> {
    const { layout, store } = this.#options;
    const isRewritten = store.keepsDiscarded && (await exists(layout.app(id).version(versionId).automationsDir));
    return this.#within(id, versionId, work, isRewritten);
  }

  async #within<T>(id: string, versionId: string, work: (folder: string) => Promise<T>, anew = false): Promise<T> {
    const { layout, registry, store } = this.#options;
    await registry.state(id);
    if ((await store.find(id, versionId)) === null) throw unknownVersion(id, versionId);
    const { code } = layout.app(id).version(versionId);
    // On the git store it is a link, which jobs do not follow.
    if (!anew && (await exists(code))) return await work(await realpath(code));
    const staged = join(layout.tmpDir, `version-${randomUUID()}`);
    try {
      await store.checkOut(id, versionId, staged);
      return await work(staged);
    } finally {
      await rm(staged, { recursive: true, force: true });
    }
  }
}
