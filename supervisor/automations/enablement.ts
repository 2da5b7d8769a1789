/**
 * Rewrites the files of live automations: switches them on and off, and gives pending webhooks their addresses (decisions,
 * section 6). In the app's line of deployments, so that no version comes or goes meanwhile.
 */
import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import {
  type AutomationManifest,
  automationRef,
  type MintedSecret,
  type MintedWebhook,
  mintedWebhook,
  pendingWebhook,
  provisionedWebhook,
  signingKeys,
} from '../../protocol/automation.ts';
import { type AutomationChange, editAutomation } from '../../protocol/automation-edit.ts';
import { SvcError } from '../../protocol/errors.ts';
import { automationFault, invalidAutomation } from '../../protocol/rules/automation-issues.ts';
import { mintWebhook } from '../../protocol/webhook-mint.ts';
import { addWebhookKeys, pruneWebhookKeys, readAutomation, writeAutomation } from '../../storage/automations.ts';
import type { Layout, VersionPaths } from '../../storage/layout.ts';
import { type Registry, unknownApp } from '../../storage/registry.ts';
import type { Deployments } from '../deployments/deploy.ts';
import type { AutomationCatalog, LiveAutomation } from './catalog.ts';

export type EnablementOptions = {
  layout: Layout;
  registry: Pick<Registry, 'state'>;
  deployments: Pick<Deployments, 'hold'>;
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
    await this.#held(app, async () => {
      const version = await this.#live(app);
      const stored = await this.#read(version, app, id);
      if (stored.manifest.enabled !== enabled) await write(version, id, stored, { enabled });
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
  async provision(app: string | null, origin: string): Promise<MintedWebhook[]> {
    const { catalog, registry, log } = this.#options;
    if (app !== null) await registry.state(app);
    const minted: MintedWebhook[] = [];
    const failures: unknown[] = [];
    const apps = app === null ? new Set(catalog.list().map((automation) => automation.app)) : [app];
    for (const id of apps) {
      try {
        await this.#mint(id, (secret) => minted.push(mintedWebhook(id, secret, origin)));
      } catch (error) {
        log.error({ app: id, err: error }, 'The webhooks of an app could not be given addresses.');
        failures.push(error);
      }
    }
    if (minted.length === 0 && failures.length > 0) throw failures[0];
    return minted;
  }

  /**
   * Mints the webhook of one automation where it is pending; with `renew` also one that was minted, whose address and secret
   * then are void. Rejects as `manifest` does, and with `BAD_REQUEST` for an automation without a webhook.
   */
  async provisionOne(app: string, id: string, renew: boolean, origin: string): Promise<MintedWebhook[]> {
    const minted: MintedWebhook[] = [];
    await this.#held(app, async () => {
      const version = await this.#live(app);
      const stored = await this.#read(version, app, id);
      const pending = pendingWebhook(stored.manifest);
      const webhook = pending ?? provisionedWebhook(stored.manifest);
      if (webhook === undefined) throw noWebhook(app, id);
      if (pending === undefined && !renew) return;
      const secret = await this.#mintOne(version, app, id, stored, webhook);
      minted.push(mintedWebhook(app, secret, origin));
    });
    return minted;
  }

  async #mint(app: string, tell: (secret: MintedSecret) => void): Promise<void> {
    const isPending = ({ manifest }: LiveAutomation) => pendingWebhook(manifest) !== undefined;
    if (!this.#options.catalog.list(app).some(isPending)) return;
    await this.#held(app, async () => {
      const version = await this.#live(app);
      for (const { id } of this.#options.catalog.list(app).filter(isPending)) {
        const stored = await readAutomation(version, id);
        if (stored === null || 'issues' in stored) continue;
        const pending = pendingWebhook(stored.manifest);
        if (pending !== undefined) tell(await this.#mintOne(version, app, id, stored, pending));
      }
    });
  }

  /** Gives a webhook an address and a secret; one that has them loses those. */
  async #mintOne(
    version: VersionPaths,
    app: string,
    id: string,
    stored: Stored,
    { signing = false }: { signing?: boolean },
  ): Promise<MintedSecret> {
    const webhook = mintWebhook(signing, randomBytes);
    const secret = { automationId: id, webhookId: webhook.id, secret: webhook.secret, signing };
    const paths = this.#options.layout.app(app);
    // Before the file: a webhook that is there has its key.
    await addWebhookKeys(paths, signingKeys([secret]));
    await write(version, id, stored, { webhook, renew: true });
    // That of the old address, and of one whose mint was cut off.
    await pruneWebhookKeys(paths);
    return secret;
  }

  /** In the app's line; the catalog then knows what was written, also when not everything could be. */
  async #held(app: string, work: () => Promise<void>): Promise<void> {
    const held = await this.#options.deployments.hold(app, async () => {
      try {
        await work();
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
    const [first, ...others] = stored.issues.map((issue) => automationFault(id, issue));
    if (first === undefined) throw unknownAutomation(app, id);
    throw invalidAutomation([first, ...others]);
  }
}

async function write(version: VersionPaths, id: string, { text }: Stored, change: AutomationChange): Promise<void> {
  await writeAutomation(version, id, editAutomation(text, change));
}

export function unknownAutomation(app: string, id: string): SvcError {
  return new SvcError('UNKNOWN_AUTOMATION', `"${app}" has no automation "${id.slice(0, 80)}".`);
}

function noWebhook(app: string, id: string): SvcError {
  const how = 'Add { "kind": "webhook", "pending": true } to its triggers, and push it.';
  return new SvcError('BAD_REQUEST', `"${automationRef(app, id)}" has no webhook. ${how}`, { path: 'ref' });
}
