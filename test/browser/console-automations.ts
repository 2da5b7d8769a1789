/** Automations and runs in the console, in a real browser: switched, run, and watched while they run. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, afterEach, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { appOf, automation } from '../../testing/apps.ts';
import { assertAccessible, openView } from '../../testing/console.ts';
import { eventually } from '../../testing/edges.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { inTime } from '../../testing/waiting.ts';
import { withoutChromium } from './chromium.ts';
import { consoleSuite } from './console-suite.ts';

const RUN_ID = /^[0-9a-f-]{36}$/;

/** A server that holds requests until the test releases them; `open` waits for a request. */
async function startDoor() {
  const waiting: ServerResponse[] = [];
  const server = createServer((_request, response) => {
    waiting.push(response);
    server.emit('arrived');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  const letIn = () => {
    for (const response of waiting.splice(0)) response.end('open');
  };
  const open = async () => {
    if (waiting.length === 0) await inTime(once(server, 'arrived'), 'a run at the door');
    letIn();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, open, letIn, close };
}

/** One that waits for that server between two calls, one that fails, one with a webhook. */
const kitchen = (door: string) =>
  appOf('kitchen', {
    queries: { stock: '({ input }) => input' },
    manifest: { name: 'Kitchen' },
    files: {
      'automations/bake/automation.json': automation({
        name: 'Bake bread',
        description: 'Looks into the larder, and bakes.',
        triggers: [{ kind: 'cron', expr: '0 5 * * *', tz: 'Europe/Lisbon' }],
        requires: { tools: ['svc_read'] },
      }),
      'automations/bake/handler.js': `export default async ({ ctx, log }) => {
        await ctx.tool('svc_read', { app: 'kitchen', query: 'stock', input: { what: 'flour' } });
        log.info('the dough rests');
        await ctx.fetch(${JSON.stringify(door)});
        await ctx.tool('svc_read', { app: 'kitchen', query: 'stock', input: { what: 'salt' } });
        return { summary: 'two loaves', output: { loaves: 2 } };
      };`,
      'automations/burn/automation.json': automation({
        name: 'Burn toast',
        requires: { tools: ['svc_read'] },
        triggers: [{ kind: 'webhook', pending: true }],
      }),
      'automations/burn/handler.js': `export default async ({ ctx, input }) => {
        if (input?.careful) return;
        await ctx.tool('svc_read', { app: 'kitchen', query: 'nothing' }).catch(() => {});
        throw new Error('the toaster is on <fire>');
      };`,
      'automations/order/automation.json': automation({
        name: 'Take orders',
        triggers: [{ kind: 'webhook', pending: true, verify: 'stripe', secret: 'STRIPE_SECRET' }],
      }),
      'automations/order/handler.js': 'export default async () => {};',
    },
  });

export function automationsSuite(gateway: TestGateway): void {
  describe('automations in a browser', { skip: withoutChromium() }, () => {
    let door: Awaited<ReturnType<typeof startDoor>>;
    const suite = consoleSuite(
      gateway,
      {
        viewport: { width: 1120, height: 1200 },
        colorScheme: 'light',
        permissions: ['clipboard-read', 'clipboard-write'],
      },
      {
        prepare: async () => {
          door = await startDoor();
          await gateway.install('kitchen', kitchen(door.url));
        },
      },
    );
    after(() => door?.close());
    afterEach(() => door.letIn());

    async function open(view = '/automations'): Promise<Page> {
      const page = await suite.open(view);
      await page.getByRole('heading', { level: 1 }).waitFor();
      return page;
    }

    const row = (page: Page, name: string) => page.getByRole('row').filter({ hasText: name });
    /** `screenshot` is the folder for pictures, if a person wants to look. */
    const picture = async (page: Page, name: string) => {
      const folder = process.env.SVC_LOOK;
      if (folder) await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true, animations: 'disabled' });
    };

    test('the switch turns an automation off and on, also by keyboard and in other windows', async () => {
      const [here, there] = [await open(), await suite.openAnother('/automations')];
      await row(here, 'Bake bread')
        .getByText(/^At 05:00( AM)?, every day \(Europe\/Lisbon\)$/)
        .waitFor();
      await row(here, 'Bake bread')
        .getByText(/^in \d/)
        .waitFor();
      await row(here, 'Burn toast').getByRole('cell', { name: 'webhook', exact: true }).waitFor();
      const toggle = here.getByRole('switch', { name: 'Bake bread' });
      assert.equal(await toggle.getAttribute('aria-checked'), 'true');
      await toggle.focus();
      await here.keyboard.press('Space');
      await here.locator('[role=switch][aria-label="Bake bread"][aria-checked=false]').waitFor();
      await there.locator('[role=switch][aria-label="Bake bread"][aria-checked=false]').waitFor();
      assert.equal((await gateway.call('GET', '/svc/_automations/kitchen/bake')).json.enabled, false);
      assert.equal(
        await row(here, 'Bake bread')
          .getByText(/^in \d/)
          .count(),
        0,
      );
      assert.equal(await toggle.evaluate((element) => element === element.ownerDocument.activeElement), true);
      await toggle.click();
      await row(there, 'Bake bread')
        .getByText(/^in \d/)
        .waitFor();
      assert.deepEqual(suite.complaints, []);
    });

    test('the whole address of a webhook can be copied at any time', async () => {
      const { triggers } = (await gateway.call('GET', '/svc/_automations/kitchen/burn')).json;
      const page = await open();
      const field = page.getByRole('textbox', { name: 'Address of kitchen/burn' });
      await field.waitFor();
      assert.equal(await field.inputValue(), `${gateway.url}/_svc-hook/${triggers[0].id}`);
      assert.equal(await page.getByRole('textbox', { name: /Address of kitchen/ }).count(), 2, 'the other has none');
      const problem = row(page, 'Take orders').getByText('svc secret set kitchen STRIPE_SECRET');
      await problem.waitFor();
      const body = { value: 'whsec_x' };
      assert.equal((await gateway.call('PUT', '/svc/_apps/kitchen/secrets/STRIPE_SECRET', { body })).status, 200);
      await page.reload();
      await field.waitFor();
      assert.equal(await problem.count(), 0);
      await row(page, 'Burn toast').getByRole('button', { name: 'Copy address of kitchen/burn' }).click();
      await row(page, 'Burn toast').getByText('Copied').waitFor();
      assert.equal(await page.evaluate('navigator.clipboard.readText()'), triggers[0].url);
      await picture(page, 'webhook-address');
      assert.deepEqual(suite.complaints, []);
    });

    test('a run shows its calls while it runs, also in other windows, and how it ended', async () => {
      const [here, there] = [await open(), await suite.openAnother('/runs?app=kitchen')];
      await here.getByRole('button', { name: 'Run now: Bake bread' }).click();
      await here.getByRole('heading', { name: 'kitchen/bake', level: 1 }).waitFor();
      const nodes = here.getByRole('list', { name: 'What it called' }).locator('> li');
      await nodes.filter({ hasText: 'flour' }).filter({ hasText: 'ok' }).waitFor();
      const log = here.getByRole('list', { name: 'What it logged' });
      await log.getByText('the dough rests').waitFor();
      const request = nodes.filter({ hasText: `GET ${door.url}` });
      await request.filter({ hasText: 'running' }).waitFor();
      assert.equal(await nodes.count(), 2, 'the third call comes after the door');
      const running = there.getByRole('link', { name: /^running kitchen\/bake/ });
      await running.waitFor();
      await picture(here, 'running');
      await running.click();
      await there.getByRole('list', { name: 'What it called' }).getByText('flour').first().waitFor();
      await there.getByRole('button', { name: 'Cancel this run' }).waitFor();
      await door.open();
      for (const page of [here, there]) {
        await page.getByRole('list', { name: 'What it called' }).getByText('salt').first().waitFor();
        await page.getByText('two loaves').waitFor();
        await page.getByText('{"loaves":2}').waitFor();
        await page.getByRole('button', { name: 'Run again' }).waitFor();
        assert.equal(await page.getByRole('button', { name: 'Cancel this run' }).count(), 0);
      }
      await request.filter({ hasText: '{"status":200}' }).waitFor();
      // Its events have no lines of the log any more.
      await here.reload();
      await log.getByText('the dough rests').waitFor();
      await picture(here, 'ended');
      await assertAccessible(here);
      const failed = (await gateway.call('POST', '/svc/_automations/kitchen/burn/run?wait=1')).json;
      await openView(here, `/runs/${failed.runId}`);
      const place = /the toaster is on <fire>\s*at .*automations\/burn\/handler\.js:4:15/;
      await here.getByRole('alert').filter({ hasText: place }).waitFor();
      await log.getByText('automations/burn/handler.js:4:15').waitFor();
      await picture(here, 'failed');
      await here.emulateMedia({ colorScheme: 'dark' });
      await here.setViewportSize({ width: 390, height: 844 });
      await assertAccessible(here);
      await picture(here, 'failed-narrow');
      await here.emulateMedia({ colorScheme: 'light' });
      await here.setViewportSize({ width: 1120, height: 1200 });
      await openView(here, '/runs?state=ok');
      await here.getByRole('link', { name: /^ok kitchen\/bake two loaves/ }).waitFor();
      await openView(here, '/automations');
      await row(here, 'Bake bread').getByText('two loaves').waitFor();
      assert.deepEqual(suite.complaints, []);
    });

    test('runs are filtered by app and automation, by keyboard, and the address says how', async () => {
      const run = async (ref: string) =>
        (await gateway.call('POST', `/svc/_automations/${ref}/run?wait=1`, { body: { input: { careful: true } } }))
          .json;
      for (const ref of ['kitchen/burn', 'kitchen/order']) assert.equal((await run(ref)).state, 'ok');
      await gateway.upload('shed', {
        ...appOf('shed'),
        'automations/order/automation.json': automation({ name: 'Order the shed' }),
        'automations/order/handler.js': 'export default () => {};',
      });
      await run('shed/order');
      const page = await open('/runs');
      const filter = (name: string) => page.getByRole('combobox', { name, exact: true });
      const hash = () => new URL(page.url()).hash;
      const shown = async () => [
        ...new Set(await page.getByRole('list', { name: 'Runs' }).getByRole('listitem').locator('b').allInnerTexts()),
      ];
      const settled = async (expected: string[]) => {
        await eventually(async () => JSON.stringify((await shown()).sort()) === JSON.stringify(expected));
        assert.deepEqual((await shown()).sort(), expected);
      };
      await filter('Automation').locator('option', { hasText: 'shed/order' }).waitFor({ state: 'attached' });
      await filter('Automation').focus();
      await page.keyboard.type('kitchen/or');
      await settled(['kitchen/order']);
      assert.equal(hash(), '#/runs?ref=kitchen%2Forder');
      assert.equal(await filter('App').inputValue(), 'kitchen');
      await filter('State').selectOption('error');
      await page.getByText('No runs match').waitFor();
      await filter('State').selectOption('');
      await filter('App').selectOption('shed');
      await settled(['shed/order']);
      assert.equal(hash(), '#/runs?app=shed');
      assert.deepEqual(await filter('Automation').locator('option').allInnerTexts(), [
        'All automations',
        'order',
        'Chat',
      ]);
      await filter('Automation').selectOption('Chat');
      await page.getByText('No runs match').waitFor();
      assert.equal(hash(), '#/runs?app=shed&ref=shed%2F_chat');
      await filter('App').selectOption('');
      await eventually(async () => (await shown()).includes('kitchen/burn') && (await shown()).includes('shed/order'));
      assert.equal(hash(), '#/runs');

      // A link to the runs of one automation, which may be gone while its history is kept.
      await openView(page, '/runs?ref=kitchen%2Fburn');
      await settled(['kitchen/burn']);
      assert.deepEqual(
        [await filter('App').inputValue(), await filter('Automation').inputValue()],
        ['kitchen', 'kitchen/burn'],
      );
      await picture(page, 'runs-filtered');
      await page.emulateMedia({ colorScheme: 'dark' });
      await page.setViewportSize({ width: 390, height: 844 });
      await assertAccessible(page);
      await picture(page, 'runs-filtered-narrow');
      await openView(page, '/runs?ref=kitchen%2Fgone');
      await page.getByText('No runs match').waitFor();
      assert.equal(await filter('Automation').inputValue(), 'kitchen/gone');
      await gateway.call('DELETE', '/svc/_apps/shed');
      assert.deepEqual(suite.complaints, []);
    });

    test('a run is repeated with the same input', async () => {
      const { json } = await gateway.call('POST', '/svc/_automations/kitchen/order/run?wait=1', {
        body: { input: { cup: 7 } },
      });
      const page = await open(`/runs/${json.runId}`);
      await page.getByText('{"cup":7}').waitFor();
      await page.getByRole('button', { name: 'Run again' }).click();
      await page.waitForURL((url) => url.hash.startsWith('#/runs/') && !url.hash.includes(json.runId));
      await page.getByText('{"cup":7}').waitFor();
    });

    test('an automation has a page: its next times, its webhook, a run with an input, and its runs', async () => {
      const page = await open('/automations/kitchen/bake');
      await page.getByText('Next:').waitFor();
      await page.getByLabel(/^Input/).fill('{"for": 2');
      await page.getByRole('alert').filter({ hasText: 'This is not JSON' }).waitFor();
      await page.getByLabel(/^Input/).fill('');
      await openView(page, '/automations/kitchen/burn');
      await page.getByRole('textbox', { name: 'Address of kitchen/burn' }).waitFor();
      const before = await page.getByRole('textbox', { name: 'Address of kitchen/burn' }).inputValue();
      await page.getByRole('button', { name: 'Replace address and secret' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Replace', exact: true }).click();
      const minted = page.getByRole('region', { name: 'Keep the secret now' });
      const secret = await minted.getByRole('textbox', { name: 'Secret of kitchen/burn' }).inputValue();
      assert.match(secret, /.{20}/);
      const address = await minted.getByRole('textbox', { name: 'Address of kitchen/burn' }).inputValue();
      assert.notEqual(address, before);
      await minted.getByText('svc automations provision kitchen/burn --renew').waitFor();
      // Another one replaces it; leaving the view while it is made loses neither, and the browser asks before it leaves the page.
      let answer: () => void = () => {};
      const held = new Promise<void>((resolve) => {
        answer = resolve;
      });
      await page.route('**/_provision', async (route) => {
        await held;
        await route.continue();
      });
      const posted = page.waitForRequest('**/_provision');
      await page.getByRole('button', { name: 'Replace address and secret' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Replace', exact: true }).click();
      await posted;
      await openView(page, '/runs');
      const asks = page.waitForEvent('dialog');
      await page.evaluate('void setTimeout(() => location.reload())');
      const question = await asks;
      assert.equal(question.type(), 'beforeunload');
      await question.dismiss();
      answer();
      const waits = page
        .getByRole('status')
        .filter({ hasText: 'A new webhook waits for you to keep its secret: kitchen' });
      await waits.getByRole('link', { name: 'kitchen' }).waitFor();
      await assertAccessible(page);
      await openView(page, '/automations/kitchen/burn');
      assert.equal(await waits.count(), 0);
      const next = minted.locator(`input[aria-label="Address of kitchen/burn"]:not([value="${address}"])`);
      await next.waitFor();
      assert.equal(await minted.getByRole('textbox', { name: 'Secret of kitchen/burn' }).count(), 1);
      await openView(page, '/apps/kitchen');
      await page.getByText('Store').first().waitFor();
      await minted.waitFor();
      await assertAccessible(page);
      await openView(page, '/automations/kitchen/burn');
      await minted.getByRole('button', { name: 'I have kept it' }).click();
      await minted.waitFor({ state: 'detached' });
      await openView(page, '/automations/calendar');
      await page.getByRole('listitem').getByText('Bake bread').first().waitFor();
      await assertAccessible(page);
      assert.deepEqual(suite.complaints, []);
    });

    test('every webhook has a test call that the gateway accepts, whatever proof it asks for', async () => {
      const hmac = { header: 'X-Mac', algorithm: 'sha512', encoding: 'base64', prefix: "it's $HOME " };
      const plain = { header: 'X-Plain', algorithm: 'sha1', encoding: 'hex' };
      const modes = {
        minted: {},
        signed: { signing: true },
        ...Object.fromEntries(
          Object.entries({
            bearer: 'bearer',
            standard: 'standard',
            github: 'github',
            stripe: 'stripe',
            slack: 'slack',
            hmac,
            plain,
          }).map(([id, verify]) => [id, { verify, secret: 'SHARED' }]),
        ),
      };
      const { status, text, json } = await gateway.upload('gates', {
        ...appOf('gates'),
        ...Object.fromEntries(
          Object.entries(modes).flatMap(([id, mode]) => [
            [
              `automations/${id}/automation.json`,
              automation({ triggers: [{ kind: 'webhook', pending: true, ...mode }] }),
            ],
            [`automations/${id}/handler.js`, "export default ({ input }) => ({ summary: 'hello ' + input.hello });"],
          ]),
        ),
      });
      assert.equal(status, 201, text);
      // Base64, as a key of Standard Webhooks is; to the others it is a text.
      const shared = Buffer.from("it's a $secret of 33 characters.").toString('base64');
      await gateway.call('PUT', '/svc/_apps/gates/secrets/SHARED', { body: { value: shared } });
      const minted = new Map<string, string>(
        json.webhooks.map((made: { automationId: string; secret?: string }) => [
          made.automationId,
          made.secret ?? shared,
        ]),
      );
      const page = await open();
      for (const id of Object.keys(modes)) {
        await openView(page, `/automations/gates/${id}`);
        await page.getByText(`gates/${id}`).first().waitFor();
        await page.getByText('Test call', { exact: true }).press('Enter');
        await page
          .getByText(id === 'signed' ? 'key' : id === 'minted' ? 'secret that was shown' : 'SHARED')
          .first()
          .waitFor();
        await page.getByRole('button', { name: 'Copy the call' }).click();
        await page.getByText('Copied').waitFor();
        const call = await page.evaluate<string>('navigator.clipboard.readText()');
        const send = (secret: string) =>
          spawnSync('sh', ['-c', `curl() { command curl -sS "$@"; }\n${call}`], {
            env: { ...process.env, SECRET: secret },
            encoding: 'utf8',
          });
        const refused = send('d3JvbmcgYnV0IGJhc2U2NA==');
        assert.match(refused.stdout, /"UNAUTHORIZED"/, `${id}: ${refused.stderr}${call}`);
        const accepted = send(minted.get(id) ?? '');
        assert.match(accepted.stdout, /"runId"/, `${id}: ${accepted.stdout}${accepted.stderr}${call}`);
        await page.getByRole('link', { name: /^ok gates.* hello world/ }).waitFor();
        assert.ok(!call.includes(minted.get(id) ?? ''), 'the secret is not in it');
      }
      await picture(page, 'test-call');
      await assertAccessible(page);
      await page.emulateMedia({ colorScheme: 'dark' });
      await page.setViewportSize({ width: 390, height: 844 });
      await assertAccessible(page);
      await picture(page, 'test-call-narrow');
      assert.deepEqual(suite.complaints, []);
    });

    test('a damaged file is named, and the others keep working', async () => {
      const { json } = await gateway.upload('attic', {
        ...appOf('attic'),
        'automations/sweep/automation.json': automation({ name: 'Sweep' }),
        'automations/sweep/handler.js': 'export default () => {};',
        'automations/torn/automation.json': automation({ name: 'Torn' }),
        'automations/torn/handler.js': 'export default () => {};',
      });
      const page = await open();
      await row(page, 'Torn').waitFor();
      const folder = join(gateway.dataDir, 'apps/attic/versions', json.versionId);
      writeFileSync(join(folder, 'automations/torn/automation.json'), '{');
      await page.getByRole('switch', { name: 'Sweep' }).click();
      await page.getByRole('listitem').filter({ hasText: 'attic/torn: automation.json' }).waitFor();
      await row(page, 'Torn').waitFor({ state: 'detached' });
      await picture(page, 'damaged');
      await gateway.call('DELETE', '/svc/_apps/attic');
      await row(page, 'Sweep').waitFor({ state: 'detached' });
      await page.getByText('attic/torn').waitFor({ state: 'detached' });
      assert.deepEqual(suite.complaints, []);
    });

    test('a run is cancelled', async () => {
      const page = await open();
      await page.getByRole('button', { name: 'Run now: Bake bread' }).press('Enter');
      await page.getByText('the dough rests').waitFor();
      await page.getByRole('button', { name: 'Cancel this run' }).click();
      await page.locator('.heading').getByText('aborted').waitFor();
      await page.getByRole('alert').filter({ hasText: 'RUN_ABORTED' }).waitFor();
    });

    test('a failed run says why, wherever it is shown', async () => {
      const run = 'async () => { throw new Error("blown"); }';
      await gateway.upload('fuses', appOf('fuses', { automations: { one: run, two: run, three: run } }));
      const page = await open();
      await page.getByRole('button', { name: 'Run now: Burn toast' }).click();
      await page.getByRole('alert').filter({ hasText: 'HANDLER_ERROR: the toaster is on <fire>' }).waitFor();
      await page.getByRole('list', { name: 'What it called' }).getByText('UNKNOWN_QUERY').first().waitFor();
      const runId = new URL(page.url()).hash.split('/').at(-1) ?? '';
      assert.match(runId, RUN_ID);
      assert.equal((await gateway.call('GET', `/svc/_runs/${runId}`)).json.state, 'error');
      await openView(page, '/automations');
      await row(page, 'Burn toast').getByText('the toaster is on <fire>').waitFor();
      await page.reload();
      await row(page, 'Burn toast')
        .getByRole('link', { name: /^error/ })
        .click();
      await page.getByRole('alert').filter({ hasText: 'the toaster is on <fire>' }).waitFor();
      // One request tells of all that fail.
      for (const id of ['one', 'two', 'three']) {
        const { status } = await gateway.call('POST', `/svc/_automations/fuses/${id}/run?wait=1`, { body: {} });
        assert.equal(status, 500);
      }
      const asked: string[] = [];
      page.on('request', (request) => {
        if (request.url().includes('/svc/_runs?')) asked.push(new URL(request.url()).search);
      });
      await openView(page, '/');
      const attention = page.getByRole('region', { name: 'Needs attention' });
      await attention.getByText('kitchen/burn').waitFor();
      for (const id of ['one', 'two', 'three']) await attention.getByText(`fuses/${id}`).waitFor();
      assert.deepEqual(asked, ['?failing=1&limit=500']);
      await gateway.call('DELETE', '/svc/_apps/fuses');
      await attention.getByRole('link', { name: 'Show the failed run of kitchen/burn' }).click();
      await page.getByRole('alert').filter({ hasText: 'the toaster is on <fire>' }).waitFor();
      assert.deepEqual(suite.complaints, []);
      await picture(page, 'failed');
      await page.emulateMedia({ colorScheme: 'dark' });
      await assertAccessible(page);
      await page.setViewportSize({ width: 390, height: 1200 });
      await assertAccessible(page);
      await picture(page, 'failed-narrow');
      await page.getByRole('link', { name: 'kitchen/burn' }).click();
      await page.getByRole('heading', { name: 'Burn toast', level: 1 }).waitFor();
      // One that succeeded since needs no attention.
      const again = { body: { input: { careful: true } } };
      assert.equal((await gateway.call('POST', '/svc/_automations/kitchen/burn/run?wait=1', again)).status, 200);
      const told = page.waitForResponse(/_runs\?failing=1/);
      await openView(page, '/');
      await (await told).finished();
      await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))');
      assert.equal(await attention.count(), 0);
    });
  });
}
