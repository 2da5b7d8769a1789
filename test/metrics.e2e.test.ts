/** `GET /svc/_metrics`: the counts are there, in the text format of Prometheus, for callers that may read them. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { eventually, gatewayOfSuite } from '../testing/edges.ts';

const METRICS_TOKEN = 'scraper-0123456789';

const NOTES = appOf('notes', {
  queries: { list: "({ db }) => db.all('SELECT text FROM notes')", now: '() => Math.random()' },
  actions: {
    add: { run: "({ db }) => db.run('INSERT INTO notes VALUES (1)')", writes: ['notes'] },
    fail: "() => { throw new Error('No.'); }",
    strict: { run: '() => 1', input: { type: 'object', required: ['text'] } },
  },
  automations: { job: '() => ({ summary: "done" })' },
  migrations: ['CREATE TABLE notes (text);'],
});

type Sample = { name: string; labels: Record<string, string>; value: number };

/** Parses the text exposition format strictly: each family once, HELP and TYPE before its samples. */
function parse(text: string): Sample[] {
  const types = new Map<string, string>();
  const samples: Sample[] = [];
  assert.ok(text.endsWith('\n'));
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('# HELP ')) continue;
    const type = /^# TYPE ([a-z_]+) (counter|gauge|histogram)$/.exec(line);
    if (type) {
      const [, name = '', kind = ''] = type;
      assert.ok(!types.has(name), `${name} comes twice`);
      types.set(name, kind);
      continue;
    }
    const [, name = '', labels = '', value = ''] = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? assert.fail(line);
    const family = types.get(name) === undefined ? name.replace(/_(?:bucket|sum|count)$/, '') : name;
    assert.equal([...types.keys()].at(-1), family, line);
    const pairs = [...labels.matchAll(/([a-z]+)="((?:[^"\\]|\\.)*)"(?:,|$)/g)].map(([, key, text]) => [key, text]);
    const found = { name, labels: Object.fromEntries(pairs) as Record<string, string>, value: Number(value) };
    assert.ok(Number.isFinite(found.value), line);
    samples.push(found);
  }
  return samples;
}

