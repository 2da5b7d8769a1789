/** Requests about what is at several nodes, or at one that has to be found: over real edges, each pair of them. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { describe, type TestContext, test } from 'node:test';
import { BUCKETS, bucketOf } from '../../../protocol/buckets.ts';
import { bareAddress } from '../../../protocol/rules/ip-addresses.ts';
import {
  begun,
  bodyOf,
  call,
  codeOf,
  HOST,
  open,
  PAIRS,
  SECRET,
  signal,
  startNode,
  type TestNode,
} from '../../../testing/cluster-nodes.ts';
import { inTime } from '../../../testing/waiting.ts';
import type { ExchangeHandler, ResponseStream } from '../../edge/edge.ts';
import type { EdgeKind } from '../../edge/open-edge.ts';
import { ANSWERED_FOR } from './bucket-set.ts';
import type { Locate } from './finder.ts';
import { FORWARDED, Proofs } from './proofs.ts';
import type { Found } from './requested-buckets.ts';

const RUN = '019b7764-0c00-7a31-8f02-5d4e9a1c7b60';
const HOOK = '/_svc-hook/8f14e45f';
const [NOTES, TODOS] = [bucketOf('notes'), bucketOf('todos')];
const EVENTS = { 'content-type': 'text/event-stream' };

type Given = { next: ExchangeHandler; locate?: Locate };

/** Two nodes of a cluster. `notes` and half of the buckets are the first one's, `todos` and the others the second one's. */
async function cluster(t: TestContext, edges: [EdgeKind, EdgeKind], given: [Given, Given]) {
  const all: string[] = [];
  const nodes: TestNode[] = [];
  for (const [index, name] of ['first', 'second'].entries()) {
    const node = await startNode(t, {
      name,
      kind: edges[index] as EdgeKind,
      nodes: () => all,
      ...(given[index] as Given),
    });
    all.push(node.address);
    nodes.push(node);
  }
  const [first, second] = nodes as [TestNode, TestNode];
  for (let bucket = 0; bucket < BUCKETS; bucket++)
    own(bucket, bucket === NOTES || (bucket !== TODOS && bucket % 2 === 0) ? first : second);
  return { first, second, all, own };

  function own(bucket: number, { name, address }: TestNode, epoch = 1): void {
    for (const { known } of nodes) known.set(bucket, { node: name, address, epoch });
  }
}

/** Answers with a JSON text. */
function json(value: unknown, status = 200): ExchangeHandler {
  return (exchange) => exchange.send(status, { 'content-type': 'application/json' }, JSON.stringify(value));
}

const idsIn = (body: Buffer): string[] => (JSON.parse(body.toString()) as { id: string }[]).map(({ id }) => id);

/** Counts what is looked for. */
function counted(locate: Locate): { locate: Locate; looks: Found[] } {
  const looks: Found[] = [];
  return {
    looks,
    locate: (found) => {
      looks.push(found);
      return locate(found);
    },
  };
}

const nothing: ExchangeHandler = json({ error: { code: 'NOT_FOUND', message: 'There is nothing.' } }, 404);

