/**
 * Makes, checks and revokes tokens for programs (decisions, section 11). The identity database stores their SHA-256 digests,
 * never their text; all are in memory, so that no request waits for the database.
 */
import { hash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import type { Logger } from 'pino';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { DbClient } from '../../../protocol/wire/db-client.ts';
import type { Row, SqlStatement } from '../../../protocol/wire/frames.ts';
import { survive } from '../../outlive-writer.ts';
import { SerialByKey } from '../../serial.ts';
import type { Grant, GrantTools } from './grants.ts';

const PREFIX = 'svct_';
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS program_tokens (
    id TEXT PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    apps TEXT,
    tools TEXT NOT NULL CHECK (tools IN ('read', 'write', 'all')),
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER
  )`;

/** `apps` undefined is every app; `expiresInDays` undefined is never. */
export type NewProgramToken = {
  name: string;
  apps: readonly string[] | undefined;
  tools: GrantTools;
  expiresInDays: number | undefined;
};

/** A token as it is listed. Times in milliseconds since the epoch. */
export type ProgramTokenRow = Grant & { createdAt: number; lastUsedAt: number | null };

type Entry = {
  grant: Grant;
  readonly digest: string;
  readonly createdAt: number;
  lastUsedAt: number | null;
  /** Refused from now on; its row may still have to be deleted. */
  revoked: boolean;
};

type ProgramTokensOptions = {
  /** The gateway's identity database, and its file: without the file there are no stored tokens. */
  db: DbClient;
  file: string;
  /** Whether an app of this id is registered. */
  registered(app: string): boolean;
  log: Pick<Logger, 'info' | 'warn'>;
  /** Milliseconds since the epoch. */
  now?: () => number;
};

/** Every statement here may run twice: see `survive`. */
export class ProgramTokens {
  readonly #options: ProgramTokensOptions;
  readonly #now: () => number;
  /** In the order in which they were made. */
  readonly #byId = new Map<string, Entry>();
  readonly #byDigest = new Map<string, Entry>();
  /** Tokens whose last use is not stored yet. */
  readonly #used = new Set<Entry>();
  readonly #serial = new SerialByKey();
  #loading: Promise<void> | null = null;
  #retryTimer: NodeJS.Timeout | undefined;
  #noteTimer: NodeJS.Timeout | undefined;
  #onRevoked: (id: string) => void = () => {};
  #closed = false;

  private constructor(options: ProgramTokensOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  /** Reads all tokens. Where that fails it says so in the log, refuses every token, and tries again. */
  static async open(options: ProgramTokensOptions): Promise<ProgramTokens> {
    const tokens = new ProgramTokens(options);
    await tokens.#load().catch(() => {});
    return tokens;
  }

  /** Called with the id of a token that was revoked: what was opened with it must end. */
  whenRevoked(call: (id: string) => void): void {
    this.#onRevoked = call;
  }

  /**
   * The rights of a presented token; undefined for an unknown, revoked or expired one. Notes the use. Its timing depends only
   * on the digest of the sent text, which does not reveal a token.
   */
  find(token: string): Grant | undefined {
    if (!token.startsWith(PREFIX)) return undefined;
    const entry = this.#byDigest.get(digestOf(token));
    if (entry === undefined || entry.revoked) return undefined;
    const now = this.#now();
    if (isExpired(entry, now)) return undefined;
    entry.lastUsedAt = now;
    this.#used.add(entry);
    this.#noteTimer ??= this.#later(LIMITS.programTokenNoteMs, () => void this.#storeUses());
    return entry.grant;
  }

  /**
   * Makes a token; its text is in the answer and nowhere else. Durable once it resolves. Rejects with `UNKNOWN_APP`, the app in
   * `path`, and with `CONFLICT` when there are `LIMITS.programTokens`; those that have expired make room first.
   */
  create({ name, apps, tools, expiresInDays }: NewProgramToken): Promise<ProgramTokenRow & { token: string }> {
    const { db, log } = this.#options;
    return this.#changing(async () => {
      // Within the turn: an app that is removed after this look is dropped from the token in a later one.
      this.#checkRegistered(apps ?? []);
      await this.#makeRoom();
      const token = PREFIX + randomBytes(32).toString('hex');
      const createdAt = this.#now();
      const expiresAt = expiresInDays === undefined ? null : createdAt + expiresInDays * LIMITS.dayMs;
      const id = `tok_${randomBytes(6).toString('hex')}`;
      const grant: Grant = { id, name, apps: apps === undefined ? null : [...new Set(apps)], tools, expiresAt };
      const digest = digestOf(token);
      await survive(() => db.exec(SCHEMA));
      await survive(() =>
        db.run(
          'INSERT OR IGNORE INTO program_tokens (id, digest, name, apps, tools, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)',
          [id, digest, name, textOf(grant.apps), tools, createdAt, expiresAt],
        ),
      );
      const entry: Entry = { grant, digest, createdAt, lastUsedAt: null, revoked: false };
      this.#keep(entry);
      log.info({ token: id, name }, 'A token for a program was made.');
      return { ...rowOf(entry), token };
    });
  }

  /** Newest first, those that follow the id `before`. Rejects with `UNKNOWN_TOKEN` when there is no such id. */
  async list({ limit, before }: { limit: number; before: string | null }): Promise<ProgramTokenRow[]> {
    await this.#load();
    const rows = [...this.#byId.values()].reverse().map(rowOf);
    const at = before === null ? 0 : rows.findIndex(({ id }) => id === before) + 1;
    if (before !== null && at === 0) throw unknownToken(before);
    return rows.slice(at, at + limit);
  }

  /** Revokes it at once, and durably once this resolves. Rejects with `UNKNOWN_TOKEN`. */
  async revoke(id: string): Promise<void> {
    await this.#load();
    const entry = this.#byId.get(id);
    if (entry === undefined) throw unknownToken(id);
    // When the row cannot be deleted, the token stays in the list, so that it can be revoked again.
    this.#refuse(entry);
    await this.#changing(() => this.#delete([entry]));
    this.#options.log.info({ token: id, name: entry.grant.name }, 'A token for a program was revoked.');
  }

  /**
   * Removes an app from all tokens when it is removed or a new one is about to get its id, so that no token reaches the other
   * app. Revokes a token that named only this app.
   */
  forgetApp(app: string): Promise<void> {
    return this.#changing(async () => {
      const named = [...this.#byId.values()].filter(({ grant }) => grant.apps?.includes(app));
      const left = ({ grant }: Entry): readonly string[] => (grant.apps ?? []).filter((other) => other !== app);
      const emptied = named.filter((entry) => left(entry).length === 0);
      const kept = named.filter((entry) => left(entry).length > 0);
      const sql = 'UPDATE program_tokens SET apps = ? WHERE id = ?';
      await this.#batch(kept.map((entry) => [sql, [textOf(left(entry)), entry.grant.id]]));
      for (const entry of kept) entry.grant = { ...entry.grant, apps: left(entry) };
      for (const entry of emptied) this.#refuse(entry);
      await this.#delete(emptied);
    });
  }

  /** Stores the last uses. Tokens still work afterwards, but no more uses are stored. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const timer of [this.#retryTimer, this.#noteTimer]) clearTimeout(timer);
    await this.#storeUses();
  }

  #load(): Promise<void> {
    this.#loading ??= this.#read().catch((error: unknown) => {
      this.#loading = null;
      if (this.#retryTimer === undefined) {
        this.#options.log.warn({ err: error }, 'Tokens for programs cannot be read; each is refused until they can.');
      }
      clearTimeout(this.#retryTimer);
      this.#retryTimer = this.#later(LIMITS.programTokenRetryMs, () => void this.#load().catch(() => {}));
      throw error;
    });
    return this.#loading;
  }

  /** Only reads: a gateway also starts on a full disk. */
  async #read(): Promise<void> {
    const { db, file } = this.#options;
    if (!existsSync(file)) return;
    const table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'program_tokens'";
    if ((await survive(() => db.get(table))) === null) return;
    const rows = await survive(() => db.all('SELECT * FROM program_tokens ORDER BY rowid'));
    for (const row of rows) this.#keep(entryOf(row));
  }

  /** One after the other, on what is stored. */
  #changing<T>(work: () => Promise<T>): Promise<T> {
    return this.#serial.run('tokens', async () => {
      await this.#load();
      return work();
    });
  }

  #checkRegistered(apps: readonly string[]): void {
    for (const [i, app] of apps.entries()) {
      if (this.#options.registered(app)) continue;
      throw new SvcError('UNKNOWN_APP', `No app "${app}" is registered.`, { path: `apps[${i}]` });
    }
  }

  async #makeRoom(): Promise<void> {
    if (this.#byId.size < LIMITS.programTokens) return;
    const now = this.#now();
    await this.#delete([...this.#byId.values()].filter((entry) => isExpired(entry, now)));
    if (this.#byId.size < LIMITS.programTokens) return;
    throw new SvcError('CONFLICT', `There are already ${LIMITS.programTokens} tokens, the maximum. Revoke one first.`);
  }

  #keep(entry: Entry): void {
    this.#byId.set(entry.grant.id, entry);
    this.#byDigest.set(entry.digest, entry);
  }

  #refuse(entry: Entry): void {
    if (entry.revoked) return;
    entry.revoked = true;
    this.#onRevoked(entry.grant.id);
  }

  async #delete(entries: Entry[]): Promise<void> {
    await this.#batch(entries.map(({ grant }) => ['DELETE FROM program_tokens WHERE id = ?', [grant.id]]));
    for (const entry of entries) {
      this.#byId.delete(entry.grant.id);
      this.#byDigest.delete(entry.digest);
      this.#used.delete(entry);
    }
  }

  async #batch(statements: SqlStatement[]): Promise<void> {
    if (statements.length > 0) await survive(() => this.#options.db.batch(statements));
  }

  /** Uses that cannot be stored now are stored with the next ones. */
  async #storeUses(): Promise<void> {
    this.#noteTimer = undefined;
    const entries = [...this.#used];
    this.#used.clear();
    const sql = 'UPDATE program_tokens SET last_used_at = ? WHERE id = ?';
    try {
      await this.#batch(entries.map(({ grant, lastUsedAt }) => [sql, [lastUsedAt, grant.id]]));
    } catch (error) {
      for (const entry of entries) if (this.#byId.has(entry.grant.id)) this.#used.add(entry);
      this.#options.log.warn({ err: error }, 'The last use of tokens for programs could not be stored.');
    }
  }

  #later(ms: number, call: () => void): NodeJS.Timeout | undefined {
    return this.#closed ? undefined : setTimeout(call, ms).unref();
  }
}

function digestOf(token: string): string {
  return hash('sha256', token);
}

function isExpired({ grant }: Entry, now: number): boolean {
  return grant.expiresAt !== null && grant.expiresAt <= now;
}

function textOf(apps: readonly string[] | null): string | null {
  return apps === null ? null : JSON.stringify(apps);
}

function rowOf({ grant, createdAt, lastUsedAt }: Entry): ProgramTokenRow {
  const { id, name, apps, tools, expiresAt } = grant;
  return { id, name, apps, tools, createdAt, expiresAt, lastUsedAt };
}

function entryOf(row: Row): Entry {
  const grant: Grant = {
    id: String(row.id),
    name: String(row.name),
    apps: row.apps === null ? null : JSON.parse(String(row.apps)),
    tools: row.tools as GrantTools,
    expiresAt: row.expires_at === null ? null : Number(row.expires_at),
  };
  return {
    grant,
    digest: String(row.digest),
    createdAt: Number(row.created_at),
    lastUsedAt: row.last_used_at === null ? null : Number(row.last_used_at),
    revoked: false,
  };
}

function unknownToken(id: string): SvcError {
  return new SvcError('UNKNOWN_TOKEN', `There is no token for programs "${id.slice(0, 80)}".`);
}
