/** Automations as their files declare them, and what they are called (specification, "Automation manifest"; decisions, section 6). */
import { isAppId } from './ids.ts';
import type { JsonSchema } from './manifest.ts';

/** Fires on schedule. `tz` is an IANA time zone, by default the host's; `catchUp` runs once at start what was missed. */
export type CronTrigger = { kind: 'cron'; expr: string; tz?: string; catchUp?: boolean };

/** Asked for, and not minted yet. `signing` wants Standard Webhooks signatures. */
export type PendingWebhook = { kind: 'webhook'; pending: true; signing?: boolean };

/** Minted: `id` is the slug of its address, 24 hex characters; `secretHash` the SHA-256 of its secret, in hex. */
export type ProvisionedWebhook = { kind: 'webhook'; id: string; secretHash: string; signing?: boolean };

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

/** The codes of the specification's table "Manifest validation errors". */
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

/** Slug of a webhook's address, as it is minted. */
export const WEBHOOK_ID = /^[0-9a-f]{24}$/;

/** Where webhooks come in; followed by the slug (specification, "Webhook route"). */
export const WEBHOOK_ROUTE_PREFIX = '/_svc-hook/';

/** What an upload answers once for each webhook that it minted; `url` is where to post. */
export type MintedWebhook = { webhookId: string; secret: string; automationId: string; ownerApp: string; url: string };

/** A webhook that was minted, before it is known whose it is and where it is reached. */
export type MintedSecret = { automationId: string; webhookId: string; secret: string; signing: boolean };

/** `origin` is where the gateway is reached; without one the address is a path. */
export function mintedWebhook(
  ownerApp: string,
  { automationId, webhookId, secret }: MintedSecret,
  origin: string,
): MintedWebhook {
  return { webhookId, secret, automationId, ownerApp, url: `${origin}${WEBHOOK_ROUTE_PREFIX}${webhookId}` };
}

/** Slug → key of those that are signed: it must be kept, for a signature cannot be checked with a hash. */
export function signingKeys(minted: readonly MintedSecret[]): Map<string, string> {
  return new Map(minted.filter(({ signing }) => signing).map(({ webhookId, secret }) => [webhookId, secret]));
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

/** The two halves of a ref, or null when it is none. */
export function parseRef(ref: string): { app: string; id: string } | null {
  const [app, id, ...rest] = ref.split('/');
  if (app === undefined || id === undefined || rest.length > 0) return null;
  return isAppId(app) && AUTOMATION_ID.test(id) ? { app, id } : null;
}
