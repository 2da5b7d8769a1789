/**
 * Stores preferences in the identity database, of the user of this gateway and of each person (specification, "Settings of
 * pages").
 */
import { randomUUID } from 'node:crypto';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { ALONE, type IdentityClient, type IdentityDb } from '../people/identity-db.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS users (id TEXT PRIMARY KEY, created_at INTEGER NOT NULL);
  CREATE TABLE IF NOT EXISTS preferences (
    person TEXT NOT NULL, -- empty: the user of the gateway
    key TEXT NOT NULL,
    value TEXT NOT NULL, -- JSON
    PRIMARY KEY (person, key)
  ) WITHOUT ROWID;
  -- Where releases without people keep those of the user.
  CREATE TABLE IF NOT EXISTS prefs (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  INSERT OR REPLACE INTO preferences SELECT '', key, value FROM prefs;
  DELETE FROM prefs`;

const ALL = `
  SELECT json_group_array(json_array(key, value)) AS texts
  FROM (SELECT key, value FROM preferences WHERE person = ? ORDER BY key)`;
const DELETE = 'DELETE FROM preferences WHERE key IN (SELECT value FROM json_each(?)) AND person = ?';
/** Its `WHERE true` tells SQLite that what follows is no join. */
const SET = `
  INSERT INTO preferences (person, key, value)
  SELECT ?, json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?) WHERE true
  ON CONFLICT (person, key) DO UPDATE SET value = excluded.value`;

export class Preferences {
  readonly #db: IdentityClient;
  readonly #stored: (person: string) => Promise<Record<string, unknown>>;
  #ready: Promise<unknown> | null = null;

  constructor({ db, nodes = ALONE }: Pick<IdentityDb, 'db' | 'nodes'>) {
    this.#db = db;
    this.#stored = nodes.atOwner('preferences', (person: string) => this.#read(person));
  }

  /** The user's id, made on first need. */
  async id(): Promise<string> {
    await this.#open();
    await this.#db.run('INSERT INTO users (id, created_at) SELECT ?, ? WHERE NOT EXISTS (SELECT 1 FROM users)', [
      randomUUID(),
      Date.now(),
    ]);
    const row = await this.#db.get('SELECT id FROM users');
    return String(row?.id);
  }

  /** Every preference of a person, or of the user of the gateway; values are any JSON. */
  read(person = ''): Promise<Record<string, unknown>> {
    return this.#stored(person);
  }

  async #read(person: string): Promise<Record<string, unknown>> {
    await this.#open();
    const row = await this.#db.get(ALL, [person]);
    const texts = JSON.parse(String(row?.texts)) as [key: string, value: string][];
    return Object.fromEntries(texts.map(([key, value]) => [key, JSON.parse(value)]));
  }

  /**
   * Sets what `patch` names; null deletes. Resolves with all preferences. Rejects with `PAYLOAD_TOO_LARGE` when they would
   * take more than `LIMITS.settingsBytes` together.
   */
  async patch(patch: Record<string, unknown>, person = ''): Promise<Record<string, unknown>> {
    const wanted = Object.entries({ ...(await this.read(person)), ...patch }).filter(([, value]) => value !== null);
    if (Buffer.byteLength(JSON.stringify(Object.fromEntries(wanted))) > LIMITS.settingsBytes) {
      throw new SvcError('PAYLOAD_TOO_LARGE', `Preferences may have at most ${LIMITS.settingsBytes} bytes.`);
    }
    const changed = Object.entries(patch);
    const deleted = changed.flatMap(([key, value]) => (value === null ? [key] : []));
    const set = changed.flatMap(([key, value]) => (value === null ? [] : [[key, JSON.stringify(value)]]));
    // Thousands of statements, or rows, would hold the event loop.
    if (changed.length > 0)
      await this.#db.batch([
        [DELETE, [JSON.stringify(deleted), person]],
        [SET, [person, JSON.stringify(set)]],
      ]);
    return this.read(person);
  }

  /** Forgets a person. */
  async forget(person: string): Promise<void> {
    await this.#open();
    await this.#db.run('DELETE FROM preferences WHERE person = ?', [person]);
  }

  async #open(): Promise<void> {
    this.#ready ??= this.#db.exec(SCHEMA);
    try {
      await this.#ready;
    } catch (error) {
      this.#ready = null;
      throw error;
    }
  }
}