for (const edges of PAIRS) {
  describe(`asked over ${edges[0]}, the other over ${edges[1]}`, () => {
    test('a run is found at the node that has it, and is answered there', async (t) => {
      const second = counted(({ of, id }) => (of === 'run' && id === RUN ? 'todos' : null));
      const { first } = await cluster(t, edges, [
        { next: nothing },
        {
          next: (exchange) =>
            exchange.readBody(
              99,
              (body) =>
                json({
                  at: 'second',
                  of: exchange.path,
                  sent: body.toString(),
                  from: bareAddress(exchange.remoteAddress),
                })(exchange),
              () => assert.fail(),
            ),
          ...second,
        },
      ]);
      const shown = await call(first, { path: `/svc/_runs/${RUN}?x=1`, from: '127.0.0.2' });
      assert.deepEqual(JSON.parse(shown.body.toString()), {
        at: 'second',
        of: `/svc/_runs/${RUN}`,
        sent: '',
        from: '127.0.0.2',
      });
      const pinned = await call(first, { method: 'POST', path: `/svc/_runs/${RUN}/pin`, body: '{"pinned":true}' });
      assert.equal(JSON.parse(pinned.body.toString()).sent, '{"pinned":true}');
      // Nobody has it: the node that was asked says so.
      assert.equal(codeOf(await call(first, { path: '/svc/_runs/0/nodes' })), '404 NOT_FOUND');
      assert.equal(first.served, 1);
    });

    test('no other node is asked for the run of a stranger, or for what is no run', async (t) => {
      const second = counted(() => 'notes');
      const { first } = await cluster(t, edges, [{ next: nothing }, { next: nothing, ...second }]);
      const headers = { authorization: 'of a stranger' };
      assert.equal(codeOf(await call(first, { path: `/svc/_runs/${RUN}`, headers })), '404 NOT_FOUND');
      assert.equal(codeOf(await call(first, { path: '/svc/_runs/0' })), '404 NOT_FOUND');
      assert.deepEqual([first.served, second.looks], [2, []]);
    });

    test('what the node has itself is looked for nowhere else', async (t) => {
      const second = counted(() => null);
      const own: Given = { next: json({ at: 'first' }), locate: async () => 'notes' };
      const { first } = await cluster(t, edges, [own, { next: nothing, ...second }]);
      const answer = await call(first, { method: 'POST', path: HOOK, body: '{}' });
      assert.equal(answer.body.toString(), '{"at":"first"}');
      assert.deepEqual(second.looks, []);
    });

    test('the address of a webhook is looked up, and again when another app has it at its arrival', async (t) => {
      // What the directory says at one look after the other.
      let said: (string | null)[] = [];
      const locate = () => said.shift() ?? null;
      const nodes = await cluster(t, edges, [
        { next: json('first'), locate },
        { next: json('second'), locate },
      ]);
      const post = async () => {
        const { status, body } = await call(nodes.first, { method: 'POST', path: HOOK, body: '{}' });
        assert.deepEqual(said, [], 'each look');
        return `${status} ${body}`;
      };
      // Where it is asked and where it is sent.
      said = ['todos', 'todos'];
      assert.equal(await post(), '200 "second"');
      said = ['todos', 'notes', 'notes'];
      assert.equal(await post(), '200 "first"');
      said = ['todos', null, 'todos', 'todos'];
      assert.equal(await post(), '200 "second"');
      // The node that was asked answers as it would alone.
      said = [null];
      assert.equal(await post(), '200 "first"');
    });

    test('a list has the apps of all nodes, in its order and by pages', async (t) => {
      const seen: string[] = [];
      const list = (ids: string[]): ExchangeHandler => {
        return (exchange) => {
          seen.push(`${exchange.header('authorization')} ${bareAddress(exchange.remoteAddress)} ${exchange.query}`);
          const query = new URLSearchParams(exchange.query);
          const [after, before] = [query.get('after') ?? '', query.get('before') ?? '~'];
          const rows = ids.filter((id) => id > after && id < before);
          const limit = Number(query.get('limit') ?? 1000);
          const page = query.has('before') ? rows.slice(-limit) : rows.slice(0, limit);
          exchange.addHeaders({ 'x-cors': 'yes' });
          exchange.send(200, { 'content-type': 'application/json' }, JSON.stringify(page.map((id) => ({ id }))));
        };
      };
      const { first, second } = await cluster(t, edges, [
        { next: list(['b', 'd', 'f']) },
        { next: list(['a', 'c', 'e']) },
      ]);
      const page = async (query: string, node = first) => {
        const { status, headers, body } = await call(node, {
          path: `/svc/_apps${query}`,
          headers: { authorization: 'Bearer of-me' },
          from: '127.0.0.3',
        });
        assert.equal(status, 200, body.toString());
        assert.equal(headers['x-cors'], 'yes');
        assert.ok(!(ANSWERED_FOR in headers));
        return idsIn(body).join('');
      };
      assert.equal(await page(''), 'abcdef');
      assert.equal(await page('', second), 'abcdef');
      assert.equal(await page('?limit=2'), 'ab');
      assert.equal(await page('?limit=2&after=b'), 'cd');
      assert.equal(await page('?limit=2&before=e'), 'cd');
      assert.equal(await page('?after=f'), '');
      assert.deepEqual(new Set(seen.slice(0, 4)), new Set(['Bearer of-me 127.0.0.3 ']));
      const head = await call(first, { method: 'HEAD', path: '/svc/_apps' });
      assert.equal(head.headers['content-length'], String(JSON.stringify([...'abcdef'].map((id) => ({ id }))).length));
    });

    test('a body goes to all nodes', async (t) => {
      const described = (app: string): ExchangeHandler => {
        return (exchange) =>
          exchange.readBody(
            99,
            (body) => json({ isError: false, data: { apps: [{ app, sent: body.toString() }] } })(exchange),
            () => assert.fail(),
          );
      };
      const { first } = await cluster(t, edges, [{ next: described('todos') }, { next: described('notes') }]);
      const { body } = await call(first, { method: 'POST', path: '/svc/_tool/svc_describe', body: '{ }' });
      const apps = ['notes', 'todos'].map((app) => ({ app, sent: '{ }' }));
      assert.deepEqual(JSON.parse(body.toString()), { isError: false, data: { apps } });
    });

    test('what a node refuses is the answer', async (t) => {
      const { first, all } = await cluster(t, edges, [
        { next: json([]) },
        { next: json({ error: { code: 'FORBIDDEN', message: 'No.' } }, 403) },
      ]);
      const answer = await call(first, { path: '/svc/_trash' });
      assert.deepEqual([codeOf(answer), ANSWERED_FOR in answer.headers], ['403 FORBIDDEN', false]);
      all.length = 1;
      first.calls.nodesAre(all);
    });

    test('a list waits for an app that is on its way from one node to another', async (t) => {
      const nodes = await cluster(t, edges, [
        { next: json([{ id: 'notes' }]) },
        {
          next: (exchange) => {
            const isHere = nodes.second.known.has(TODOS);
            json(isHere ? [{ id: 'todos' }] : [])(exchange);
            nodes.own(TODOS, nodes.second, 2);
          },
        },
      ]);
      for (const { known } of [nodes.first, nodes.second]) known.delete(TODOS);
      const { body } = await call(nodes.first, { path: '/svc/_apps' });
      assert.deepEqual(idsIn(body), ['notes', 'todos']);
      assert.equal(nodes.second.served, 2);
    });

    test('an app that two nodes answer for, since it moved meanwhile, is in a list once', async (t) => {
      const nodes = await cluster(t, edges, [
        {
          next: (exchange) => {
            const isHere = nodes.first.known.get(NOTES)?.node === 'first';
            json(isHere ? [{ id: 'notes' }] : [])(exchange);
            nodes.own(NOTES, nodes.second, 2);
          },
        },
        { next: json([{ id: 'notes' }, { id: 'todos' }]) },
      ]);
      const { name: node, address } = nodes.second;
      nodes.second.known.set(NOTES, { node, address, epoch: 2 });
      const { body } = await call(nodes.first, { path: '/svc/_apps' });
      assert.deepEqual(idsIn(body), ['notes', 'todos']);
      assert.equal(nodes.first.served, 2);
    });

    test('a node does not answer for an app that it loses while it makes its answer', async (t) => {
      const nodes = await cluster(t, edges, [
        {
          next: (exchange) => {
            nodes.first.known.delete(NOTES);
            json([])(exchange);
          },
        },
        {
          next: (exchange) => {
            json([...(nodes.second.served > 2 ? [{ id: 'notes' }] : []), { id: 'todos' }])(exchange);
            if (nodes.second.served === 2) nodes.own(NOTES, nodes.second, 2);
          },
        },
      ]);
      assert.deepEqual(idsIn((await call(nodes.first, { path: '/svc/_apps' })).body), ['notes', 'todos']);
    });

    test('a node that stops is asked again', async (t) => {
      let asked = 0;
      const stopping = json({ error: { code: 'OVERLOADED', message: 'It stops.' } }, 503);
      const { first } = await cluster(t, edges, [
        { next: json([{ id: 'notes' }]) },
        { next: (exchange) => (++asked === 1 ? stopping : json([{ id: 'todos' }]))(exchange) },
      ]);
      assert.deepEqual(idsIn((await call(first, { path: '/svc/_apps' })).body), ['notes', 'todos']);
    });

    test('a node that is gone is not missed once others have its buckets', async (t) => {
      const { first, second, own } = await cluster(t, edges, [{ next: json([{ id: 'notes' }]) }, { next: nothing }]);
      await second.edge.close();
      for (let bucket = 0; bucket < BUCKETS; bucket++) own(bucket, first, 2);
      assert.deepEqual(idsIn((await call(first, { path: '/svc/_apps' })).body), ['notes']);
      const unknown = await call(first, { path: `/svc/_runs/${RUN}` });
      assert.equal(unknown.status, 200, 'Only the first node says that it does not have it.');
    });

    test('streams of all nodes come as one, event by event', async (t) => {
      const streams: ResponseStream[] = [];
      const opened = [signal(), signal()] as const;
      const left = [signal(), signal()] as const;
      const stream = (index: 0 | 1): ExchangeHandler => {
        return (exchange) => {
          exchange.onAbort(() => left[index].fire());
          const made = exchange.stream(200, EVENTS);
          made.write(`retry: 2000\n: events of ${index}\n\n`);
          streams[index] = made;
          opened[index].fire();
        };
      };
      const { first } = await cluster(t, edges, [{ next: stream(0) }, { next: stream(1) }]);
      const sent = open(first.port, { path: '/svc/_runs/_events' });
      const head = begun(sent);
      sent.end();
      const answer = await head;
      assert.equal(answer.headers['content-type'], 'text/event-stream');
      await Promise.all(opened.map(({ fired }, i) => fired(`stream ${i}`)));
      const [one, other] = streams as [ResponseStream, ResponseStream];
      const next = nextPart(answer);
      assert.equal(await next(), 'retry: 2000\n: events of 0\n\n');
      other.write('event: a\ndata: 1\n\n');
      assert.equal(await next(), 'event: a\ndata: 1\n\n');
      // The beginning of an event waits for its end, whatever the other node sends.
      other.write(':\n\nevent: b\ndata: 2');
      one.write('event: c\ndata: 3\n\n:\n\n');
      assert.equal(await next(), 'event: c\ndata: 3\n\n:\n\n');
      other.write('2\n');
      other.write('\n');
      assert.equal(await next(), 'event: b\ndata: 22\n\n');
      answer.on('error', () => {});
      sent.destroy();
      await Promise.all(left.map(({ fired }, i) => fired(`the end of stream ${i}`)));
    });

    for (const how of ['a node of it ends', 'another node comes'] as const) {
      test(`a stream of all nodes ends when ${how}, so that its reader opens it again`, async (t) => {
        const streams: ResponseStream[] = [];
        const left = signal();
        const opened = signal();
        const next: ExchangeHandler = (exchange) => {
          exchange.onAbort(() => left.fire());
          const stream = exchange.stream(200, EVENTS);
          stream.write(': begun\n\n');
          streams.push(stream);
          if (streams.length === 2) opened.fire();
        };
        const { first, all } = await cluster(t, edges, [{ next }, { next }]);
        const sent = open(first.port, { path: '/svc/_logs?follow=1' });
        const head = begun(sent);
        sent.end();
        const answer = await head;
        const whole = bodyOf(answer);
        await opened.fired('both streams');
        first.calls.nodesAre(all);
        if (how === 'a node of it ends') streams[0]?.end();
        else first.calls.nodesAre([...all, 'http://127.0.0.1:9']);
        assert.equal((await inTime(whole, 'the end of the stream')).toString(), ': begun\n\n');
        await left.fired('the end of the other stream');
      });
    }

    test('who does not know the secret asks no node for its part', async (t) => {
      const { first } = await cluster(t, edges, [{ next: json([{ id: 'notes' }]) }, { next: json([]) }]);
      const target = { method: 'GET', path: '/svc/_apps', query: '', header: () => HOST };
      const said = { bucket: null, epoch: 0, client: '10.9.8.7' };
      const right = new Proofs(SECRET).ofRequest(target, 'GET', said);
      const part = await call(first, { path: '/svc/_apps', headers: { [FORWARDED]: right } });
      assert.equal(part.status, 200);
      assert.ok(ANSWERED_FOR in part.headers);
      const wrong = new Proofs('another').ofRequest(target, 'GET', said);
      const changed = right.replace(' - ', ` ${NOTES} `);
      for (const value of [wrong, changed]) {
        const answer = await call(first, { path: '/svc/_apps', headers: { [FORWARDED]: value } });
        assert.equal(codeOf(answer), '401 UNAUTHORIZED');
      }
    });

    test('no node has all apps in one piece', async (t) => {
      const { first } = await cluster(t, edges, [{ next: nothing }, { next: nothing }]);
      const answer = await call(first, { method: 'POST', path: '/svc/_backup' });
      assert.equal(codeOf(answer), '409 NOT_IN_CLUSTER');
      assert.match(answer.body.toString(), /back up the PostgreSQL database/);
    });
  });
}

test('what a node has that cannot be reached is not said to be missing', async (t) => {
  const given: Given = { next: json([]) };
  const { first, second } = await cluster(t, PAIRS[0] as [EdgeKind, EdgeKind], [given, given]);
  await second.edge.close();
  const asked = ['/svc/_apps', `/svc/_runs/${RUN}`, '/svc/_runs/_events'].map((path) => call(first, { path }));
  for (const answer of await inTime(Promise.all(asked), 'the answers', 20_000)) {
    assert.equal(codeOf(answer), '503 STORAGE_UNAVAILABLE');
    assert.equal(answer.headers['retry-after'], '1');
  }
});

/** What comes of an answer, in the pieces in which it arrives. */
function nextPart(answer: IncomingMessage): () => Promise<string> {
  return async () => String((await inTime(once(answer, 'data'), 'the next part'))[0]);
}
