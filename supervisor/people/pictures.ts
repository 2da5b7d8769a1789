/** Keeps the pictures of people in the identity database, beside their accounts (specification, "People"). */
import { randomBytes } from 'node:crypto';
import { SvcError } from '../../protocol/errors.ts';
import { retryIfWriterLost } from '../retry-if-writer-lost.ts';
import type { IdentityDb } from './identity-db.ts';
import type { People } from './people.ts';
import type { Account } from './records.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS people_pictures (
    id TEXT PRIMARY KEY,
    person TEXT NOT NULL,
    type TEXT NOT NULL, -- of media
    bytes BLOB NOT NULL
  ) STRICT`;
const PUT = 'INSERT INTO people_pictures (id, person, type, bytes) VALUES (?, ?, ?, ?)';
const DROP_OTHERS = 'DELETE FROM people_pictures WHERE person = ? AND id <> ?';

export type Picture = { readonly type: string; readonly bytes: Uint8Array };

export class Pictures {
  readonly #db: IdentityDb['db'];
  readonly #people: People;

  constructor({ db }: IdentityDb, people: People) {
    this.#db = db;
    this.#people = people;
  }

  /** Gives a person a picture. Rejects with `BAD_REQUEST` for what is none, and with `UNKNOWN_PERSON`. */
  async set(person: string, bytes: Uint8Array): Promise<Account> {
    const type = typeOf(bytes);
    if (type === null) throw new SvcError('BAD_REQUEST', 'The body must be a picture: PNG, JPEG or WebP.');
    const id = randomBytes(16).toString('hex');
    await retryIfWriterLost(() => this.#db.exec(SCHEMA));
    await this.#db.batch([[PUT, [id, person, type, bytes]]]);
    const account = await this.#people.update(person, { picture: id });
    await this.#db.batch([[DROP_OTHERS, [person, id]]]);
    return account;
  }

  /** Takes the picture of a person away, where there is one. Rejects with `UNKNOWN_PERSON`. */
  async remove(person: string): Promise<Account> {
    const { picture } = this.#people.get(person);
    const account = await this.#people.update(person, { picture: null });
    if (picture) await this.forget(person);
    return account;
  }

  /** Drops what is kept for somebody whose account says nothing of it any more, who had a picture. */
  async forget(person: string): Promise<void> {
    await this.#db.batch([[DROP_OTHERS, [person, '']]]);
  }

  /** The picture that a person has now by this id; null for others. */
  async read(person: string, id: string): Promise<Picture | null> {
    if (this.#people.find(person)?.picture !== id) return null;
    const row = await this.#db.get('SELECT type, bytes FROM people_pictures WHERE id = ?', [id]);
    return row === null ? null : { type: String(row.type), bytes: row.bytes as Uint8Array };
  }
}

/** Of the kinds of pictures that run nothing, whatever a browser takes them for; what their sender calls them does not count. */
function typeOf(bytes: Uint8Array): string | null {
  const text = Buffer.from(bytes.subarray(0, 12)).toString('latin1');
  if (text.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png';
  if (text.startsWith('\xff\xd8\xff')) return 'image/jpeg';
  return text.startsWith('RIFF') && text.endsWith('WEBP') ? 'image/webp' : null;
}

/** The address of an account's picture, at each origin of the gateway; null for none. */
export function pictureOf({ id, picture }: Pick<Account, 'id' | 'picture'>): string | null {
  return picture ? `/svc/_people/${id}/picture/${picture}` : null;
}
