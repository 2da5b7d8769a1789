/** Stores the browsers that agreed to show notices, in the identity database (specification, "Notices"). */
import { createHash, createPublicKey } from 'node:crypto';
import { existsSync } from 'node:fs';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Row } from '../../protocol/wire/frames.ts';
import { openPushKey, type PushKey } from '../../storage/push-key.ts';
import { ALONE, type IdentityClient, type IdentityNodes } from '../people/identity-db.ts';
import { retryIfWriterLost } from '../retry-if-writer-lost.ts';
import type { Subscription } from './push-message.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS push_browsers (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    subscription TEXT NOT NULL,
    public_key TEXT NOT NULL,
    added_at INTEGER NOT NULL
  )`;
const TABLE = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'push_browsers'";
const POINT_BYTES = 65;
const SECRET_BYTES = 16;

/** `id` is made from the address, so that a browser finds itself in the list. */
export type Browser = { id: string; name: string; addedAt: number; subscription: Subscription };

type BrowsersOptions = {
  /** The gateway's identity database, and its file: without the file none are stored. */
  db: IdentityClient;
  file: string;
  nodes?: IdentityNodes | undefined;
  keyFile: string;
  now(): number;
};

/** Every statement here may run twice: see `retryIfWriterLost`. */
export class NoticeBrowsers {
  readonly #options: BrowsersOptions;
  readonly #byId = new Map<string, Browser>();
  readonly #rows: (given: null) => Promise<Row[]>;
  readonly #tell: () => void;
  readonly #onChange: () => Promise<void>;
  #key: Promise<PushKey> | null = null;

  /** `onChange` runs when some were removed, and when another node changed them. */
  constructor(options: BrowsersOptions, onChange: () => Promise<void>) {
    this.#onChange = onChange;
    this.#options = options;
    const { nodes = ALONE } = options;
    this.#rows = nodes.atOwner('browsers', () => this.#read());
    this.remove = nodes.atOwner('a browser that is gone', (id: string) => this.#remove(id));
    const reload = async () => {
      await this.open();
      await this.#onChange();
      return false;
    };
    this.#tell = nodes.keeps({ name: 'browsers', reload });
  }

  /** In the order in which they agreed. */
  get all(): Browser[] {
    return [...this.#byId.values()];
  }

  /** The gateway's key, made on first need. */
  key(): Promise<PushKey> {
    this.#key ??= openPushKey(this.#options.keyFile).catch((error: unknown) => {
      this.#key = null;
      throw error;
    });
    return this.#key;
  }

  /** Reads those that agreed to the key that there is; others could not be reached. */
  async open(): Promise<void> {
    const rows = await this.#rows(null);
    const publicKey = rows.length > 0 ? (await this.key()).publicKey : '';
    this.#byId.clear();
    for (const row of rows) {
      if (row.public_key !== publicKey) continue;
      const browser = { id: String(row.id), name: String(row.name), addedAt: Number(row.added_at) };
      this.#byId.set(browser.id, { ...browser, subscription: JSON.parse(String(row.subscription)) });
    }
  }

  async #read(): Promise<Row[]> {
    const { db, file, nodes = ALONE } = this.#options;
    const mayHave = nodes !== ALONE || existsSync(file);
    if (!mayHave || (await retryIfWriterLost(() => db.get(TABLE))) === null) return [];
    return retryIfWriterLost(() => db.all('SELECT * FROM push_browsers ORDER BY added_at, id'));
  }

  /**
   * Durable once it resolves; one that is there gets the new name. Rejects with `BAD_REQUEST` for what no browser gives, and with
   * `CONFLICT` when there are `LIMITS.noticeBrowsers`.
   */
  async add(given: unknown, name: string): Promise<Browser> {
    const subscription = subscriptionOf(given);
    const id = createHash('sha256').update(subscription.endpoint).digest('hex').slice(0, 16);
    if (!this.#byId.has(id) && this.#byId.size >= LIMITS.noticeBrowsers)
      throw new SvcError(
        'CONFLICT',
        `${LIMITS.noticeBrowsers} browsers agreed already, the maximum. Remove one first.`,
      );
    const { db, now } = this.#options;
    const { publicKey } = await this.key();
    const browser = { id, name, addedAt: this.#byId.get(id)?.addedAt ?? now(), subscription };
    await retryIfWriterLost(() => db.exec(SCHEMA));
    await retryIfWriterLost(() =>
      db.run(
        'INSERT OR REPLACE INTO push_browsers (id, name, subscription, public_key, added_at) VALUES (?, ?, ?, ?, ?)',
        [id, name, JSON.stringify(subscription), publicKey, browser.addedAt],
      ),
    );
    this.#byId.set(id, browser);
    this.#tell();
    return browser;
  }

  /** False where there is none of this id. */
  readonly remove: (id: string) => Promise<boolean>;

  async #remove(id: string): Promise<boolean> {
    if (!this.#byId.has(id)) return false;
    await retryIfWriterLost(() => this.#options.db.run('DELETE FROM push_browsers WHERE id = ?', [id]));
    this.#byId.delete(id);
    this.#tell();
    await this.#onChange();
    return true;
  }
}

/** Throws `BAD_REQUEST`. */
function subscriptionOf(given: unknown): Subscription {
  const { endpoint, keys } = Object(given) as Partial<Subscription>;
  const { p256dh, auth } = Object(keys) as Partial<Subscription['keys']>;
  const isAddress =
    typeof endpoint === 'string' &&
    endpoint.length <= LIMITS.noticeUrlChars &&
    URL.canParse(endpoint) &&
    new URL(endpoint).protocol === 'https:';
  if (!isAddress) throw bad('endpoint', 'an https address');
  if (!isPoint(p256dh)) throw bad('keys.p256dh', 'a point of P-256 in base64url');
  if (typeof auth !== 'string' || Buffer.from(auth, 'base64url').length !== SECRET_BYTES)
    throw bad('keys.auth', `${SECRET_BYTES} bytes in base64url`);
  return { endpoint, keys: { p256dh: p256dh as string, auth } };
}

function isPoint(text: unknown): boolean {
  const bytes = typeof text === 'string' ? Buffer.from(text, 'base64url') : Buffer.alloc(0);
  if (bytes.length !== POINT_BYTES || bytes[0] !== 4) return false;
  const [x, y] = [bytes.subarray(1, 33), bytes.subarray(33)].map((part) => part.toString('base64url'));
  try {
    createPublicKey({ key: { kty: 'EC', crv: 'P-256', x: x as string, y: y as string }, format: 'jwk' });
    return true;
  } catch {
    return false;
  }
}

function bad(member: string, wanted: string): SvcError {
  const path = `subscription.${member}`;
  return new SvcError('BAD_REQUEST', `"${path}" must be ${wanted}, as the browser gives it.`, { path });
}
