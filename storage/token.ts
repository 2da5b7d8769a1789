/**
 * Reads, creates and replaces the access token: `token.bin` in the data directory, 32 random bytes as 64 hex characters
 * (decisions, section 1).
 */
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { isMissing, writeFileAtomic } from './files/atomic-file.ts';

const TOKEN = /^[0-9a-f]{64}$/i;

/** The token in the file, created if missing. Throws when the file is damaged. */
export async function openToken(path: string): Promise<string> {
  try {
    return await readToken(path);
  } catch (error) {
    if (!isMissing(error)) throw error;
    return rotateToken(path);
  }
}

/** The token in the file. Throws `ENOENT` when there is none, and an error that says what to do when it is damaged. */
export async function readToken(path: string): Promise<string> {
  const token = (await readFile(path, 'latin1')).replace(/\r?\n$/, '');
  if (TOKEN.test(token)) return token;
  throw new Error(
    `The access token in ${basename(path)} is damaged: it must be 64 hex characters. Run "svc token rotate", or delete the file, to get a new one.`,
  );
}

/** Replaces the token by a new one; a running daemon notices. */
export async function rotateToken(path: string): Promise<string> {
  const token = randomBytes(32).toString('hex');
  await writeFileAtomic(path, `${token}\n`, 0o600);
  return token;
}
