/**
 * Clients of a register: each write replaces its value and says which one it replaced, so that all writes are one chain. A history of
 * writes and reads is right (linearizable) when each follows in that chain what had ended before it began.
 */
import { appOf } from '../../../testing/apps.ts';
import { Client, Counts, codeOf, HANG_MS, outcomeOf } from '../../../testing/clients.ts';
import type { Answer, TestGateway } from '../../../testing/gateway.ts';
import type { Random } from '../../../testing/random.ts';
import { pause } from '../../../testing/waiting.ts';

/** The values of an app in their order: `n` counts from 1. */
export type Link = { n: number; key: string };
/** Times in milliseconds of `performance.now()`. `was` is what a write replaced; null for a read. The end of what nobody was told is infinite. */
export type Operation = Link & { was: string | null; from: number; to: number; node?: number };

/** What no write wrote. */
const NOTHING = '';
/** The automation fires each second and notes when it was due. */
export const registerApp = (id: string, { fires }: { fires: boolean }): Record<string, string | Buffer> =>
  appOf(id, {
    queries: {
      last: `async ({ db }) => (await db.get('SELECT n, key FROM chain ORDER BY n DESC LIMIT 1')) ?? { n: 0, key: '' }`,
      all: `({ db, input }) => db.all('SELECT n, key FROM chain WHERE n > ? ORDER BY n LIMIT 1000', [input.after])`,
      fires: `({ db, input }) => db.all('SELECT key, count(*) AS times FROM fires WHERE key > ? GROUP BY key ORDER BY key LIMIT 1000', [input.after])`,
    },
    actions: {
      swap: {
        run: `({ db, input }) => db.transaction(async (tx) => {
          const last = (await tx.get('SELECT n, key FROM chain ORDER BY n DESC LIMIT 1')) ?? { n: 0, key: '' };
          await tx.run('INSERT INTO chain VALUES (?, ?)', [last.n + 1, input.key]);
          return { n: last.n + 1, was: last.key };
        })`,
        writes: ['chain'],
      },
      note: `async ({ db, input }) => { await db.run('INSERT INTO fires VALUES (?)', [input.key]); return null; }`,
    },
    migrations: [
      'CREATE TABLE chain (n INTEGER NOT NULL, key TEXT NOT NULL); CREATE INDEX chain_n ON chain (n); CREATE TABLE fires (key TEXT NOT NULL);',
    ],
    automations: fires
      ? {
          tick: {
            run: `async ({ ctx }) => { await ctx.tool('svc_write', { app: '${id}', action: 'note', input: { key: new Date(ctx.now).toISOString() } }); return {}; }`,
            triggers: [{ kind: 'cron', expr: '* * * * * *' }],
          },
        }
      : {},
  });

export type RegisterOptions = {
  apps: string[];
  /** Clients at each node. */
  writers: number;
  readers: number;
  random: Random;
};

/** While faults go on, these say nothing of what became of a call. */
const AGAIN = /^(no answer|503 .*|507 STORAGE_FULL|429 .*|401 UNAUTHORIZED)$/;

/** These say that nobody knows. */
const UNKNOWN = /[Ii]ts? outcome is unknown/;
/** What a machine that is too busy says of a read. */
const LATE = /timed out after .* it had not started/;
/** Between two looks at a node that gets all that there is from the database. */
const AGAIN_MS = 200;

export class Registers extends Client {
  readonly operations = new Map<string, Operation[]>();
  /** What became of each answer. */
  readonly outcomes = new Counts();
  /** The app of each key that was sent, whatever became of it, and when. */
  readonly sent = new Map<string, { app: string; from: number }>();
  repeats = 0;
  /** Outcomes that nobody can be told any more. */
  unknown = 0;
  readonly #nodes: readonly TestGateway[];
  readonly #apps: string[];
  #count = 0;
  /** Waits for a write of an app through a node that was sent after a time. */
  readonly #waits = new Set<{ missing: Set<string>; since: number; resolve(): void }>();

