// Running an automation by hand, on both edges.
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { suite, type TestContext, test } from 'node:test';
import { pino } from 'pino';
import { unknownApp } from '../../../storage/apps/registry.ts';
import { serveExchanges } from '../../../testing/exchange-server.ts';
import { RunsWorld, settle } from '../../../testing/scripted-runs.ts';
import { AgentTokens } from '../../http/access/agent-tokens.ts';
import { Pipeline } from '../../http/pipeline.ts';
import { Router } from '../../http/router.ts';
import { HttpMeter } from '../../operations/metrics/http-meter.ts';
import { fireRoutes } from './automations-routes.ts';

const RUN = '/svc/_automations/todos/digest/run';

for (const edge of ['auto', 'node'] as const) {
  suite(`run now, edge ${edge}`, () => {
    async function setUp(t: TestContext) {
      const world = new RunsWorld();
      world.add('todos/digest');
      const registered = async (app: string) => {
        if (app !== 'todos') throw unknownApp(app);
      };
      const routes = fireRoutes({ catalog: world.catalog, fires: world.fires, registered, now: () => 42 });
      /** What became of the requests. */
      const handled: Promise<void>[] = [];
      for (const route of routes) {
        const { handle } = route;
        route.handle = async (...args) => {
          const done = Promise.resolve(handle(...args));
          handled.push(done);
          await done;
        };
      }
      const log = pino({ level: 'silent' });
      const pipeline = new Pipeline({
        router: new Router(routes),
        access: null,
        authorize: null,
        identify: null,
        makerOf: () => null,
        openTo: null,
        visitors: null,
        agentTokens: new AgentTokens(),
        corsOrigins: [],
        refusalOf: () => null,
        meter: new HttpMeter(),
        tracing: null,
        log,
      });
      const port = await serveExchanges(t, pipeline.handle, edge);
      const post = async (path: string, body?: string) => {
        const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', body: body ?? null });
        return { status: answer.status, json: (await answer.json()) as Record<string, unknown> };
      };
      /** Resolves once a handler has been called. */
      const called = async () => {
        while (world.calls.length === 0) await settle();
        return world.calls[0] as (typeof world.calls)[0];
      };
      return { world, port, post, called, handled };
    }

    test('answers with the run before it has ended', async (t) => {
      const { world, post } = await setUp(t);
      const { status, json } = await post(RUN, '{"input":[1]}');
      assert.equal(status, 202);
      const run = world.ledger.rows.get(json.runId as string);
      assert.deepEqual([run?.input, run?.trigger], [[1], { kind: 'manual', origin: null }]);
      assert.deepEqual([world.calls[0]?.body.now, world.calls[0]?.body.input], [42, [1]]);
      assert.deepEqual(Object.keys(json), ['runId']);
    });

    test('?wait=1 answers with the record of a run that went well', async (t) => {
      const { world, post, called } = await setUp(t);
      const answer = post(`${RUN}?wait=1`);
      const handler = await called();
      assert.ok(!('input' in handler.body), 'no input');
      handler.returns({ output: 1 });
      const { status, json } = await answer;
      assert.equal(status, 200);
      assert.deepEqual(json, world.ledger.rows.get(json.runId as string));
    });

    test('?wait=1 answers 500 with the error of a run that failed, and its id', async (t) => {
      const { world, post, called } = await setUp(t);
      const answer = post(`${RUN}?wait=1`);
      (await called()).throws('no good');
      const [runId] = world.ledger.rows.keys();
      assert.deepEqual(await answer, {
        status: 500,
        json: { isError: true, error: { code: 'HANDLER_ERROR', message: 'no good' }, runId },
      });
    });

    test('?wait=1 answers 500 for a run that was cancelled', async (t) => {
      const { world, post, called } = await setUp(t);
      const answer = post(`${RUN}?wait=1`);
      await called();
      await world.engine.cancel([...world.ledger.rows.keys()][0] as string);
      const { status, json } = await answer;
      assert.deepEqual([status, (json.error as { code: string }).code], [500, 'RUN_ABORTED']);
    });

    test('a client that goes away ends its wait; the run goes on', async (t) => {
      const { world, port, called, handled } = await setUp(t);
      const req = request({ port, host: '127.0.0.1', method: 'POST', path: `${RUN}?wait=1`, agent: false });
      req.on('error', () => {});
      req.end();
      const handler = await called();
      req.destroy();
      await handled[0];
      assert.deepEqual(world.ledger.states('todos/digest'), ['running']);
      handler.returns();
      while (world.engine.running('todos/digest') > 0) await settle();
      assert.deepEqual(world.ledger.states('todos/digest'), ['ok']);
    });

    for (const [what, path, body, status, code] of [
      ['an unknown app', '/svc/_automations/nobody/digest/run', '', 404, 'UNKNOWN_APP'],
      ['an unknown automation', '/svc/_automations/todos/nothing/run', '', 404, 'UNKNOWN_AUTOMATION'],
      ['an id that is none', '/svc/_automations/TODOS/digest/run', '', 400, 'INVALID_ID'],
      ['a body that is no JSON', RUN, '{', 400, 'BAD_REQUEST'],
      ['a body that is no object', RUN, '[]', 400, 'BAD_REQUEST'],
    ] as const) {
      test(`${what} is ${code}`, async (t) => {
        const { world, post } = await setUp(t);
        const answer = await post(path, body);
        assert.deepEqual([answer.status, (answer.json.error as { code: string }).code], [status, code]);
        assert.equal(world.ledger.rows.size, 0);
      });
    }
  });
}
