// Operations of a cluster under load: nodes join, are upgraded one after the other and leave, and its database is copied and restored.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Database } from '../storage/cluster/database.ts';
import { prepareTables, TABLE_STEPS } from '../storage/cluster/tables.ts';
import { appOf } from '../testing/apps.ts';
import { Client } from '../testing/clients.ts';
import { nodesOf, patient, patiently, start } from '../testing/cluster-gateways.ts';
import type { Answer, TestGateway } from '../testing/gateway.ts';
import { database, dumpAndRestore, whyNoPostgres } from '../testing/postgres.ts';
import { eventually, LONG_MS } from '../testing/waiting.ts';

const APPS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((letter) => `${letter}-numbers`);

const MOVES = /does not serve this data now/;

const numbersOf = (id: string) =>
  appOf(id, {
    queries: { all: "async ({ db }) => (await db.all('SELECT v FROM numbers')).map(({ v }) => v)" },
    actions: {
      add: {
        run: "async ({ db, input }) => { await db.run('INSERT INTO numbers (v) VALUES (?)', input.v); return input.v; }",
        writes: ['numbers'],
      },
    },
    migrations: ['CREATE TABLE numbers (v INTEGER NOT NULL);'],
  });

/** Writes numbers through nodes as behind a proxy. Only what was not done, because its app moves just then, is sent again. */
class Writers extends Client {
  /** By app, in the order of the answers. */
  readonly acknowledged = new Map<string, number[]>(APPS.map((app) => [app, []]));
  /** Those that take requests. */
  nodes: TestGateway[];

  constructor(nodes: TestGateway[]) {
    super(nodes[0] as TestGateway);
    this.nodes = nodes;
    for (const [at, app] of APPS.entries()) this.repeat((n) => this.#add(app, n, n + at), 10);
  }

  async #add(app: string, v: number, turn: number): Promise<void> {
    let answer: Answer | null = null;
    for (let tries = 0; answer === null; tries++) {
      const node = this.nodes[(turn + tries) % this.nodes.length] as TestGateway;
      answer = await node.write(app, 'add', { v }, { agent: false });
      if (answer?.status === 503 && MOVES.test(answer.text)) answer = null;
    }
    if (answer.status >= 300) this.violations.push(`${app} ${v}: ${answer.status} ${answer.text}`);
    else this.acknowledged.get(app)?.push(v);
    this.step();
  }
}

/** What the apps have now, in order. */
async function numbersIn(node: TestGateway): Promise<Map<string, number[]>> {
  const found = new Map<string, number[]>();
  for (const app of APPS) {
    const { status, json, text } = await patient(node).read(app, 'all');
    assert.equal(status, 200, text);
    found.set(app, json.data);
  }
  return found;
}

async function drained(node: TestGateway, others: TestGateway[]): Promise<void> {
  const asked = await patiently(() => node.call('POST', '/svc/_cluster/drain', { body: { draining: true } }));
  assert.equal(asked.status, 200, asked.text);
  const isEmpty = async () => {
    const { nodes } = (await (others[0] as TestGateway).call('GET', '/svc/_cluster')).json;
    return nodes.find(({ address }: { address: string }) => address === node.url)?.buckets === 0;
  };
  assert.ok(await eventually(LONG_MS, isEmpty), 'it owns nothing any more');
}

test('nodes are upgraded, join and leave under load, and a copy of the database has what was acknowledged', {
  skip: whyNoPostgres() ?? false,
}, async (t) => {
  const url = await database();
  const [one, two, three] = nodesOf(t, url, ['one', 'two', 'three']) as [TestGateway, TestGateway, TestGateway];
  await start(one, two);
  for (const app of APPS) await patient(one).install(app, numbersOf(app));
  const load = new Writers([one, two]);
  t.after(() => load.stop());
  await load.more(20);

  // A newer release adds to the tables while this one works.
  const db = new Database([url]);
  t.after(() => db.close());
  const next = 'ALTER TABLE svc.buckets ADD COLUMN weight integer NOT NULL DEFAULT 1';
  await prepareTables(db, [...TABLE_STEPS, next]);
  await load.more(20);
  await assert.rejects(start(three), /The tables of the cluster have version .* update this one/);
  await db.rows('ALTER TABLE svc.buckets DROP COLUMN weight; UPDATE svc.meta SET version = version - 1');

  await start(three);
  load.nodes = [one, two, three];
  await load.more(20);
  for (const node of [one, two]) {
    await drained(node, [three]);
    // The proxy is told first: a connection that the system has not handed over yet ends with the process.
    load.nodes = [one, two, three].filter((other) => other !== node);
    // What was sent to it before is answered.
    await node.stop();
    await load.more(20);
    await start(node);
    load.nodes = [one, two, three];
    await load.more(20);
  }

  const before = new Map([...load.acknowledged].map(([app, numbers]) => [app, [...numbers]]));
  const copy = await dumpAndRestore(url);
  load.nodes = [one, two];
  await three.stop();
  await load.more(20);
  await load.stop();
  assert.deepEqual(load.violations, []);
  for (const [app, numbers] of await numbersIn(one)) assert.deepEqual(numbers, load.acknowledged.get(app), app);

  const [restored] = nodesOf(t, copy, ['one']) as [TestGateway];
  await start(restored);
  assert.equal(restored.token, one.token);
  for (const [app, numbers] of await numbersIn(restored)) {
    const all = load.acknowledged.get(app) as number[];
    const had = before.get(app) as number[];
    assert.ok(numbers.length >= had.length, `${app} has what was acknowledged before the copy began`);
    assert.deepEqual(numbers, all.slice(0, numbers.length), `${app} is as it was at one moment`);
  }
});