  constructor(nodes: readonly TestGateway[], { apps, writers, readers, random }: RegisterOptions) {
    super(nodes[0] as TestGateway, random);
    this.#nodes = nodes;
    this.#apps = apps;
    for (const app of apps) this.operations.set(app, []);
    for (const node of nodes) {
      for (let n = 0; n < writers; n++) {
        const own = random.fork();
        this.repeat(() => this.#write(node, own), [10, 60], own);
      }
      for (let n = 0; n < readers; n++) {
        const own = random.fork();
        this.repeat(() => this.#read(node, own), [10, 50], own);
      }
    }
  }

  /** Resolves when each app has acknowledged a write at each node that was sent after `since`. */
  healed(since: number): Promise<void> {
    const missing = new Set(this.#apps.flatMap((app) => this.#nodes.map((_, node) => `${app} at node ${node + 1}`)));
    return new Promise((resolve) => this.#waits.add({ missing, since, resolve }));
  }

  /** What those wait for that wait. */
  get missing(): string[] {
    return [...this.#waits].flatMap(({ missing }) => [...missing]);
  }

  async #write(home: TestGateway, random: Random): Promise<void> {
    const app = random.pick(this.#apps);
    const key = `w${++this.#count}`;
    const from = performance.now();
    this.sent.set(key, { app, from });
    let node = home;
    const headers = { 'idempotency-key': key };
    const done = await this.definite(`The write ${key} of ${app}`, 20, async () => {
      const answer = await this.answered(key, node.write(app, 'swap', { key }, { headers }));
      const outcome = this.#outcome(answer);
      if (answer !== null && answer.status < 300)
        return (answer.json as { data: { body: { n: number; was: string } } }).data.body;
      if (answer !== null && UNKNOWN.test(answer.text)) return 'unknown';
      if (answer?.headers['idempotency-replayed'] === 'true') {
        this.violations.push(`${key} of ${app} is answered ${outcome} whenever it is repeated.`);
        return 'unknown';
      }
      if (!AGAIN.test(outcome) && answer?.status !== 409)
        this.violations.push(`${key} of ${app} was answered ${outcome}: ${answer?.text}`);
      this.repeats += 1;
      node = random.pick(this.#nodes);
      return null;
    });
    if (done === null) return;
    if (done === 'unknown') {
      this.unknown += 1;
      return;
    }
    this.operations.get(app)?.push({ ...done, key, from, to: performance.now() });
    this.step();
    this.#tell(app, home, from);
  }

  async #read(node: TestGateway, random: Random): Promise<void> {
    const app = random.pick(this.#apps);
    const from = performance.now();
    const answer = await this.answered(`A read of ${app}`, node.read(app, 'last', {}));
    const outcome = this.#outcome(answer);
    if (answer?.status === 200) {
      const { n, key } = (answer.json as { data: Link }).data;
      this.operations
        .get(app)
        ?.push({ n, key, was: null, from, to: performance.now(), node: this.#nodes.indexOf(node) + 1 });
    } else if (!AGAIN.test(outcome) && !(answer !== null && LATE.test(answer.text)))
      this.violations.push(`A read of ${app} was answered ${outcome}: ${answer?.text}`);
  }

  #outcome(answer: Answer | null): string {
    const outcome = outcomeOf(answer);
    this.outcomes.count(answer?.status === 409 ? `409 ${codeOf(answer)}` : outcome);
    return outcome;
  }

  #tell(app: string, home: TestGateway, from: number): void {
    const what = `${app} at node ${this.#nodes.indexOf(home) + 1}`;
    for (const wait of this.#waits) {
      if (from > wait.since) wait.missing.delete(what);
      if (wait.missing.size > 0) continue;
      this.#waits.delete(wait);
      wait.resolve();
    }
  }
}

/** Pages of 1,000 of a query of the app that takes `after`. */
export async function pages<Row>(
  node: TestGateway,
  app: string,
  query: string,
  first: unknown,
  next: (row: Row) => unknown,
): Promise<Row[]> {
  const rows: Row[] = [];
  // On a busy machine the node takes over what all had for minutes.
  const until = performance.now() + 3 * HANG_MS;
  for (let after = first; ; ) {
    const answer = await node.read(app, query, { after });
    if (answer.status === 503 && performance.now() < until) {
      await pause(AGAIN_MS);
      continue;
    }
    if (answer.status !== 200) throw new Error(`${app}/${query} was answered ${answer.status} ${answer.text}`);
    const { data } = answer.json as { data: Row[] };
    rows.push(...data);
    if (data.length < 1000) return rows;
    after = next(data.at(-1) as Row);
  }
}

/** What is wrong with the history of one app, whose chain is as stored at last. */
export function checkRegister(
  app: string,
  chain: readonly Link[],
  operations: readonly Operation[],
  sent: ReadonlyMap<string, { app: string; from: number }>,
): string[] {
  const violations: string[] = [];
  const keys = new Map<string, number>();
  for (const [index, { n, key }] of chain.entries()) {
    if (n !== index + 1) violations.push(`${app}: number ${index + 1} of the chain is ${n} (${key}).`);
    if (keys.has(key)) violations.push(`${app}: ${key} was done as ${keys.get(key)} and as ${n}.`);
    keys.set(key, n);
    if (sent.get(key)?.app !== app) violations.push(`${app} has ${key}, which nobody sent to it.`);
  }
  const stored = (n: number): string | undefined => (n === 0 ? NOTHING : chain[n - 1]?.key);
  for (const { n, key, was } of operations) {
    if (stored(n) !== key)
      violations.push(
        `${app}: ${key} was ${was === null ? 'read' : 'acknowledged'} as ${n}, where ${stored(n) ?? 'nothing'} is stored.`,
      );
    else if (was !== null && stored(n - 1) !== was)
      violations.push(`${app}: ${key} replaced ${was}, and ${stored(n - 1)} is stored before it.`);
  }
  return [...violations, ...checkOrder(app, [...operations, ...untold(keys, operations, sent)])];
}

/** Writes that are stored and whose client was never told so. */
function untold(
  keys: ReadonlyMap<string, number>,
  operations: readonly Operation[],
  sent: ReadonlyMap<string, { from: number }>,
): Operation[] {
  const told = new Set(operations.flatMap(({ key, was }) => (was === null ? [] : key)));
  return [...keys].flatMap(([key, n]) => {
    const from = sent.get(key)?.from;
    return told.has(key) || from === undefined ? [] : { n, key, was: NOTHING, from, to: Number.POSITIVE_INFINITY };
  });
}

/** What began after the end of another one comes after it in the chain; a read of the same value may follow it. */
function checkOrder(app: string, operations: readonly Operation[]): string[] {
  const violations: string[] = [];
  const ends = [...operations].sort((a, b) => a.to - b.to);
  let at = 0;
  let latest: Operation | null = null;
  for (const one of [...operations].sort((a, b) => a.from - b.from)) {
    for (let ended = ends[at]; ended !== undefined && ended.to < one.from; ended = ends[++at])
      if (latest === null || ended.n > latest.n) latest = ended;
    const least = one.was === null ? one.n : one.n - 1;
    if (latest !== null && latest.n > least)
      violations.push(
        `${app}: ${one.was === null ? `a read at node ${one.node} found` : 'a write became'} ${one.n} (${one.key}), and ${latest.n} (${latest.key}) had been answered ${(one.from - latest.to).toFixed(0)} ms before it was sent.`,
      );
  }
  return violations;
}
