/**
 * Keeps notices until they are sent, and which failures people were told of, in the runtime database: a restart loses neither
 * (specification, "Notices"). Where it cannot be written, as on a full disk, they are in memory only.
 */
import type { Logger } from 'pino';
import type { Notice } from '../../protocol/notice.ts';
import type { DbClient } from '../../protocol/wire/db-client.ts';
import type { SqlStatement } from '../../protocol/wire/frames.ts';
import { retryIfWriterLost } from '../retry-if-writer-lost.ts';

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
  readonly #db: DbClient;
  readonly #log: Logger;
  #ready: Promise<unknown> | null = null;
  #underWay: Promise<unknown> = Promise.resolve();

  constructor(db: DbClient, log: Logger) {
    this.#db = db;
    this.#log = log;
  }

  /** Those of the gateways before this one, oldest first. Makes no table. */
  async read(): Promise<Kept> {
    if ((await retryIfWriterLost(() => this.#db.get(TABLES))) === null) return { waiting: [], failures: new Map() };
    const notices = await retryIfWriterLost(() =>
      this.#db.all('SELECT channel, notice FROM notices ORDER BY id, channel'),
    );
    const rows = await retryIfWriterLost(() => this.#db.all('SELECT key, at FROM told_failures'));
    return {
      waiting: notices.map(({ channel, notice }) => ({ channel: String(channel), notice: JSON.parse(String(notice)) })),
      failures: new Map(rows.map(({ key, at }) => [String(key), Number(at)])),
    };
  }

  /** Durable when it resolves. Never rejects. */
  keep(notice: Notice, channels: readonly string[]): Promise<void> {
    const text = JSON.stringify(notice);
    const sql = 'INSERT OR IGNORE INTO notices (id, channel, notice) VALUES (?, ?, ?)';
    return this.#write(channels.map((channel) => [sql, [notice.id, channel, text]]));
  }

  removeSent({ id }: Notice, channel: string): void {
    void this.#write([['DELETE FROM notices WHERE id = ? AND channel = ?', [id, channel]]]);
  }

  /** What waits for a channel that is there no more. */
  dropChannel(channel: string): void {
    void this.#write([['DELETE FROM notices WHERE channel = ?', [channel]]]);
  }

  keepFailure(key: string, at: number): void {
    void this.#write([['INSERT OR IGNORE INTO told_failures (key, at) VALUES (?, ?)', [key, at]]]);
  }

  forgetFailures(keys: readonly string[]): void {
    void this.#write(keys.map((key) => ['DELETE FROM told_failures WHERE key = ?', [key]]));
  }

  /** Resolves when everything is written, or could not be. */
  async settled(): Promise<void> {
    await this.#underWay;
  }

  #write(statements: SqlStatement[]): Promise<void> {
    if (statements.length === 0) return Promise.resolve();
    const written = this.#written(statements);
    this.#underWay = Promise.all([this.#underWay, written]);
    return written;
  }

  async #written(statements: SqlStatement[]): Promise<void> {
    try {
      this.#ready ??= retryIfWriterLost(() => this.#db.exec(SCHEMA));
      await this.#ready;
      await retryIfWriterLost(() => this.#db.batch(statements));
    } catch (error) {
      this.#ready = null;
      this.#log.warn({ err: error }, 'Notices could not be stored: they are in memory only, and a restart loses them.');
    }
  }
}
