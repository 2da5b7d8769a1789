/**
 * Gives all nodes of a cluster the same keys: they are in its database, sealed with the secret of the cluster (specification, "Files in
 * the cluster").
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import type { Database, Session } from '../../storage/cluster/database.ts';
import { isMissing, writeFileAtomic } from '../../storage/files/atomic-file.ts';
import type { Layout } from '../../storage/layout.ts';
import { openPushKey } from '../../storage/push-key.ts';
import { newSecretKey, readSecretKey, writeSecretKey } from '../../storage/secret-files.ts';
import { openToken } from '../../storage/token.ts';
import { ConfigError } from '../config.ts';

const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export class Keys {
  readonly #database: Database;
  readonly #sealing: Buffer;
  readonly #layout: Layout;
  /** The administrator's token as the cluster had it last. */
  #token: Buffer | null = null;

  constructor(database: Database, secret: string, layout: Layout) {
    this.#database = database;
    this.#sealing = Buffer.from(hkdfSync('sha256', secret, '', 'svc keys of a cluster', 32));
    this.#layout = layout;
  }

  /**
   * Puts the keys of the cluster into the data directory; the first node of a cluster gives it its own. Rejects with `ConfigError` where
   * the data directory has keys of another gateway, or the secret is another one than that of the cluster. All is asked in the session.
   */
  async share(session: Session = this.#database): Promise<void> {
    const { token, sessionKey, secretKey, pushKey } = this.#layout;
    // Only the first node makes any: others would be overwritten here, or refused at the next start.
    if (!(await hasKeys(session))) await makeKeys(this.#layout);
    for (const file of [sessionKey, secretKey, pushKey, token]) {
      const own = await contentOf(file);
      if (own !== null) await this.#put(session, file, own, 'NOTHING');
      const shared = await this.#read(session, file);
      if (shared === null || own?.equals(shared)) continue;
      // The token may have been replaced while this node was away.
      if (own === null || file === token) await writeFileAtomic(file, shared, 0o600);
      else
        throw new ConfigError(
          `The data directory has the ${basename(file)} of another gateway than that of the cluster. Start this node with an empty data directory.`,
          'cluster',
        );
    }
    this.#token = await this.#read(session, token);
  }

  /** Gives the cluster a token that was replaced here, and takes one that was replaced elsewhere. Rejects as `Database.rows` does. */
  async followToken(): Promise<void> {
    const { token } = this.#layout;
    const [own, shared] = [await contentOf(token), await this.#read(this.#database, token)];
    if (own === null || shared === null || own.equals(shared)) this.#token = shared;
    else if (this.#token === null || shared.equals(this.#token)) {
      await this.#put(this.#database, token, own, 'UPDATE SET sealed = excluded.sealed');
      this.#token = own;
    } else {
      await writeFileAtomic(token, shared, 0o600);
      this.#token = shared;
    }
  }

  async #put(session: Session, file: string, content: Buffer, otherwise: string): Promise<void> {
    const name = basename(file);
    await session.rows(`INSERT INTO svc.keys (name, sealed) VALUES ($1, $2) ON CONFLICT (name) DO ${otherwise}`, [
      name,
      seal(this.#sealing, name, content),
    ]);
  }

  async #read(session: Session, file: string): Promise<Buffer | null> {
    const name = basename(file);
    const [row] = await session.rows<{ sealed: Buffer }>('SELECT sealed FROM svc.keys WHERE name = $1', [name]);
    return row === undefined ? null : open(this.#sealing, name, row.sealed);
  }
}

/** Whether the cluster has begun: its first node has given it keys. */
export async function hasKeys(session: Session): Promise<boolean> {
  const [known] = await session.rows<{ count: number }>('SELECT count(*)::integer AS count FROM svc.keys');
  return known?.count !== 0;
}

async function makeKeys({ token, sessionKey, secretKey, pushKey }: Layout): Promise<void> {
  await openToken(token);
  await openToken(sessionKey);
  if ((await readSecretKey(secretKey)) === null) await writeSecretKey(secretKey, newSecretKey());
  await openPushKey(pushKey);
}

async function contentOf(file: string): Promise<Buffer | null> {
  try {
    return await readFile(file);
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

/** A nonce, what is sealed, and its tag. The name is sealed with it, so that no key stands for another. */
function seal(key: Buffer, name: string, content: Buffer): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce).setAAD(Buffer.from(name));
  return Buffer.concat([nonce, cipher.update(content), cipher.final(), cipher.getAuthTag()]);
}

function open(key: Buffer, name: string, sealed: Buffer): Buffer {
  try {
    const decipher = createDecipheriv(CIPHER, key, sealed.subarray(0, NONCE_BYTES)).setAAD(Buffer.from(name));
    decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
    return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]);
  } catch {
    throw new ConfigError(
      '"cluster.secretEnv" names a secret that is not the one of the cluster: its keys cannot be opened with it.',
      'cluster',
    );
  }
}
