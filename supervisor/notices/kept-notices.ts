/**
 * Keeps notices until they are sent, and which failures people were told of, in the runtime databases: a restart loses neither
 * (specification, "Notices"). Where it cannot be written, as on a full disk, they are in memory only.
 */
import type { Logger } from 'pino';
import type { Notice } from '../../protocol/notice.ts';
import type { DbClient } from '../../protocol/wire/db-client.ts';
import type { SqlStatement } from '../../protocol/wire/frames.ts';
import { retryIfWriterLost } from '../retry-if-writer-lost.ts';
import { type RuntimeDatabases, RuntimeTables } from '../runtime/runtime-databases.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS notices (
    id TEXT NOT NULL,
    channel TEXT NOT NULL,
    notice TEXT NOT NULL,
    PRIMARY KEY (id, channel)
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS told_failures (key TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID`;
const TABLES = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'told_failures'";

export type Kept = { waiting: { channel: string; notice: Notice }[]; failures: Map<string, number> };

/** Every statement here may run twice: see `retryIfWriterLost`. */
export class KeptNotices {
  readonly #runtime: RuntimeDatabases;
  readonly #tables: RuntimeTables;
  readonly #log: Logger;
  #underWay: Promise<unknown> = Promise.resolve();

  constructor(runtime: RuntimeDatabases, log: Logger) {
    this.#runtime = runtime;
    this.#tables = new RuntimeTables(runtime, (db) => db.exec(SCHEMA));
    this.#log = log;
  }

  /** Those of the gateways before this one, oldest first: all that are here, or those in one database. Makes no table. */
  async read(only?: DbClient): Promise<Kept> {
    const kept: Kept = { waiting: [], failures: new Map() };
    for (const db of only === undefined ? this.#runtime.all() : [only]) {
      if ((await retryIfWriterLost(() => db.get(TABLES))) === null) continue;
      const rows = await retryIfWriterLost(() => db.all('SELECT channel, notice FROM notices ORDER BY id, channel'));
      for (const { channel, notice } of rows)
        kept.waiting.push({ channel: String(channel), notice: JSON.parse(String(notice)) });
      for (const { key, at } of await retryIfWriterLost(() => db.all('SELECT key, at FROM told_failures')))
        kept.failures.set(String(key), Number(at));
    }
    // Ids grow with time.
    kept.waiting.sort((one, other) => (one.notice.id < other.notice.id ? -1 : one.notice.id > other.notice.id ? 1 : 0));
    return kept;
  }

  /** Durable when it resolves. Never rejects. */
  keep(notice: Notice, channels: readonly string[]): Promise<void> {
    const text = JSON.stringify(notice);
    const sql = 'INSERT OR IGNORE INTO notices (id, channel, notice) VALUES (?, ?, ?)';
    return this.#write(
      appOf(notice),
      channels.map((channel) => [sql, [notice.id, channel, text]]),
    );
  }

  removeSent(notice: Notice, channel: string): void {
    void this.#write(appOf(notice), [['DELETE FROM notices WHERE id = ? AND channel = ?', [notice.id, channel]]]);
  }

  /** What waits for a channel that is there no more. */
  dropChannel(channel: string): void {
    const statement: SqlStatement = ['DELETE FROM notices WHERE channel = ?', [channel]];
    for (const db of this.#runtime.all()) void this.#noted(() => this.#tables.in(db), [statement]);
  }

  keepFailure(key: string, at: number): void {
    void this.#write(appOfFailure(key), [['INSERT OR IGNORE INTO told_failures (key, at) VALUES (?, ?)', [key, at]]]);
  }

  /** All of the same app. */
  forgetFailures(keys: readonly string[]): void {
    const [first] = keys;
    if (first === undefined) return;
    void this.#write(
      appOfFailure(first),
      keys.map((key) => ['DELETE FROM told_failures WHERE key = ?', [key]]),
    );
  }

  /** Resolves when everything is written, or could not be. */
  async settled(): Promise<void> {
    await this.#underWay;
  }

  #write(app: string | null, statements: SqlStatement[]): Promise<void> {
    return statements.length === 0 ? Promise.resolve() : this.#noted(() => this.#tables.of(app), statements);
  }

  #noted(open: () => Promise<DbClient>, statements: SqlStatement[]): Promise<void> {
    const written = this.#written(open, statements);
    this.#underWay = Promise.all([this.#underWay, written]);
    return written;
  }

  async #written(open: () => Promise<DbClient>, statements: SqlStatement[]): Promise<void> {
    try {
      const db = await open();
      await retryIfWriterLost(() => db.batch(statements));
    } catch (error) {
      this.#log.warn({ err: error }, 'Notices could not be stored: they are in memory only, and a restart loses them.');
    }
  }
}

/** Of a key of `FailureNotices`; null for a failure of the gateway itself. */
export function appOfFailure(key: string): string | null {
  return key.split(' ')[1]?.split('/')[0] ?? null;
}

function appOf({ app }: Notice): string | null {
  return app?.id ?? null;
}
