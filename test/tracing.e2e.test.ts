/**
 * Traces in the real daemon, as a collector gets them: the tree of spans, their processes, and what happens without a
 * collector.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { eventually } from '../testing/edges.ts';
import { startGateway, type TestGateway } from '../testing/gateway.ts';
import { only, post, push } from '../testing/runs.ts';

const PARENT = '00f067aa0ba902b7';
const SECRET = 'sk-very-secret';
/** The trace that a test begins. */
let trace = '';
beforeEach(() => {
  trace = randomBytes(16).toString('hex');
});

const NOTES = appOf('notes', {
  queries: {
    list: "({ db }) => db.all('SELECT text FROM notes')",
    fetch: 'async ({ ctx, input }) => (await ctx.fetch(input.url)).status',
  },
  actions: {
    add: {
      run: `async ({ db, input, ctx }) => {
        await ctx.fetch(input.url + '?key=' + input.text, { method: 'POST', body: input.text });
        await db.run('INSERT INTO notes VALUES (?)', input.text);
        return ctx.traceId;
      }`,
      writes: ['notes'],
    },
    many: `async ({ db }) => {
      await db.transaction(async (tx) => { for (let i = 0; i < 200; i++) await tx.run("INSERT INTO notes VALUES ('x')"); });
    }`,
    fail: `async ({ db }) => { await db.run('INSERT INTO nowhere VALUES (1)'); }`,
  },
  automations: {
    job: `async ({ ctx, input }) => {
      await ctx.tool('svc_write', { app: 'notes', action: 'add', input });
      return { summary: 'done' };
    }`,
  },
  migrations: ['CREATE TABLE notes (text);'],
});

type Value = { stringValue?: string; intValue?: number | string; doubleValue?: number; boolValue?: boolean };
type KeyValue = { key: string; value: Value };
type RawSpan = {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: KeyValue[];
  status: { code?: number };
};
type Traced = Omit<RawSpan, 'attributes' | 'startTimeUnixNano' | 'endTimeUnixNano'> & {
  attributes: Record<string, unknown>;
  begin: bigint;
  end: bigint;
};
/** A test, or a suite with its `after`. */
type Owner = { after(cleanup: () => void): void };
type Collector = { url: string; spans: Traced[]; requests: { headers: IncomingHttpHeaders; text: string }[] };

/** A server that takes what is posted, as a collector does. */
async function listen(t: Owner, take: (headers: IncomingHttpHeaders, body: Buffer) => void): Promise<string> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      take(request.headers, Buffer.concat(chunks));
      response.setHeader('content-type', 'application/json').end('{}');
    });
  }).listen(0, '127.0.0.1');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  await new Promise((resolve) => server.once('listening', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function collect(t: Owner): Promise<Collector> {
  const collector: Collector = { url: '', spans: [], requests: [] };
  collector.url = await listen(t, (headers, body) => {
    const text = body.toString('latin1');
    collector.requests.push({ headers, text });
    if (headers['content-type'] !== 'application/json') return;
    const { resourceSpans } = JSON.parse(body.toString()) as {
      resourceSpans: { resource: { attributes: KeyValue[] }; scopeSpans: { spans: RawSpan[] }[] }[];
    };
    for (const { resource, scopeSpans } of resourceSpans) {
      for (const span of scopeSpans.flatMap(({ spans }) => spans)) {
        const { startTimeUnixNano, endTimeUnixNano, attributes, ...rest } = span;
        const times = { begin: BigInt(startTimeUnixNano), end: BigInt(endTimeUnixNano) };
        collector.spans.push({
          ...rest,
          ...times,
          attributes: { ...values(resource.attributes), ...values(attributes) },
        });
      }
    }
  });
  return collector;
}

function values(attributes: KeyValue[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0] as unknown]));
}

