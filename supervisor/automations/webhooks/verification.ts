/** Verifies the sender of a webhook by a secret, in the way of each service (specification, "Signed webhooks"). Pure. */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { HmacVerify, WebhookVerify } from '../../../protocol/automations/automation.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { isSignedWith, readWebhookHeaders } from './standard-webhooks.ts';

/** The claims of a request's headers; `isMadeWith` verifies them. */
export type Proof = {
  /** Whether one of the signatures was made with this secret, over this body. Takes as long for a wrong one. */
  isMadeWith(secret: string, body: Buffer): boolean;
  /** The sender's id of this delivery, the same for each attempt; null when it is in `input`, the body, or missing. */
  deliveryId(input: unknown, body: Buffer): string | null;
};

type Header = (name: string) => string | undefined;
type Read = Proof | { fault: string };

/** Whoever sends its secret itself needs no signature. */
export type SignedVerify = Exclude<WebhookVerify, 'bearer'>;

const ID = /^[\x21-\x7e]{1,255}$/;
const TIMESTAMP = /^[1-9]\d{0,11}$/;
const GITHUB: HmacVerify = {
  header: 'x-hub-signature-256',
  algorithm: 'sha256',
  encoding: 'hex',
  prefix: 'sha256=',
};
const BYTES = { sha1: 20, sha256: 32, sha512: 64 };
const STANDARD_PREFIX = 'whsec_';

/** The proof, or a message for the sender when a header is missing, malformed or too old. `now` is milliseconds since the epoch. */
export function readProof(verify: SignedVerify, header: Header, now: number): Read {
  if (verify === 'standard') return standard(header, now);
  if (verify === 'github') return github(header);
  if (verify === 'stripe') return stripe(header, now);
  if (verify === 'slack') return slack(header, now);
  return hmac(verify, header);
}

/** Whether `value` is the secret, of which this is the SHA-256, in hex. Neither what is wrong with it nor its length shows. */
export function isSecret(value: string | undefined, secretHash: string): boolean {
  const expected = Buffer.from(secretHash, 'hex');
  const digest = createHash('sha256')
    .update(value ?? '')
    .digest();
  return value !== undefined && digest.length === expected.length && timingSafeEqual(digest, expected);
}

function standard(header: Header, now: number): Read {
  const read = readWebhookHeaders(header, now);
  if ('fault' in read) return read;
  return {
    isMadeWith: (secret, body) => {
      const key = Buffer.from(
        secret.startsWith(STANDARD_PREFIX) ? secret.slice(STANDARD_PREFIX.length) : secret,
        'base64',
      );
      // Everyone could sign with a key of no bytes.
      return key.length > 0 && isSignedWith(key, read, body);
    },
    deliveryId: () => read.id,
  };
}

function hmac({ header: name, algorithm, encoding, prefix = '' }: HmacVerify, header: Header): Read {
  const value = header(name.toLowerCase());
  if (value === undefined) return { fault: `Sign the request: it needs the header ${name}.` };
  const signature = value.startsWith(prefix) ? decoded(value.slice(prefix.length), encoding, BYTES[algorithm]) : null;
  if (signature === null)
    return {
      fault: `"${name}" must be ${prefix === '' ? '' : `"${prefix}" and `}an HMAC with ${algorithm} in ${encoding}.`,
    };
  return {
    isMadeWith: (secret, body) => isOneOf([signature], createHmac(algorithm, secret).update(body).digest()),
    deliveryId: () => null,
  };
}

function github(header: Header): Read {
  const proof = hmac(GITHUB, header);
  const id = header('x-github-delivery') ?? '';
  return 'fault' in proof ? proof : { ...proof, deliveryId: () => (ID.test(id) ? id : null) };
}

/** `t=<seconds>,v1=<hex>,…`: while a secret is replaced, a signature for each. */
function stripe(header: Header, now: number): Read {
  const value = header('stripe-signature');
  if (value === undefined) return { fault: 'Sign the request: it needs the header Stripe-Signature.' };
  const of = (name: string) =>
    value
      .split(',')
      .flatMap((part) => (part.trim().startsWith(`${name}=`) ? [part.trim().slice(name.length + 1)] : []));
  const [timestamp = '', ...more] = of('t');
  const signatures = of('v1').flatMap((text) => decoded(text, 'hex', BYTES.sha256) ?? []);
  if (!TIMESTAMP.test(timestamp) || more.length > 0 || signatures.length === 0)
    return { fault: '"Stripe-Signature" must have one time "t" and a signature "v1".' };
  return timed(`${timestamp}.`, timestamp, signatures, 'id', now);
}

function slack(header: Header, now: number): Read {
  const [timestamp, value] = [header('x-slack-request-timestamp'), header('x-slack-signature')];
  if (timestamp === undefined || value === undefined)
    return { fault: 'Sign the request: it needs the headers X-Slack-Request-Timestamp and X-Slack-Signature.' };
  const signature = value.startsWith('v0=') ? decoded(value.slice(3), 'hex', BYTES.sha256) : null;
  if (!TIMESTAMP.test(timestamp))
    return { fault: '"X-Slack-Request-Timestamp" must be whole seconds since the epoch.' };
  if (signature === null) return { fault: '"X-Slack-Signature" must be "v0=" and 64 hexadecimal digits.' };
  return timed(`v0:${timestamp}:`, timestamp, [signature], 'event_id', now);
}

/** Signed is `before` and the body, which calls itself by its member `idMember`; one that does not can come once as it is. */
function timed(before: string, timestamp: string, signatures: Buffer[], idMember: string, now: number): Read {
  if (Math.abs(Number(timestamp) * 1000 - now) > LIMITS.webhookToleranceMs)
    return { fault: `The time of the signature is more than ${LIMITS.webhookToleranceMs / 60_000} minutes off.` };
  return {
    isMadeWith: (secret, body) =>
      isOneOf(signatures, createHmac('sha256', secret).update(before).update(body).digest()),
    deliveryId: (input, body) => {
      const id = typeof input === 'object' && input !== null ? (input as Record<string, unknown>)[idMember] : undefined;
      if (typeof id === 'string' && ID.test(id)) return id;
      return createHash('sha256').update(before).update(body).digest('hex');
    },
  };
}

function isOneOf(signatures: Buffer[], expected: Buffer): boolean {
  return signatures.some((signature) => timingSafeEqual(signature, expected));
}

/** Null unless it is just as many bytes, in the one way in which they are written; hexadecimal digits may be upper case. */
function decoded(text: string, encoding: 'hex' | 'base64', bytes: number): Buffer | null {
  const buffer = Buffer.from(text, encoding);
  const same = buffer.toString(encoding) === (encoding === 'hex' ? text.toLowerCase() : text);
  return same && buffer.length === bytes ? buffer : null;
}
