/**
 * Makes, checks and revokes tokens for programs (specification, "Tokens for programs"). The identity database stores their
 * SHA-256 digests, never their texts. All of them are in memory, so that no request waits for the database.
 */
import { hash, randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Row, SqlStatement } from '../../../protocol/wire/frames.ts';
import { FirstRead } from '../../people/first-read.ts';
import { ALONE, type IdentityDb, type IdentityNodes } from '../../people/identity-db.ts';
import { retryIfWriterLost } from '../../retry-if-writer-lost.ts';
import { SerialByKey } from '../../serial.ts';

const PREFIX = 'svct_';
const TABLE = 'program_tokens';
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS ${TABLE} (
    id TEXT PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    apps TEXT,
    tools TEXT NOT NULL CHECK (tools IN ('read', 'write', 'all')),
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER
  )`;
/** Another node may have seen a later use. */
const USED = `UPDATE ${TABLE} SET last_used_at = max(coalesce(last_used_at, 0), ?) WHERE id = ?`;

/**
 * What a token for programs is for. `read` calls queries and describes, `write` also calls actions, `all` also does the rest.
 */
export type TokenTools = 'read' | 'write' | 'all';

/** The rights of a token for a program. `apps` null means every app, including later ones; `expiresAt` null means never. */
export type ProgramToken = {
  readonly id: string;
  readonly name: string;
  readonly apps: readonly string[] | null;
  readonly tools: TokenTools;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number | null;
};

/** A token to be made. Without `apps` it is for every app, and without `expiresInDays` it never expires. */
export type NewProgramToken = {
  name: string;
  apps: readonly string[] | undefined;
  tools: TokenTools;
  expiresInDays: number | undefined;
};

/** A token as it is listed. Times are milliseconds since the epoch. */
export type ProgramTokenRow = ProgramToken & { createdAt: number; lastUsedAt: number | null };

type Entry = {
  given: ProgramToken;
  readonly digest: string;
  readonly createdAt: number;
  lastUsedAt: number | null;
  /** True once the token is refused. Its row may still have to be deleted. */
  revoked: boolean;
};

/** The id of a token, and when it was used. */
type Use = readonly [id: string, at: number];

type ProgramTokensOptions = IdentityDb & {
  /** Whether an app of this id is registered. */
  registered(app: string): boolean;
  /** Milliseconds since the epoch. */
  now?: () => number;
};

/** Every statement here may run twice: see `retryIfWriterLost`. `ended`: a token was revoked, so what was opened with it must end. */
export class ProgramTokens extends EventEmitter<{ ended: [id: string] }> {
  readonly #options: ProgramTokensOptions;
  readonly #now: () => number;
  /** All tokens, in the order in which they were made. */
  readonly #byId = new Map<string, Entry>();
  readonly #byDigest = new Map<string, Entry>();
  /** The tokens whose last use is not stored yet. */
  readonly #used = new Set<Entry>();
  readonly #serial = new SerialByKey();
  readonly #stored: FirstRead;
  readonly #nodes: IdentityNodes;
  readonly #tell: () => void;
  readonly #storeUsed: (uses: readonly Use[]) => Promise<void>;
  #noteTimer: NodeJS.Timeout | undefined;
  #closed = false;

  private constructor(options: ProgramTokensOptions) {
    super();
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#nodes = options.nodes ?? ALONE;
    this.#stored = new FirstRead({
      ...options,
      table: TABLE,
      warning: 'Tokens for programs cannot be read; each is refused until they can.',
      taking: () => {
        const all: Row[] = [];
        return { add: (rows) => void all.push(...rows), done: () => this.#take(all) };
      },
    });
    this.#tell = this.#nodes.keeps({
      name: TABLE,
      reload: () => this.#serial.run('tokens', () => this.#stored.again()),
    });
    this.#storeUsed = this.#nodes.atOwner('uses of tokens', async (uses: readonly Use[]) => {
      await this.#batch(uses.map(([id, at]) => [USED, [at, id]]));
      for (const [id, at] of uses) {
        const entry = this.#byId.get(id);
        if (entry !== undefined) entry.lastUsedAt = Math.max(at, entry.lastUsedAt ?? 0);
      }
    });
    this.forgetApp = this.#nodes.atOwner('tokens of an app', (app: string) => this.#forgetApp(app));
  }

  /** Reads all tokens. Where that fails, the log says so, every token is refused, and the read is tried again. */
  static async open(options: ProgramTokensOptions): Promise<ProgramTokens> {
    const tokens = new ProgramTokens(options);
    await tokens.#stored.begin();
    return tokens;
  }

  /**
   * The rights of a presented token. They are undefined for an unknown, revoked or expired one. Notes the use. The timing
   * depends only on the digest of the sent text, which does not reveal a token.
   */
  find(token: string): ProgramToken | undefined {
    if (!token.startsWith(PREFIX) || !this.#nodes.current) return undefined;
    const entry = this.#byDigest.get(digestOf(token));
    if (entry === undefined || entry.revoked) return undefined;
    const now = this.#now();
    if (isExpired(entry, now)) return undefined;
    entry.lastUsedAt = now;
    this.#used.add(entry);
    if (!this.#closed) this.#noteTimer ??= setTimeout(() => void this.#storeUses(), LIMITS.useNoteMs).unref();
    return entry.given;
  }

  /**
   * Makes a token, durably once this resolves. Its text is in the answer and nowhere else. Rejects with `UNKNOWN_APP`, with the
   * app in `path`, and with `CONFLICT` when there are `LIMITS.programTokens`. Expired ones make room first.
   */
  create({ name, apps, tools, expiresInDays }: NewProgramToken): Promise<ProgramTokenRow & { token: string }> {
    const { db, log } = this.#options;
    return this.#changing(async () => {
      // This look is within the turn of the change. An app that is removed after it is dropped from the token in a later turn.
      this.#checkRegistered(apps ?? []);
      await this.#makeRoom();
      const token = PREFIX + randomBytes(32).toString('hex');
      const createdAt = this.#now();
      const expiresAt = expiresInDays === undefined ? null : createdAt + expiresInDays * LIMITS.dayMs;
      const id = `tok_${randomBytes(6).toString('hex')}`;
      const given: ProgramToken = { id, name, apps: apps === undefined ? null : [...new Set(apps)], tools, expiresAt };
      const digest = digestOf(token);
      await retryIfWriterLost(() => db.exec(SCHEMA));
      await retryIfWriterLost(() =>
        db.run(
          'INSERT OR IGNORE INTO program_tokens (id, digest, name, apps, tools, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)',
          [id, digest, name, textOf(given.apps), tools, createdAt, expiresAt],
        ),
      );
      const entry: Entry = { given, digest, createdAt, lastUsedAt: null, revoked: false };
      this.#keep(entry);
      this.#tell();
      log.info({ token: id, name }, 'A token for a program was made.');
      return { ...rowOf(entry), token };
    });
  }

  /**
   * Lists tokens, newest first, from the one behind the id `before` on. Rejects with `UNKNOWN_TOKEN` when there is no such id.
   */
  async list({ limit, before }: { limit: number; before: string | null }): Promise<ProgramTokenRow[]> {
    await this.#stored.done();
    const rows = [...this.#byId.values()].reverse().map(rowOf);
    const at = before === null ? 0 : rows.findIndex(({ id }) => id === before) + 1;
    if (before !== null && at === 0) throw unknownToken(before);
    return rows.slice(at, at + limit);
  }

  /** Revokes a token at once, and durably once this resolves. Rejects with `UNKNOWN_TOKEN`. */
  async revoke(id: string): Promise<void> {
    await this.#stored.done();
    const entry = this.#byId.get(id);
    if (entry === undefined) throw unknownToken(id);
    // When the row cannot be deleted, the token stays in the list, so that it can be revoked again.
    this.#refuse(entry);
    await this.#changing(() => this.#delete([entry]));
    this.#options.log.info({ token: id, name: entry.given.name }, 'A token for a program was revoked.');
  }

  /**
   * Removes an app from all tokens when it is removed or a new one is about to get its id, so that no token reaches the other
   * app. Revokes a token that named only this app.
   */
  readonly forgetApp: (app: string) => Promise<void>;

  #forgetApp(app: string): Promise<void> {
    return this.#changing(async () => {
      const named = [...this.#byId.values()].filter(({ given }) => given.apps?.includes(app));
      const left = ({ given }: Entry): readonly string[] => (given.apps ?? []).filter((other) => other !== app);
      const emptied = named.filter((entry) => left(entry).length === 0);
      const kept = named.filter((entry) => left(entry).length > 0);
      const sql = 'UPDATE program_tokens SET apps = ? WHERE id = ?';
      await this.#batch(kept.map((entry) => [sql, [textOf(left(entry)), entry.given.id]]));
      for (const entry of kept) entry.given = { ...entry.given, apps: left(entry) };
      if (kept.length > 0) this.#tell();
      for (const entry of emptied) this.#refuse(entry);
      await this.#delete(emptied);
    });
  }

  /** Stores the last uses, and no later ones. Tokens go on working. Later calls do nothing. */
  async storeLastUses(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#noteTimer);
    if (this.#used.size > 0) await this.#storeUses();
  }

  /** Stores the last uses. Tokens still work afterwards. */
  close(): Promise<void> {
    this.#stored.close();
    return this.storeLastUses();
  }

  /** Runs changes one after the other, each on what is stored. */
  #changing<T>(work: () => Promise<T>): Promise<T> {
    return this.#serial.run('tokens', async () => {
      await this.#stored.done();
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
    this.#byId.set(entry.given.id, entry);
    this.#byDigest.set(entry.digest, entry);
  }

  #refuse(entry: Entry): void {
    if (entry.revoked) return;
    entry.revoked = true;
    this.emit('ended', entry.given.id);
  }

  async #delete(entries: Entry[]): Promise<void> {
    await this.#batch(entries.map(({ given }) => ['DELETE FROM program_tokens WHERE id = ?', [given.id]]));
    for (const entry of entries) this.#drop(entry);
    if (entries.length > 0) this.#tell();
  }

  #drop(entry: Entry): void {
    this.#byId.delete(entry.given.id);
    this.#byDigest.delete(entry.digest);
    this.#used.delete(entry);
  }

  /** All tokens as they are stored. False: `ended` was said of each that is gone. */
  #take(rows: Row[]): boolean {
    const stored = new Map(rows.map((row) => [String(row.id), entryOf(row)]));
    for (const [id, entry] of this.#byId) {
      const now = stored.get(id);
      if (now !== undefined) entry.given = now.given;
      else {
        this.#refuse(entry);
        this.#drop(entry);
      }
    }
    for (const [id, entry] of stored) if (!this.#byId.has(id)) this.#keep(entry);
    return false;
  }

  async #batch(statements: SqlStatement[]): Promise<void> {
    if (statements.length > 0) await retryIfWriterLost(() => this.#options.db.batch(statements));
  }

  /** Stores the last uses. Those that cannot be stored now are stored with the next ones. */
  async #storeUses(): Promise<void> {
    this.#noteTimer = undefined;
    const entries = [...this.#used];
    this.#used.clear();
    try {
      await this.#storeUsed(entries.map(({ given, lastUsedAt }) => [given.id, lastUsedAt ?? 0]));
    } catch (error) {
      for (const entry of entries) if (this.#byId.has(entry.given.id)) this.#used.add(entry);
      this.#options.log.warn({ err: error }, 'The last use of tokens for programs could not be stored.');
    }
  }
}

function digestOf(token: string): string {
  return hash('sha256', token);
}

function isExpired({ given }: Entry, now: number): boolean {
  return given.expiresAt !== null && given.expiresAt <= now;
}

function textOf(apps: readonly string[] | null): string | null {
  return apps === null ? null : JSON.stringify(apps);
}

function rowOf({ given, createdAt, lastUsedAt }: Entry): ProgramTokenRow {
  const { id, name, apps, tools, expiresAt } = given;
  return { id, name, apps, tools, createdAt, expiresAt, lastUsedAt };
}

function entryOf(row: Row): Entry {
  const given: ProgramToken = {
    id: String(row.id),
    name: String(row.name),
    apps: row.apps === null ? null : JSON.parse(String(row.apps)),
    tools: row.tools as TokenTools,
    expiresAt: row.expires_at === null ? null : Number(row.expires_at),
  };
  return {
    given,
    digest: String(row.digest),
    createdAt: Number(row.created_at),
    lastUsedAt: row.last_used_at === null ? null : Number(row.last_used_at),
    revoked: false,
  };
}

function unknownToken(id: string): SvcError {
  return new SvcError('UNKNOWN_TOKEN', `There is no token for programs "${id.slice(0, 80)}".`);
}
