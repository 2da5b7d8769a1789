/** Seals a message for one browser (RFC 8291, with the one record of RFC 8188) and signs its request (VAPID, RFC 8292). */
import { createCipheriv, createECDH, createPrivateKey, type ECDH, hkdfSync, randomBytes, sign } from 'node:crypto';
import type { PushKey } from '../../storage/push-key.ts';

const KEY_BYTES = 16;
const NONCE_BYTES = 12;
const SECRET_BYTES = 32;
const SALT_BYTES = 16;
/** The most that push services take; a message is one record of at most this. */
const RECORD_BYTES = 4096;
/** Ends the last record. */
const END = Buffer.of(2);

/** What a browser gave when it agreed: the address of its push service, and keys in base64url. */
export type Subscription = { endpoint: string; keys: { p256dh: string; auth: string } };

/** The random values of a message. */
type RandomValues = { salt: Buffer; pair: ECDH };

function randomValues(): RandomValues {
  const pair = createECDH('prime256v1');
  pair.generateKeys();
  return { salt: randomBytes(SALT_BYTES), pair };
}

/** A body with the encoding `aes128gcm`. `given` are the random values, for a test. */
export function sealedFor(
  { keys }: Subscription,
  text: Buffer,
  { salt, pair }: RandomValues = randomValues(),
): Buffer<ArrayBuffer> {
  const [receiver, auth] = [Buffer.from(keys.p256dh, 'base64url'), Buffer.from(keys.auth, 'base64url')];
  const sender = pair.getPublicKey();
  const keyInfo = Buffer.concat([Buffer.from('WebPush: info\0'), receiver, sender]);
  const secret = derived(pair.computeSecret(receiver), auth, keyInfo, SECRET_BYTES);
  const key = derived(secret, salt, Buffer.from('Content-Encoding: aes128gcm\0'), KEY_BYTES);
  const nonce = derived(secret, salt, Buffer.from('Content-Encoding: nonce\0'), NONCE_BYTES);
  const cipher = createCipheriv('aes-128-gcm', key, nonce);
  const sealed = [cipher.update(text), cipher.update(END), cipher.final(), cipher.getAuthTag()];
  const sizes = Buffer.alloc(5);
  sizes.writeUInt32BE(RECORD_BYTES);
  sizes.writeUInt8(sender.length, 4);
  return Buffer.concat([salt, sizes, sender, ...sealed]);
}

/** The header `authorization`: this gateway sends to that service until `until`, in seconds since the epoch. */
export function authorizationFor(
  endpoint: string,
  { jwk, publicKey }: PushKey,
  contact: string,
  until: number,
): string {
  const claims = { aud: new URL(endpoint).origin, exp: until, sub: contact };
  const signed = [{ typ: 'JWT', alg: 'ES256' }, claims].map(encoded).join('.');
  const key = createPrivateKey({ key: jwk, format: 'jwk' });
  const signature = sign('sha256', Buffer.from(signed), { key, dsaEncoding: 'ieee-p1363' });
  return `vapid t=${signed}.${signature.toString('base64url')}, k=${publicKey}`;
}

function derived(key: Buffer, salt: Buffer, info: Buffer, length: number): Buffer {
  return Buffer.from(hkdfSync('sha256', key, salt, info, length));
}

function encoded(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}
