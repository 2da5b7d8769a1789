/** What a webhook's request holds: the secret it presents, and its body as the automation gets it. */
import { isUtf8 } from 'node:buffer';
import { hash, timingSafeEqual } from 'node:crypto';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { isTooDeep } from '../../../protocol/rules/json-depth.ts';
import type { BodyRoom } from '../../edge/body-budget.ts';
import type { Exchange } from '../../edge/edge.ts';
import { BEARER } from '../../http/access/access.ts';
import type { UnverifiedBodies } from './unverified-bodies.ts';

/** Another place for the secret, for senders that cannot set Authorization, or whose proxies use it for themselves. */
const SECRET_HEADER = 'x-host-webhook-secret';

/**
 * Whether the request presents the secret, either as a Bearer token or in `x-host-webhook-secret`; `secretHash` is its
 * SHA-256 in hex. Digests are compared, in constant time: neither what is wrong with a secret nor its length shows.
 */
export function presentsSecret(exchange: Exchange, secretHash: string): boolean {
  const expected = Buffer.from(secretHash, 'hex');
  const presented = [BEARER.exec(exchange.header('authorization') ?? '')?.[1], exchange.header(SECRET_HEADER)];
  return presented.some((secret) => {
    const digest = hash('sha256', secret ?? '', 'buffer');
    return secret !== undefined && digest.length === expected.length && timingSafeEqual(digest, expected);
  });
}

/**
 * The body's bytes; null when the sender went away before they were complete. Rejects with `PAYLOAD_TOO_LARGE` over
 * `LIMITS.webhookBodyBytes`, and as `readBody` does. Must be called in the turn in which the exchange was handed over.
 */
export function collectBody(exchange: Exchange, room?: BodyRoom): Promise<Buffer | null> {
  return new Promise((resolve, reject) => {
    exchange.onAbort(() => resolve(null));
    exchange.readBody(LIMITS.webhookBodyBytes, resolve, reject, room);
  });
}

/**
 * The same for a sender who is not known yet, in the room of those. Rejects with `RATE_LIMITED` when the body was the slowest
 * of too many.
 */
export async function collectUnverified(exchange: Exchange, bodies: UnverifiedBodies): Promise<Buffer | null> {
  const body = {
    received: () => exchange.bodyReceived,
    cutOff: (error: SvcError) => exchange.refuseBody(error),
  };
  bodies.enter(body);
  try {
    return await collectBody(exchange, bodies);
  } finally {
    bodies.leave(body);
  }
}

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
