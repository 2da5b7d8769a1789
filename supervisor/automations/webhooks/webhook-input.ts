/** Converts a webhook's request for its handler: the body as a value, and the request itself. Pure. */
import { isUtf8 } from 'node:buffer';
import type { WebhookVerify } from '../../../protocol/automations/automation.ts';
import type { WebhookRequest } from '../../../protocol/automations/webhook-messages.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { PAGE_KEY_HEADER } from '../../../protocol/http/page-key.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { isTooDeep } from '../../../protocol/rules/json-text.ts';

/** Another place for the secret, for senders that cannot set Authorization, or whose proxies use it for themselves. */
export const SECRET_HEADER = 'x-host-webhook-secret';
const CREDENTIALS = new Set(['authorization', 'proxy-authorization', 'cookie', PAGE_KEY_HEADER, SECRET_HEADER]);

/**
 * JSON when it is valid, else a string; undefined when empty. Throws `BAD_REQUEST` for bytes that are not UTF-8, which a
 * string could not hold unchanged, and for what opens more brackets than JSON may nest, whether it is JSON or not.
 */
export function parseWebhookBody(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  if (!isUtf8(bytes)) throw new SvcError('BAD_REQUEST', 'The body is not UTF-8; encode binary data as text.');
  if (isTooDeep(bytes)) throw new SvcError('BAD_REQUEST', `The body nests deeper than ${LIMITS.jsonDepth} levels.`);
  const text = bytes.toString();
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

const FORM = 'application/x-www-form-urlencoded';

/**
 * The body as `parseWebhookBody` gives it; of senders that are verified, a form is an object of texts, with a list where a name is
 * repeated. GitHub and Slack put a JSON value into a form whose one field is `payload`: then it is that value.
 */
export function webhookInput(bytes: Buffer, contentType: string | null, verify: WebhookVerify | null): unknown {
  const value = parseWebhookBody(bytes);
  // A JSON text is another than its characters.
  if (verify === null || contentType !== FORM || typeof value !== 'string' || value !== bytes.toString()) return value;
  const fields = new Map<string, string | string[]>();
  for (const [name, text] of new URLSearchParams(value)) {
    const before = fields.get(name);
    if (Array.isArray(before)) before.push(text);
    else fields.set(name, before === undefined ? text : [before, text]);
  }
  const payload = fields.get('payload');
  if ((verify === 'github' || verify === 'slack') && fields.size === 1 && typeof payload === 'string') {
    const json = parseWebhookBody(Buffer.from(payload));
    if (json !== payload) return json;
  }
  return Object.fromEntries(fields);
}

/** The answer that Slack expects when the address is entered there; null for every other message. */
export function slackChallenge(body: Buffer): string | null {
  const value = parseWebhookBody(body);
  if (typeof value !== 'object' || value === null) return null;
  const { type, challenge } = value as Record<string, unknown>;
  return type === 'url_verification' && typeof challenge === 'string' ? challenge : null;
}

/** `headers` alternate names in lower case with values; `body` is UTF-8. */
export function webhookRequest(headers: readonly string[], body: Buffer): WebhookRequest {
  const shown = new Map<string, string>();
  for (let at = 0; at < headers.length; at += 2) {
    const [name, value] = [headers[at], headers[at + 1]] as [string, string];
    if (CREDENTIALS.has(name)) continue;
    const before = shown.get(name);
    shown.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  const contentType = shown.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase();
  return { headers: Object.fromEntries(shown), contentType: contentType || null, rawBody: body.toString() };
}
