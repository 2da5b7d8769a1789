/**
 * Which automations are live: switched, activated, rewritten, damaged and deleted, against the real daemon on either store
 * (specification, "Automation files").
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { before, describe, test } from 'node:test';
import type { MintedWebhook } from '../protocol/automations/automation.ts';
import type { RunRecord } from '../protocol/automations/runs.ts';
import { eventually, onEachStore } from '../testing/edges.ts';
import type { TestGateway } from '../testing/gateway.ts';
import {
  automationRow,
  ended,
  fire,
  isEnded,
  NOTES,
  note,
  noted,
  only,
  post,
  push,
  runOf,
  runsOf,
  runToEnd,
  untilEvent,
} from '../testing/runs.ts';

const EVERY_SECOND = [{ kind: 'cron', expr: '* * * * * *', tz: 'UTC' }];
const PENDING = [{ kind: 'webhook', pending: true }];
const idle = '() => ({})';

async function enable(gateway: TestGateway, ref: string, enabled: boolean): Promise<void> {
  const answer = await gateway.call('POST', `/svc/_automations/${ref}/enabled`, { body: { enabled } });
  assert.deepEqual([answer.status, answer.json.enabled], [200, enabled], answer.text);
}

/** The file of a live automation. On the git store it is behind a link, in the checkout of the live version. */
async function fileOf(gateway: TestGateway, app: string, id: string): Promise<string> {
  const { activeVersion } = (await gateway.call('GET', `/svc/_apps/${app}`)).json;
  return join(gateway.dataDir, 'apps', app, 'versions', basename(activeVersion), 'automations', id, 'automation.json');
}

