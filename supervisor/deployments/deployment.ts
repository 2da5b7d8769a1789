/** What deployments work with, what they are asked, and what they answer (decisions, sections 2 and 7). */
import type { Logger } from 'pino';
import type { MintedWebhook } from '../../protocol/automation.ts';
import type { VersionSummary } from '../../protocol/manifest.ts';
import type { Layout } from '../../storage/layout.ts';
import type { Registry } from '../../storage/registry.ts';
import type { ActivationDatabases } from './activation.ts';
import type { CodeStore } from './store/code-store.ts';

export type DeploymentsOptions = {
  layout: Layout;
  registry: Registry;
  store: CodeStore;
  databases: ActivationDatabases & {
    /** Lets go of the app's file. */
    close(app: string): Promise<void>;
  };
  actors: {
    /** New calls go to this version; calls under way end on the old one. */
    swap(app: string, active: VersionSummary): Promise<void> | void;
    /** Versions in which calls or fires run or are about to. */
    versionsAtWork(app: string): ReadonlySet<string>;
    /** No call of the app runs any more once it resolves. */
    stop(app: string): Promise<void>;
    /** What the gateway keeps of an app beside its folder goes: its runs, its name in tokens for programs, and what was answered under idempotency keys. */
    forget(app: string): Promise<void>;
  };
  /** Versions kept on disk for each app; the active one always is. */
  versionRetention: number;
  log: Pick<Logger, 'info' | 'error'>;
  now?(): number;
};

/** `origin` is where the gateway is reached, for the addresses of webhooks, such as `http://127.0.0.1:8787`. */
export type UploadOptions = {
  activate?: boolean;
  origin?: string;
  /** Called when all of the archive is there; what it throws refuses the upload. */
  received?(): void;
};

export type PublishOptions = {
  /** The app's files as a session has them; only read. */
  folder: string;
  /** The commit that they were taken from; null when the app was not on main then. */
  base: string | null;
  /** What the commit says; by default the version's name. */
  message?: string;
  origin?: string;
  /** Told the version's commit before anything of it can become live; the publication waits. */
  committed?(commit: string): Promise<void>;
};

export type PublishResult = {
  id: string;
  /** n of the tag `<id>/v<n>`. */
  version: number;
  tag: string;
  /** The version's commit, which holds what was merged: the new base of the session's files. */
  sha: string;
  migrationsApplied: number[];
  /** The manifest's list of hosts, where it has one. */
  network?: string[];
  /** The apps whose tools its pages may call, where it names some. */
  uses?: string[];
  webhooks: MintedWebhook[];
};

export type ActivationResult = {
  id: string;
  activeVersion: string;
  previousVersion: string | null;
  /** Numbers of the migrations that the data has had and this version does not know. */
  migrationsAhead: number[];
  /** Minted when a version was brought back whose webhook the live one does not have. */
  webhooks: MintedWebhook[];
};