async function started(
  t: { after(cleanup: () => Promise<void>): void },
  collector: { url: string },
  env: Record<string, string> = {},
): Promise<TestGateway> {
  const otel = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json', ...env };
  const gateway = await startGateway(t, { env: otel });
  assert.equal((await gateway.upload('notes', NOTES)).status, 201);
  return gateway;
}

const traceparent = (flags: string) => ({ traceparent: `00-${trace}-${PARENT}-${flags}` });

/** Resolves when the collector has the whole trace: the request that began it ends last. */
const whole = ({ spans }: Collector) =>
  eventually(() => spans.some((span) => span.traceId === trace && span.parentSpanId === PARENT));

/** A trace as lines, each span below the one that it is part of, its siblings in the order in which they began. */
function treeOf(spans: Traced[]): string[] {
  const own = spans.filter((span) => span.traceId === trace);
  const below = (parent: string | undefined, depth: number): string[] =>
    own
      .filter((span) => span.parentSpanId === parent)
      .sort((a, b) => Number(a.begin - b.begin))
      .flatMap((span) => {
        const process = String(span.attributes['svc.process']).replace(/-\d+$/, '');
        return [`${'  '.repeat(depth)}${span.name} [${process}]`, ...below(span.spanId, depth + 1)];
      });
  const ids = new Set(own.map(({ spanId }) => spanId));
  const roots = new Set(own.map(({ parentSpanId }) => parentSpanId).filter((id) => id === undefined || !ids.has(id)));
  return [...roots].flatMap((id) => below(id, 0));
}

