/**
 * Hashes and checks passwords: with argon2id where Node has it, else with scrypt (specification, "Signing in"). One at a time, because
 * each takes tens of megabytes.
 */
import * as crypto from 'node:crypto';
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { SerialByKey } from '../serial.ts';

/** The least that OWASP recommends: 32 MiB three times, and 19 MiB twice. */
const SCRYPT = { N: 2 ** 15, r: 8, p: 3, maxmem: 64 * 1024 * 1024 };
const ARGON = { memory: 19 * 1024, passes: 2, parallelism: 1 };
const BYTES = 32;

type Argon = (
  algorithm: 'argon2id',
  parameters: { message: string; nonce: Buffer; tagLength: number } & typeof ARGON,
  callback: (error: Error | null, derived: Buffer) => void,
) => void;
type Algorithm = 'argon2id' | 'scrypt';

/** Node has it since 24.7; what is called may still refuse, as its OpenSSL is. */
const argon2 = (crypto as { argon2?: Argon }).argon2;
const scrypt = promisify<string, Buffer, number, typeof SCRYPT, Buffer>(crypto.scrypt);
const queue = new SerialByKey();
let waiting = 0;
let usual: Promise<Algorithm> | null = null;

/** The hash of a password as it is stored: `<algorithm>$1$<salt>$<hash>`, salt and hash in base64url. Rejects with `OVERLOADED`. */
export async function hashOf(password: string): Promise<string> {
  const salt = randomBytes(16);
  const algorithm = await usualAlgorithm();
  const derived = await derive(algorithm, password, salt);
  return [algorithm, 1, salt.toString('base64url'), derived.toString('base64url')].join('$');
}

/**
 * Whether a password has this hash. Without a hash, and with one that this Node cannot make, it takes as long and is false. Rejects
 * with `OVERLOADED`.
 */
export async function isPassword(password: string, hash: string | null): Promise<boolean> {
  const isKnown = hash !== null && (await canCheck(hash));
  const [algorithm, , salt = '', wanted = ''] = (isKnown ? hash : `${await usualAlgorithm()}$1$${NONE}`).split('$');
  const derived = await derive(algorithm as Algorithm, password, Buffer.from(salt, 'base64url'));
  return timingSafeEqual(derived, Buffer.from(wanted, 'base64url')) && isKnown;
}

/** Whether this Node can check passwords against a hash: one of a newer Node may be of another algorithm. */
export async function canCheck(hash: string): Promise<boolean> {
  return hash.startsWith('scrypt$') || (await usualAlgorithm()) === 'argon2id';
}

/** Whether a hash is of another algorithm than new ones: it is made anew when its person signs in. */
export async function isOutdated(hash: string): Promise<boolean> {
  return !hash.startsWith(`${await usualAlgorithm()}$`);
}

/** Throws `BAD_REQUEST` for a password that is too short or too long. */
export function checkPassword(password: string): void {
  // The length as it came is asked first: to normalize a long text takes long.
  const isShort = password.length <= LIMITS.passwordCharsMax;
  if (isShort && password.normalize('NFC').length >= LIMITS.passwordChars) return;
  throw new SvcError(
    'BAD_REQUEST',
    `"password" must have ${LIMITS.passwordChars} to ${LIMITS.passwordCharsMax} characters.`,
    { path: 'password' },
  );
}

/** Salt and hash of what has no password. */
const NONE = `${'A'.repeat(22)}$${'A'.repeat(43)}`;

/** Asked once, by making a hash. */
function usualAlgorithm(): Promise<Algorithm> {
  usual ??= derived('argon2id', '', Buffer.alloc(16)).then(
    () => 'argon2id',
    () => 'scrypt',
  );
  return usual;
}

/** One after the other, and no more at once than `LIMITS.passwordsWaiting`. */
async function derive(algorithm: Algorithm, password: string, salt: Buffer): Promise<Buffer> {
  if (waiting >= LIMITS.passwordsWaiting) {
    const headers = { 'retry-after': '10' };
    throw new SvcError('OVERLOADED', 'Too many people sign in at once; try again.', { headers });
  }
  waiting++;
  try {
    return await queue.run('hash', () => derived(algorithm, password, salt));
  } finally {
    waiting--;
  }
}

/** The same password typed on another system is the same text (NFC). */
async function derived(algorithm: Algorithm, password: string, salt: Buffer): Promise<Buffer> {
  const message = password.normalize('NFC');
  if (algorithm === 'scrypt') return await scrypt(message, salt, BYTES, SCRYPT);
  if (argon2 === undefined) throw new Error('This Node has no argon2id.');
  return await promisify(argon2)('argon2id', { message, nonce: salt, tagLength: BYTES, ...ARGON });
}
