/**
 * Serves apps and workspaces and releases them, while the gateway runs: at its start all that are there, in a cluster those of the
 * buckets that the node gets and gives (specification, "Take-over and release"). A take-over is the recovery after a crash on another
 * machine, so that both are one path.
 */
import type { Logger } from 'pino';
import { movedError, type SvcError } from '../../protocol/errors.ts';
import { appOfKey, isAppId, isChosenId, workspaceOfKey } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { listIntents } from '../../storage/apps/journal.ts';
import type { Registry } from '../../storage/apps/registry.ts';
import { inParallel, namesIn } from '../../storage/files/atomic-file.ts';
import type { Layout } from '../../storage/layout.ts';
import type { Attachments } from '../agents/conversations/attachment-store.ts';
import type { Chat } from '../agents/conversations/chat.ts';
import type { GitStoreServices } from '../authoring/open-authoring.ts';
import type { Automations } from '../automations/automations.ts';
import type { Databases } from '../databases.ts';
import type { Deployments } from '../deployments/deploy.ts';
import type { Apps } from '../dispatch/apps.ts';
import { isMoved, type Moved } from '../dispatch/scope.ts';
import type { Secrets } from '../secrets.ts';

type HostedOptions = {
  layout: Layout;
  registry: Registry;
  secrets: Secrets;
  databases: Databases;
  apps: Apps;
  deployments: Deployments;
  /** Null on the tarball backend. */
  gitStore: GitStoreServices;
  automations: Automations;
  chat: Chat;
  attachments: Attachments;
  log: Pick<Logger, 'warn'>;
};

export class Hosted {
  readonly #options: HostedOptions;
  /** The last step of each app and workspace that is under way. */
  readonly #last = new Map<string, Promise<unknown>>();
  /** What is done in the background for those that are served. */
  #background: Promise<void> = Promise.resolve();
  /** The look at the files of apps that were not needed yet. */
  #look: Promise<void> = Promise.resolve();
  #isStopped = false;

  constructor(options: HostedOptions) {
    this.#options = options;
  }

