/**
 * Reads, creates and replaces the access token: `token.bin` in the data directory, 32 random bytes as 64 hex characters
 * (specification, "Access token").
 */
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { isMissing, writeFileAtomic } from './files/atomic-file.ts';

const TOKEN = /^[0-9a-f]{64}$/i;

/** Begins the file of a token that the desktop program keeps, encrypted by the system and then as base64 (hosts/desktop). */
export const ENCRYPTED = 'safeStorage:';

export function isToken(text: string): boolean {
  return TOKEN.test(text);
}

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
  if (isToken(token)) return token;
  if (token.startsWith(ENCRYPTED))
    throw new Error(
      `The access token in ${basename(path)} is encrypted for the desktop program, whose gateway this is. Open it there: its menu copies the address and the token for the command line.`,
    );
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
