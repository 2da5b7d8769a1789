/**
 * Two whole gateways with different apps, before each the calls between nodes: what a client gets of either is what one gateway with both
 * apps would give.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { pino } from 'pino';
import { BUCKETS, bucketOf } from '../protocol/buckets.ts';
import { Calls } from '../supervisor/cluster/calls/calls.ts';
import type { Locate } from '../supervisor/cluster/calls/finder.ts';
import { Owners } from '../supervisor/cluster/calls/owners.ts';
import { workAtOwner } from '../supervisor/cluster/calls/work-at-owner.ts';
import { locator } from '../supervisor/cluster/locator.ts';
import { resolveConfig } from '../supervisor/config.ts';
import type { ExchangeHandler } from '../supervisor/edge/edge.ts';
import { openEdge } from '../supervisor/edge/open-edge.ts';
import { Places } from '../supervisor/http/access/places.ts';
import { assemble } from '../supervisor/wiring.ts';
import { appOf } from '../testing/apps.ts';
import { BEST_EDGE } from '../testing/edges.ts';
import { TestGateway } from '../testing/gateway.ts';
import { ended, fire } from '../testing/runs.ts';
import { inTime } from '../testing/waiting.ts';

const TOKEN = createHash('sha256').update('of this test').digest('hex');
const QUIET = pino({ level: 'silent' });
const TODOS = bucketOf('todos');

/** What is where: `todos` and the odd buckets at the second node, the rest at the first. */
const isOfSecond = (bucket: number): boolean =>
  bucket === TODOS || (bucket % 2 === 1 && bucket !== bucketOf('notes') && bucket !== bucketOf('_identity'));

const source = (id: string) =>
  appOf(id, {
    migrations: ['CREATE TABLE rows (text TEXT NOT NULL)'],
    queries: { list: "({ db }) => db.all('SELECT text FROM rows ORDER BY rowid')" },
    actions: {
      add: {
        run: "async ({ db, body }) => { await db.run('INSERT INTO rows (text) VALUES (?)', body.text); return { status: 201, body: null }; }",
        writes: ['rows'],
      },
      clear: {
        run: "async ({ db }) => { await db.run('DELETE FROM rows'); return null; }",
        confirmation: 'required',
        writes: ['rows'],
      },
    },
    automations: {
      report: {
        run: `async ({ log }) => { log.info('It runs.'); return { output: '${id}' }; }`,
        triggers: [
          { kind: 'cron', expr: '0 7 * * *' },
          { kind: 'webhook', pending: true },
        ],
      },
    },
  });

/** What the directory of the cluster has: app by slug. */
const webhooks = new Map<string, string>();

type Node = { gateway: TestGateway; stop(): Promise<void> };

async function startNodes(): Promise<Node[]> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-calls-'));
  const addresses: string[] = [];
  const nodes: Node[] = [];
  for (const [index, kind] of ([BEST_EDGE, 'node'] as const).entries()) {
    const dataDir = join(folder, String(index));
    let url = '';
    let handle: ExchangeHandler = (exchange) => exchange.send(503, {}, '');
    const { edge } = openEdge(kind, {
      handler: (exchange) => handle(exchange),
      onFault: (error) => console.error(error),
    });
    url = `http://127.0.0.1:${await edge.listen('127.0.0.1', 0)}`;
    addresses.push(url);
    const name = String(index);
    const config = resolveConfig(dataDir, { handlerHosts: 1 });
    const owners = new Owners(name, {
      ownerOf: (bucket) => {
        const owner = Number(isOfSecond(bucket));
        return { node: String(owner), address: addresses[owner] as string, epoch: 1 };
      },
      isServed: (bucket) => Number(isOfSecond(bucket)) === index,
    });
    let next: ExchangeHandler = (exchange) => exchange.send(503, {}, '');
    let locate: Locate = () => null;
    const calls = new Calls({
      owners,
      secret: 'of this test',
      places: new Places(config),
      storing: () => async () => {},
      next: (exchange) => next(exchange),
      nodes: () => addresses,
      locate: (found) => locate(found),
      log: QUIET,
    });
    const { services, pipeline, end } = await assemble(config, QUIET, {
      auth: true,
      authorize: undefined,
      trustHost: false,
      kind: 'daemon',
      token: TOKEN,
      extensions: {},
      listening: () => ({ edge: 'node', url }),
      atOwner: workAtOwner(owners, calls.ofNodes),
      onFatal: (reason) => assert.fail(reason),
    });
    next = pipeline.handle;
    locate = locator(services.automations, {
      workspaces: { firstApp: async () => null },
      webhooks: { appOf: async (slug) => webhooks.get(slug) ?? null },
    });
    handle = calls.handle;
    const gateway = Object.assign(new TestGateway(dataDir, []), { url, token: TOKEN });
    const stop = async () => {
      calls.close();
      await edge.close();
      await end(0);
      rmSync(dataDir, { recursive: true, force: true });
    };
    nodes.push({ gateway, stop });
  }
  return nodes;
}

