/**
 * Every view of the console, with apps that have hostile names and one in quarantine, on both stores: each is there,
 * fits, and is accessible.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { appOf } from '../../testing/apps.ts';
import { assertAccessible, openView, VIEWS } from '../../testing/console.ts';
import { gatewayOfSuite, onEachStore } from '../../testing/edges.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import { withoutChromium } from './chromium.ts';
import { consoleSuite } from './console-suite.ts';

const HOSTILE = '"><script>window.pwned=1</script><img src=x onerror=window.pwned=1>';

const LOUD = appOf('loud', {
  manifest: { name: HOSTILE, description: HOSTILE },
  queries: {
    [`say${'n'.repeat(50)}`]: { run: '() => 1', description: HOSTILE },
  },
  automations: {
    fails: {
      run: `async () => { console.log(${JSON.stringify(HOSTILE)}); throw new Error(${JSON.stringify(HOSTILE)}); }`,
      name: HOSTILE,
      triggers: [{ kind: 'cron', expr: '0 7 * * *' }],
    },
  },
  migrations: [`CREATE TABLE "${HOSTILE.replaceAll('"', '""')}" (value TEXT);`],
});

const FRAGILE = appOf('fragile', {
  queries: {
    crash: '() => { setTimeout(() => { throw new Error("gone wrong"); }, 0); return new Promise(() => {}); }',
  },
});

/** The hostile app in the views of an app, and addresses of missing things; with the text of their title. */
const OTHERS = {
  '/apps/fragile': 'fragile',
  '/apps/loud': HOSTILE,
  '/apps/loud/tools': `${HOSTILE}: Tools`,
  '/apps/loud/data': `${HOSTILE}: Data`,
  '/apps/loud/automations': `${HOSTILE}: Automations`,
  '/apps/loud/logs': `${HOSTILE}: Logs`,
  '/automations/loud/fails': 'loud/fails',
  '/apps/nothing': '',
  '/automations/loud/nothing': 'loud/nothing',
  '/runs/00000000-0000-7000-8000-000000000000': 'Run',
  '/nothing': '',
};

async function prepare(gateway: TestGateway): Promise<void> {
  for (const [id, files] of Object.entries({ loud: LOUD, fragile: FRAGILE })) {
    const { status, text } = await gateway.upload(id, files);
    assert.equal(status, 201, text);
  }
  assert.equal((await gateway.call('POST', '/svc/_automations/loud/fails/run?wait=1', { body: {} })).status, 500);
  let code = '';
  // The same call twice would be refused instead.
  for (let at = 1; at < 60 && code !== 'QUARANTINED'; at++)
    code = (await gateway.read('fragile', 'crash', { at })).json.error.code;
  assert.equal(code, 'QUARANTINED');
}

onEachStore({ apps: ['todos'] }, (gateway, store) => {
  describe(`every view of the console, ${store} store`, { skip: withoutChromium() }, () => {
    const suite = consoleSuite(gateway, {}, { prepare: () => prepare(gateway) });

    async function show(page: Page, view: string, title?: string): Promise<void> {
      const drawn = page.evaluate(
        `new Promise((resolve) => addEventListener('hashchange', () => requestAnimationFrame(() => setTimeout(resolve)), { once: true }))`,
      );
      await openView(page, view);
      await drawn;
      await page.locator('#content:has(h1):not(:has(.loading))').waitFor();
      assert.equal(await page.locator('h1').count(), 1, view);
      if (title !== undefined) assert.equal(await page.title(), title === '' ? 'svc' : `${title} – svc`, view);
      else assert.match(await page.title(), /^.+ – svc$/, view);
      assert.equal(await page.evaluate('window.pwned'), undefined, view);
    }

    async function look(page: Page, colorScheme: 'light' | 'dark', width: number, height: number): Promise<void> {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height });
      await assertAccessible(page, ['iframe']);
    }

    test('on a phone, in dark; and on a desk, in light', async () => {
      const page = await suite.open('/system/trash');
      await page.getByRole('link', { name: '1 app quarantined' }).waitFor();
      for (const view of Object.values(VIEWS)) {
        await show(page, view);
        await look(page, 'dark', 390, 844);
        await look(page, 'light', 1280, 800);
      }
      assert.deepEqual(
        suite.complaints.filter((text) => !/autofocusing/.test(text)),
        [],
      );
    });

    test('with hostile names, and of missing things', async () => {
      const page = await suite.open('/system/trash');
      await page.getByRole('link', { name: '1 app quarantined' }).waitFor();
      for (const [view, title] of Object.entries(OTHERS)) {
        await show(page, view, title);
        await look(page, 'dark', 390, 844);
      }
      const unexpected = suite.complaints.filter((text) => !/404 \(Not Found\)|autofocusing/.test(text));
      assert.deepEqual(unexpected, []);
    });
  });
});

describe('the console at an address that all apps share', { skip: withoutChromium() }, () => {
  const gateway = gatewayOfSuite({ apps: ['todos'], config: { pageOrigins: 'shared' } });
  const suite = consoleSuite(gateway, {});

  test('shows the apps that can be used, with their tools', async () => {
    assert.equal((await gateway.upload('waiting', appOf('waiting', {}), '?activate=0')).status, 201);
    const page = await suite.open('/');
    await page.getByRole('link', { name: 'Todos', exact: true }).waitFor();
    assert.equal(await page.getByText('waiting').count(), 0, 'it has no live version');
    await openView(page, '/apps/todos');
    await page.getByRole('heading', { name: 'Todos', level: 1 }).waitFor();
    await page.getByRole('navigation', { name: 'Tools' }).getByText('list').first().waitFor();
  });
});