describe('metrics', () => {
  const gateway = gatewayOfSuite({ config: { metricsToken: METRICS_TOKEN } });
  const scrape = async () => parse((await gateway.call('GET', '/svc/_metrics')).text);
  const sampleOf = (samples: Sample[], name: string, labels: Record<string, string> = {}): number | undefined =>
    samples.find(
      (one) => one.name === name && Object.entries(labels).every(([label, text]) => one.labels[label] === text),
    )?.value;

  before(async () => {
    assert.equal((await gateway.upload('notes', NOTES)).status, 201);
  });

  test('counts calls, kept results, runs and commits of an app', async () => {
    const read = (query: string) => gateway.call('POST', '/svc/_tool/svc_read', { body: { app: 'notes', query } });
    const write = (action: string) => gateway.call('POST', '/svc/_tool/svc_write', { body: { app: 'notes', action } });
    for (let i = 0; i < 3; i++) assert.equal((await write('add')).status, 200);
    assert.equal((await write('fail')).status, 500);
    assert.equal((await write('strict')).status, 400);
    for (let i = 0; i < 2; i++) await read('now');
    await read('list');
    await eventually(async () => (await read('list')).headers['server-timing']?.includes('hit'));
    await gateway.call('POST', '/svc/_automations/notes/job/run?wait=1', { body: {} });

    const samples = await scrape();
    const app = 'notes';
    const calls = (kind: string, result: string) => sampleOf(samples, 'svc_calls_total', { app, kind, result });
    assert.deepEqual(
      ['ok', 'refused', 'failed'].map((result) => calls('action', result)),
      [3, 1, 1],
    );
    assert.ok((calls('query', 'ok') ?? 0) >= 3);
    const count = sampleOf(samples, 'svc_call_duration_seconds_count', { app });
    assert.equal(count, 5 + (calls('query', 'ok') ?? 0));
    assert.equal(sampleOf(samples, 'svc_call_duration_seconds_bucket', { app, le: '+Inf' }), count);
    assert.ok((sampleOf(samples, 'svc_call_duration_seconds_sum', { app }) ?? 0) > 0);
    assert.equal(sampleOf(samples, 'svc_kept_results_total', { app, result: 'hit' }), 1);
    assert.ok((sampleOf(samples, 'svc_kept_results_bytes') ?? 0) > 0);
    assert.equal(sampleOf(samples, 'svc_runs_total', { app, state: 'ok' }), 1);
    assert.equal(sampleOf(samples, 'svc_mailbox_calls', { app }), 0);
    assert.ok((sampleOf(samples, 'svc_http_answers_total', { status: '4xx' }) ?? 0) >= 1);
    const route = 'call';
    const answered = (status: string) => sampleOf(samples, 'svc_http_duration_seconds_count', { route, status });
    assert.deepEqual([answered('4xx'), answered('5xx')], [1, 1]);
    assert.ok((sampleOf(samples, 'svc_http_duration_seconds_count', { route: 'api', status: '2xx' }) ?? 0) >= 2);
    assert.equal(sampleOf(samples, 'svc_trace_spans_total'), undefined);
    assert.equal(sampleOf(samples, 'svc_apps'), 1);
    assert.ok((sampleOf(samples, 'svc_disk_bytes', { state: 'free' }) ?? 0) > 0);
    assert.ok((sampleOf(samples, 'svc_process_resident_bytes', { process: 'writer' }) ?? 0) > 0);
    assert.notEqual(sampleOf(samples, 'svc_event_loop_delay_seconds', { quantile: '0.99' }), undefined);
    // Measured in the background.
    await eventually(async () => {
      const later = await scrape();
      const bytes = (kind: string) => sampleOf(later, 'svc_app_disk_bytes', { app, kind }) ?? 0;
      return bytes('data') > 0 && bytes('versions') > 0;
    });
    // Writers report with their heartbeats.
    await eventually(async () => {
      const later = await scrape();
      const groups = sampleOf(later, 'svc_writer_group_size_count', { process: 'writer' }) ?? 0;
      return groups >= 3 && sampleOf(later, 'svc_writer_group_size_bucket', { le: '+Inf' }) === groups;
    });
  });

  test('counts files and live queries', async () => {
    await gateway.call('PUT', '/svc/notes/_blobs', {
      body: Buffer.from('four'),
      headers: { 'content-type': 'text/plain' },
    });
    const stream = await gateway.stream('/svc/notes/_live?query=list');
    await stream.next();
    const samples = await scrape();
    assert.equal(sampleOf(samples, 'svc_files', { app: 'notes' }), 1);
    assert.equal(sampleOf(samples, 'svc_files_bytes', { app: 'notes' }), 4);
    assert.equal(sampleOf(samples, 'svc_live_queries'), 1);
    assert.equal(sampleOf(samples, 'svc_live_followers'), 1);
    stream.close();
  });

  test('is for the administrator and the token of the configuration, which has no other rights', async () => {
    const own = await gateway.call('GET', '/svc/_metrics', { token: METRICS_TOKEN });
    assert.deepEqual([own.status, own.headers['content-type']], [200, 'text/plain; version=0.0.4; charset=utf-8']);
    assert.equal((await gateway.call('GET', '/svc/_metrics')).status, 200);
    for (const token of [null, 'scraper-012345678', `${METRICS_TOKEN}0`])
      assert.equal((await gateway.call('GET', '/svc/_metrics', { token })).status, 401);
    for (const path of ['/svc/_system', '/svc/_apps', '/svc/notes/', '/svc/_metrics/'])
      assert.equal((await gateway.call('GET', path, { token: METRICS_TOKEN })).status, 401, path);
    const made = await gateway.call('POST', '/svc/_tokens', { body: { name: 'all', tools: 'all' } });
    assert.equal((await gateway.call('GET', '/svc/_metrics', { token: made.json.token })).status, 403);
  });

  test('an app that was removed is gone', async () => {
    await gateway.call('DELETE', '/svc/_apps/notes?purge=1');
    assert.equal(sampleOf(await scrape(), 'svc_calls_total', { app: 'notes' }), undefined);
  });
});
