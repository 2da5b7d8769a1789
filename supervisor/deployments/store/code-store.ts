/**
 * Where the code of apps is kept. Deployments do what is the same everywhere (checks, migrations, the pointer, the swap of what
 * runs); a backend does the rest. Two implement this: `ArchiveStore` and `GitStore`.
 */
import type { VersionRecord } from '../../../protocol/answers.ts';
import type { MintedSecret } from '../../../protocol/automation.ts';
import type { VersionSource } from '../../../protocol/jobs.ts';
import type { VersionSummary } from '../../../protocol/manifest.ts';
import type { VersionPaths } from '../../../storage/layout.ts';
import type { AppState } from '../../../storage/registry.ts';
import type { VersionPage } from '../app-record.ts';

/** What is to be stored: an existing folder to stage it in, and the versions that are on disk, newest first. */
export type StageRequest = {
  source: VersionSource;
  staging: string;
  /** Milliseconds since the epoch. */
  uploadedAt: number;
  stored: VersionSummary[];
  active: VersionSummary | null;
  /** What the commit says. */
  message?: string | undefined;
};

/**
 * `staged` is null when the content is that of a version on disk, which then stands for it. `commit` holds the content on the
 * git store, and is null where nothing was committed.
 */
export type Staged = {
  version: VersionSummary;
  staged: VersionPaths | null;
  minted: MintedSecret[];
  commit: string | null;
};

/**
 * What is about to happen to an app: a staged version becomes active, or is only stored; an older one becomes active; the app
 * goes.
 */
export type Change =
  | { kind: 'publish' | 'store'; staged: Staged }
  | { kind: 'activate'; versionId: string }
  | { kind: 'remove' };

/** All that is asked about one app is asked by one deployment at a time. */
export type CodeStore = {
  readonly backend: 'tarball' | 'git';
  /** Before anything is served; answers the apps of which a change was cut off. */
  open(): Promise<string[]>;
  /** When these were recovered: removes the code that a crash left and that belongs to no version. */
  tidy(): Promise<void>;
  /** Ends what is done in the background; resolves when it has ended. */
  close(): Promise<void>;
  /**
   * Finishes a change that was cut off when `now`, the app after its repair, is what it led to; else it never happened. Null:
   * the app is not registered.
   */
  recover(id: string, now: AppState | null): Promise<void>;
  /** Has a job thread check and stage a version. Rejects with the errors of archives, manifests, handlers and merges. */
  stage(id: string, request: StageRequest): Promise<Staged>;
  /** Says durably what is about to happen. Nothing was changed when it rejects. */
  begin(id: string, change: Change): Promise<void>;
  /** Puts a staged version into place; all or nothing after a crash. */
  install(id: string, staged: Staged): Promise<void>;
  /** What was begun has happened: makes it final. Until it resolves, `recover` tries again. */
  finish(id: string): Promise<void>;
  /** What was begun did not happen. */
  abandon(id: string): Promise<void>;
  /** A version that can be activated; null when there is none of this id. */
  find(id: string, versionId: string): Promise<VersionRecord | null>;
  /** Newest first. */
  list(id: string, active: VersionSummary | null, page: VersionPage): Promise<VersionRecord[]>;
  /** Takes a version off the disk; it is gone as a whole from the first step on. */
  discard(id: string, versionId: string): Promise<void>;
  /** Takes a version away for good. */
  delete(id: string, versionId: string): Promise<void>;
  /** Whether a version that was discarded is still there. */
  readonly keepsDiscarded: boolean;
};
