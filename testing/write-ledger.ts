/** Clients that write under faults and record acknowledged writes, and the check that none is lost. */
import { Layout } from '../storage/layout.ts';
import { Client, Counts, codeOf, outcomeOf } from './clients.ts';
import { reading, unsound } from './databases.ts';
import type { TestGateway } from './gateway.ts';
import { pause } from './waiting.ts';

/** One row, two in a `batch`, or two in a `transaction`: of the latter, one without the other is a partial action. */
const ACTIONS = ['put', 'pair', 'move'] as const;
type Action = (typeof ACTIONS)[number];
const PARTS: Record<Action, number> = { put: 1, pair: 2, move: 2 };

const manifest = (id: string) => ({
  id,
  name: id,
  version: '1.0.0',
  queries: [{ name: 'count' }, { name: 'get' }],
  actions: ACTIONS.map((name) => ({ name, writes: ['entries'] })),
});

/**
 * The files of an app whose rows name the write that made them. Its table has no unique column, so that a repeated
 * write shows.
 */
export const ledgerApp = (id: string): Record<string, string> => ({
  'app.json': JSON.stringify(manifest(id)),
  'migrations/0001_entries.sql':
    'CREATE TABLE entries (key TEXT NOT NULL, part INTEGER NOT NULL, value INTEGER NOT NULL); CREATE INDEX entries_key ON entries (key);',
  'queries/count.js': `export default ({ db }) => db.get('SELECT count(*) AS rows FROM entries');`,
  'queries/get.js': `export default ({ input, db }) => db.all('SELECT part, value FROM entries WHERE key = ?', [input.key]);`,
  'actions/put.js': `export default async ({ input, db }) => {
    await db.run('INSERT INTO entries VALUES (?, 0, ?)', [input.key, input.value]);
    return { status: 201, body: input.key };
  };`,
  'actions/pair.js': `export default async ({ input, db }) => {
    await db.batch([0, 1].map((part) => ['INSERT INTO entries VALUES (?, ?, ?)', [input.key, part, input.value]]));
    return { status: 201, body: input.key };
  };`,
  'actions/move.js': `export default async ({ input, db }) => {
    await db.transaction(async (tx) => {
      await tx.run('INSERT INTO entries VALUES (?, 0, ?)', [input.key, input.value]);
      await tx.run('INSERT INTO entries SELECT key, 1, value FROM entries WHERE key = ?', [input.key]);
    });
    return { status: 201, body: input.key };
  };`,
});

/** The same with a mark that only rises, and rarely, so that most of its reads are answered with a kept result. */
export function markedLedgerApp(id: string): Record<string, string> {
  const { queries, actions, ...rest } = manifest(id);
  return {
    ...ledgerApp(id),
    'app.json': JSON.stringify({
      ...rest,
      queries: [...queries, { name: 'mark' }, { name: 'own' }],
      actions: [...actions, { name: 'raise', writes: ['marks'] }],
    }),
    'migrations/0002_marks.sql': 'CREATE TABLE marks (n INTEGER NOT NULL); INSERT INTO marks VALUES (0);',
    'queries/mark.js': `export default ({ db }) => db.get('SELECT n FROM marks');`,
    'queries/own.js': `export default async ({ db, ctx }) => ({ ...(await db.get('SELECT n FROM marks')), user: ctx.user?.id });`,
    'actions/raise.js': `export default async ({ input, db }) => {
      await db.run('UPDATE marks SET n = max(n, ?)', [input.n]);
      return { status: 201, body: input.n };
    };`,
  };
}

/** `sentAt` and `answeredAt` in milliseconds of `performance.now()`; `daemon` is the pid of the daemon that got it. */
export type Write = {
  app: string;
  action: Action;
  key: string;
  value: number;
  daemon: number;
  sentAt: number;
  answeredAt: number;
};

/** Write number `n` of client `id`. */
export function newWrite(apps: string[], prefix: string, id: number, n: number, daemon: number): Write {
  return {
    app: apps[(id + n) % apps.length] as string,
    action: ACTIONS[(id + n) % ACTIONS.length] as Action,
    key: `${prefix}-${id}-${n}`,
    value: id * 1_000_003 + n,
    daemon,
    sentAt: performance.now(),
    answeredAt: Number.POSITIVE_INFINITY,
  };
}

/** The number of rows that the write makes. */
export const partsOf = (write: Write): number => PARTS[write.action];

export type LoadOptions = {
  /** Ids of apps made by `ledgerApp`. */
  apps: string[];
  clients: number;
  /** Separates the keys of one load from those of another on the same data. */
  prefix?: string;
  /** Between an answer and the next write of a client; none by default. */
  pauseMs?: number;
};

