/**
 * Makes one-time links and tickets that sign a browser in, knows how long it stays so, and remembers ended sign-ins
 * (specification, "Sessions of browsers").
 */
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { SvcError } from '../../../protocol/errors.ts';
import type { PageOwner } from '../../../protocol/http/origins.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { SIGN_IN_HOURS, type SignInLength } from '../../../protocol/routes/people/sign-in-rows.ts';
import { ALONE, type IdentityClient, type IdentityDb, type IdentityNodes } from '../../people/identity-db.ts';
import type { SignIn } from './cookie.ts';

const SCHEMA = 'CREATE TABLE IF NOT EXISTS ended_sign_ins (id TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID';
const NEW_ENTRY = 'INSERT INTO ended_sign_ins (id, until) VALUES (?, ?) ON CONFLICT (id) DO NOTHING';

const LENGTH_SCHEMA =
  'CREATE TABLE IF NOT EXISTS sign_in_length (id INTEGER PRIMARY KEY CHECK (id = 1), hours INTEGER NOT NULL)';
const NEW_LENGTH =
  'INSERT INTO sign_in_length (id, hours) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET hours = excluded.hours';

const HOUR_MS = 3_600_000;

/** What is stored: the length of sign-ins in hours, and those that have ended, with the times until when they would have lasted. */
type Stored = { hours: number | null; ended: (readonly [id: string, until: number])[] };

/** A ticket takes a sign-in from the console to the origin of a page. `to` is the path there. */
type Ticket = { host: string; owner: PageOwner; to: string; signIn: SignIn };

export class SignIns {
  readonly #db: IdentityClient;
  readonly #nodes: IdentityNodes;
  readonly #tell: () => void;
  readonly #stored: (given: null) => Promise<Stored>;
  readonly #now: () => number;
  readonly #tickets: OneTime<Ticket>;
  /** Those of guests, which anybody with a link may ask for: they take no room from others. */
  readonly #guests: OneTime<Ticket>;
  readonly #links: OneTime<true>;
  /** Maps the id of a sign-in that was ended to the time when it would have expired. */
  readonly #ended = new Map<string, number>();
  /** The length in the configuration, in hours. It is null where there is none. */
  readonly #configured: number | null;
  /** The length that was chosen in the console, in hours. */
  #chosen: number = SIGN_IN_HOURS.minimum;

  /** `elapsed` is a clock that is never set, in milliseconds. It is for what does not outlive this process. */
  constructor(
    db: IdentityClient,
    now: () => number = Date.now,
    elapsed: () => number = () => performance.now(),
    configured: number | null = null,
    nodes: IdentityNodes = ALONE,
  ) {
    this.#db = db;
    this.#nodes = nodes;
    this.#tell = nodes.keeps({ name: 'sign-ins', reload: () => this.#load() });
    this.#stored = nodes.atOwner('sign-ins', () => this.#read());
    this.#configured = configured;
    this.#now = now;
    this.#tickets = new OneTime(LIMITS.ticketMs, elapsed);
    this.#guests = new OneTime(LIMITS.ticketMs, elapsed);
    this.#links = new OneTime(LIMITS.linkMs, elapsed);
  }

  /**
   * Reads the ended sign-ins. A database that cannot be read does not prevent the start. Without its file there are none.
   * `hours` is the length that the configuration sets.
   */
  static async open({ db, file, log, nodes = ALONE }: IdentityDb, hours: number | null): Promise<SignIns> {
    const signIns = new SignIns(db, undefined, undefined, hours, nodes);
    try {
      // In a cluster the nodes read when they know who has the database.
      if (nodes === ALONE && existsSync(file)) await signIns.#load();
    } catch (error) {
      log.warn({ err: error }, 'The list of ended sessions cannot be read; ended sessions may be valid again.');
    }
    return signIns;
  }

  async #read(): Promise<Stored> {
    const tables = await this.#db.all("SELECT name FROM sqlite_schema WHERE type = 'table'");
    const rowsOf = async (table: string) =>
      tables.some(({ name }) => name === table) ? await this.#db.all(`SELECT * FROM ${table}`) : [];
    const [length] = await rowsOf('sign_in_length');
    const ended = await rowsOf('ended_sign_ins');
    return {
      hours: length === undefined ? null : Number(length.hours),
      ended: ended.map(({ id, until }) => [String(id), Number(until)]),
    };
  }

  /** What has ended stays so. Answers whether more has. */
  async #load(): Promise<boolean> {
    const { hours, ended } = await this.#stored(null);
    if (hours !== null) this.#chosen = hours;
    this.#forgetOver();
    const before = this.#ended.size;
    for (const [id, until] of ended) if (until > this.#now()) this.#ended.set(id, until);
    return this.#ended.size > before;
  }

  #forgetOver(): void {
    for (const [ended, until] of this.#ended) if (until <= this.#now()) this.#ended.delete(ended);
  }

  /** The length of sign-ins that begin from now on. */
  get length(): SignInLength {
    if (this.#configured !== null) return { hours: this.#configured, setBy: 'configuration' };
    return { hours: this.#chosen, setBy: 'console' };
  }

  /**
   * Sets the length of sign-ins from now on. Those that have begun keep theirs. Rejects with `CONFLICT` where the configuration
   * sets it.
   */
  async setLength(hours: number): Promise<void> {
    if (this.#configured !== null)
      throw new SvcError(
        'CONFLICT',
        'The configuration file has "signInHours". Change it there, and start the gateway again.',
      );
    await this.#db.exec(LENGTH_SCHEMA);
    await this.#db.batch([[NEW_LENGTH, [hours]]]);
    this.#chosen = hours;
    this.#tell();
  }

  /** Begins a sign-in, with a Bearer or a link. */
  begin(): SignIn {
    return { id: randomBytes(8).toString('hex'), expiresAt: this.#now() + this.length.hours * HOUR_MS };
  }

  /** Ends a sign-in: every cookie that came of it ends at once, and for good once this resolves. */
  async end({ id, expiresAt }: SignIn): Promise<void> {
    this.#forgetOver();
    this.#ended.set(id, expiresAt);
    await this.#db.exec(SCHEMA);
    await this.#db.batch([
      ['DELETE FROM ended_sign_ins WHERE until <= ?', [this.#now()]],
      [NEW_ENTRY, [id, expiresAt]],
    ]);
    this.#tell();
  }

  isEnded(id: string): boolean {
    return this.#ended.has(id) || !this.#nodes.current;
  }

  /** Keeps a ticket and answers its text. */
  ticket(ticket: Ticket, isGuests = false): string {
    return (isGuests ? this.#guests : this.#tickets).add(ticket);
  }

  /** Takes a ticket by its text, which uses it up. It is null when it is unknown, used, too old, or for another origin. */
  takeTicket(text: string, host: string): Ticket | null {
    const ticket = this.#tickets.take(text) ?? this.#guests.take(text);
    return ticket?.host === host ? ticket : null;
  }

  /** Makes a link: its code, and when it ends. */
  link(): { code: string; expiresAt: number } {
    return { code: this.#links.add(true), expiresAt: this.#now() + LIMITS.linkMs };
  }

  /** Whether the code of a link is good. This uses it up. */
  takeLink(code: string): boolean {
    return this.#links.take(code) === true;
  }
}

/** Keeps values behind random texts, each for one use within a time. The oldest make room. */
export class OneTime<T> {
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
