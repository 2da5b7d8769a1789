/**
 * Reads and writes the automations of a stored version, `automations/<id>/automation.json`, and the keys of an app's signed
 * webhooks (specification, "Automation files"). The files are the only record: they are rewritten in
 * place.
 */
import { open, readdir, stat, utimes } from 'node:fs/promises';
import { dirname } from 'node:path';
import {
  AUTOMATION_ID,
  type AutomationIssue,
  type AutomationManifest,
  provisionedWebhook,
  WEBHOOK_ID,
} from '../../protocol/automations/automation.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { parseAutomation } from '../../protocol/rules/automation-check.ts';
import { flag, object, text } from '../../protocol/shapes/schema.ts';
import { shape } from '../../protocol/shapes/shape.ts';
import { sweepTemporary } from '../apps/trash.ts';
import { storedVersions } from '../apps/versions.ts';
import { exists, isMissing, readJson, removeDurable, writeFileAtomic } from '../files/atomic-file.ts';
import type { AppPaths, VersionPaths } from '../layout.ts';

/** A file that was read: its text with the manifest, or its faults. */
type StoredAutomation = { text: string; manifest: AutomationManifest } | { issues: AutomationIssue[] };

/** By id: the state of an automation's file when it was uploaded. */
const UPLOADED = shape({ type: 'object', additionalProperties: object({ enabled: flag }) });
const WEBHOOK_KEYS = shape({
  type: 'object',
  propertyNames: { pattern: WEBHOOK_ID.source },
  additionalProperties: text,
});

/** Ids of the folders that may hold an automation, sorted; at most `LIMITS.automations` of them. */
export async function listAutomations(version: VersionPaths): Promise<string[]> {
  try {
    const entries = await readdir(version.automationsDir, { withFileTypes: true });
    const ids = entries
      .filter((entry) => entry.isDirectory() && AUTOMATION_ID.test(entry.name))
      .map(({ name }) => name);
    return ids.sort().slice(0, LIMITS.automations);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** Null when the version has no automation of this id. A file damaged by hand comes with its faults. */
export async function readAutomation(version: VersionPaths, id: string): Promise<StoredAutomation | null> {
  // Callers choose it, and it becomes part of a path.
  if (!AUTOMATION_ID.test(id)) return null;
  const file = await readBounded(version.automation(id), LIMITS.automationStoredBytes);
  if (file === null) return null;
  const { text, writtenAt } = file;
  const parsed = parseAutomation(text, { firesAfter: null, maxBytes: LIMITS.automationStoredBytes, writtenAt });
  return 'issues' in parsed ? parsed : { text, manifest: parsed.manifest };
}

/** Replaces the file, durably. Keeps its modification time, which is the author's unless the file states another. */
export async function writeAutomation(version: VersionPaths, id: string, text: string): Promise<void> {
  const path = version.automation(id);
  // Removes the temporary file that a crash may have left; no other cleanup looks here.
  await sweepTemporary(dirname(path));
  const { atime, mtime } = await stat(path);
  await writeFileAtomic(path, text);
  await utimes(path, atime, mtime);
}

/** By id; empty for versions that were stored before automations were. */
export async function readUploaded(version: VersionPaths): Promise<Map<string, { enabled: boolean }>> {
  return new Map(Object.entries(UPLOADED.part(await readJson(version.automations, null)) ?? {}));
}

/** Slug → key, `whsec_…`. Empty when no webhook is signed, or when the file was damaged. */
export async function readWebhookKeys(app: AppPaths): Promise<Map<string, string>> {
  return new Map(Object.entries(WEBHOOK_KEYS.part(await readJson(app.webhookKeys, null)) ?? {}));
}

/** Keeps these keys beside those that are there; the file can be read by its owner only. */
export async function addWebhookKeys(app: AppPaths, keys: ReadonlyMap<string, string>): Promise<void> {
  if (keys.size === 0) return;
  await writeKeys(app, new Map([...(await readWebhookKeys(app)), ...keys]));
}

/** Drops the keys of webhooks that no stored version has any more. */
export async function pruneWebhookKeys(app: AppPaths): Promise<void> {
  const keys = await readWebhookKeys(app);
  if (keys.size === 0) return;
  const kept = new Map<string, string>();
  for (const versionId of await storedVersions(app)) {
    const version = app.version(versionId);
    for (const id of await listAutomations(version)) {
      const stored = await readAutomation(version, id);
      // A damaged file: its webhook may be back once the file is repaired.
      if (stored !== null && 'issues' in stored) return;
      const slug = stored === null ? undefined : provisionedWebhook(stored.manifest)?.id;
      const key = slug === undefined ? undefined : keys.get(slug);
      if (slug !== undefined && key !== undefined) kept.set(slug, key);
    }
  }
  if (kept.size < keys.size) await writeKeys(app, kept);
}

async function writeKeys(app: AppPaths, keys: ReadonlyMap<string, string>): Promise<void> {
  if (keys.size > 0) await writeFileAtomic(app.webhookKeys, `${JSON.stringify(Object.fromEntries(keys))}\n`, 0o600);
  else if (await exists(app.webhookKeys)) await removeDurable(app.webhookKeys);
}

/** Reads a file of any size up to just over the limit, which is enough to refuse it. */
async function readBounded(path: string, bytes: number): Promise<{ text: string; writtenAt: number } | null> {
  try {
    const file = await open(path, 'r');
    try {
      const { size, mtime } = await file.stat();
      const buffer = Buffer.allocUnsafe(Math.min(size, bytes + 1));
      const { bytesRead } = await file.read(buffer, 0, buffer.length, 0);
      return { text: buffer.toString('utf8', 0, bytesRead), writtenAt: mtime.getTime() };
    } finally {
      await file.close();
    }
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}
