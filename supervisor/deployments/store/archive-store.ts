/** The tarball backend: each version is a folder of its own, and nothing is kept beside it (decisions, section 2). */
import type { VersionRecord } from '../../../protocol/answers.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { isArchiveVersion } from '../../../protocol/ids.ts';
import type { VersionSummary } from '../../../protocol/manifest.ts';
import type { Layout } from '../../../storage/layout.ts';
import { installVersion, listVersions, readVersion, removeVersion } from '../../../storage/versions.ts';
import { type VersionPage, versionRecord } from '../app-record.ts';
import type { CodeStore, Staged, StageRequest } from './code-store.ts';
import { type StageJobs, stageVersion } from './staging.ts';

export class ArchiveStore implements CodeStore {
  readonly backend = 'tarball';
  readonly keepsDiscarded = false;
  readonly #layout: Layout;
  readonly #jobs: StageJobs;

  constructor({ layout, jobs }: { layout: Layout; jobs: StageJobs }) {
    this.#layout = layout;
    this.#jobs = jobs;
  }

  async open(): Promise<string[]> {
    return [];
  }

  stage(id: string, request: StageRequest): Promise<Staged> {
    return stageVersion(this.#jobs, id, this.#layout.app(id), request, null);
  }

  async install(id: string, { version, staged }: Staged): Promise<void> {
    if (staged !== null) await installVersion(this.#layout.app(id), version.versionId, staged);
  }

  // The pointer says all there is to say of a change.
  async recover(): Promise<void> {}
  async begin(): Promise<void> {}
  async finish(): Promise<void> {}
  async tidy(): Promise<void> {}
  async close(): Promise<void> {}
  async abandon(): Promise<void> {}

  async find(id: string, versionId: string): Promise<VersionRecord | null> {
    const version = await readVersion(this.#layout.app(id), versionId);
    return version === null ? null : versionRecord(version, null);
  }

  async list(id: string, active: VersionSummary | null, { limit, before }: VersionPage): Promise<VersionRecord[]> {
    const all = (await listVersions(this.#layout.app(id))).map((summary) => versionRecord(summary, active));
    if (before !== undefined && !isArchiveVersion(before))
      throw new SvcError('BAD_REQUEST', `"before" must be a version of "${id}", as the list has them.`, {
        path: 'before',
      });
    // An id begins with the time of its upload: the page goes on where one ended that is pruned by now.
    const older = before === undefined ? all : all.filter(({ versionId }) => versionId < before);
    return older.slice(0, limit);
  }

  discard(id: string, versionId: string): Promise<void> {
    return removeVersion(this.#layout.app(id), versionId, this.#layout.tmpDir);
  }

  delete(id: string, versionId: string): Promise<void> {
    return this.discard(id, versionId);
  }
}