describe('two gateways as nodes of a cluster', () => {
  let nodes: Node[] = [];
  let first: TestGateway;
  let second: TestGateway;
  const secrets = new Map<string, { url: string; secret: string }>();

  before(async () => {
    assert.ok(isOfSecond(TODOS) && !isOfSecond(bucketOf('notes')) && BUCKETS > 1);
    nodes = await startNodes();
    [first, second] = nodes.map(({ gateway }) => gateway) as [TestGateway, TestGateway];
    for (const id of ['notes', 'todos']) {
      const { webhooks: minted } = await first.install(id, source(id));
      for (const { url, secret, webhookId } of minted) {
        secrets.set(id, { url: new URL(url).pathname, secret });
        webhooks.set(webhookId, id);
      }
    }
  });
  after(() => Promise.all(nodes.map(({ stop }) => stop())));

  /** What each node answers, which is the same. */
  async function answered(path: string) {
    const [one, other] = await Promise.all([first.call('GET', path), second.call('GET', path)]);
    assert.equal(one.status, 200, one.text);
    assert.equal(other.text, one.text);
    return one.json;
  }

  test('lists have the apps of both', async () => {
    const idsOf = (rows: { id: string }[]) => rows.map(({ id }) => id);
    assert.deepEqual(idsOf(await answered('/svc/_apps')), ['notes', 'todos']);
    assert.deepEqual(idsOf(await answered('/svc/_apps?limit=1&after=notes')), ['todos']);
    assert.equal((await first.call('GET', '/svc/_apps?limit=0')).status, 400);
    assert.equal((await first.call('GET', '/svc/_apps', { token: 'wrong' })).status, 401);
    const automations = await answered('/svc/_automations');
    assert.deepEqual(
      [automations.rows.map(({ ref }: { ref: string }) => ref), automations.total],
      [['notes/report', 'todos/report'], 2],
    );
    const { rows } = (await first.call('GET', '/svc/_automations/_upcoming?days=1')).json;
    assert.equal(rows.length, 2);
    const described = (await second.call('POST', '/svc/_tool/svc_describe', { body: {} })).json;
    assert.deepEqual(
      described.data.apps.map(({ app }: { app: string }) => app),
      ['notes', 'todos'],
    );
  });

  test('a run is shown, followed and listed at any node, and so are its sums', async () => {
    const events = await first.stream('/svc/_runs/_events');
    const logs = await second.stream('/svc/_logs?follow=1');
    const runs: string[] = [];
    for (const id of ['notes', 'todos']) {
      const { json } = await first.call('POST', `/svc/_automations/${id}/report/run?wait=1`, { body: {} });
      runs.unshift(json.runId);
      const seen = new Set<string>();
      while (!seen.has('run.end')) seen.add((await events.next()).event);
      assert.match((await logs.next()).data, /It runs/);
    }
    events.close();
    logs.close();
    const listed = await answered('/svc/_runs');
    assert.deepEqual(
      listed.map(({ runId }: { runId: string }) => runId),
      runs,
    );
    assert.deepEqual((await answered(`/svc/_runs?before=${runs[0]}`)).length, 1);
    for (const runId of runs) {
      assert.equal((await answered(`/svc/_runs/${runId}`)).state, 'ok');
      const followed = await second.stream(`/svc/_runs/${runId}/events`);
      assert.equal((await followed.next()).event, 'run.start');
      followed.close();
      const { json } = await first.call('POST', `/svc/_runs/${runId}/pin`, { body: { pinned: true } });
      assert.equal(json.pinned, true);
    }
    assert.equal(
      (await first.call('GET', '/svc/_runs/019b7764-0c00-7a31-8f02-5d4e9a1c7b60')).json.error.code,
      'UNKNOWN_RUN',
    );
    assert.equal((await first.call('GET', `/svc/_runs/${runs[0]}`, { token: null })).json.error.code, 'UNAUTHORIZED');
    const { totals, byAutomation } = (await second.call('GET', '/svc/_insights')).json;
    assert.deepEqual([totals.runs, byAutomation.length], [2, 2]);
  });

  test('a webhook reaches its app by any node', async () => {
    for (const [id, { url, secret }] of secrets)
      for (const node of [first, second]) {
        const headers = { authorization: `Bearer ${secret}` };
        const answer = await node.call('POST', url, { token: null, headers, body: {} });
        assert.equal(answer.status, 200, `${id}: ${answer.text}`);
      }
    const unknown = await first.call('POST', '/_svc-hook/000000000000000000000000', { token: null, body: {} });
    assert.equal(unknown.status, 404);
  });

  for (const era of ['legacy', 'auto'] as const) {
    test(`an MCP client that is ${era} uses the apps of both nodes at one address`, async (t) => {
      for (const [at, node] of [first, second].entries()) {
        const asked: string[] = [];
        const client = new Client(
          { name: 'test', version: '1' },
          { versionNegotiation: { mode: era }, capabilities: { elicitation: { form: {} } } },
        );
        client.setRequestHandler('elicitation/create', async ({ params }) => {
          asked.push(params.message.split('\n')[0] as string);
          return { action: asked.length === 1 ? 'accept' : 'decline' };
        });
        const requestInit = { headers: { authorization: `Bearer ${TOKEN}` } };
        await client.connect(new StreamableHTTPClientTransport(new URL('/svc/_mcp', node.url), { requestInit }));
        t.after(() => client.close());
        const { tools } = await client.listTools();
        assert.deepEqual(new Set(tools.map(({ name }) => name)).size, tools.length);
        assert.equal(tools.length, 6);
        const called = async (name: string, given: object) => {
          const { content, isError } = await client.callTool({ name, arguments: { ...given } });
          const [part] = content;
          assert.equal(part?.type, 'text');
          return { isError: isError === true, text: part.text };
        };
        assert.deepEqual(
          JSON.parse((await called('svc_describe', {})).text).apps.map(({ app }: { app: string }) => app),
          ['notes', 'todos'],
        );
        for (const app of ['notes', 'todos']) {
          const text = `${era} ${at}`;
          assert.equal((await called('svc_write', { app, action: 'add', input: { text } })).isError, false);
          assert.ok((await called('svc_read', { app, query: 'list' })).text.includes(text));
          assert.ok((await called('svc_sql_read', { app, sql: 'SELECT * FROM rows' })).text.includes(text));
          const { contents } = await client.readResource({ uri: `svc://${app}/queries/list` });
          assert.ok(JSON.stringify(contents).includes(text));
          // The person at the client is asked by the node that has the app, and answers it.
          asked.length = 0;
          assert.equal((await called('svc_write', { app, action: 'clear' })).isError, false);
          assert.match((await called('svc_write', { app, action: 'clear' })).text, /NOT_CONFIRMED/);
          assert.deepEqual(asked, [`Run "clear" of "${app}"?`, `Run "clear" of "${app}"?`]);
          assert.equal((await called('svc_read', { app, query: 'list' })).text, '[]');
        }
      }
    });
  }

  for (const era of ['legacy', 'auto'] as const) {
    test(`an MCP client that is ${era} is told of changes in the apps of both nodes at one address`, async (t) => {
      for (const node of [first, second]) {
        const told = new EventEmitter();
        const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: era } });
        client.setNotificationHandler('notifications/resources/updated', ({ params: { uri } }) => {
          told.emit(uri);
        });
        const requestInit = { headers: { authorization: `Bearer ${TOKEN}` } };
        await client.connect(new StreamableHTTPClientTransport(new URL('/svc/_mcp', node.url), { requestInit }));
        t.after(() => client.close());
        const uriOf = (app: string) => `svc://${app}/queries/list`;
        for (const app of ['notes', 'todos']) {
          if (era === 'legacy') await client.subscribeResource({ uri: uriOf(app) });
          else await client.listen({ resourceSubscriptions: [uriOf(app)] });
          for (const [action, input] of [
            ['add', { text: 'Milk' }],
            ['clear', {}],
          ] as const) {
            const changed = once(told, uriOf(app));
            assert.ok((await first.write(app, action, input)).status < 300);
            await inTime(changed, `the change of ${app}`);
          }
        }
        const unknown = uriOf('page-1');
        const refused =
          era === 'legacy'
            ? client.subscribeResource({ uri: unknown })
            : client.listen({ resourceSubscriptions: [unknown] });
        await assert.rejects(refused, /page-1/);
      }
    });
  }

  test('an app comes back from the trash of the other node', async () => {
    assert.equal((await first.call('DELETE', '/svc/_apps/todos')).status, 200);
    assert.deepEqual((await answered('/svc/_apps')).length, 1);
    const [{ id }] = await answered('/svc/_trash');
    assert.equal((await first.call('POST', `/svc/_trash/${id}/restore`)).json.id, 'todos');
    assert.deepEqual((await answered('/svc/_apps')).length, 2);
    assert.equal((await first.read('todos', 'list')).status, 200);
  });

  test('an automation calls and describes an app of the other node, as itself, and gets its errors', async () => {
    const ref = 'robot-1/calls';
    assert.ok(!isOfSecond(bucketOf('robot-1')) && isOfSecond(bucketOf('robot-2')));
    const used = {
      queries: { who: '({ ctx }) => ctx.caller', fails: '() => { throw new Error("On purpose."); }' },
      actions: { refuses: '() => ({ status: 409, body: "No." })' },
    };
    await first.install('robot-2', appOf('robot-2', used));
    const run = `async ({ ctx }) => {
      const app = 'robot-2';
      const codeOf = (name, args) => ctx.tool(name, args).then(() => null, ({ code }) => code);
      return { output: {
        who: await ctx.tool('svc_read', { app, query: 'who' }),
        refused: await ctx.tool('svc_write', { app, action: 'refuses' }),
        codes: [
          await codeOf('svc_read', { app, query: 'fails' }),
          await codeOf('svc_read', { app, query: 'missing' }),
          await codeOf('svc_read', { app: 'todos', query: 'list' }),
          await codeOf('svc_describe', { app: 'todos' }),
        ],
        apps: (await ctx.tool('svc_describe', {})).apps.map(({ app, error }) => [app, error?.code ?? null]),
        described: (await ctx.tool('svc_describe', { app, query: 'who' })).query.name,
      } };
    }`;
    await first.install('robot-1', appOf('robot-1', { automations: { calls: { run, apps: ['robot-2', 'robot-4'] } } }));
    const { output } = await ended(second, await fire(second, ref));
    assert.deepEqual(output, {
      who: { kind: 'automation', name: ref },
      refused: { status: 409, body: 'No.' },
      codes: ['HANDLER_ERROR', 'UNKNOWN_QUERY', 'TOOL_REFUSED', 'TOOL_REFUSED'],
      apps: [
        ['robot-1', null],
        ['robot-2', null],
        ['robot-4', 'UNKNOWN_APP'],
      ],
      described: 'who',
    });
    for (const id of ['robot-1', 'robot-2']) assert.equal((await first.call('DELETE', `/svc/_apps/${id}`)).status, 200);
  });

  test('what no node can do is refused', async () => {
    for (const [method, path] of [
      ['POST', '/svc/_backup'],
      ['POST', '/svc/_automations/_provision'],
    ] as const) {
      const { status, json } = await first.call(method, path, { body: {} });
      assert.deepEqual([status, json.error.code], [409, 'NOT_IN_CLUSTER']);
    }
    assert.equal((await second.call('POST', '/svc/_automations/_provision', { body: { app: 'notes' } })).status, 200);
  });
});
