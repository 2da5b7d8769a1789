/** Says which webhooks the publication of a draft would create: those that its automations want and the live ones do not have. */
import {
  automationRef,
  keepsAddress,
  pendingWebhook,
  provisionedWebhook,
} from '../../protocol/automations/automation.ts';
import { listAutomations, readAutomation } from '../../storage/automations/automation-files.ts';
import { VersionPaths } from '../../storage/layout.ts';
import type { AutomationCatalog } from './catalog.ts';

export type PendingWebhookOf = { automationId: string; ownerApp: string };

/** `folder` has the files of the draft; an automation that cannot be read has none. Rejects when the folder cannot be read. */
export async function pendingWebhooks(
  folder: string,
  app: string,
  catalog: AutomationCatalog,
): Promise<PendingWebhookOf[]> {
  const draft = new VersionPaths(folder, '');
  const pending: PendingWebhookOf[] = [];
  for (const id of await listAutomations(draft)) {
    const stored = await readAutomation(draft, id);
    const wanted = stored === null || 'issues' in stored ? undefined : pendingWebhook(stored.manifest);
    const live = catalog.get(automationRef(app, id));
    const known = live === undefined ? undefined : provisionedWebhook(live.manifest);
    if (wanted !== undefined && !(known && keepsAddress(known, wanted)))
      pending.push({ automationId: id, ownerApp: app });
  }
  return pending;
}
