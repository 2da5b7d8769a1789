/** Defines what a change of an app works with, and what the steps of several changes share. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { Registry } from '../../storage/apps/registry.ts';
import { pruneWebhookKeys } from '../../storage/automations/automation-files.ts';
import type { Layout } from '../../storage/layout.ts';
import type { Databases } from '../databases.ts';
import type { Apps } from '../dispatch/apps.ts';
import type { Jobs } from '../jobs/jobs.ts';
import type { CodeStore } from './store/code-store.ts';
import type { WebhookClaims } from './webhook-claims.ts';

export type ChangeOptions = {
  layout: Layout;
  registry: Registry;
  store: CodeStore;
  jobs: Jobs;
  databases: Databases;
  apps: Apps;
  claims: WebhookClaims;
  /** In a cluster: resolves when another node would find the files of the app. Rejects with `STORAGE_UNAVAILABLE`. */
  share(id: string): Promise<void>;
  /** For a publication from a workspace, which nobody edits meanwhile. */
  follow: FollowWorkspace;
  /** Versions kept on disk for each app; the active one always is. */
  versionRetention: number;
  log: Logger;
  now(): number;
};

/** The commit that may become live, the fingerprint of the files that a workspace sent, and whether the commit has the very same. */
export type PublishedFiles = { commit: string; files: string; same?: boolean };

/** The copy of an app that a workspace has, as its publication uses it. */
export type WorkspaceCopy = {
  id: string;
  folder: string;
  /** The commit that the files were taken from; null when the app was not on `main` then. */
  base: string | null;
};

/**
 * Gives a workspace the published files of an app, and their commit as the base of what is edited next. False: it is worth another try.
 * Never rejects.
 */
export type FollowWorkspace = (workspace: string, app: string, published: PublishedFiles) => Promise<boolean>;

/** Does what follows a change, which a failure cannot undo. The failure is logged, and answered with false. */
export async function tryAfterChange(
  { log }: ChangeOptions,
  app: string,
  message: string,
  work: () => Promise<unknown>,
): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    log.error({ app, err: error }, message);
    return false;
  }
}

/** Stops the app. Once this resolves, no call of it runs, and no process has its files open. */
export async function releaseApp(
  { apps, databases }: ChangeOptions,
  id: string,
  chats: { keepsChats?: boolean } = {},
): Promise<void> {
  await apps.stop(id, chats);
  await databases.close(id);
}

/** The same, for an app whose folder is about to be moved to the trash as `entry`, or removed for good. */
export async function takeAway({ apps, databases }: ChangeOptions, id: string, entry: string | null): Promise<void> {
  await apps.stop(id);
  await databases.detach(id, entry);
}

export async function pruneKeys(options: ChangeOptions, id: string): Promise<void> {
  await tryAfterChange(options, id, 'Old keys of webhooks could not be removed.', () =>
    pruneWebhookKeys(options.layout.app(id)),
  );
}

export function stagingFolder({ tmpDir }: Layout): string {
  return join(tmpDir, `publication-${randomUUID()}`);
}
