/**
 * Keeps the access tokens of gateways, each in a `token.bin`: encrypted by the system where it can, else as text that only its owner
 * may read (specification, "Hosts that exist").
 */
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isMissing, writeFileAtomic } from '../../../storage/files/atomic-file.ts';
import { ENCRYPTED, isToken } from '../../../storage/token.ts';

/** The asynchronous calls of Electron's `safeStorage`; the others end with Electron 46. */
export type SafeStorage = {
  isAsyncEncryptionAvailable(): Promise<boolean>;
  encryptStringAsync(text: string): Promise<Buffer>;
  decryptStringAsync(encrypted: Buffer): Promise<{ result: string; shouldReEncrypt: boolean }>;
  /** On Linux only. */
  getSelectedStorageBackend(): string;
};

/** The system does not decrypt a token: its key store is locked, or is another one. */
export class TokenLockedError extends Error {
  constructor(path: string, cause: unknown) {
    super(`The access token in ${path} cannot be decrypted: ${(cause as Error).message}`, { cause });
    this.name = 'TokenLockedError';
  }
}

/** Backends that keep nothing secret: the password is part of Chromium's source, or the question came too early. */
const UNPROTECTED = new Set(['basic_text', 'unknown']);

export class Tokens {
  readonly #storage: SafeStorage;
  readonly #platform: NodeJS.Platform;
  #protected: Promise<boolean> | undefined;

  constructor(storage: SafeStorage, platform: NodeJS.Platform) {
    this.#storage = storage;
    this.#platform = platform;
  }

  /** Whether the system keeps them from other programs and users. */
  isProtected(): Promise<boolean> {
    this.#protected ??= this.#ask();
    return this.#protected;
  }

  async #ask(): Promise<boolean> {
    if (!(await this.#storage.isAsyncEncryptionAvailable().catch(() => false))) return false;
    return this.#platform !== 'linux' || !UNPROTECTED.has(this.#storage.getSelectedStorageBackend());
  }

  /**
   * The token in the file; null without a file, and for one that is damaged. Text that the system could keep secret is encrypted now.
   * Throws `TokenLockedError`.
   */
  async read(path: string): Promise<string | null> {
    let stored: string;
    try {
      stored = (await readFile(path, 'latin1')).trim();
    } catch (error) {
      if (isMissing(error)) return null;
      throw error;
    }
    if (!stored.startsWith(ENCRYPTED)) {
      if (!isUsable(stored)) return null;
      if (await this.isProtected()) await this.write(path, stored);
      return stored;
    }
    const { result, shouldReEncrypt } = await this.#storage
      .decryptStringAsync(Buffer.from(stored.slice(ENCRYPTED.length), 'base64'))
      .catch((error: unknown) => {
        throw new TokenLockedError(path, error);
      });
    if (shouldReEncrypt) await this.write(path, result);
    return result;
  }

  async write(path: string, token: string): Promise<void> {
    const text = (await this.isProtected())
      ? `${ENCRYPTED}${(await this.#storage.encryptStringAsync(token)).toString('base64')}`
      : token;
    await writeFileAtomic(path, `${text}\n`, 0o600);
  }

  /** The token of our own gateway, made where there is none. Throws `TokenLockedError`. */
  async readOrMake(path: string): Promise<string> {
    const stored = await this.read(path);
    return stored !== null && isToken(stored) ? stored : this.make(path);
  }

  /** A new token in place of the old one. */
  async make(path: string): Promise<string> {
    const token = randomBytes(32).toString('hex');
    await this.write(path, token);
    return token;
  }
}

/** An administrator's token, or one for programs. */
function isUsable(text: string): boolean {
  return /^[!-~]{16,256}$/.test(text);
}
