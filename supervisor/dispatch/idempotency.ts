/**
 * Implements `Idempotency-Key` on actions: replays the recorded answer of a key for a day (specification, "Idempotency keys").
 */
import { createHash } from 'node:crypto';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { SqlStatement } from '../../protocol/wire/frames.ts';
import { ADMIN_CALLER } from '../../protocol/wire/handler-caller.ts';
import { retryIfWriterLost } from '../retry-if-writer-lost.ts';
import { type RuntimeDatabases, RuntimeTables } from '../runtime/runtime-databases.ts';
import { UnderWay } from '../serial.ts';

/** The answer: the HTTP status and the whole body. */
export type RecordedAnswer = { status: number; body: Buffer };

/**
 * Whose key it is and for what: the same text of another caller or for another action is another key (specification,
 * "Idempotency keys").
 */
export type IdempotencyKey = { app: string; action: string; caller: string; key: string };

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS idempotency (
    app TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    status INTEGER,
    body BLOB,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (app, key)
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS idempotency_created ON idempotency (created_at)`;

/** Every statement here may run twice: see `retryIfWriterLost`. */
export class Idempotency {
  readonly #tables: RuntimeTables;
  readonly #now: () => number;
  /** Keys whose call runs now, so that two requests at once can never both pass. */
  readonly #running = new Set<string>();
  readonly #underWay = new UnderWay();

  /** `now` gives milliseconds since the epoch. */
  constructor(runtime: RuntimeDatabases, now: () => number = Date.now) {
    this.#tables = new RuntimeTables(runtime, (db) => db.exec(SCHEMA));
    this.#now = now;
  }

  /**
   * Claims a key for a call. Resolves with the recorded answer when there is one, or null when the call is to run; then
   * `record`, `release` or `leave` must follow. `input` is a JSON value, or the bytes of its text: those of one call are then told
   * from those of another by every byte. Rejects with `IDEMPOTENCY_MISMATCH`, or `CONFLICT` while the first call runs or
   * when a crash of the gateway cut it off.
   */
  async claim(name: IdempotencyKey, input: unknown): Promise<RecordedAnswer | null> {
    const { app, action } = name;
    const key = storedKey(name);
    const call = `${app}\0${key}`;
    if (this.#running.has(call)) throw new SvcError('CONFLICT', 'A call with this idempotency key is still running.');
    this.#running.add(call);
    let claimed = false;
    try {
      const fingerprint = createHash('sha256')
        .update(`${action}\0`)
        .update(input instanceof Uint8Array ? input : canonical(input))
        .digest('base64');
      const db = await this.#tables.of(app);
      const now = this.#now();
      let lost = 0;
      const results = await retryIfWriterLost(
        () =>
          db.batch([
            ['DELETE FROM idempotency WHERE created_at < ?', [now - LIMITS.idempotencyMs]],
            ...adoption(name, key, fingerprint),
            [
              'INSERT OR IGNORE INTO idempotency (app, key, fingerprint, created_at) VALUES (?, ?, ?, ?)',
              [app, key, fingerprint, now],
            ],
          ]),
        () => lost++,
      );
      claimed = results.at(-1)?.changes === 1;
      if (claimed) return null;
      const row = await retryIfWriterLost(() =>
        db.get('SELECT fingerprint, status, body, created_at FROM idempotency WHERE app = ? AND key = ?', [app, key]),
      );
      // A claim whose answer was lost with the writer may have been stored: then the row is ours, and the action has not run.
      claimed = lost > 0 && row?.status === null && row.created_at === now && row.fingerprint === fingerprint;
      return claimed ? null : recorded(row, fingerprint);
    } finally {
      if (!claimed) this.#running.delete(call);
    }
  }

  /** Stores the answer; it is replayed from now on. */
  record(name: IdempotencyKey, { status, body }: RecordedAnswer): Promise<void> {
    return this.#ending(name, 'UPDATE idempotency SET status = ?, body = ? WHERE app = ? AND key = ?', [status, body]);
  }

  /** The call did not run: the key may be used again. */
  release(name: IdempotencyKey): Promise<void> {
    return this.#ending(name, 'DELETE FROM idempotency WHERE app = ? AND key = ?', []);
  }

  /** What the call did is not known: a repetition is told so, as after a crash that cut it off. */
  leave(name: IdempotencyKey): void {
    this.#running.delete(`${name.app}\0${storedKey(name)}`);
  }

  /** Resolves when the answers of the calls of an app that have ended are stored. */
  settled(app: string): Promise<void> {
    return this.#underWay.settled(app);
  }

  /** The app was removed: a later one of its name starts without its keys. */
  async forget(app: string): Promise<void> {
    const db = await this.#tables.existing(app);
    if (db !== null) await retryIfWriterLost(() => db.run('DELETE FROM idempotency WHERE app = ?', [app]));
  }

  #ending(name: IdempotencyKey, ...update: [sql: string, params: (number | Buffer)[]]): Promise<void> {
    return this.#underWay.run(name.app, () => this.#end(name, ...update));
  }

  async #end(name: IdempotencyKey, sql: string, params: (number | Buffer)[]): Promise<void> {
    const { app } = name;
    const key = storedKey(name);
    try {
      const db = await this.#tables.of(app);
      await retryIfWriterLost(() => db.run(sql, [...params, app, key]));
    } finally {
      this.#running.delete(`${app}\0${key}`);
    }
  }
}

/** What the column `key` has. Names of actions and the texts of callers, which are headers, have no line ends. */
function storedKey({ action, caller, key }: IdempotencyKey): string {
  return `${action}\n${caller}\n${key}`;
}

/** Keys that were stored before they belonged to callers are the administrator's; those of others expire. */
function adoption({ app, caller, key }: IdempotencyKey, stored: string, fingerprint: string): SqlStatement[] {
  if (caller !== ADMIN_CALLER.kind) return [];
  const sql = 'UPDATE OR IGNORE idempotency SET key = ? WHERE app = ? AND key = ? AND fingerprint = ?';
  return [[sql, [stored, app, key, fingerprint]]];
}

function recorded(row: Record<string, unknown> | null, fingerprint: string): RecordedAnswer {
  if (!row) throw new SvcError('CONFLICT', 'A call with this idempotency key has just ended; send it again.');
  if (row.fingerprint !== fingerprint) {
    throw new SvcError(
      'IDEMPOTENCY_MISMATCH',
      'This idempotency key was used before with another input; use a new key.',
    );
  }
  if (row.status === null) {
    throw new SvcError(
      'CONFLICT',
      'The first call with this idempotency key was cut off and its outcome is unknown. Check what it did, then use a new key.',
    );
  }
  return { status: Number(row.status), body: Buffer.from(row.body as Uint8Array) };
}

/** JSON with the members of every object in one order, so that equal inputs have equal fingerprints. */
export function canonical(value: unknown): string {
  const sorted = (_key: string, member: unknown): unknown =>
    typeof member === 'object' && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : member;
  return JSON.stringify(value, sorted);
}
