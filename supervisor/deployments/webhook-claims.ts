/**
 * Keeps the address of a webhook with one app: refuses a version that names one of another app (specification,
 * "Webhook requests").
 */
import { type AutomationFault, invalidAutomation, takenAddress } from '../../protocol/automations/automation.ts';
import { listAutomations, readAutomation } from '../../storage/automations/automation-files.ts';
import type { VersionPaths } from '../../storage/layout.ts';

export class WebhookClaims {
  readonly #holderOf: (slug: string) => string | undefined;
  /** Slug → the app that is about to have it. */
  readonly #coming = new Map<string, string>();

  /** `holderOf` answers the app whose live version has the slug. */
  constructor(holderOf: (slug: string) => string | undefined) {
    this.#holderOf = holderOf;
  }

  /**
   * Claims the addresses in a version's files for the app; what it returns ends that, once the version is live or dropped.
   * Rejects with `INVALID_AUTOMATION`, the trigger in `path`, when another app holds one.
   */
  async claim(app: string, version: VersionPaths): Promise<() => void> {
    const found: { slug: string; fault: AutomationFault }[] = [];
    for (const id of await listAutomations(version)) {
      const stored = await readAutomation(version, id);
      if (stored === null || 'issues' in stored) continue;
      for (const [at, trigger] of stored.manifest.triggers.entries())
        if ('id' in trigger) found.push({ slug: trigger.id, fault: takenAddress(id, at) });
    }
    // From this look to the claim there is no await.
    const taken = found.filter(({ slug }) => this.#isOfAnother(slug, app));
    if (taken.length > 0) throw invalidAutomation(taken.map(({ fault }) => fault));
    const claimed = found.filter(({ slug }) => !this.#coming.has(slug));
    for (const { slug } of claimed) this.#coming.set(slug, app);
    return () => {
      for (const { slug } of claimed) this.#coming.delete(slug);
    };
  }

  #isOfAnother(slug: string, app: string): boolean {
    return [this.#holderOf(slug), this.#coming.get(slug)].some((holder) => holder !== undefined && holder !== app);
  }
}