describe('with a service name, headers and attributes', () => {
  let collector: Collector;
  let gateway: TestGateway;
  const cleanups: (() => unknown)[] = [];
  before(async () => {
    const owner = { after: (cleanup: () => unknown) => void cleanups.unshift(cleanup) };
    collector = await collect(owner);
    gateway = await started(owner, collector, {
      OTEL_SERVICE_NAME: 'tested',
      OTEL_EXPORTER_OTLP_HEADERS: 'x-collector-key=abc',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
    });
  });
  after(async () => {
    for (const cleanup of cleanups) await cleanup();
  });

  test('a write is one trace over all processes, and its requests continue it', async (t) => {
    const fetched: IncomingHttpHeaders[] = [];
    const url = await listen(t, (headers) => fetched.push(headers));
    const answer = await gateway.write('notes', 'add', { url, text: SECRET }, { headers: traceparent('01') });
    assert.equal(answer.json.data.body, trace);
    await whole(collector);

    assert.deepEqual(treeOf(collector.spans), [
      'POST /svc/_tool/svc_write [supervisor]',
      '  action notes.add [supervisor]',
      '    handle action notes.add [host]',
      '      POST [host]',
      '      INSERT notes [writer]',
    ]);
    const spans = collector.spans.filter(({ traceId }) => traceId === trace);
    const byId = new Map(spans.map((span) => [span.spanId, span]));
    for (const span of spans) {
      assert.ok(span.begin <= span.end, span.name);
      const parent = byId.get(span.parentSpanId ?? '');
      if (parent === undefined) continue;
      assert.ok(parent.begin <= span.begin && span.end <= parent.end, `${span.name} is not within ${parent.name}`);
    }
    const named = (name: string) => spans.find((span) => span.name === name)?.attributes ?? {};
    const shown = (name: string, ...keys: string[]) => keys.map((key) => named(name)[key]);
    const server = 'POST /svc/_tool/svc_write';
    assert.deepEqual(
      shown(server, 'http.request.method', 'http.route', 'http.response.status_code', 'svc.app', 'svc.tool'),
      ['POST', '/svc/_tool/svc_write', 200, 'notes', 'add'],
    );
    assert.deepEqual(shown('INSERT notes', 'db.system.name', 'db.namespace', 'db.operation.name', 'svc.group_size'), [
      'sqlite',
      'notes',
      'INSERT',
      1,
    ]);
    assert.deepEqual(
      shown('POST', 'http.request.method', 'server.address', 'server.port', 'http.response.status_code'),
      ['POST', '127.0.0.1', Number(new URL(url).port), 200],
    );
    assert.deepEqual(shown(server, 'service.name', 'deployment.environment.name'), ['tested', 'test']);
    const client = spans.find(({ name }) => name === 'POST');
    assert.equal(fetched[0]?.traceparent, `00-${trace}-${client?.spanId}-01`);
    assert.equal(collector.requests[0]?.headers['x-collector-key'], 'abc');
    assert.ok(
      collector.requests.every(({ text }) => !text.includes(SECRET)),
      'a span contains a written value or an address',
    );
  });

  test('a run of an automation is a trace, with the tools that it calls', async (t) => {
    const url = await listen(t, () => {});
    const input = { url, text: 'one' };
    await gateway.call('POST', '/svc/_automations/notes/job/run?wait=1', {
      body: { input },
      headers: traceparent('01'),
    });
    await whole(collector);
    assert.deepEqual(treeOf(collector.spans), [
      'POST /svc/_automations/:app/:id/run [supervisor]',
      '  fire notes/job [supervisor]',
      '    handle fire notes/job [host]',
      '    action notes.add [supervisor]',
      '      handle action notes.add [host]',
      '        POST [host]',
      '        INSERT notes [writer]',
    ]);
    const fire = collector.spans.find(({ traceId, name }) => traceId === trace && name === 'fire notes/job');
    assert.deepEqual([fire?.attributes['svc.trigger'], fire?.attributes['svc.app']], ['manual', 'notes']);
  });

  test('a run that a webhook fires, and the job of an upload, are part of the trace of the request', async () => {
    const automations = {
      hook: { triggers: [{ kind: 'webhook', pending: true }], run: '({ input }) => ({ output: input })' },
    };
    const hook = only(await push(gateway, 'hooked', { automations }));
    const answer = await post(gateway, hook, { text: SECRET }, { headers: traceparent('01') });
    assert.equal(answer.status, 200, answer.text);
    await whole(collector);
    assert.deepEqual(treeOf(collector.spans), [
      'POST /_svc-hook/* [supervisor]',
      '  fire hooked/hook [supervisor]',
      '    handle fire hooked/hook [host]',
    ]);
    const upload = collector.spans.find(({ name }) => name === 'POST /svc/_apps/:id/upload');
    assert.ok(
      collector.spans.some(({ name, parentSpanId }) => name === 'job ingest' && parentSpanId === upload?.spanId),
    );
    const told = collector.requests.map(({ text }) => text).join();
    assert.ok(!told.includes(SECRET) && !told.includes(hook.webhookId) && !told.includes(hook.secret));
  });

  test('a failed span has the code of its error, and a call has a limited number of spans', async () => {
    assert.equal((await gateway.write('notes', 'fail', {}, { headers: traceparent('01') })).status, 500);
    await whole(collector);
    const failed = collector.spans.filter(({ traceId, status }) => traceId === trace && status.code === 2);
    assert.deepEqual(
      failed.map(({ name, attributes }) => [name, attributes['error.type']]).sort(),
      [
        ['INSERT notes', 'SQLITE_ERROR'],
        ['POST /svc/_tool/svc_write', '500'],
        ['action notes.fail', 'HANDLER_ERROR'],
      ].sort(),
    );
    assert.equal((await gateway.write('notes', 'many')).status, 200);
    const handled = () => collector.spans.find(({ name }) => name === 'handle action notes.many');
    await eventually(handled);
    assert.equal(handled()?.attributes['svc.spans_left_out'], 202 - 128);
  });

  test('a call that is answered from its idempotency key, or refused because of it, ends its span', async (t) => {
    const url = await listen(t, () => {});
    const again = async (text: string, flags: string) => {
      const headers = { ...traceparent(flags), 'idempotency-key': 'once' };
      return (await gateway.write('notes', 'add', { url, text }, { headers })).status;
    };
    assert.equal(await again('first', '00'), 200);
    assert.equal(await again('first', '01'), 200);
    assert.equal(await again('second', '01'), 422);
    const calls = () => collector.spans.filter(({ traceId, name }) => traceId === trace && name === 'action notes.add');
    await eventually(() => calls().length === 2);
    const ends = calls().map(({ attributes }) => [attributes['svc.replayed'], attributes['error.type']]);
    assert.deepEqual(ends, [
      [true, undefined],
      [undefined, 'IDEMPOTENCY_MISMATCH'],
    ]);
  });

  test('a trace that is not sampled is forwarded, and not recorded', async (t) => {
    const fetched: IncomingHttpHeaders[] = [];
    const url = await listen(t, (headers) => fetched.push(headers));
    await gateway.read('notes', 'fetch', { url }, { headers: traceparent('00') });
    assert.equal(fetched[0]?.traceparent, `00-${trace}-${PARENT}-00`);
    await gateway.read('notes', 'list', {});
    await eventually(() => collector.spans.some(({ name }) => name === 'query notes.list'));
    assert.ok(!collector.spans.some(({ traceId }) => traceId === trace));
  });
});

