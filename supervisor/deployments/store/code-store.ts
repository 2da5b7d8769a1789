/**
 * Stores the code of apps: defines the interface, and the tarball backend with a folder for each version (specification,
 * "Stores of code"). `GitStore` is the other backend; a publication does what both have in common.
 */
import type { VersionRecord } from '../../../protocol/answer-types.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { isArchiveVersion } from '../../../protocol/ids.ts';
import type { VersionNote, VersionSummary } from '../../../protocol/manifest.ts';
import type { CommitOrder } from '../../../protocol/wire/jobs.ts';
import type { Intent } from '../../../storage/apps/journal.ts';
import { installVersion, listVersions, readVersion, removeVersion } from '../../../storage/apps/versions.ts';
import type { Layout, VersionPaths } from '../../../storage/layout.ts';

/** Which versions to list: at most `limit`, those before the version `before`. */
export type VersionPage = { limit?: number; before?: string };

/** The caller makes one change at a time to an app. */
export type CodeStore = {
  readonly backend: 'tarball' | 'git';
  /** Whether a version that was discarded can be fetched again. */
  readonly keepsDiscarded: boolean;
  /** Runs before anything is served. */
  open(): Promise<void>;
  /** Once these have recovered: removes the code that a crash left and no version uses. */
  tidy(): Promise<void>;
  /** Resolves when the work in the background has ended. */
  close(): Promise<void>;
  /** In a cluster: resolves when what other nodes committed is here, before files are merged. Rejects with `STORAGE_UNAVAILABLE`. */
  refresh(): Promise<void>;
  /** In a cluster: resolves when other nodes can have the commit, before anything names it. Rejects with `STORAGE_UNAVAILABLE`. */
  share(id: string, commit: string): Promise<void>;
  /** How the files of a version are committed; null when they are not. */
  commitOrder(message: string | null): CommitOrder | null;
  /** The commit that says of a stored version that it is live; null where none has to. */
  commitActivation(id: string, versionId: string): Promise<string | null>;
  /** Puts a version's files into place, atomically for a crash. */
  install(id: string, versionId: string, staged: VersionPaths, commit: string | null): Promise<void>;
  /** Moves the refs to what was intended, and has happened. Done twice, the second time changes nothing. */
  settle(id: string, intent: Intent): Promise<void>;
  /** The commit of a live version that has no tag, which was being published; null for any other. */
  untagged(id: string, versionId: string): Promise<string | null>;
  /** A version that can be activated; null when there is none of this id. */
  find(id: string, versionId: string): Promise<VersionRecord | null>;
  /** Puts the files of a version that is not on the disk into a new folder. Rejects with `STORE_DAMAGED`. */
  checkOut(id: string, versionId: string, to: string): Promise<void>;
  /** Newest first. */
  list(id: string, active: VersionSummary | null, page: VersionPage): Promise<VersionRecord[]>;
  /** Takes a version off the disk; from the first step on all of it is gone. */
  discard(id: string, versionId: string): Promise<void>;
  /** Takes a version away for good. */
  delete(id: string, versionId: string): Promise<void>;
  /** The numbers that only the store knows its versions by: none on the tarball backend. */
  numbers(id: string): Promise<number[]>;
  /**
   * Restores the versions of a removed app, whose files are back in place. Rejects with `STORE_DAMAGED` without the live one.
   */
  revive(id: string, numbers: number[], activeVersion: string | null): Promise<void>;
};

export class ArchiveStore implements CodeStore {
  readonly backend = 'tarball';
  readonly keepsDiscarded = false;
  readonly #layout: Layout;

  constructor(layout: Layout) {
    this.#layout = layout;
  }

  commitOrder(): null {
    return null;
  }

  // The app's pointer says all there is to say about what is live.
  async open(): Promise<void> {}
  async tidy(): Promise<void> {}
  async close(): Promise<void> {}
  async refresh(): Promise<void> {}
  async share(): Promise<void> {}
  async settle(): Promise<void> {}
  async revive(): Promise<void> {}

  async commitActivation(): Promise<null> {
    return null;
  }

  async untagged(): Promise<null> {
    return null;
  }

  async numbers(): Promise<number[]> {
    return [];
  }

  /** A version that is not on the disk has no other copy. */
  checkOut(id: string, versionId: string): Promise<never> {
    return Promise.reject(unknownVersion(id, versionId));
  }

  install(id: string, versionId: string, staged: VersionPaths): Promise<void> {
    return installVersion(this.#layout.app(id), versionId, staged);
  }

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
    // An id begins with the time of its upload, so a page can go on from a version that was pruned meanwhile.
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

function versionRecord(summary: VersionSummary, active: VersionSummary | null): VersionRecord {
  const { versionId, sha256, version, uploadedAt, files, bytes } = summary;
  const record = { versionId, active: versionId === active?.versionId, sha256, version, uploadedAt, files, bytes };
  return { ...record, ...noteOf(summary) };
}

/** Only what is known. */
export function noteOf({ message, by }: { [K in keyof VersionNote]: VersionNote[K] | null | undefined }): VersionNote {
  return { ...(typeof message === 'string' && { message }), ...(typeof by === 'string' && { by }) };
}

export function unknownVersion(id: string, versionId: string): SvcError {
  return new SvcError('UNKNOWN_VERSION', `The app "${id}" has no version "${versionId.slice(0, 80)}".`);
}
