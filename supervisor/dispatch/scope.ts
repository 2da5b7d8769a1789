/** Names what calls, streams, files, secrets, settings, chats and rights are about: a live app, or a workspace's draft of one. */
import type { SvcError } from '../../protocol/errors.ts';
import { appOfKey, workspaceOfKey, workspacePart } from '../../protocol/ids.ts';
import type { Manifest, VersionSummary } from '../../protocol/manifest.ts';
import type { Actor } from '../tree/actor/actor.ts';
import type { Tree } from '../tree/tree.ts';

/**
 * A live app or a draft, whether there is one or not: each method rejects with `UNKNOWN_APP` or `UNKNOWN_SESSION` where there is
 * none. Nothing that is kept of one is reached from the other.
 */
export interface Scope {
  /** The id, as callers and the app's own code name it. */
  readonly app: string;
  /** The workspace of a draft; undefined for a live app. */
  readonly workspace: string | undefined;
  /** What rights are asked for, and data, files, secrets, settings, log and events are kept under: see `scopeKey`. */
  readonly key: string;
  /** Resolves when there is one, with an active version or without. */
  exists(): Promise<void>;
  /**
   * What can be called; at once for a live app that was used before. Throws or rejects with what keeps it from being called, such
   * as `NO_ACTIVE_VERSION`, `INVALID_MANIFEST`, `STORE_DAMAGED`, or a draft's fault.
   */
  get(): App | Promise<App>;
  /** What says which tools there are, though a fault may keep them from being called. A live app rejects as `get` does. */
  code(): Promise<Code>;
  /** Names what its pages show now; null where no version is active. */
  pageVersion(): Promise<string | null>;
  /** A page follows its events now: tells it of the fault that no page was there for. */
  greet(): void;
  /** The apps whose tools its pages may call, as its manifest says; none for a draft. */
  uses(): Promise<readonly string[]>;
}

/**
 * The version, its manifest, and the fault for which it cannot be called. A draft that is being edited is broken between two
 * files: its version stays the one before; null if that was not seen since the gateway started.
 */
export type Code = { version: VersionSummary | null; manifest: Manifest | null; fault: SvcError | null };

/** A live app or a draft that can be called, with the version that serves, whose manifest is sound. */
export interface App {
  readonly id: string;
  readonly key: string;
  readonly active: VersionSummary;
  /** The version whose tools are callable now: during a swap, still the old one until the new one is ready. */
  serving(): VersionSummary;
  /** Throws `UNKNOWN_APP` or `UNKNOWN_SESSION` if it was removed since it was looked up, `OVERLOADED` while the gateway stops. */
  actor(): Actor;
}

/** `newest` gives the version of a new actor; it throws where there is no such app or draft any more. */
export function callableApp(
  tree: Tree,
  { id, key, active }: Pick<App, 'id' | 'key' | 'active'>,
  newest: () => VersionSummary,
): App {
  return {
    id,
    key,
    active,
    serving: () => tree.existing(key)?.summary ?? active,
    actor: () => tree.existing(key) ?? tree.actor(key, newest()),
  };
}

/** What a node gets or gives: apps by their ids, with what drafts have of their data, and workspaces, in a cluster parts of them. */
export type Moved = { readonly apps: readonly string[]; readonly workspaces: readonly string[] };

/** Whether the app or draft of this key is one of them. */
export function isMoved({ apps, workspaces }: Moved, key: string): boolean {
  const [app, workspace] = [appOfKey(key), workspaceOfKey(key)];
  const has = (id: string): boolean => workspaces.includes(id) || workspaces.includes(workspacePart(id, app));
  return apps.includes(app) || (workspace !== undefined && has(workspace));
}

/** The live apps, or the drafts of one workspace, by the ids of their apps. */
export interface Scopes {
  of(id: string): Scope;
  ids(): Promise<readonly string[]>;
}

/** The drafts of a workspace, or the live apps without one. Throws `NO_GIT_STORE`. */
export type ScopesOf = (workspace: string | null | undefined) => Scopes;
