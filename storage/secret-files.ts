/**
 * Stores the secrets of an app: `secrets.json` beside its data, each value sealed with the key in `secrets.key`, which lies
 * beside the access token (specification, "Secrets").
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { object, text } from '../protocol/shapes/schema.ts';
import { shape } from '../protocol/shapes/shape.ts';
import { isMissing, readShaped, removeDurable, writeFileAtomic } from './files/atomic-file.ts';
import type { AppPaths } from './layout.ts';

/** `sealed` is base64: nonce, tag and text of AES-256-GCM. `updatedAt` is in milliseconds since the epoch. */
export type StoredSecret = { updatedAt: number; sealed: string };

const KEY = /^[0-9a-f]{64}$/i;
const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** The key in the file; null when there is none. Throws an error that says what to do when it is damaged. */
export async function readSecretKey(path: string): Promise<Buffer | null> {
  let text: string;
  try {
    text = await readFile(path, 'latin1');
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
  const key = text.replace(/\r?\n$/, '');
  if (KEY.test(key)) return Buffer.from(key, 'hex');
  throw new DamagedSecrets('The key of the secrets, secrets.key, is damaged: it must be 64 hex characters.');
}

export async function writeSecretKey(path: string, key: Buffer): Promise<void> {
  await writeFileAtomic(path, `${key.toString('hex')}\n`, 0o600);
}

export function newSecretKey(): Buffer {
  return randomBytes(32);
}

const SECRETS = shape(
  object({
    secrets: { type: 'object', additionalProperties: object({ updatedAt: { type: 'integer' }, sealed: text }) },
  }),
);

/** A file that was changed by hand. Its message is for people. */
export class DamagedSecrets extends Error {}

/** By name; empty when the app has none. Throws `DamagedSecrets`. */
export async function readSecrets(app: AppPaths): Promise<Map<string, StoredSecret>> {
  const file = await readShaped(app.secrets, SECRETS);
  if (file === undefined) return new Map();
  if (file !== null) return new Map(Object.entries(file.secrets));
  throw new DamagedSecrets('The file secrets.json of the app is damaged.');
}

/** Replaces them all. */
export async function writeSecrets(app: AppPaths, secrets: ReadonlyMap<string, StoredSecret>): Promise<void> {
  if (secrets.size === 0) return await removeDurable(app.secrets);
  const sorted = [...secrets].sort(([a], [b]) => (a < b ? -1 : 1));
  await writeFileAtomic(app.secrets, `${JSON.stringify({ secrets: Object.fromEntries(sorted) }, null, 2)}\n`, 0o600);
}

/** `owner` and `name` are bound to the value: one sealed for one secret cannot be opened for another. */
export function seal(key: Buffer, owner: string, name: string, value: string): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce).setAAD(bindingOf(owner, name));
  const text = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), text]).toString('base64');
}

/** Null when it was sealed with another key or for another secret, or was changed since. */
export function unseal(key: Buffer, owner: string, name: string, sealed: string): string | null {
  const bytes = Buffer.from(sealed, 'base64');
  if (bytes.length < NONCE_BYTES + TAG_BYTES) return null;
  const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
    .setAAD(bindingOf(owner, name))
    .setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
  try {
    return decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES), undefined, 'utf8') + decipher.final('utf8');
  } catch {
    return null;
  }
}

function bindingOf(owner: string, name: string): Buffer {
  return Buffer.from(`${owner}\0${name}`);
}