test('a collector of protocol buffers gets those; a ratio of zero records nothing', async (t) => {
  const collector = await collect(t);
  const gateway = await started(t, collector, {
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
    OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
    OTEL_TRACES_SAMPLER_ARG: '0',
  });
  await gateway.read('notes', 'list', {});
  await gateway.read('notes', 'list', {}, { headers: traceparent('01') });
  await eventually(() => collector.requests.length > 0);
  const [{ headers, text } = assert.fail()] = collector.requests;
  assert.equal(headers['content-type'], 'application/x-protobuf');
  assert.ok(text.includes('query notes.list') && text.includes(Buffer.from(trace, 'hex').toString('latin1')));
  assert.ok(!text.includes('/svc/_apps'));
});

test('an unreachable collector loses spans, which are counted, and no answers', async (t) => {
  const gateway = await started(t, { url: 'http://127.0.0.1:9' }, { OTEL_EXPORTER_OTLP_TIMEOUT: '300' });
  for (let i = 0; i < 20; i++) assert.equal((await gateway.read('notes', 'list', {})).status, 200);
  await eventually(async () => {
    const { text } = await gateway.call('GET', '/svc/_metrics');
    return Number(/svc_trace_spans_total\{result="dropped"\} (\d+)/.exec(text)?.[1]) > 0;
  });
  await gateway.stop();
});

test('an invalid variable is named, and the gateway runs without traces', async (t) => {
  const gateway = await startGateway(t, {
    env: { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4317', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' },
  });
  assert.equal((await gateway.call('GET', '/svc/_health')).status, 200);
  assert.match(gateway.log, /No traces are sent: OTEL_EXPORTER_OTLP_PROTOCOL must be/);
});

test('without the variable, no tracing code is loaded', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-tracing-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const collector = await collect(t);
  const loaded = async (env: Record<string, string>): Promise<boolean> => {
    const own = mkdtempSync(join(folder, 'loaded-'));
    // Lists the files that each process ran.
    const gateway = await startGateway(t, { env: { ...env, NODE_V8_COVERAGE: own } });
    await gateway.upload('notes', NOTES);
    await gateway.read('notes', 'list', {}, { headers: traceparent('01') });
    await gateway.stop();
    const reports = readdirSync(own).map((name) => JSON.parse(readFileSync(join(own, name), 'utf8')));
    const files: string[] = reports.flatMap(({ result }) => result.map(({ url }: { url: string }) => url));
    assert.ok(files.some((url) => url.includes('/dist/serve.code.js')));
    return files.some((url) => url.includes('otlp-exporter') || url.includes('opentelemetry'));
  };
  assert.equal(await loaded({}), false);
  assert.equal(await loaded({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url }), true);
});
