/** Makes one-time links and tickets that sign a browser in, and remembers ended sign-ins (decisions, section 11). */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import type { Logger } from 'pino';
import { LIMITS } from '../../../protocol/limits.ts';
import type { PageOwner } from '../../../protocol/origins.ts';
import type { DbClient } from '../../../protocol/wire/db-client.ts';
import type { SignIn } from './cookie.ts';

const SCHEMA = 'CREATE TABLE IF NOT EXISTS ended_sign_ins (id TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID';
const NEW_ENTRY = 'INSERT INTO ended_sign_ins (id, until) VALUES (?, ?) ON CONFLICT (id) DO NOTHING';

/** Takes a sign-in from the console to the origin of a page; `to` is the path there. */
type Ticket = { host: string; owner: PageOwner; to: string; signIn: SignIn };

export class SignIns {
  readonly #db: DbClient;
  readonly #now: () => number;
  readonly #tickets: OneTime<Ticket>;
  readonly #links: OneTime<true>;
  /** Id of a sign-in that was ended → when it would have expired. */
  readonly #ended = new Map<string, number>();

  /** `elapsed` is a clock that is never set, in milliseconds: for what does not outlive this process. */
  constructor(db: DbClient, now: () => number = Date.now, elapsed: () => number = () => performance.now()) {
    this.#db = db;
    this.#now = now;
    this.#tickets = new OneTime(LIMITS.ticketMs, elapsed);
    this.#links = new OneTime(LIMITS.linkMs, elapsed);
  }

  /** Reads the ended sign-ins; an unreadable database does not prevent the start. Without `file` there are none stored. */
  static async open({ db, file, log }: { db: DbClient; file: string; log: Pick<Logger, 'warn'> }): Promise<SignIns> {
    const signIns = new SignIns(db);
    try {
      if (existsSync(file)) await signIns.#read();
    } catch (error) {
      log.warn({ err: error }, 'The list of ended sessions cannot be read; ended sessions may be valid again.');
    }
    return signIns;
  }

  async #read(): Promise<void> {
    const [table] = await this.#db.all("SELECT 1 FROM sqlite_schema WHERE name = 'ended_sign_ins'");
    if (table === undefined) return;
    for (const { id, until } of await this.#db.all('SELECT id, until FROM ended_sign_ins')) {
      if (Number(until) > this.#now()) this.#ended.set(String(id), Number(until));
    }
  }

  /** A sign-in that begins now, with a Bearer or a link. */
  begin(): SignIn {
    return { id: randomBytes(8).toString('hex'), expiresAt: this.#now() + LIMITS.sessionMs };
  }

  /** Every cookie that came of it has ended at once, and for good once it resolves. */
  async end({ id, expiresAt }: SignIn): Promise<void> {
    for (const [ended, until] of this.#ended) if (until <= this.#now()) this.#ended.delete(ended);
    this.#ended.set(id, expiresAt);
    await this.#db.exec(SCHEMA);
    await this.#db.batch([
      ['DELETE FROM ended_sign_ins WHERE until <= ?', [this.#now()]],
      [NEW_ENTRY, [id, expiresAt]],
    ]);
  }

  isEnded(id: string): boolean {
    return this.#ended.has(id);
  }

  /** The text of a ticket. */
  ticket(ticket: Ticket): string {
    return this.#tickets.add(ticket);
  }

  /** The purpose of a ticket; null when it is unknown, used, too old, or for another origin. Uses it up in any case. */
  takeTicket(text: string, host: string): Ticket | null {
    const ticket = this.#tickets.take(text);
    return ticket?.host === host ? ticket : null;
  }

  /** The code of a link, and when it ends. */
  link(): { code: string; expiresAt: number } {
    return { code: this.#links.add(true), expiresAt: this.#now() + LIMITS.linkMs };
  }

  /** Whether the code of a link is good; it is not the next time. */
  takeLink(code: string): boolean {
    return this.#links.take(code) === true;
  }
}

/** Values behind random texts, for one use each within a time. The oldest make room. */
class OneTime<T> {
  readonly #entries = new Map<string, { value: T; until: number }>();
  readonly #ms: number;
  readonly #elapsed: () => number;

  constructor(ms: number, elapsed: () => number) {
    this.#ms = ms;
    this.#elapsed = elapsed;
  }

  add(value: T): string {
    for (const [text, { until }] of this.#entries) {
      if (until > this.#elapsed() && this.#entries.size < LIMITS.ticketsWaiting) break;
      this.#entries.delete(text);
    }
    const text = randomBytes(32).toString('hex');
    this.#entries.set(text, { value, until: this.#elapsed() + this.#ms });
    return text;
  }

  take(text: string): T | null {
    const entry = this.#entries.get(text);
    this.#entries.delete(text);
    return entry !== undefined && entry.until > this.#elapsed() ? entry.value : null;
  }
}
