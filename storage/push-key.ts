/** Stores the key pair by which services that pass messages on to browsers know the gateway (VAPID, RFC 8292): `push.key`. */
import { createECDH, type ECDH } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isMissing, writeFileAtomic } from './files/atomic-file.ts';

const CURVE = 'prime256v1';
const PRIVATE = /^[0-9a-f]{64}\n?$/;
const COORDINATE_BYTES = 32;

/** `publicKey` is the point in base64url, as browsers take it; `jwk` has the private key. */
export type PushKey = { publicKey: string; jwk: { kty: 'EC'; crv: 'P-256'; x: string; y: string; d: string } };

/** The key in the file, made on first need. Throws an error that says what to do when it is damaged. */
export async function openPushKey(path: string): Promise<PushKey> {
  const pair = createECDH(CURVE);
  let text: string | null = null;
  try {
    text = await readFile(path, 'latin1');
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  if (text === null) {
    pair.generateKeys();
    await writeFileAtomic(path, `${pair.getPrivateKey('hex').padStart(2 * COORDINATE_BYTES, '0')}\n`, 0o600);
  } else {
    if (!PRIVATE.test(text))
      throw new Error('push.key is damaged: it must be 64 hex characters. Delete it; browsers have to agree again.');
    pair.setPrivateKey(text.trim(), 'hex');
  }
  return keyOf(pair);
}

function keyOf(pair: ECDH): PushKey {
  const point = pair.getPublicKey();
  const d = Buffer.from(pair.getPrivateKey('hex').padStart(2 * COORDINATE_BYTES, '0'), 'hex');
  const [x, y] = [point.subarray(1, 1 + COORDINATE_BYTES), point.subarray(1 + COORDINATE_BYTES)];
  const [xText, yText, dText] = [x, y, d].map((bytes) => bytes.toString('base64url')) as [string, string, string];
  return {
    publicKey: point.toString('base64url'),
    jwk: { kty: 'EC', crv: 'P-256', x: xText, y: yText, d: dText },
  };
}
