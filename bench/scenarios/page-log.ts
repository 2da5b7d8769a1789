/** Durable writes through the log of pages, beside plain PostgreSQL with one `INSERT` a commit, on one server in turns. */
import { join } from 'node:path';
import { LIMITS } from '../../protocol/limits.ts';
import { Database } from '../../storage/cluster/database.ts';
import { prepareTables } from '../../storage/cluster/tables.ts';
import { PageLog } from '../../storage/replication/page-log.ts';
import { NO_ENTRIES, positionAt, Shipper } from '../../storage/replication/shipper.ts';
import { WalPages } from '../../storage/replication/wal-pages.ts';
import { openSqlite } from '../../storage/sqlite.ts';
import { WalIndex } from '../../storage/wal-index.ts';
import { postgres, whyNoPostgres } from '../../testing/postgres.ts';
import { type Context, type Scenario, sized } from '../context.ts';
import { type Finding, fact } from '../measurements.ts';
import { closedLoop, NOTE, PlainPostgres } from '../plain-postgres.ts';
import { median } from '../statistics.ts';

const CLIENTS = 64;
const ROUNDS = { full: 6, smoke: 2 };
const ROUND_MS = { full: 2000, smoke: 200 };
const NODE = 'bench';

export const pageLogScenario: Scenario = {
  name: 'page-log',
  question:
    'How many durable writes a second go through the log of pages, beside one INSERT a commit in the same PostgreSQL?',
  run,
};

/** Writes one row and resolves once it is durable. */
type Write = (client: number) => Promise<unknown>;
type Contender = { name: string; write: Write };
type Round = { rate: number; single: number };

async function run(context: Context): Promise<Finding[]> {
  const missing = whyNoPostgres();
  if (missing !== null) {
    context.progress(`  It is left out: ${missing}.`);
    return [];
  }
  const server = await postgres();
  const db = new Database([server.url], { answerMs: LIMITS.logAnswerMs });
  const log = new PageLog(db, NODE);
  const plain = await PlainPostgres.open(server.url, CLIENTS);
  try {
    await prepare(db);
    const writer = await log.begin();
    const isBusy = (): boolean => turns.length > 0;
    const shippers = { one: new Shipper(log, isBusy), many: new Shipper(log, isBusy) };
    const one = new App(context.newFolder(), 'one', shippers.one, writer);
    const many = Array.from(
      { length: CLIENTS },
      (_, n) => new App(context.newFolder(), `app-${n}`, shippers.many, writer),
    );
    const contenders: Contender[] = [
      { name: 'log, one app', write: () => one.write() },
      { name: `log, ${CLIENTS} apps`, write: (client) => (many[client] as App).write() },
      { name: 'one INSERT a commit', write: (client) => plain.write(client) },
    ];
    const findings = await inTurns(context, contenders);
    for (const app of [one, ...many]) app.close();
    return [
      ...findings,
      ...(['one', 'many'] as const).flatMap((key) => {
        const { groups, bytes } = shippers[key].counters;
        const apps = key === 'one' ? 'one app' : `${CLIENTS} apps`;
        const writes = (key === 'one' ? [one] : many).reduce((sum, { writes }) => sum + writes, 0);
        return [
          fact(`log, ${apps}, writes a round trip`, writes / groups, '', 'all rounds'),
          fact(`log, ${apps}, bytes a write`, bytes / writes, '', 'of its pages, as they are sent'),
        ];
      }),
    ];
  } finally {
    await Promise.all([db.close(), plain.close()]);
    await server.stop();
  }
}

async function prepare(db: Database): Promise<void> {
  await prepareTables(db);
  await db.rows('UPDATE svc.buckets SET owner = $1, epoch = 1', [NODE]);
}

async function inTurns(context: Context, contenders: Contender[]): Promise<Finding[]> {
  const rounds = contenders.map((): Round[] => []);
  for (const { write } of contenders) await closedLoop(write, CLIENTS, sized(context, ROUND_MS) / 4);
  for (let n = 0; n < sized(context, ROUNDS); n++) {
    for (const [index, { write }] of contenders.entries()) {
      const { rate } = await closedLoop(write, CLIENTS, sized(context, ROUND_MS));
      const { latencies } = await closedLoop(write, 1, sized(context, ROUND_MS) / 4);
      rounds[index]?.push({ rate, single: median(latencies) });
    }
  }
  const plain = rounds.at(-1) as Round[];
  return contenders.flatMap(({ name }, index) => {
    const own = rounds[index] as Round[];
    const ratio = median(own.map(({ rate }, n) => rate / (plain[n] as Round).rate));
    return [
      fact(
        `${name}, writes at ${CLIENTS} clients`,
        median(own.map(({ rate }) => rate)),
        '/s',
        `median of ${own.length} rounds`,
      ),
      fact(
        `${name}, one write`,
        median(own.map(({ single }) => single)),
        'ms',
        'p50 of one client, median of the rounds',
      ),
      ...(own === plain
        ? []
        : [fact(`${name}, beside one INSERT a commit`, ratio, '×', 'median over neighbouring rounds')]),
    ];
  });
}

const turns: App[] = [];

/** Between two commits answers come in, as in the writer. */
function takeTurn(app: App): void {
  const next = (): void => {
    turns.shift()?.commit();
    if (turns.length > 0) setImmediate(next);
  };
  if (turns.push(app) === 1) setImmediate(next);
}

/** One app's database, written by group commit as the writer does it, without the writer's process and its sockets. */
class App {
  writes = 0;
  readonly #shipper: Shipper;
  readonly #db;
  readonly #begin;
  readonly #insert;
  readonly #commit;
  readonly #index: WalIndex;
  readonly #pages: WalPages;
  readonly #position;
  #waiting: { resolve(): void; reject(error: unknown): void }[] = [];

  constructor(folder: string, name: string, shipper: Shipper, writer: string) {
    this.#shipper = shipper;
    const file = join(folder, 'data.sqlite');
    this.#db = openSqlite(file);
    this.#db.pragma('journal_mode = WAL');
    this.#db.pragma('synchronous = NORMAL');
    this.#db.exec('CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT, body TEXT)');
    this.#begin = this.#db.prepare('BEGIN IMMEDIATE');
    this.#commit = this.#db.prepare('COMMIT');
    this.#insert = this.#db.prepare('INSERT INTO notes (title, body) VALUES (?, ?)');
    this.#index = new WalIndex(file);
    this.#pages = new WalPages(file);
    this.#position = positionAt(name, writer, 1, NO_ENTRIES);
  }

  write(): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.push({ resolve, reject }) === 1) takeTurn(this);
    });
  }

  commit(): void {
    const group = this.#waiting;
    this.#waiting = [];
    this.#begin.run();
    for (const _ of group) this.#insert.run(...NOTE);
    this.#commit.run();
    this.writes += group.length;
    const pages = this.#pages.read(this.#index.read() as Buffer);
    this.#shipper
      .ship(this.#position, pages, this.#pages.place, () => {})
      .then(
        () => {
          for (const { resolve } of group) resolve();
        },
        (error) => {
          for (const { reject } of group) reject(error);
        },
      );
  }

  close(): void {
    this.#db.close();
    this.#index.close();
    this.#pages.close();
  }
}
