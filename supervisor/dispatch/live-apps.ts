/** Puts versions of apps at work and takes apps away, in everything that knows of a live app, in the right order. */
import type { VersionSummary } from '../../protocol/manifest.ts';
import type { AppLogs } from '../../storage/app-log.ts';
import type { Automations } from '../automations/automations.ts';
import type { ProgramTokens } from '../http/access/program-tokens.ts';
import type { Pages } from '../pages/pages.ts';
import type { Tree } from '../tree/tree.ts';
import type { Apps } from './apps.ts';
import type { ChangeStreams } from './changes.ts';
import type { Idempotency } from './idempotency.ts';

export type LiveAppsOptions = {
  apps: Apps;
  /** Made later, for they deploy apps themselves. */
  automations: () => Automations;
  tree: Tree;
  changes: ChangeStreams;
  pages: Pages;
  logs: AppLogs;
  programTokens: ProgramTokens;
  idempotency: Idempotency;
};

export class LiveApps {
  readonly #options: LiveAppsOptions;

  constructor(options: LiveAppsOptions) {
    this.#options = options;
  }

  /** Makes a version the one that serves, or none. Resolves when calls go to it. */
  async swap(app: string, active: VersionSummary | null): Promise<void> {
    const { apps, automations, changes } = this.#options;
    // First what a run may do, then its code: no run has the code of this version with the permissions of the one before.
    await automations().catalog.load(app);
    await apps.swap(app, active);
    changes.reload(app);
  }

  versionsAtWork(app: string): ReadonlySet<string> {
    return this.#options.tree.versionsAtWork(app);
  }

  /** Ends everything that an app does: its runs first, then its calls, then what follows it. */
  async stop(app: string): Promise<void> {
    const { apps, automations, changes, pages, logs } = this.#options;
    await automations().removed(app);
    await apps.stop(app);
    changes.closeApp(app);
    pages.forget(app);
    await logs.close(app);
  }

  /** Removes what is remembered of an app that was removed for good. */
  async forget(app: string): Promise<void> {
    const { automations, programTokens, idempotency } = this.#options;
    await programTokens.forgetApp(app);
    await idempotency.forget(app);
    await automations().runs.forgetApp(app);
  }
}
