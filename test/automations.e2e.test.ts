/**
 * Automations from the push of their app to its end, against the real daemon (specification, "Automation files" and "Runs").
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import type { MintedWebhook } from '../protocol/automations/automation.ts';
import type { RunEvent } from '../protocol/automations/runs.ts';
import type { AppSource } from '../testing/apps.ts';
import { eventually, onEachEdge } from '../testing/edges.ts';
import { root } from '../testing/gateway.ts';
import {
  automationRow,
  isEnded,
  NOTES,
  nextEvent,
  nodesOf,
  note,
  notesOf,
  post,
  push,
  runOf,
  runsOf,
  untilEvent,
} from '../testing/runs.ts';
import { inTime, LONG_MS } from '../testing/waiting.ts';

const EVERY_SECOND = [{ kind: 'cron', expr: '* * * * * *', tz: 'UTC' }];
const PENDING = [{ kind: 'webhook', pending: true }];

/** The content of all files that the gateway or an app writes as text. */
function textsBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((file) => statSync(file).isFile())
    .map((file) => readFileSync(file, 'latin1'));
}

onEachEdge({}, (gateway) => {
  const journal = (version: string): AppSource => ({
    ...NOTES,
    manifest: { version },
    automations: {
      tick: {
        triggers: EVERY_SECOND,
        history: { keep: { count: 2 } },
        run: `async ({ ctx }) => ({ summary: new Date(ctx.now).toISOString() })`,
      },
      inbox: {
        name: 'Inbox',
        triggers: PENDING,
        onFailure: 'alarm',
        run: `async ({ ctx, input, log }) => {
          if (input?.fail) throw new Error(input.fail);
          log.info('got it');
          await ctx.tool('svc_read', { app: 'journal', query: 'list' });
          ${note('journal', 'input.text')}
          return { summary: input.text };
        }`,
      },
      signed: { triggers: [{ kind: 'webhook', pending: true, signing: true }], run: '() => ({})' },
      alarm: `async ({ ctx, input }) => { ${note('journal', "input.automationName + ': ' + input.error.message")} }`,
    },
  });
  let minted: MintedWebhook[];
  let hook: MintedWebhook;

  test('the push answers with addresses and secrets once; another push keeps them and answers with none', async () => {
    minted = await push(gateway, 'journal', journal('1'));
    assert.deepEqual(
      minted.map(({ automationId, ownerApp }) => [automationId, ownerApp]),
      [
        ['inbox', 'journal'],
        ['signed', 'journal'],
      ],
    );
    for (const { url, webhookId } of minted) assert.equal(url, `${gateway.url}/_svc-hook/${webhookId}`);
    hook = minted[0] as MintedWebhook;
    assert.match(hook.webhookId, /^[0-9a-f]{24}$/);
    assert.match(hook.secret, /^[0-9a-f]{48}$/);
    assert.match(minted[1]?.secret ?? '', /^whsec_/);
    assert.deepEqual(await push(gateway, 'journal', journal('2')), []);
    assert.equal((await automationRow(gateway, 'journal/inbox')).triggers[0].id, hook.webhookId);
  });

  test('a post to its address runs it, and its calls appear live to the gateway, the command line, and the changes', async (t) => {
    const events = await gateway.stream('/svc/_runs/_events?ref=journal/inbox');
    const changes = await gateway.stream('/svc/journal/_changes');
    const svc = spawn(process.execPath, [join(root, 'bin/svc.js'), 'runs', '-f', 'journal/inbox', '--json'], {
      env: { PATH: process.env.PATH, HOME: gateway.dataDir, SVC_URL: gateway.url, SVC_TOKEN: gateway.token },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.after(() => svc.kill('SIGKILL'));
    const lines = createInterface({ input: svc.stdout })[Symbol.asyncIterator]();
    // A run that the command has seen says that it follows.
    const first = inTime(lines.next(), 'the first line of svc runs -f', LONG_MS);
    let followed = false;
    void first.then(() => {
      followed = true;
    });
    let warmUps = 0;
    for (; !followed; warmUps++)
      await eventually(async () => followed || (await post(gateway, hook, { text: 'warm' })).status === 200);
    for (let endings = 0; endings < warmUps; ) if ((await nextEvent(events)).type === 'run.end') endings++;

    const answer = await post(gateway, hook, { text: 'Called the plumber' });
    assert.equal(answer.status, 200, answer.text);
    const { runId } = answer.json;
    assert.deepEqual(answer.json, { ok: true, runId });
    const seen: RunEvent[] = [];
    while (seen.at(-1)?.type !== 'run.end') seen.push(await nextEvent(events));
    const expected = ['run.start', 'log', 'node.start', 'node.end', 'node.start', 'node.end', 'run.end'];
    assert.deepEqual(
      seen.map(({ type }) => type),
      expected,
    );

    const printed: RunEvent[] = [JSON.parse((await first).value)];
    const isOurs = (event: RunEvent) => JSON.stringify(event).includes(runId);
    while (printed.filter(isOurs).at(-1)?.type !== 'run.end')
      printed.push(JSON.parse((await inTime(lines.next(), 'the next line of svc runs -f')).value));
    assert.deepEqual(printed.filter(isOurs), seen);

    for (let n = 0; n < warmUps; n++) await changes.next();
    const { source, table, action } = JSON.parse((await changes.next()).data);
    assert.deepEqual({ source, table, action }, { source: 'automation', table: 'notes', action: 'add' });
    assert.equal((await notesOf(gateway, 'journal')).at(-1), 'Called the plumber');

    const run = await runOf(gateway, runId);
    assert.deepEqual(
      [run.state, run.summary, run.trigger],
      ['ok', 'Called the plumber', { kind: 'webhook', origin: hook.webhookId }],
    );
    assert.deepEqual(seen.at(-1), { type: 'run.end', run: { ...run } });
    const nodes = await nodesOf(gateway, runId);
    assert.deepEqual(
      nodes.map(({ ordinal, name, ok }) => [ordinal, name, ok]),
      [
        [1, 'svc_read', true],
        [2, 'svc_write', true],
      ],
    );
    events.close();
    changes.close();
  });

  test('a run that fails fires its sibling, which gets the name of the failed automation', async () => {
    const events = await gateway.stream('/svc/_runs/_events?ref=journal/alarm');
    const answer = await post(gateway, hook, { fail: 'no plumber' });
    assert.deepEqual([answer.status, answer.json.error.code], [500, 'HANDLER_ERROR'], answer.text);
    const { runId } = answer.json;
    const end = await untilEvent(events, ({ type }) => type === 'run.end');
    const run = await runOf(gateway, (end as { run: { runId: string } }).run.runId);
    assert.deepEqual([run.parentRunId, run.trigger, run.state], [runId, { kind: 'failure', origin: runId }, 'ok']);
    const error = { code: 'HANDLER_ERROR', message: 'no plumber' };
    assert.deepEqual(run.input, { runId, automationName: 'Inbox', error });
    assert.equal((await notesOf(gateway, 'journal')).at(-1), 'Inbox: no plumber');
    events.close();
  });

  test('the clock fires it every second, each time once, and the history keeps the configured runs', async () => {
    const events = await gateway.stream('/svc/_runs/_events?ref=journal/tick');
    const origins: number[] = [];
    while (origins.length < 4) {
      const event = await nextEvent(events);
      if (event.type === 'run.end') origins.push(Number(event.run.trigger.origin));
    }
    events.close();
    assert.deepEqual([...new Set(origins)].sort(), origins);
    for (const origin of origins) assert.equal(origin % 1000, 0);
    const [runs, { nextRunAt, lastRun }] = [
      await runsOf(gateway, 'journal/tick'),
      await automationRow(gateway, 'journal/tick'),
    ];
    const kept = runs.filter(isEnded);
    assert.equal(kept.length, 2, JSON.stringify(runs));
    for (const { summary, state, trigger } of kept)
      if (state === 'ok') assert.equal(Date.parse(summary ?? ''), trigger.origin);
    assert.ok(lastRun.runId >= (kept[0]?.runId ?? ''), 'the row shows an older run than the history');
    assert.equal(nextRunAt % 1000, 0);
  });

  test('no answer, log or file that others can read contains a secret, key or hash', async () => {
    const addresses = [
      '/svc/_automations',
      '/svc/_automations/journal/inbox',
      '/svc/_automations/journal/signed',
      '/svc/_runs?limit=500',
      '/svc/_apps/journal',
      '/svc/_apps/journal/versions',
      '/svc/_logs?app=journal',
      '/svc/_system',
      '/svc/journal/automations/inbox/automation.json',
    ];
    const texts = await Promise.all(addresses.map(async (path) => (await gateway.call('GET', path)).text));
    for (const { runId } of await runsOf(gateway, 'journal/inbox')) {
      for (const part of ['', '/nodes']) texts.push((await gateway.call('GET', `/svc/_runs/${runId}${part}`)).text);
    }
    texts.push(gateway.log, (await gateway.call('POST', '/svc/_tool/svc_describe', { body: { app: 'journal' } })).text);
    for (const text of texts) {
      assert.doesNotMatch(text, /secretHash|whsec_/);
      for (const { secret } of minted) assert.ok(!text.includes(secret), `a secret stands in ${text.slice(0, 200)}`);
    }
    assert.ok(!textsBelow(gateway.dataDir).some((text) => text.includes(hook.secret)), 'a secret is on the disk');
    const keys = join(gateway.dataDir, 'apps/journal/webhook-keys.json');
    assert.equal(statSync(keys).mode & 0o777, 0o600);
  });
});
