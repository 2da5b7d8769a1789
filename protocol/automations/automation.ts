/**
 * Types of automations as their files declare them, and their names (specification, "Automation files").
 */
import { type InputIssue, SvcError } from '../errors.ts';
import { isAppId } from '../ids.ts';
import { LIMITS } from '../limits.ts';
import type { JsonSchema } from '../manifest.ts';
import type { MINTED_WEBHOOK, WEBHOOKS } from '../routes/apps/publications.ts';
import type { Of } from '../shapes/schema.ts';

/** Fires on schedule. `tz` is an IANA time zone, by default the host's; `catchUp` runs once at start what was missed. */
export type CronTrigger = { kind: 'cron'; expr: string; tz?: string; catchUp?: boolean };

/** An HMAC over the body in a header, behind `prefix`. */
export type HmacVerify = {
  header: string;
  algorithm: 'sha1' | 'sha256' | 'sha512';
  encoding: 'hex' | 'base64';
  prefix?: string;
};

/** How the sender of a webhook proves itself with a secret of the app: in the way of a known service, or with an HMAC. */
export type WebhookVerify = 'bearer' | 'standard' | 'github' | 'stripe' | 'slack' | HmacVerify;

/** Asked for, and not minted yet. `signing` wants Standard Webhooks signatures with a minted key. */
export type PendingWebhook = { kind: 'webhook'; pending: true; signing?: boolean } & Partial<Verified>;

/** `secret` is the name of an app's secret. */
type Verified = { verify: WebhookVerify; secret: string };

/** `id` is the slug of its address, 24 hex characters; `secretHash` the SHA-256 of a minted secret, in hex. */
export type MintedSecretWebhook = { kind: 'webhook'; id: string; secretHash: string; signing?: boolean };
export type VerifiedWebhook = { kind: 'webhook'; id: string; signing?: false } & Verified;
export type ProvisionedWebhook = MintedSecretWebhook | VerifiedWebhook;

export type Trigger = CronTrigger | PendingWebhook | ProvisionedWebhook;

/** How many runs are kept: the newest `count`, those of the last `days`, every one, or only those that failed. */
export type HistoryKeep = { count: number } | { days: number } | 'all' | 'errors';

/** `automations/<id>/automation.json`, checked, with every default filled in. Members that we do not know stay in the file. */
export type AutomationManifest = {
  name: string;
  version: string;
  description?: string;
  prompt: string;
  enabled: boolean;
  triggers: Trigger[];
  requires: { mcps?: string[]; tools?: string[]; model?: string };
  apps?: string[];
  costEstimate?: { model?: string; tokensPerFire?: number };
  outputSchema?: JsonSchema;
  onFailure?: string;
  history: { keep: HistoryKeep };
  generated: { by: string; at: string };
};

/** The codes of faults of automations (specification, "Automation files"). */
export type AutomationIssueCode =
  | 'invalid_json'
  | 'missing_field'
  | 'invalid_field'
  | 'invalid_trigger'
  | 'invalid_history'
  | 'invalid_on_failure'
  | 'mock_model_disallowed'
  | 'invalid_output_schema';

/** One fault of an automation's file; `path` is a field path such as `triggers[0].expr`, empty for the whole file. */
export type AutomationIssue = { code: AutomationIssueCode; path: string; message: string };

export const AUTOMATION_ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;

/** Form of a minted slug, part of a webhook's address. */
export const WEBHOOK_ID = /^[0-9a-f]{24}$/;

/** Where webhooks come in; followed by the slug (specification, "Webhook requests"). */
export const WEBHOOK_ROUTE_PREFIX = '/_svc-hook/';

/** `url` is where to post; its secret is shown once. */
export type MintedWebhook = Of<typeof MINTED_WEBHOOK>;

/** The part of an upload's answer for a new webhook; `secretName` names an app's secret, which the owner sets. */
export type NewWebhook = Of<typeof WEBHOOKS>[number];

/** A new webhook, before its automation and address are known. */
export type MintedSecret = { automationId: string; webhookId: string } & (
  | { secret: string; signing: boolean }
  | { secretName: string }
);

/** `origin` is where the gateway is reached; without one the address is a path. */
export function newWebhook(ownerApp: string, minted: MintedSecret, origin: string): NewWebhook {
  const { automationId, webhookId } = minted;
  const address = { webhookId, automationId, ownerApp, url: webhookUrl(origin, webhookId) };
  return 'secret' in minted ? { ...address, secret: minted.secret } : { ...address, secretName: minted.secretName };
}

