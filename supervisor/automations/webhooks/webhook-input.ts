/** What a handler gets of a webhook's request: the body as a value, and the request itself. Pure. */
import { isUtf8 } from 'node:buffer';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { isTooDeep } from '../../../protocol/rules/json-depth.ts';
import type { WebhookRequest } from '../../../protocol/webhook-messages.ts';

/** Another place for the secret, for senders that cannot set Authorization, or whose proxies use it for themselves. */
export const SECRET_HEADER = 'x-host-webhook-secret';
const CREDENTIALS = new Set(['authorization', 'proxy-authorization', 'cookie', SECRET_HEADER]);

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