  /**
   * At the start: serves all that is in the data directory or, where `isEmpty`, nothing of it, and removes what nobody finishes any
   * more. What needs the gateway's processes is repaired once `ready` has resolved. Rejects as that does.
   */
  async open(ready: Promise<unknown>, isEmpty: boolean): Promise<void> {
    const { deployments, gitStore, registry } = this.#options;
    const found = await this.#found();
    if (isEmpty) {
      await registry.leave(found.apps);
      gitStore?.workspaces.refuse(found.workspaces);
    }
    await this.#inTurn(found, () =>
      this.#serve(isEmpty ? { apps: [], workspaces: [] } : found, ready, async () => {
        await deployments.tidy();
        await gitStore?.workspaces.tidy();
      }),
    );
  }

  /**
   * Does for these what a start does, and takes calls for them when it resolves. Their files are in their places as a crash may have
   * left them, and `Registry.learn` was told which of them are registered. When it rejects, they take no calls; it may be called again.
   */
  serve(moved: Moved): Promise<void> {
    return this.#inTurn(moved, () => this.#serve(moved));
  }

  /**
   * Ends all that goes on for these, and forgets them: another node has them when it resolves. Runs and calls under way get `drainMs`
   * each to end; what comes meanwhile is told to come back. Removes nothing of theirs, and where they are lost, because another node may
   * have them already, stores nothing. When it rejects, they take no calls; it may be called again.
   */
  release(moved: Moved, drainMs: number = LIMITS.drainMs, isLost = false): Promise<void> {
    return this.#inTurn(moved, () => this.#release(moved, drainMs, isLost));
  }

  async #serve(moved: Moved, ready?: Promise<unknown>, tidy: () => Promise<void> = async () => {}): Promise<void> {
    const { apps, workspaces } = moved;
    const { registry, secrets, deployments, gitStore, automations } = this.#options;
    registry.refuse(apps);
    await secrets.serve(apps);
    await ready;
    await deployments.serve(new Set(apps));
    await gitStore?.workspaces.arrive(workspaces);
    await gitStore?.drafts.arrive(moved);
    await tidy();
    registry.serve(apps);
    gitStore?.workspaces.serve(workspaces);
    await automations.serve(apps);
    const registered = apps.filter((app) => registry.has(app));
    this.#background = this.#background.then(() => this.#serveChats(registered));
    this.#look = this.#look.then(() => this.#lookAt(registered));
  }

  /** Looks at no further app. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#look;
  }

  /**
   * Repairs what a crash left of apps that nobody has called yet, one after the other: damage is told when the gateway starts, and not
   * when somebody needs the app. Whoever needs it first does the same (`Registry.state`).
   */
  async #lookAt(apps: readonly string[]): Promise<void> {
    for (const app of apps) {
      if (this.#isStopped) return;
      // Given away meanwhile, or not readable: who needs it is told.
      if (this.#options.registry.refusalOf(app) === null) await this.#options.registry.state(app).catch(() => {});
    }
  }

  /** In the background: a start does not wait for it, nor end for a full disk. The tables are made with their first use at the latest. */
  async #serveChats(apps: readonly string[]): Promise<void> {
    const { chat, attachments, log } = this.#options;
    try {
      await chat.serve();
      await attachments.serve(apps);
    } catch (error) {
      log.warn({ err: error }, 'What an earlier gateway left of chats could not be looked at yet.');
    }
  }

  async #release(moved: Moved, drainMs: number, isLost: boolean): Promise<void> {
    const { apps, workspaces } = moved;
    const { registry, secrets, deployments, gitStore, automations, chat, attachments, databases } = this.#options;
    await this.#background;
    // Calls go on meanwhile, also those of runs that are about to end.
    await Promise.all([
      inParallel(apps, apps.length, (app) => automations.release(app, drainMs)),
      chat.release(moved, isLost),
      gitStore?.tests.end((key) => isMoved(moved, key), movedError()),
    ]);
    registry.refuse(apps);
    for (const app of apps) this.#options.apps.refuse(app);
    gitStore?.workspaces.refuse(workspaces);
    for (const app of apps) {
      await deployments.release(app);
      // A version may have become live meanwhile.
      automations.catalog.release(app);
    }
    for (const workspace of workspaces) await gitStore?.workspaces.release(workspace);
    await Promise.all([
      gitStore?.drafts.release(moved, drainMs),
      inParallel(apps, apps.length, (app) => this.#options.apps.release(app, drainMs)),
    ]);
    await inParallel(apps, apps.length, async (app) => {
      await attachments.release(app);
      await secrets.forget(app);
      // The writer has let go of what is lost.
      if (!isLost) await databases.release(app);
    });
    await registry.leave(apps);
  }

  /** Registered or not: a change of any may have been cut off. */
  async #found(): Promise<Moved> {
    const { registry, layout, gitStore } = this.#options;
    const folders = (await namesIn(layout.appsDir)).filter(isAppId);
    const apps = new Set([...registry.registered(), ...(await listIntents(layout)), ...folders]);
    if (gitStore === null) return { apps: [...apps], workspaces: [] };
    const drafts = (await namesIn(layout.drafts(''))).filter(isChosenId);
    return { apps: [...apps], workspaces: [...new Set([...(await gitStore.workspaces.found()), ...drafts])] };
  }

  /** One step at a time for each app and workspace. */
  #inTurn({ apps, workspaces }: Moved, step: () => Promise<void>): Promise<void> {
    const keys = [...apps.map((app) => `app ${app}`), ...workspaces.map((workspace) => `workspace ${workspace}`)];
    const done = Promise.all(keys.map((key) => this.#last.get(key))).then(step);
    const over = done
      .catch(() => {})
      .then(() => {
        for (const key of keys) if (this.#last.get(key) === over) this.#last.delete(key);
      });
    for (const key of keys) this.#last.set(key, over);
    return done;
  }
}

/** Why an app or draft takes no calls here; null where it does, or is none. */
export function refusalIn(registry: Registry, gitStore: GitStoreServices, key: string): SvcError | null {
  const workspace = workspaceOfKey(key);
  return (
    registry.refusalOf(appOfKey(key)) ??
    (workspace === undefined ? null : (gitStore?.workspaces.refusalOf(workspace, appOfKey(key)) ?? null))
  );
}
