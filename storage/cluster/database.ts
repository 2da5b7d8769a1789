/**
 * Asks the PostgreSQL database of a cluster: over connections that are made anew when they fail, at the next of its addresses when one
 * is away or takes no writes, with a deadline for each answer. The driver is loaded with the first question.
 */
import type pg from 'pg';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';

/** Of connections and servers that end or let nobody in, and of one that takes no writes (25006). */
const AWAY = /^(?:08...|28...|3D000|53...|57P0[1-5]|25006)$/;
/** One for renewals, one for changes of owners, which may wait for a lock, and one for what is asked by people. */
const CONNECTIONS = 3;

/** A node that cannot be reached any more, or is stuck, does not keep its locks: others wait for them. */
function unlessGone(mode: string): string {
  const ms = mode.includes('READ ONLY') ? LIMITS.readingStallMs : LIMITS.transactionStallMs;
  return `SET LOCAL idle_in_transaction_session_timeout = ${ms}`;
}

/** `name`: it is planned once in each connection. `answerMs`: it may take as long. */
export type Statement = { text: string; name?: string; answerMs?: number };

/** Asks one statement after the other: within one transaction, or each by itself. */
export type Session = {
  /** Rejects with `STORAGE_UNAVAILABLE`, whose cause is the driver's error. */
  rows<T>(statement: string | Statement, values?: unknown[]): Promise<T[]>;
};

/** As `Database` does it. */
export type Transactions = Session & { transaction<T>(work: (session: Session) => Promise<T>): Promise<T> };

/** Of a database, which may change them. */
type Limits = { readonly answerMs: number };
type Turn = { take(): void; reject(error: unknown): void };

export class Database implements Session {
  /** Questions since the start; a transaction is one. */
  questions = 0;
  readonly urls: readonly string[];
  /** What a statement may take that is asked from now on. */
  answerMs: number;
  readonly #connections: number;
  /** How many more may work at once. */
  #free: number;
  readonly #turns: Turn[] = [];
  readonly #idle: Connection[] = [];
  #current = 0;
  /** Connections that `close` has taken. */
  #taken = 0;

  /**
   * `urls` are those of one database, at least one: a primary and the standbys that may become it. So many connections work at once,
   * who needs another one waits; a statement may take `answerMs`, and longer by the bytes that it sends.
   */
  constructor(
    urls: readonly string[],
    { connections = CONNECTIONS, answerMs = LIMITS.nodeQueryMs }: { connections?: number; answerMs?: number } = {},
  ) {
    this.urls = urls;
    this.#connections = connections;
    this.#free = connections;
    this.answerMs = answerMs;
  }

  rows<T>(statement: string | Statement, values?: unknown[]): Promise<T[]> {
    return this.#use((connection) => connection.rows<T>(statement, values));
  }