/** Writes from `clients` concurrent callers, each one after the other, until `stop`. */
export class Load extends Client {
  /** Every write that was answered with success. */
  readonly acknowledged: Write[] = [];
  /** Every write that was sent. */
  readonly sent = new Map<string, Write>();
  /** The count of each outcome: a status with its error code, or `no answer` if the connection ended. */
  readonly outcomes = new Counts();
  /** Writes whose connection ended without an answer. */
  readonly unanswered: Write[] = [];
  readonly #apps: string[];

  constructor(gateway: TestGateway, { apps, clients, prefix = 'w', pauseMs = 0 }: LoadOptions) {
    super(gateway);
    this.#apps = apps;
    for (let id = 0; id < clients; id++)
      this.repeat((n) => this.#next(newWrite(apps, prefix, id, n, gateway.pid), n), pauseMs);
  }

  /** Resolves when every app has acknowledged a write that was sent after `since`. */
  async healed(since: number): Promise<void> {
    const missing = new Set(this.#apps);
    for (let seen = this.acknowledged.length; missing.size > 0; ) {
      await this.more(1);
      for (; seen < this.acknowledged.length; seen++) {
        const { app, sentAt } = this.acknowledged[seen] as Write;
        if (sentAt > since) missing.delete(app);
      }
    }
  }

  #next(write: Write, n: number): Promise<void> {
    this.sent.set(write.key, write);
    return this.send(write, n);
  }

  /** Sends number `n` of a client, and records what it was answered. */
  protected async send(write: Write, _n: number): Promise<void> {
    const { app, action, key, value } = write;
    const answer = await this.answered(
      `The call ${key} (${app}/${action})`,
      this.gateway.write(app, action, { key, value }),
    );
    write.answeredAt = performance.now();
    const outcome = outcomeOf(answer);
    this.outcomes.count(outcome);
    if (answer === null) this.unanswered.push(write);
    else if (answer.status >= 400 && codeOf(answer) === null)
      this.violations.push(`${key} was answered ${answer.status} without an error code.`);
    if (outcome === '201') {
      this.acknowledged.push(write);
      this.step();
    }
    // A gateway that cannot answer now is asked again after a pause.
    else await pause(20);
  }
}

/** The answers to several loads, one after the other, on the same data. */
export class Ledger {
  readonly acknowledged: Write[] = [];
  readonly sent = new Map<string, Write>();

  add({ acknowledged, sent }: Pick<Load, 'acknowledged' | 'sent'>): void {
    for (const write of acknowledged) this.acknowledged.push(write);
    for (const [key, write] of sent) this.sent.set(key, write);
  }

  verify(dataDir: string): Verdict {
    return verify(dataDir, this);
  }
}

type Group = { key: string; parts: number; distinct: number; low: number; high: number };
const GROUPS =
  'SELECT key, count(*) AS parts, count(DISTINCT part) AS "distinct", min(value) AS low, max(value) AS high FROM entries GROUP BY key';

/** `stored` holds the keys of all writes that are in a database. */
export type Verdict = { violations: string[]; rows: number; lost: number; stored: Set<string> };

/**
 * Compares the databases below `dataDir` with the answers to `load`: each acknowledged write is there once and
 * complete, no other is there twice or in part, and SQLite finds the file intact. The load must have stopped; the
 * gateway may run.
 */
export function verify(dataDir: string, load: Pick<Load, 'acknowledged' | 'sent'>): Verdict {
  const violations: string[] = [];
  const found = new Map<string, Omit<Group, 'key'> & { app: string }>();
  let rows = 0;
  for (const app of new Set([...load.sent.values()].map((write) => write.app))) {
    const file = new Layout(dataDir).app(app).data;
    violations.push(...unsound(file));
    for (const { key, ...group } of reading(file, (db) => db.prepare(GROUPS).all()) as Group[]) {
      rows += group.parts;
      found.set(key, { app, ...group });
    }
  }
  let lost = 0;
  for (const { key, app } of load.acknowledged) {
    if (found.has(key)) continue;
    lost += 1;
    violations.push(`${key} was acknowledged by ${app} and is not in its database.`);
  }
  for (const [key, { app, parts, distinct, low, high }] of found) {
    const write = load.sent.get(key);
    if (write === undefined) violations.push(`${app} has ${key}, which nobody sent.`);
    else if (app !== write.app) violations.push(`${key} was sent to ${write.app} and is in ${app}.`);
    else if (parts !== partsOf(write) || distinct !== parts)
      violations.push(`${key} (${app}/${write.action}) has ${parts} rows of ${partsOf(write)}.`);
    else if (low !== write.value || high !== write.value)
      violations.push(`${key} has the value ${low}, not ${write.value}.`);
  }
  return { violations, rows, lost, stored: new Set(found.keys()) };
}