/** Where to post; `origin` as for `newWebhook`. */
export function webhookUrl(origin: string, webhookId: string): string {
  return `${origin}${WEBHOOK_ROUTE_PREFIX}${webhookId}`;
}

/** Slug → key of the signed ones: it is stored, because a hash cannot check a signature. */
export function signingKeys(minted: readonly MintedSecret[]): Map<string, string> {
  return new Map(
    minted.flatMap((one) => ('secret' in one && one.signing ? [[one.webhookId, one.secret] as const] : [])),
  );
}

/** Whether a push keeps a webhook's address: it does while the sender's secret stays of the same kind. */
export function keepsAddress(live: ProvisionedWebhook, pending: PendingWebhook): boolean {
  if ('verify' in live || pending.verify !== undefined) return 'verify' in live && pending.verify !== undefined;
  return (live.signing ?? false) === (pending.signing ?? false);
}

/** An automation has at most one webhook, which asks for its address or has it. */
export function pendingWebhook({ triggers }: Pick<AutomationManifest, 'triggers'>): PendingWebhook | undefined {
  return triggers.find((trigger): trigger is PendingWebhook => 'pending' in trigger);
}

export function provisionedWebhook({ triggers }: Pick<AutomationManifest, 'triggers'>): ProvisionedWebhook | undefined {
  return triggers.find((trigger): trigger is ProvisionedWebhook => 'id' in trigger);
}

export function automationRef(app: string, id: string): string {
  return `${app}/${id}`;
}

/** The two halves of a ref; null for any other text. */
export function parseRef(ref: string): { app: string; id: string } | null {
  const [app, id, ...rest] = ref.split('/');
  if (app === undefined || id === undefined || rest.length > 0) return null;
  return isAppId(app) && AUTOMATION_ID.test(id) ? { app, id } : null;
}

/** Something wrong in a version's file of this path; `keyword` is what stands as such in the error's `issues`. */
export type AutomationFault = { file: string; field: string; keyword: string; message: string };

export function automationFile(id: string): string {
  return `automations/${id}/automation.json`;
}

/** Whether the gateway writes into this file of an app: addresses of webhooks, and switches. */
export function isAutomationFile(path: string): boolean {
  return /^automations\/[^/]+\/automation\.json$/.test(path);
}

const FLAT = /^automations\/([^/]+)\.json$/;

/** Names of files `automations/<name>.json`: other systems use this form, the gateway does not read it. */
export function flatAutomations(paths: string[]): string[] {
  return paths.flatMap((path) => FLAT.exec(path)?.[1] ?? []).sort();
}

/** What is wrong with such a file, and what to do. */
export function flatAutomation(name: string): { path: string; message: string } {
  const path = `automations/${name}.json`;
  const message = `${path} is not read and never fires: move it to ${automationFile(name)}, with a handler.js beside it.`;
  return { path, message };
}

export function automationFault(id: string, { code, path, message }: AutomationIssue): AutomationFault {
  return { file: automationFile(id), field: path, keyword: code, message };
}

/** The trigger at this place has the address of another automation's webhook: it would get that one's posts. */
export function takenAddress(id: string, trigger: number): AutomationFault {
  const message =
    'is the address of another webhook; write "pending": true instead of "id" and "secretHash" for a new one';
  return automationFault(id, { code: 'invalid_trigger', path: `triggers[${trigger}].id`, message });
}

/**
 * `INVALID_AUTOMATION`: `path` is the file and, behind `#`, the field of the first fault, which the message says with its code;
 * `issues` has all of them, up to `LIMITS.inputIssues`.
 */
export function invalidAutomation(faults: AutomationFault[]): SvcError {
  const first = faults[0] as AutomationFault;
  const { file, field, keyword, message } = first;
  const where = field === '' ? file : `${file}: ${field}`;
  const issues: InputIssue[] = faults
    .slice(0, LIMITS.inputIssues)
    .map((fault) => ({ path: pathOf(fault), message: fault.message, keyword: fault.keyword }));
  return new SvcError('INVALID_AUTOMATION', `${where} ${message.replace(/\.$/, '')} (${keyword}).`, {
    path: pathOf(first),
    issues,
  });
}

function pathOf({ file, field }: AutomationFault): string {
  return field === '' ? file : `${file}#${field}`;
}
