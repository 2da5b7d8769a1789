/**
 * Checks the automations of an upload, carries over switches and addresses from the live version, and mints new ones
 * (specification, "Automation files").
 */
import { randomBytes } from 'node:crypto';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import {
  AUTOMATION_ID,
  type AutomationFault,
  type AutomationManifest,
  automationFault,
  automationFile,
  invalidAutomation,
  keepsAddress,
  type MintedSecret,
  type PendingWebhook,
  pendingWebhook,
  provisionedWebhook,
  takenAddress,
} from '../../protocol/automations/automation.ts';
import { type AutomationChange, editAutomation, mintWebhook } from '../../protocol/automations/automation-edit.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { parseAutomation } from '../../protocol/rules/automation-check.ts';
import { readAutomation, readUploaded } from '../../storage/automations/automation-files.ts';
import type { VersionPaths } from '../../storage/layout.ts';
import { writeNewFile } from './content/files.ts';

const AUTOMATION = /^automations\/([^/]+)\/automation\.json$/;

/** A valid automation, and its file's text. */
export type CheckedAutomation = { id: string; text: string; manifest: AutomationManifest };

/**
 * The automations among the files of a version, sorted by id. Throws `INVALID_AUTOMATION`; the search stops at the number of
 * faults that are shown. `now` is milliseconds since the epoch.
 */
export function checkAutomations(paths: string[], code: string, now: number): CheckedAutomation[] {
  const present = new Set(paths);
  const ids = paths.flatMap((path) => AUTOMATION.exec(path)?.[1] ?? []).sort();
  const faults: AutomationFault[] = [];
  const checked: CheckedAutomation[] = [];
  const slugs = new Set<string>();
  if (ids.length > LIMITS.automations) {
    const message = `has more than ${LIMITS.automations} automations`;
    faults.push({ file: 'automations', field: '', keyword: 'maxItems', message });
  }
  for (const id of ids) {
    if (faults.length >= LIMITS.inputIssues) break;
    const file = automationFile(id);
    if (!AUTOMATION_ID.test(id)) {
      const message =
        'lies in a folder whose name is no id: use 1 to 64 of A-Z, a-z, 0-9, "-" and "_", not "-" or "_" first';
      faults.push({ file, field: '', keyword: 'invalid_field', message });
      continue;
    }
    const handler = `automations/${id}/handler.js`;
    if (!present.has(handler) && !present.has(`automations/${id}/handler.ts`)) {
      faults.push({
        file: handler,
        field: '',
        keyword: 'missing_field',
        message: 'is missing; it is what the automation runs',
      });
    }
    const text = readFileSync(join(code, file), 'utf8');
    const parsed = parseAutomation(text, { firesAfter: now });
    if ('issues' in parsed) {
      faults.push(...parsed.issues.map((issue) => automationFault(id, issue)));
      continue;
    }
    for (const [at, trigger] of parsed.manifest.triggers.entries()) {
      if (!('id' in trigger)) continue;
      if (slugs.has(trigger.id)) faults.push(takenAddress(id, at));
      slugs.add(trigger.id);
    }
    checked.push({ id, text, manifest: parsed.manifest });
  }
  if (faults.length > 0) throw invalidAutomation(faults);
  return checked;
}

/**
 * Writes the active version's switches and the minted webhooks into the staged files, and stores the uploaded state beside
 * them. Returns the secrets of new webhooks.
 */
export async function prepareAutomations(
  automations: CheckedAutomation[],
  staged: VersionPaths,
  active: VersionPaths | null,
): Promise<MintedSecret[]> {
  const minted: MintedSecret[] = [];
  const before = active === null ? new Map<string, { enabled: boolean }>() : await readUploaded(active);
  for (const { id, text, manifest } of automations) {
    const live = active === null ? null : await liveManifest(active, id);
    const change: AutomationChange = {};
    const uploadedBefore = before.get(id)?.enabled;
    // A user switched it after that upload, and this upload does not change the switch.
    if (live !== null && uploadedBefore === manifest.enabled && live.enabled !== manifest.enabled) {
      change.enabled = live.enabled;
    }
    const pending = pendingWebhook(manifest);
    if (pending !== undefined) change.webhook = takenOver(live, pending) ?? mint(id, pending, minted);
    if (Object.keys(change).length === 0) continue;
    rmSync(staged.automation(id));
    writeNewFile(staged.automation(id), editAutomation(text, change));
  }
  noteUploaded(automations, staged);
  return minted;
}

/** Stores how the switches are in these files. */
export function noteUploaded(automations: CheckedAutomation[], staged: VersionPaths): void {
  const uploaded = automations.map(({ id, manifest }) => [id, { enabled: manifest.enabled }]);
  if (automations.length > 0) writeNewFile(staged.automations, JSON.stringify(Object.fromEntries(uploaded)));
}

/**
 * Whether a stored version with the content of an upload can be used for it: its automations are undamaged, and its webhooks have
 * the addresses that the upload would get. Otherwise a webhook that was removed to get a new secret would return with the old one.
 */
export async function isReusable(
  stored: VersionPaths,
  staged: VersionPaths,
  active: VersionPaths | null,
  paths: string[],
): Promise<boolean> {
  for (const id of paths.flatMap((path) => AUTOMATION.exec(path)?.[1] ?? [])) {
    const uploaded = await liveManifest(staged, id);
    const kept = await liveManifest(stored, id);
    if (uploaded === null || kept === null) return false;
    if (active === null || pendingWebhook(uploaded) === undefined) continue;
    const live = await liveManifest(active, id);
    if (live === null || provisionedWebhook(live)?.id !== provisionedWebhook(kept)?.id) return false;
  }
  return true;
}

async function liveManifest(version: VersionPaths, id: string): Promise<AutomationManifest | null> {
  const stored = await readAutomation(version, id);
  return stored === null || 'issues' in stored ? null : stored.manifest;
}

/** A push keeps the address, unless its sender needs a secret of another kind. */
function takenOver(live: AutomationManifest | null, pending: PendingWebhook): AutomationChange['webhook'] {
  const webhook = live === null ? undefined : provisionedWebhook(live);
  if (webhook === undefined || !keepsAddress(webhook, pending)) return undefined;
  return 'verify' in webhook ? { id: webhook.id } : { id: webhook.id, secretHash: webhook.secretHash };
}

function mint(
  automationId: string,
  pending: PendingWebhook,
  minted: MintedSecret[],
): NonNullable<AutomationChange['webhook']> {
  const webhook = mintWebhook(automationId, pending, randomBytes);
  minted.push(webhook.minted);
  return webhook.change;
}
