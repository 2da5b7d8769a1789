/** Keeps the codes that a browser takes to a program which a person connects: in memory, for a minute, each good once. */
import { hash, randomBytes } from 'node:crypto';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Connection } from '../records.ts';

/** What a person agreed to, and what the program must know to get it. */
export type Agreed = Pick<Connection, 'person' | 'client' | 'name' | 'path' | 'app' | 'role'> & {
  readonly redirect: string;
  /** Of PKCE, made with S256. */
  readonly challenge: string;
};

/** `connection` is what the code was taken for; null while it was not. */
export type Code = {
  readonly agreed: Agreed;
  readonly expiresAt: number;
  connection: string | null;
  /** Somebody sent it again. */
  isSpoiled: boolean;
};

const VERIFIER = /^[A-Za-z0-9._~-]{43,128}$/;

export class Codes {
  readonly #now: () => number;
  /** In the order in which they were given. */
  readonly #codes = new Map<string, Code>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** The oldest make room. */
  give(agreed: Agreed): string {
    const now = this.#now();
    for (const [old, { expiresAt }] of this.#codes) {
      if (expiresAt > now && this.#codes.size < LIMITS.codesWaiting) break;
      this.#codes.delete(old);
    }
    const code = randomBytes(32).toString('base64url');
    this.#codes.set(code, { agreed, expiresAt: now + LIMITS.codeMs, connection: null, isSpoiled: false });
    return code;
  }

  find(code: string): Code | undefined {
    const found = this.#codes.get(code);
    return found !== undefined && found.expiresAt > this.#now() ? found : undefined;
  }
}

/** Whether a program knows the secret behind its challenge (RFC 7636). */
export function isVerified(verifier: string, challenge: string): boolean {
  return VERIFIER.test(verifier) && hash('sha256', verifier, 'base64url') === challenge;
}
