/**
 * Rewrites files of live automations, in the app's line of deployments: switches them, mints webhooks (specification,
 * "Automation files").
 */
import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import {
  type AutomationManifest,
  automationFault,
  automationRef,
  invalidAutomation,
  type MintedSecret,
  type NewWebhook,
  newWebhook,
  type PendingWebhook,
  type ProvisionedWebhook,
  pendingWebhook,
  provisionedWebhook,
  signingKeys,
} from '../../protocol/automations/automation.ts';
import { editAutomation, mintWebhook } from '../../protocol/automations/automation-edit.ts';
import { SvcError } from '../../protocol/errors.ts';
import { type Registry, unknownApp } from '../../storage/apps/registry.ts';
import {
  addWebhookKeys,
  pruneWebhookKeys,
  readAutomation,
  writeAutomation,
} from '../../storage/automations/automation-files.ts';
import type { Layout, VersionPaths } from '../../storage/layout.ts';
import type { Deployments } from '../deployments/deploy.ts';
import type { AutomationCatalog, LiveAutomation } from './catalog.ts';

type EnablementOptions = {
  layout: Layout;
  registry: Registry;
  deployments: Deployments;
  catalog: AutomationCatalog;
  log: Pick<Logger, 'error'>;
};

type Stored = { text: string; manifest: AutomationManifest };

export class Enablement {
  readonly #options: EnablementOptions;

  constructor(options: EnablementOptions) {
    this.#options = options;
  }

  /** The whole manifest, from its file. Rejects with `UNKNOWN_APP`, `UNKNOWN_AUTOMATION`, or `INVALID_AUTOMATION` for a damaged one. */
  async manifest(app: string, id: string): Promise<AutomationManifest> {
    return (await this.#read(await this.#live(app), app, id)).manifest;
  }

  /** Durable, and in the catalog, once it resolves. Rejects as `manifest` does. */
  async setEnabled(app: string, id: string, enabled: boolean): Promise<LiveAutomation> {
    await this.#held(app, async (version) => {
      const stored = await this.#read(version, app, id);
      if (stored.manifest.enabled !== enabled)
        await writeAutomation(version, id, editAutomation(stored.text, { enabled }));
    });
    const automation = this.#options.catalog.get(automationRef(app, id));
    if (automation === undefined) throw unknownAutomation(app, id);
    return automation;
  }

  /**
   * Mints what is pending in the live version of an app, or of every app. `origin` is where the gateway is reached. Secrets
   * are shown once, so those that were minted are answered also when a later one fails, which is logged; when none was, it
   * rejects with that failure. Rejects with `UNKNOWN_APP`.
   */
  async provision(app: string | null, origin: string): Promise<NewWebhook[]> {
    const { catalog, registry, log } = this.#options;
    if (app !== null) await registry.state(app);
    const minted: NewWebhook[] = [];
    const failures: unknown[] = [];
    const apps = app === null ? new Set(catalog.list().map((automation) => automation.app)) : [app];
    for (const id of apps) {
      try {
        await this.#mint(id, (secret) => minted.push(newWebhook(id, secret, origin)));
      } catch (error) {
        log.error({ app: id, err: error }, 'The webhooks of an app could not be given addresses.');
        failures.push(error);
      }
    }
    if (minted.length === 0 && failures.length > 0) throw failures[0];
    return minted;
  }

  /** Mints a pending webhook; with `renew` a minted one again. Rejects as `manifest`, and with `BAD_REQUEST` without one. */
  async provisionOne(app: string, id: string, renew: boolean, origin: string): Promise<NewWebhook[]> {
    const minted: NewWebhook[] = [];
    await this.#held(app, async (version) => {
      const stored = await this.#read(version, app, id);
      const pending = pendingWebhook(stored.manifest);
      const webhook = pending ?? provisionedWebhook(stored.manifest);
      if (webhook === undefined) throw noWebhook(app, id);
      if (pending === undefined && !renew) return;
      const secret = await this.#mintOne(version, app, id, stored, webhook);
      minted.push(newWebhook(app, secret, origin));
    });
    return minted;
  }

  async #mint(app: string, tell: (secret: MintedSecret) => void): Promise<void> {
    const pending = () => this.#options.catalog.list(app).filter(({ manifest }) => pendingWebhook(manifest));
    if (pending().length === 0) return;
    await this.#held(app, async (version) => {
      for (const { id } of pending()) {
        const stored = await readAutomation(version, id);
        if (stored === null || 'issues' in stored) continue;
        const webhook = pendingWebhook(stored.manifest);
        if (webhook) tell(await this.#mintOne(version, app, id, stored, webhook));
      }
    });
  }

  /** Gives a webhook a new address and secret; the old ones end. */
  async #mintOne(
    version: VersionPaths,
    app: string,
    id: string,
    stored: Stored,
    webhook: PendingWebhook | ProvisionedWebhook,
  ): Promise<MintedSecret> {
    const { minted, change } = mintWebhook(id, webhook, randomBytes);
    const paths = this.#options.layout.app(app);
    // Before the file: a webhook that is there has its key.
    await addWebhookKeys(paths, signingKeys([minted]));
    await writeAutomation(version, id, editAutomation(stored.text, { webhook: change, renew: true }));
    // The keys of the old address and of an interrupted mint.
    await pruneWebhookKeys(paths);
    return minted;
  }

  /** In the app's line, with its active version; the catalog then knows what was written, also when not everything could be. */
  async #held(app: string, work: (version: VersionPaths) => Promise<void>): Promise<void> {
    const held = await this.#options.deployments.hold(app, async () => {
      try {
        await work(await this.#live(app));
      } finally {
        await this.#options.catalog.load(app);
      }
    });
    if (held === null) throw unknownApp(app);
  }

  async #live(app: string): Promise<VersionPaths> {
    const { layout, registry } = this.#options;
    const { active } = await registry.state(app);
    if (active === null)
      throw new SvcError('UNKNOWN_AUTOMATION', `"${app}" has no active version and therefore no automations.`);
    return layout.app(app).version(active.versionId);
  }

  async #read(version: VersionPaths, app: string, id: string): Promise<Stored> {
    const stored = await readAutomation(version, id);
    if (stored === null) throw unknownAutomation(app, id);
    if ('manifest' in stored) return stored;
    throw invalidAutomation(stored.issues.map((issue) => automationFault(id, issue)));
  }
}

export function unknownAutomation(app: string, id: string): SvcError {
  return new SvcError('UNKNOWN_AUTOMATION', `"${app}" has no automation "${id.slice(0, 80)}".`);
}

function noWebhook(app: string, id: string): SvcError {
  const how = 'Add { "kind": "webhook", "pending": true } to its triggers, and push it.';
  return new SvcError('BAD_REQUEST', `"${automationRef(app, id)}" has no webhook. ${how}`, { path: 'ref' });
}
