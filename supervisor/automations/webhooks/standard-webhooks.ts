/** Checks signatures of incoming webhooks by the Standard Webhooks specification (1.0.0, symmetric). */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { LIMITS } from '../../../protocol/limits.ts';

/** The content of the three headers; unverified until `isSignedWith` has the body. */
type WebhookHeaders = {
  id: string;
  /** Seconds since the epoch, as sent: the signature is over these characters. */
  timestamp: string;
  /** The candidates, each 32 bytes. */
  signatures: Buffer[];
};

const KEY_PREFIX = 'whsec_';
/** Without a full stop: it parts what is signed, and with one in the id, another id and time would have the same signature. */
const ID = /^[\x21-\x2d\x2f-\x7e]{1,255}$/;
const TIMESTAMP = /^[1-9]\d{0,11}$/;
/** A SHA-256 in base64. Other versions (`v1a`, asymmetric) are for other keys. */
const SIGNATURE = /^v1,([A-Za-z0-9+/]{43}=)$/;

/**
 * Reads `webhook-id`, `webhook-timestamp` and `webhook-signature`. Returns a message for the sender when one is missing,
 * malformed, or when its time is more than `LIMITS.webhookToleranceMs` off. `now` is milliseconds since the epoch.
 */
export function readWebhookHeaders(
  header: (name: string) => string | undefined,
  now: number,
): WebhookHeaders | { fault: string } {
  const id = header('webhook-id');
  const timestamp = header('webhook-timestamp');
  const presented = header('webhook-signature');
  if (id === undefined || timestamp === undefined || presented === undefined) {
    return { fault: 'Sign the request: it needs the headers webhook-id, webhook-timestamp and webhook-signature.' };
  }
  if (!ID.test(id)) return { fault: '"webhook-id" must be 1 to 255 printable characters without a full stop.' };
  if (!TIMESTAMP.test(timestamp)) return { fault: '"webhook-timestamp" must be whole seconds since the epoch.' };
  if (Math.abs(Number(timestamp) * 1000 - now) > LIMITS.webhookToleranceMs) {
    return { fault: `"webhook-timestamp" is more than ${LIMITS.webhookToleranceMs / 60_000} minutes off.` };
  }
  const signatures = presented.split(' ').flatMap((part) => {
    const encoded = SIGNATURE.exec(part)?.[1];
    return encoded === undefined ? [] : [Buffer.from(encoded, 'base64')];
  });
  if (signatures.length === 0) return { fault: '"webhook-signature" holds no signature of version v1.' };
  return { id, timestamp, signatures };
}

/** Whether one of the signatures was made with this key, over these headers and this body. Takes as long for a wrong one. */
export function isSignedWith(key: Buffer, headers: WebhookHeaders, body: Buffer): boolean {
  const expected = createHmac('sha256', key).update(`${headers.id}.${headers.timestamp}.`).update(body).digest();
  return headers.signatures.some((signature) => timingSafeEqual(signature, expected));
}

/** The bytes of a key such as `whsec_MfKQ…`; null for any other text. */
export function webhookKey(text: string): Buffer | null {
  if (!text.startsWith(KEY_PREFIX)) return null;
  const key = Buffer.from(text.slice(KEY_PREFIX.length), 'base64');
  return key.length > 0 ? key : null;
}