  /** One transaction; `mode` is what its BEGIN says of it. Rejects, with nothing done, as `work` and as statements do. */
  transaction<T>(work: (session: Session) => Promise<T>, mode = ''): Promise<T> {
    return this.#use(async (connection) => {
      await connection.rows(`BEGIN ${mode}; ${unlessGone(mode)}`);
      const result = await work(connection);
      await connection.rows('COMMIT');
      return result;
    });
  }

  /** Ends all connections, when what is asked was answered; what is asked later is rejected. */
  async close(): Promise<void> {
    const taken = () => void this.#taken++;
    while (this.#taken < this.#connections) await this.#turn().then(taken, () => {});
    for (const turn of this.#turns.splice(0)) turn.reject(closed());
    await Promise.all(this.#idle.splice(0).map((connection) => connection.end()));
  }

  async #use<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    this.questions++;
    await this.#turn();
    try {
      const connection = this.#idle.pop() ?? (await this.#connect());
      try {
        const result = await work(connection);
        if (!connection.isEnded) this.#idle.push(connection);
        return result;
      } catch (error) {
        // With its connection an open transaction ends.
        void connection.end();
        if (isAway(error)) this.#leave(connection.address);
        throw error;
      }
    } finally {
      const next = this.#turns.shift();
      if (next === undefined) this.#free++;
      else next.take();
    }
  }

  async #turn(): Promise<void> {
    if (this.#taken === this.#connections) throw closed();
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((take, reject) => this.#turns.push({ take, reject }));
  }

  /** At the address of now, or at the next one that can be reached. Those who wait would only try the same again. */
  async #connect(): Promise<Connection> {
    const until = performance.now() + this.answerMs;
    const faults: string[] = [];
    do {
      const address = this.#current;
      const url = this.urls[address] as string;
      try {
        return await Connection.open(url, address, this, (ended) => {
          const at = this.#idle.indexOf(ended);
          if (at >= 0) this.#idle.splice(at, 1);
        });
      } catch (error) {
        faults.push(`${withoutPassword(url)}: ${reasonOf(error)}`);
        this.#leave(address);
      }
    } while (faults.length < this.urls.length && performance.now() < until);
    const error = unavailable(new Error(faults.join('; ')));
    for (const turn of this.#turns.splice(0)) turn.reject(error);
    throw error;
  }

  #leave(address: number): void {
    if (address === this.#current) this.#current = (address + 1) % this.urls.length;
  }
}

class Connection implements Session {
  /** Its place among the addresses. */
  readonly address: number;
  readonly #client: pg.Client;
  readonly #limits: Limits;
  /** It cannot be used any more. */
  isEnded = false;
  /** After it nothing is asked: a transaction that lacks a statement must not be committed. */
  #failure: SvcError | null = null;

  private constructor(client: pg.Client, address: number, limits: Limits) {
    this.#client = client;
    this.address = address;
    this.#limits = limits;
  }

  /** Rejects as the driver does, and for a standby, which would answer with what is old. `ended` is called when it ends. */
  static async open(
    url: string,
    address: number,
    limits: Limits,
    ended: (connection: Connection) => void,
  ): Promise<Connection> {
    const { default: driver } = await import('pg');
    const { answerMs } = limits;
    const from = performance.now();
    const client = new driver.Client({
      connectionString: url,
      application_name: 'svc',
      connectionTimeoutMillis: answerMs,
      keepAlive: true,
    });
    const connection = new Connection(client, address, limits);
    const isOver = () => {
      connection.isEnded = true;
      ended(connection);
    };
    // Without a listener a connection that ends while nobody asks would end the process.
    client.on('error', isOver).on('end', isOver);
    try {
      await client.connect();
      const asked = client.query<{ standby: boolean }>('SELECT pg_is_in_recovery() AS standby');
      const { rows } = await inTime(asked, answerMs);
      if (rows[0]?.standby) throw new Error('it is a standby, which takes no writes; name its primary too');
    } catch (error) {
      void connection.end();
      // The driver says of its own limit that the server ended the connection.
      const isLate = stateOf(error) === null && performance.now() - from >= answerMs;
      throw isLate ? new Error(`no answer within ${answerMs} ms`, { cause: error }) : error;
    }
    return connection;
  }

  async rows<T>(statement: string | Statement, values: unknown[] = []): Promise<T[]> {
    if (this.#failure !== null) throw this.#failure;
    const { answerMs = this.#limits.answerMs, ...query } =
      typeof statement === 'string' ? { text: statement } : statement;
    let bytes = 0;
    for (const value of values) if (Buffer.isBuffer(value)) bytes += value.length;
    try {
      const asked = this.#client.query({ ...query, values });
      return (await inTime(asked, answerMs + bytes / LIMITS.databaseBytesPerMs)).rows as T[];
    } catch (error) {
      this.#failure = unavailable(error);
      throw this.#failure;
    }
  }

  /** With a statement under way it closes the socket at once. */
  async end(): Promise<void> {
    this.isEnded = true;
    await this.#client.end().catch(() => {});
  }
}

/**
 * Rejects when the answer did not come in time. A process that stood still for longer takes an answer that came meanwhile: its timers run
 * first, so the driver's own limit would give up a connection, and with it a lease, that is good.
 */
async function inTime<T>(answer: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => setImmediate(reject, new Error(`no answer within ${Math.ceil(ms)} ms`)), ms);
  });
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The five characters by which PostgreSQL tells its errors apart; null for any other error. */
export function stateOf(error: unknown): string | null {
  const { code } = ((error instanceof SvcError ? error.cause : error) ?? {}) as { code?: unknown };
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && !code.startsWith('E') ? code : null;
}

/** Whether the database may not have been asked, or nobody knows what it did: the same may succeed when it is there again. */
export function isAway(error: unknown): boolean {
  if (!(error instanceof SvcError) || error.code !== 'STORAGE_UNAVAILABLE' || error.cause === undefined) return false;
  const state = stateOf(error);
  return state === null || AWAY.test(state);
}

/** An address of a database as messages may show it. */
export function withoutPassword(address: string): string {
  const shown = new URL(address);
  shown.password = '';
  // Parameters may have one as well, and what is after a "#" that was not escaped.
  shown.search = '';
  shown.hash = '';
  return shown.href;
}

function closed(): SvcError {
  return unavailable(new Error('this node has closed its connections'));
}

/** The error for what could not be asked or done. */
function unavailable(error: unknown): SvcError {
  const state = stateOf(error);
  const what = state === null || AWAY.test(state) ? 'does not answer' : 'answers with an error';
  const message = `The database of the cluster ${what}: ${reasonOf(error)}. Try again; if it goes on, see whether its PostgreSQL runs.`;
  return new SvcError('STORAGE_UNAVAILABLE', message, { cause: error });
}

function reasonOf(error: unknown): string {
  const { message, code } = error as { message?: string; code?: string };
  // Of several addresses of a name at once the driver tells only the code.
  return message || code || String(error);
}
