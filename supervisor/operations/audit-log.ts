/** Records who did what to the gateway in the identity database, and lists it (specification, "Audit log"). */
import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import type { AuditAction } from '../../protocol/audit.ts';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { AuditEntry } from '../../protocol/routes/operations/audit-rows.ts';
import type { Row, SqlStatement, SqlValue } from '../../protocol/wire/frames.ts';
import type { Caller } from '../http/access/grants.ts';
import { ALONE, type IdentityClient, type IdentityNodes } from '../people/identity-db.ts';
import { retryIfWriterLost } from '../retry-if-writer-lost.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL UNIQUE, -- a statement that runs twice adds one row
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT,
    detail TEXT NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS audit_at ON audit (at)`;
const INSERT = 'INSERT OR IGNORE INTO audit (uid, at, actor, action, target, detail) VALUES (?, ?, ?, ?, ?, ?)';
const FORGET = 'DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < ? ORDER BY at LIMIT 1000)';
const LIST = 'SELECT id, at, actor, action, target, detail FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?';

type Actor = AuditEntry['actor'];
export type Detail = Readonly<Record<string, unknown>>;

/** Who may write the data directory. */
export const MACHINE: Actor = { kind: 'machine' };

type AuditLogOptions = {
  /** The identity database. */
  db: IdentityClient;
  nodes?: IdentityNodes | undefined;
  log: Pick<Logger, 'error'>;
  /** Milliseconds since the epoch. */
  now?: () => number;
};

/** As it is stored, and as the log of the gateway says it. */
type Entry = { values: SqlValue[]; said: Record<string, unknown> };

export class AuditLog {
  readonly #options: AuditLogOptions;
  readonly #now: () => number;
  readonly #store: (entry: SqlValue[]) => Promise<void>;
  /** Those that the database did not take because it was away, oldest first. */
  readonly #waiting: Entry[] = [];
  #again: NodeJS.Timeout | undefined;
  #ready: Promise<unknown> | null = null;
  /** When old entries were last looked for. */
  #tidiedAt = 0;
  /** Refused sign-ins since `from`: whoever guesses does not fill the disk. */
  #refused = { from: 0, count: 0 };

  constructor(options: AuditLogOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#store = (options.nodes ?? ALONE).atOwner('audit', (entry: SqlValue[]) => this.#insert(entry));
  }

  /**
   * Stores an entry durably. Never rejects, because what it is about has been done: while the database is away the entry waits for it,
   * and one that cannot be stored is in the log of the gateway.
   */
  async record(by: Caller | Actor, action: AuditAction, target: string | null, detail: Detail = {}): Promise<void> {
    const at = this.#now();
    const actor = 'grants' in by ? actorOf(by) : by;
    const entry: Entry = {
      values: [randomUUID(), at, JSON.stringify(actor), action, target, JSON.stringify(detail)],
      said: { actor, action, target, detail },
    };
    try {
      await this.#store(entry.values);
    } catch (error) {
      if (!isAway(error) || this.#waiting.length >= LIMITS.auditWaiting) this.#giveUp(entry, error);
      else if (this.#waiting.push(entry) === 1) this.#later();
    }
  }

  /** Entries that still wait are in the log of the gateway. */
  stop(): void {
    clearTimeout(this.#again);
    for (const entry of this.#waiting.splice(0)) this.#giveUp(entry, null);
  }

  #later(): void {
    this.#again = setTimeout(() => void this.#storeWaiting(), LIMITS.auditAgainMs).unref();
  }

  /** In their order, as long as the database takes them. */
  async #storeWaiting(): Promise<void> {
    for (let entry = this.#waiting[0]; entry !== undefined; entry = this.#waiting[0]) {
      try {
        await this.#store(entry.values);
      } catch (error) {
        if (isAway(error)) {
          this.#later();
          return;
        }
        this.#giveUp(entry, error);
      }
      if (this.#waiting[0] === entry) this.#waiting.shift();
    }
  }

  #giveUp({ said }: Entry, error: unknown): void {
    this.#options.log.error({ err: error, ...said }, 'An entry of the audit log could not be stored.');
  }

  /** Adds an entry, given as the values of `INSERT`, and at times removes old ones. */
  async #insert(entry: SqlValue[]): Promise<void> {
    const now = this.#now();
    const forgets = now - this.#tidiedAt > LIMITS.dayMs;
    const statements: SqlStatement[] = [[INSERT, entry]];
    if (forgets) statements.push([FORGET, [now - LIMITS.auditDays * LIMITS.dayMs]]);
    await this.#open();
    await retryIfWriterLost(() => this.#options.db.batch(statements));
    if (forgets) this.#tidiedAt = now;
  }

  /** Records a refused sign-in; of many in an hour the first `LIMITS.auditRefusals`. */
  async refused(by: Caller, address: string): Promise<void> {
    const now = this.#now();
    if (now - this.#refused.from > LIMITS.auditRefusalsMs) this.#refused = { from: now, count: 0 };
    const count = ++this.#refused.count;
    if (count > LIMITS.auditRefusals) return;
    const isLast = count === LIMITS.auditRefusals;
    await this.record(by, 'sign-in.refused', null, {
      address,
      ...(isLast && { more: 'Later ones are left out for an hour.' }),
    });
  }

  /** The newest first, from before the entry `before` on. */
  async list({ limit, before }: { limit: number; before: number | null }): Promise<AuditEntry[]> {
    await this.#open();
    const rows = await retryIfWriterLost(() => this.#options.db.all(LIST, [before ?? Number.MAX_SAFE_INTEGER, limit]));
    return rows.map(entryOf);
  }

  #open(): Promise<unknown> {
    this.#ready ??= retryIfWriterLost(() => this.#options.db.exec(SCHEMA)).catch((error: unknown) => {
      this.#ready = null;
      throw error;
    });
    return this.#ready;
  }
}

function isAway(error: unknown): boolean {
  return error instanceof SvcError && error.code === 'STORAGE_UNAVAILABLE';
}

function actorOf(caller: Caller): Actor {
  // Nobody has been asked who they are yet.
  if (caller.grants.length === 0) return { kind: 'public' };
  const { name } = caller.shown('');
  return { kind: caller.kind, ...(name !== undefined && { name }) };
}

function entryOf({ id, at, actor, action, target, detail }: Row): AuditEntry {
  return {
    id: Number(id),
    at: Number(at),
    actor: JSON.parse(String(actor)),
    action: action as AuditAction,
    target: target as string | null,
    detail: JSON.parse(String(detail)),
  };
}
