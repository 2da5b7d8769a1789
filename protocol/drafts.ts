/** What the supervisor asks its job threads about drafts, and what they answer (decisions, section 7). */
import type { VersionSummary } from './manifest.ts';

/** A migration of a draft: its file's name in `migrations/`, and sha256 of its bytes in hex. */
export type DraftMigration = { name: string; sha256: string };

/** A worktree as it was at one moment, copied and prepared like a version. */
export type Snapshot = {
  summary: VersionSummary;
  /** In order. */
  migrations: DraftMigration[];
};

/** Copies and prepares the files of an app in a session. */
export type SnapshotJob = {
  app: string;
  session: string;
  /** The app's folder in the session's worktree. Anybody may write to it meanwhile. */
  folder: string;
  /** The draft's own folder, which gets `versions/` and `prepared/`; what is there besides this one and `previous` goes. */
  draft: string;
  /** Milliseconds since the epoch; becomes part of the snapshot's id. */
  at: number;
  previous: Snapshot | null;
};

/** Null when the files are those of `previous`. */
export type SnapshotResult = Snapshot | null;

/** Copies an app's data as it is now to where a draft keeps its own, in place of what is there. Nobody may have that open. */
export type SeedJob = { from: string; to: string };

/** SQLite's `user_version` of the copy; 0 when there was nothing to copy. */
export type SeedResult = { userVersion: number };
