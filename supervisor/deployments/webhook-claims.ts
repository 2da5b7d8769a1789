/**
 * Keeps the address of a webhook with one app: refuses a version that names one of another app (specification,
 * "Webhook requests").
 */
import { type AutomationFault, invalidAutomation, takenAddress } from '../../protocol/automations/automation.ts';
import { listAutomations, readAutomation } from '../../storage/automations/automation-files.ts';
import type { ListedWebhook } from '../../storage/cluster/webhook-directory.ts';
import type { VersionPaths } from '../../storage/layout.ts';

/** The addresses of all apps of a cluster: see `WebhookDirectory`. */
export type SharedAddresses = {
  claim(app: string, slugs: readonly string[]): Promise<string[]>;
  others(app: string, slugs: readonly string[]): Promise<string[]>;
  /** Never rejects: while the database is away it is done in the background, with what `addresses` answers then. */
  settle(app: string, addresses: () => string[]): Promise<void>;
};

/** `holderOf` answers the app whose live version has the slug, and `of` the slugs of an app's live version. */
export type Addresses = {
  holderOf(slug: string): string | undefined;
  of(app: string): string[];
  /** Null without a cluster. */
  shared: SharedAddresses | null;
};

type Found = { slug: string; fault: AutomationFault };

export class WebhookClaims {
  readonly #addresses: Addresses;
  /** Slug → the app that is about to have it. */
  readonly #coming = new Map<string, string>();

  constructor(addresses: Addresses) {
    this.#addresses = addresses;
  }

  /** Rejects as `claim` does. */
  async check(app: string, version: VersionPaths): Promise<void> {
    const found = await addressesIn(version);
    this.#refuseOwn(app, found);
    if (found.length > 0) refuse(found, (await this.#addresses.shared?.others(app, slugsOf(found))) ?? []);
  }

  /**
   * Claims the addresses in a version's files for the app, until `settle`. Rejects with `INVALID_AUTOMATION`, the trigger in `path`, when
   * another app holds one, and in a cluster with `STORAGE_UNAVAILABLE`.
   */
  async claim(app: string, version: VersionPaths): Promise<void> {
    const found = await addressesIn(version);
    // From this look to the claim there is no await.
    this.#refuseOwn(app, found);
    for (const { slug } of found) this.#coming.set(slug, app);
    if (found.length > 0) refuse(found, (await this.#addresses.shared?.claim(app, slugsOf(found))) ?? []);
  }

  /** After each change of an app, done or not: it has the addresses of its live version, and claims no others. */
  async settle(app: string): Promise<void> {
    for (const slug of this.#comingTo(app)) this.#coming.delete(slug);
    await this.#addresses.shared?.settle(app, () => [...this.#addresses.of(app), ...this.#comingTo(app)]);
  }

  /** Once a node serves the apps of a bucket: ends the claims of changes that were cut off. `listed` is what the cluster has of these apps. */
  async takeOver(apps: readonly string[], listed: readonly ListedWebhook[]): Promise<void> {
    for (const app of apps) {
      const known = listed.flatMap(({ slug, app: holder }) => (holder === app ? slug : []));
      if (`${known.sort()}` !== `${this.#addresses.of(app).sort()}`) await this.settle(app);
    }
  }

  #refuseOwn(app: string, found: readonly Found[]): void {
    const isOfAnother = (slug: string): boolean =>
      [this.#addresses.holderOf(slug), this.#coming.get(slug)].some((one) => one !== undefined && one !== app);
    refuse(found, slugsOf(found).filter(isOfAnother));
  }

  #comingTo(app: string): string[] {
    return [...this.#coming].flatMap(([slug, holder]) => (holder === app ? slug : []));
  }
}

async function addressesIn(version: VersionPaths): Promise<Found[]> {
  const found: Found[] = [];
  for (const id of await listAutomations(version)) {
    const stored = await readAutomation(version, id);
    if (stored === null || 'issues' in stored) continue;
    for (const [at, trigger] of stored.manifest.triggers.entries())
      if ('id' in trigger) found.push({ slug: trigger.id, fault: takenAddress(id, at) });
  }
  return found;
}

function refuse(found: readonly Found[], taken: readonly string[]): void {
  const faults = found.flatMap(({ slug, fault }) => (taken.includes(slug) ? fault : []));
  if (faults.length > 0) throw invalidAutomation(faults);
}

function slugsOf(found: readonly Found[]): string[] {
  return found.map(({ slug }) => slug);
}
