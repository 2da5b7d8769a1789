/** Pages of an app's log: by cursors every line is read once, over HTTP and by `svc logs`, however many have the same time. */
import assert from 'node:assert/strict';
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type AppSource, appOf } from '../testing/apps.ts';
import { svc } from '../testing/command-line.ts';
import { onEachEdge } from '../testing/edges.ts';
import type { TestGateway } from '../testing/gateway.ts';

const APP: AppSource = {
  actions: { say: `async ({ input, log }) => { for (let i = 0; i < input.times; i++) log.info(input.text); }` },
};

/** Uploads an app, and adds lines of one millisecond to its log, as if it had written them. */
async function install(gateway: TestGateway, app: string, texts: string[]): Promise<void> {
  await gateway.install(app, appOf(app, APP));
  const lines = texts.map((msg) => `${JSON.stringify({ ts: '2026-01-31T08:00:00.007Z', level: 'info', app, msg })}\n`);
  appendFileSync(join(gateway.dataDir, 'apps', app, 'logs.jsonl'), lines.join(''));
}

onEachEdge({}, (gateway, _edge, store) => {
  // In one run, as the command asks for the pages below; the first test, as these are all lines of the gateway.
  if (store === 'tarball')
    test('svc logs reads more than a page; a time and its limits work as before', async () => {
      const texts = Array.from({ length: 1500 }, (_, i) => `line ${i + 1}`);
      await install(gateway, 'busy', texts);
      const logs = async (...args: string[]) => {
        const { stdout } = await svc(['logs', ...args, '--json'], {
          env: { SVC_URL: gateway.url, SVC_TOKEN: gateway.token },
        });
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

  test('1,500 lines of one millisecond are read once each', async () => {
    const texts = Array.from({ length: 1500 }, (_, i) => `line ${i + 1}`);
    await install(gateway, 'pages', texts);

    const found: string[] = [];
    let before = '';
    let pages = 0;
    for (let cursor: string | undefined = ''; cursor !== undefined; pages++) {
      const { status, json, headers, text } = await gateway.call('GET', `/svc/_logs?app=pages&limit=400${before}`);
      assert.equal(status, 200, text);
      found.unshift(...json.map(({ msg }: { msg: string }) => msg));
      cursor = headers['log-cursor'] as string | undefined;
      before = `&before=${cursor}`;
      // What is logged meanwhile is in none of the pages before.
      assert.equal((await gateway.write('pages', 'say', { text: 'meanwhile', times: 300 })).status, 200);
    }
    assert.deepEqual(found.slice(-1500), texts);
    assert.equal(pages, Math.ceil(found.length / 400));
  });

  test('a value that is neither a time nor a cursor, and a cursor of another log, are refused with a clear message', async () => {
    await install(gateway, 'few', ['one', 'two']);
    await install(gateway, 'other', []);
    const page = (app: string, before: string) =>
      gateway.call('GET', `/svc/_logs?app=${app}&limit=1&before=${encodeURIComponent(before)}`);
    const first = await page('few', String(Number.MAX_SAFE_INTEGER));
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
      const { status, json } = await page('few', text);
      assert.deepEqual([status, json.error?.code, json.error?.path], [400, 'BAD_REQUEST', 'before'], text.slice(0, 50));
      assert.match(json.error.message, /a time in milliseconds, or the "log-cursor" of an answer/);
    }
    for (const [app, text] of [
      ['other', cursor],
      ['few', cursor.replace(/^\d+/, '999999999999999')],
      ['few', cursor.replace(/[^.]+$/, '0123456789abcdef')],
    ] as const) {
      const { status, json } = await page(app, text);
      assert.deepEqual([status, json.error.code, json.error.path], [400, 'BAD_REQUEST', 'before'], text);
      assert.match(json.error.message, /no entry at this cursor/);
    }
  });
});
