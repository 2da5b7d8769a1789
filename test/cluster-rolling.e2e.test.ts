// Operations of a cluster under load: nodes join, are upgraded one after the other and leave, and its database is copied and restored.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MintedWebhook } from '../protocol/automations/automation.ts';
import { Database } from '../storage/cluster/database.ts';
import { prepareTables, TABLE_STEPS } from '../storage/cluster/tables.ts';
import { appOf } from '../testing/apps.ts';
import { Client } from '../testing/clients.ts';
import { nodesOf, patient, patiently, start } from '../testing/cluster-gateways.ts';
import type { Answer, TestGateway } from '../testing/gateway.ts';
import { database, dumpAndRestore, whyNoPostgres } from '../testing/postgres.ts';
import { eventually, LONG_MS, pause } from '../testing/waiting.ts';

const APPS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((letter) => `${letter}-numbers`);

/** What a node says whose lease ended, as on a machine that is too busy: then apps are taken over, which refuses calls. */
const LOST = /The lease of this node ended|so this node serves nothing|cannot be let go of/;
/** A webhook takes one call a second. */
const HOOK_MS = 1100;

const numbersOf = (id: string) =>
  appOf(id, {
    queries: { all: "async ({ db }) => (await db.all('SELECT v FROM numbers')).map(({ v }) => v)" },
    actions: {
      add: {
        run: "async ({ db, input }) => { await db.run('INSERT INTO numbers (v) VALUES (?)', input.v); return input.v; }",
        writes: ['numbers'],
      },
    },
    automations: {
      hook: { run: "async () => ({ output: 'done' })", triggers: [{ kind: 'webhook', pending: true }] },
    },
    migrations: ['CREATE TABLE numbers (v INTEGER NOT NULL);'],
  });

const ALONE = { agent: false } as const;

/** Uses apps through nodes as behind a proxy: writes numbers, and asks for all that moves with an app. */
class Users extends Client {
  /** By app, in the order of the answers. */
  readonly acknowledged = new Map<string, number[]>(APPS.map((app) => [app, []]));
  /** What was refused while an app moved, and sent again. */
  readonly refused: string[] = [];
  /** Those that take requests. */
  nodes: TestGateway[];
  /** By node, what has no answer yet. */
  readonly #underWay = new Map<TestGateway, Set<Promise<unknown>>>();

  constructor(nodes: TestGateway[], webhooks: ReadonlyMap<string, MintedWebhook>) {
    super(nodes[0] as TestGateway);
    this.nodes = nodes;
    for (const [at, app] of APPS.entries()) {
      this.repeat((n) => this.#add(app, n, n + at), 10);
      this.repeat(
        (n) => this.#ask(n + at, `numbers of ${app}`, (node) => node.read(app, 'all', undefined, ALONE)),
        100,
      );
      const settings = `/svc/_apps/${app}/settings`;
      this.repeat((n) => this.#ask(n + at, settings, (node) => node.call('GET', settings, ALONE)), 100);
      const { url, secret } = webhooks.get(app) as MintedWebhook;
      const { pathname } = new URL(url);
      const headers = { authorization: `Bearer ${secret}` };
      const fire = (node: TestGateway) => node.call('POST', pathname, { ...ALONE, token: null, headers, body: {} });
      this.repeat((n) => this.#ask(n + at, `webhook of ${app}`, fire), HOOK_MS);
    }
    this.repeat((n) => this.#ask(n, 'all apps', (node) => node.call('GET', '/svc/_apps', ALONE)), 100);
    const [app = ''] = APPS;
    this.repeat((n) => this.#ask(n, `upload of ${app}`, (node) => node.upload(app, numbersOf(app))), 1000);
  }

  async #add(app: string, v: number, turn: number): Promise<void> {
    const isDone = await this.#ask(turn, `${v} of ${app}`, (node) => node.write(app, 'add', { v }, ALONE));
    if (isDone) this.acknowledged.get(app)?.push(v);
    this.step();
  }

  async #ask(turn: number, what: string, ask: (node: TestGateway) => Promise<Answer>): Promise<boolean> {
    for (let tries = 0; ; tries++) {
      const { status, text } = await this.#answerOf(this.nodes[(turn + tries) % this.nodes.length] as TestGateway, ask);
      if (status < 300) return true;
      if (status !== 503) {
        this.violations.push(`${what}: ${status} ${text}`);
        return false;
      }
      this.refused.push(`${what}: ${text}`);
      await pause(100);
    }
  }

  async #answerOf(node: TestGateway, ask: (node: TestGateway) => Promise<Answer>): Promise<Answer> {
    const underWay = this.#underWay.get(node) ?? new Set();
    this.#underWay.set(node, underWay);
    const answer = ask(node);
    underWay.add(answer);
    return await answer.finally(() => underWay.delete(answer));
  }

  /** As a proxy takes a node out: it sends it nothing more, and waits for the answers. */
  async leaveOut(node: TestGateway): Promise<void> {
    this.nodes = this.nodes.filter((other) => other !== node);
    await Promise.allSettled(this.#underWay.get(node) ?? []);
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
  const webhooks = new Map<string, MintedWebhook>();
  for (const app of APPS) {
    const { webhooks: minted } = await patient(one).install(app, numbersOf(app));
    webhooks.set(app, minted[0] as MintedWebhook);
  }
  const load = new Users([one, two], webhooks);
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
    await load.leaveOut(node);
    await node.stop();
    await load.more(20);
    await start(node);
    load.nodes = [one, two, three];
    await load.more(20);
  }

  const before = new Map([...load.acknowledged].map(([app, numbers]) => [app, [...numbers]]));
  const copy = await dumpAndRestore(url);
  // It hands over as it stops.
  await load.leaveOut(three);
  await three.stop();
  await load.more(20);
  await load.stop();
  assert.deepEqual(load.violations, []);
  const hasLost = [one, two, three].some(({ log }) => LOST.test(log));
  t.diagnostic(
    `${load.refused.length} refused, ${hasLost ? 'as a node lost its lease' : 'and no node lost its lease'}`,
  );
  if (!hasLost) assert.deepEqual(load.refused, []);
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
