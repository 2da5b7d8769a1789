/** Pages of an app's log: by cursors every line is read once, over HTTP and by `svc logs`, however many have the same time. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { appOf } from '../testing/apps.ts';
import { EDGES } from '../testing/edges.ts';
import { root, startGateway, type TestGateway } from '../testing/gateway.ts';

const run = promisify(execFile);
const APP = appOf('busy', {
  actions: { say: `async ({ input, log }) => { for (let i = 0; i < input.times; i++) log.info(input.text); }` },
});

/** Adds lines of one millisecond to the log, as if the app had written them. */
function addLines(gateway: TestGateway, texts: string[]): void {
  const lines = texts.map(
    (msg) => `${JSON.stringify({ ts: '2026-01-31T08:00:00.007Z', level: 'info', app: 'busy', msg })}\n`,
  );
  appendFileSync(join(gateway.dataDir, 'apps/busy/logs.jsonl'), lines.join(''));
}

for (const edge of EDGES) {
  test(`1,500 lines of one millisecond are read once each, ${edge}`, async (t) => {
    const gateway = await startGateway(t, { edge });
    assert.equal((await gateway.upload('busy', APP)).status, 201);
    const texts = Array.from({ length: 1500 }, (_, i) => `line ${i + 1}`);
    addLines(gateway, texts);

    const found: string[] = [];
    let before = '';
    let pages = 0;
    for (let cursor: string | undefined = ''; cursor !== undefined; pages++) {
      const { status, json, headers, text } = await gateway.call('GET', `/svc/_logs?app=busy&limit=400${before}`);
      assert.equal(status, 200, text);
      found.unshift(...json.map(({ msg }: { msg: string }) => msg));
      cursor = headers['log-cursor'] as string | undefined;
      before = `&before=${cursor}`;
      // What is logged meanwhile is in none of the pages before.
      assert.equal((await gateway.write('busy', 'say', { text: 'meanwhile', times: 300 })).status, 200);
    }
    assert.deepEqual(found.slice(-1500), texts);
    assert.equal(pages, Math.ceil(found.length / 400));
  });
}

test('svc logs reads more than a page; a time and its limits work as before', async (t) => {
  const gateway = await startGateway(t);
  assert.equal((await gateway.upload('busy', APP)).status, 201);
  const texts = Array.from({ length: 1500 }, (_, i) => `line ${i + 1}`);
  addLines(gateway, texts);
  const logs = async (...args: string[]) => {
    const argv = [join(root, 'bin/svc.js'), 'logs', ...args, '--json', '--url', gateway.url, '--token', gateway.token];
    const { stdout } = await run(process.execPath, argv, { maxBuffer: 2 ** 24 });
    return JSON.parse(stdout).map(({ msg }: { msg: string }) => msg);
  };
  assert.deepEqual(await logs('busy', '-n', '1500'), texts);
  assert.deepEqual(await logs('-n', '1200'), texts.slice(-1200));
  assert.deepEqual(await logs('busy', '-n', '10000'), texts);

  const at = Date.parse('2026-01-31T08:00:00.007Z');
  const page = (query: string) => gateway.call('GET', `/svc/_logs?app=busy&${query}`);
  assert.equal((await page(`before=${at}`)).json.length, 0);
  const last = await page(`before=${at + 1}&limit=2`);
  assert.deepEqual(
    last.json.map(({ ts, msg }: { ts: number; msg: string }) => [ts, msg]),
    [
      [at, 'line 1499'],
      [at, 'line 1500'],
    ],
  );
  assert.deepEqual(
    (await page(`before=${last.headers['log-cursor']}&limit=1`)).json.map(({ msg }: { msg: string }) => msg),
    ['line 1498'],
  );
});

test('a value that is neither a time nor a cursor, and a cursor of another log, are refused with a clear message', async (t) => {
  const gateway = await startGateway(t);
  for (const id of ['busy', 'other']) {
    assert.equal((await gateway.upload(id, appOf(id, {}))).status, 201);
    if (id === 'busy') addLines(gateway, ['one', 'two']);
  }
  const page = (app: string, before: string) =>
    gateway.call('GET', `/svc/_logs?app=${app}&limit=1&before=${encodeURIComponent(before)}`);
  const first = await page('busy', String(Number.MAX_SAFE_INTEGER));
  const cursor = String(first.headers['log-cursor']);
  const bad = [
    '',
    '0',
    '-1',
    '1e3',
    '9007199254740993',
    'yesterday',
    '1.5',
    `${cursor}0`,
    `-${cursor}`,
    'x'.repeat(900),
  ];
  for (const text of bad) {
    const { status, json } = await page('busy', text);
    assert.deepEqual([status, json.error?.code, json.error?.path], [400, 'BAD_REQUEST', 'before'], text.slice(0, 50));
    assert.match(json.error.message, /a time in milliseconds, or the "log-cursor" of an answer/);
  }
  for (const [app, text] of [
    ['other', cursor],
    ['busy', cursor.replace(/^\d+/, '999999999999999')],
    ['busy', cursor.replace(/[^.]+$/, '0123456789abcdef')],
  ] as const) {
    const { status, json } = await page(app, text);
    assert.deepEqual([status, json.error.code, json.error.path], [400, 'BAD_REQUEST', 'before'], text);
    assert.match(json.error.message, /no entry at this cursor/);
  }
});