onEachStore({}, (gateway) => {
  before(() => push(gateway, 'clock', { automations: { tick: { triggers: EVERY_SECOND, run: idle } } }));
  /** Another schedule has fired twice since, so this one would have fired by now. */
  const secondsPass = async () => {
    const [since] = await runsOf(gateway, 'clock/tick');
    await eventually(
      async () => ((await runsOf(gateway, 'clock/tick', '&state=ok'))[1]?.runId ?? '') > (since?.runId ?? ''),
    );
  };

  describe('after a start', () => {
    const BOTH = { both: { triggers: [...EVERY_SECOND, ...PENDING], run: idle } };
    const TORN = { automations: { bad: { triggers: EVERY_SECOND, run: idle }, fine: idle } };
    let off: MintedWebhook;
    let since: RunRecord[];
    let lost: MintedWebhook;

    /** One is switched off, the file of another lost the address of its webhook, and that of a third is damaged. */
    before(async () => {
      off = only(await push(gateway, 'off', { automations: BOTH }));
      await enable(gateway, 'off/both', false);
      const row = await automationRow(gateway, 'off/both');
      assert.deepEqual([row.enabled, row.nextRunAt, row.triggers[1].id], [false, undefined, off.webhookId]);
      assert.equal((await runToEnd(gateway, 'off/both')).state, 'ok');
      assert.deepEqual((await post(gateway, off)).json, { ok: false, skipped: 'automation disabled' });
      since = await runsOf(gateway, 'off/both');
      assert.deepEqual(await push(gateway, 'off', { manifest: { version: '2' }, automations: BOTH }), []);
      assert.equal((await automationRow(gateway, 'off/both')).enabled, false);
      lost = only(await push(gateway, 'mint', { automations: { one: { triggers: PENDING, run: idle } } }));
      await push(gateway, 'torn', TORN);
      const pending = await fileOf(gateway, 'mint', 'one');
      const torn = await fileOf(gateway, 'torn', 'bad');
      await gateway.stop();
      writeFileSync(pending, JSON.stringify({ ...JSON.parse(readFileSync(pending, 'utf8')), triggers: PENDING }));
      writeFileSync(torn, '{"name": ');
      await gateway.start();
    });

    test('one that is switched off does not fire on schedule or by webhook, and is still run by hand; on again, it has its address', async () => {
      assert.equal((await automationRow(gateway, 'off/both')).enabled, false);
      await secondsPass();
      assert.deepEqual(await runsOf(gateway, 'off/both'), since);
      await enable(gateway, 'off/both', true);
      await eventually(async () => (await runsOf(gateway, 'off/both')).some(({ trigger }) => trigger.kind === 'cron'));
      assert.equal((await post(gateway, off)).status, 200);
    });

    test('a pending webhook in a live file gets its address on request, once', async () => {
      assert.equal((await post(gateway, lost)).status, 404);
      const provision = async () => {
        const answer = await gateway.call('POST', '/svc/_automations/_provision', { body: { app: 'mint' } });
        assert.equal(answer.status, 200, answer.text);
        return answer.json.webhooks as MintedWebhook[];
      };
      const minted = only(await provision());
      assert.notEqual(minted.webhookId, lost.webhookId);
      assert.deepEqual(await provision(), []);
      assert.deepEqual([(await post(gateway, minted)).status, (await post(gateway, lost)).status], [200, 404]);
    });

    test('a damaged live file is reported, the others fire, and a push repairs it', async () => {
      const { rows, errors } = (await gateway.call('GET', '/svc/_automations?app=torn')).json;
      assert.deepEqual(
        [rows.map(({ id }: { id: string }) => id), errors.map(({ ref, code }: Record<string, string>) => [ref, code])],
        [['fine'], [['torn/bad', 'invalid_json']]],
      );
      const toggled = await gateway.call('POST', '/svc/_automations/torn/bad/enabled', { body: { enabled: false } });
      assert.equal(toggled.json.error.code, 'INVALID_AUTOMATION', toggled.text);
      assert.equal((await runToEnd(gateway, 'torn/fine')).state, 'ok');
      await push(gateway, 'torn', TORN);
      assert.equal((await automationRow(gateway, 'torn/bad')).enabled, true);
    });
  });

  test('a file of the old form is rewritten when it is switched, with its unknown members in their order', async () => {
    const text =
      '{"note":{"b":1,"a":[2]},"trigger":{"kind":"cron","expr":"0 8 * * *"},"name":"Old","prompt":"p","generated":{"by":"hand","at":"2026-01-31","with":"care"}}';
    const handler = {
      'automations/one/automation.json': text,
      'automations/one/handler.js': `export default ${idle};`,
    };
    await push(gateway, 'old', { files: handler });
    const file = await fileOf(gateway, 'old', 'one');
    assert.equal(readFileSync(file, 'utf8'), text);
    await enable(gateway, 'old/one', false);
    const { enabled, triggers, trigger, ...rest } = JSON.parse(readFileSync(file, 'utf8'));
    assert.deepEqual([enabled, triggers, trigger], [false, [{ kind: 'cron', expr: '0 8 * * *' }], undefined]);
    assert.equal(JSON.stringify(rest), text.replace(/"trigger":.*?},/, ''));
  });

  test('a file that does not say who wrote it counts as written by hand, at its time, also after it was switched', async () => {
    const files = {
      'automations/one/automation.json': '{"name":"By hand","prompt":"p"}',
      'automations/one/handler.js': `export default ${idle};`,
    };
    const before = Date.now();
    await push(gateway, 'handmade', { files });
    const generated = async () => (await gateway.call('GET', '/svc/_automations/handmade/one')).json.manifest.generated;
    const { by, at } = await generated();
    assert.equal(by, 'hand');
    assert.ok(Date.parse(at) >= before - 2000 && Date.parse(at) <= Date.now(), at);
    await enable(gateway, 'handmade/one', false);
    assert.deepEqual(await generated(), { by, at });
  });

  test('a version without it stops it, and the one with it starts it again', async () => {
    const hook = only(
      await push(gateway, 'versions', { automations: { one: { triggers: [...EVERY_SECOND, ...PENDING], run: idle } } }),
    );
    const active = async () => (await gateway.call('GET', '/svc/_apps/versions')).json.activeVersion;
    const withIt = await active();
    await push(gateway, 'versions', { manifest: { version: '2' } });
    const without = await active();
    assert.equal((await gateway.call('GET', '/svc/_automations/versions/one')).json.error.code, 'UNKNOWN_AUTOMATION');
    assert.equal((await post(gateway, hook)).status, 404);
    await eventually(async () => (await runsOf(gateway, 'versions/one')).every(isEnded));
    const since = await runsOf(gateway, 'versions/one');
    await secondsPass();
    assert.deepEqual(await runsOf(gateway, 'versions/one'), since);
    for (const versionId of [withIt, without, withIt]) {
      const answer = await gateway.call('POST', '/svc/_apps/versions/activate', { body: { versionId } });
      assert.equal(answer.status, 200, answer.text);
      assert.equal((await post(gateway, hook)).status, versionId === withIt ? 200 : 404);
    }
    const latest = since[0]?.runId ?? '';
    await eventually(async () =>
      (await runsOf(gateway, 'versions/one')).some(({ runId, trigger }) => trigger.kind === 'cron' && runId > latest),
    );
  });

  test('a new version takes over while a run of the old one is under way: it ends, and the next run is of the new one', async () => {
    const versioned = (version: string) => ({
      ...NOTES,
      manifest: { version },
      automations: {
        slow: `async ({ ctx, input }) => {
          ${note('swap', '"began"')}
          while (input?.wait && !(await ctx.tool('svc_read', { app: 'swap', query: 'list' })).includes('go')) {}
          return { summary: '${version}' };
        }`,
      },
    });
    await push(gateway, 'swap', versioned('1'));
    const first = await fire(gateway, 'swap/slow', { wait: true });
    await noted(gateway, 'swap', 'began');
    const second = await fire(gateway, 'swap/slow');
    await push(gateway, 'swap', versioned('2'));
    assert.deepEqual(
      [(await runOf(gateway, first)).state, (await runOf(gateway, second)).state],
      ['running', 'queued'],
    );
    await gateway.write('swap', 'add', { text: 'go' });
    const runs = [await ended(gateway, first), await ended(gateway, second)];
    assert.deepEqual(
      runs.map(({ state, summary }) => [state, summary]),
      [
        ['ok', '1'],
        ['ok', '2'],
      ],
    );
  });

  test('deleting an app deletes its runs, schedules, webhook addresses and history', async () => {
    const hook = only(
      await push(gateway, 'gone', {
        ...NOTES,
        automations: {
          tick: { triggers: EVERY_SECOND, run: idle },
          hung: {
            triggers: PENDING,
            run: `async ({ ctx }) => { ${note('gone', '"began"')} await new Promise(() => {}); }`,
          },
        },
      }),
    );
    const hanging = post(gateway, hook);
    await noted(gateway, 'gone', 'began');
    const waiting = await fire(gateway, 'gone/hung');
    const events = await gateway.stream(`/svc/_runs/${waiting}/events`);
    assert.equal((await gateway.call('DELETE', '/svc/_apps/gone')).status, 200);
    const answer = await hanging;
    assert.deepEqual([answer.status, answer.json.error.code], [500, 'RUN_ABORTED'], answer.text);
    const end = await untilEvent(events, ({ type }) => type === 'run.end');
    assert.equal((end as { run: { state: string } }).run.state, 'aborted');
    assert.equal((await post(gateway, hook)).status, 404);
    assert.equal((await gateway.call('GET', `/svc/_runs/${waiting}`)).json.error.code, 'UNKNOWN_RUN');
    assert.deepEqual((await gateway.call('GET', '/svc/_runs?app=gone')).json, []);
    assert.equal((await gateway.call('GET', '/svc/_automations?app=gone')).json.error.code, 'UNKNOWN_APP');
    await secondsPass();
    assert.deepEqual((await gateway.call('GET', '/svc/_runs?app=gone')).json, []);
    assert.ok(!existsSync(join(gateway.dataDir, 'apps/gone')), 'its folder is there');
    await push(gateway, 'gone', { automations: { tick: idle } });
    assert.deepEqual((await gateway.call('GET', '/svc/_runs?app=gone')).json, []);
  });
});
