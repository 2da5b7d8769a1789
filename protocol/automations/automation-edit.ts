/**
 * Edits the gateway's own members in the text of an `automation.json` and leaves everything else as its author wrote it. Pure.
 */
import { createHash } from 'node:crypto';
import { LIMITS } from '../limits.ts';
import { isObject, type JsonObject } from '../rules/automation-check.ts';
import type { MintedSecret } from './automation.ts';

/** `webhook` gives a pending webhook its address and the hash of a minted secret; with `renew` it also replaces an address. */
export type AutomationChange = { enabled?: boolean; webhook?: { id: string; secretHash?: string }; renew?: boolean };

/** Unknown members stay, in their order; the legacy `trigger` becomes `triggers`. `text` must be valid. */
export function editAutomation(text: string, { enabled, webhook, renew = false }: AutomationChange): string {
  const file = JSON.parse(text) as JsonObject;
  const entries = Object.entries(file).map(([name, value]): [string, unknown] =>
    name === 'trigger' ? ['triggers', [value]] : [name, value],
  );
  // Entries, and not assignments: a member may be called `__proto__`.
  const edited = Object.fromEntries(entries);
  if (enabled !== undefined) edited.enabled = enabled;
  if (webhook !== undefined && Array.isArray(edited.triggers))
    edited.triggers = edited.triggers.map((trigger: unknown) => provisioned(trigger, webhook, renew));
  const end = text.endsWith('\n') ? '\n' : '';
  const indented = JSON.stringify(edited, null, indentOf(text)) + end;
  return Buffer.byteLength(indented) <= LIMITS.automationBytes ? indented : JSON.stringify(edited) + end;
}

/** Gives the address to a webhook that asks for one, or whose address is renewed; other triggers stay as they are. */
function provisioned(
  trigger: unknown,
  { id, secretHash }: { id: string; secretHash?: string },
  renew: boolean,
): unknown {
  if (!isObject(trigger) || trigger.kind !== 'webhook') return trigger;
  const isRenewed = renew && 'id' in trigger;
  if (trigger.pending !== true && !isRenewed) return trigger;
  return Object.fromEntries(
    Object.entries(trigger).flatMap(([name, value]): [string, unknown][] => {
      if (name === (isRenewed ? 'id' : 'pending'))
        return Object.entries('verify' in trigger ? { id } : { id, secretHash });
      return name === 'secretHash' || name === 'pending' ? [] : [[name, value]];
    }),
  );
}

function indentOf(text: string): string {
  return /^\s*\{\r?\n([ \t]{1,8})\S/.exec(text)?.[1] ?? '';
}

const SLUG_BYTES = 12;
const SECRET_BYTES = 24;
const SIGNING_PREFIX = 'whsec_';

/**
 * An address, and unless its sender has a secret of the app, a secret: `minted` is shown once, `change` is kept. A signed one has
 * a key as Standard Webhooks writes it.
 */
export function mintWebhook(
  automationId: string,
  { signing = false, secret: secretName }: { signing?: boolean; secret?: string },
  random: (bytes: number) => Buffer,
): { minted: MintedSecret; change: { id: string; secretHash?: string } } {
  const id = random(SLUG_BYTES).toString('hex');
  const known = { automationId, webhookId: id };
  if (secretName !== undefined) return { minted: { ...known, secretName }, change: { id } };
  const bytes = random(SECRET_BYTES);
  const secret = signing ? `${SIGNING_PREFIX}${bytes.toString('base64')}` : bytes.toString('hex');
  const secretHash = createHash('sha256').update(secret).digest('hex');
  return { minted: { ...known, signing, secret }, change: { id, secretHash } };
}
