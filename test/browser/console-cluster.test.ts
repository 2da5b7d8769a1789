/** The console's Cluster below System, driven in a browser: a gateway that is a node, and another node beside it. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { assertAccessible } from '../../testing/console.ts';
import { freePort } from '../../testing/free-port.ts';
import { TestGateway } from '../../testing/gateway.ts';
import { database, whyNoPostgres } from '../../testing/postgres.ts';
import { eventually, LIMIT_MS } from '../../testing/waiting.ts';
import { withoutChromium } from './chromium.ts';
import { consoleSuite } from './console-suite.ts';

const skip = whyNoPostgres() ?? withoutChromium();

describe('the cluster in the console', { skip }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'));
  const nodes = ['berlin', 'oslo'].map((name) => {
    const flags = ['--store', 'tarball', '--node', name];
    const node = new TestGateway(join(folder, name), flags, { SVC_CLUSTER_SECRET: 'of this test' });
    return { flags, node };
  });
  const [gateway, other] = nodes.map(({ node }) => node) as [TestGateway, TestGateway];
  before(async () => {
    const url = await database();
    for (const { flags, node } of nodes) {
      flags.push('--cluster', url);
      await node.start(String(await freePort()));
    }
    const knowsBoth = async () => (await gateway.call('GET', '/svc/_cluster')).json.nodes?.length === 2;
    assert.ok(await eventually(LIMIT_MS, knowsBoth));
  });
  const suite = consoleSuite(gateway, { viewport: { width: 1120, height: 800 }, colorScheme: 'light' });
  after(async () => {
    await other.stop();
    await gateway.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test('nodes with what they own; a question before this one is drained, with the keyboard; then it is let take buckets again', async () => {
    const page = await suite.open('/system');
    await page.getByRole('navigation', { name: 'System' }).getByRole('link', { name: 'Cluster' }).click();
    const row = (name: string) => page.getByRole('row').filter({ hasText: name });
    await row('oslo').getByText('live', { exact: true }).waitFor();
    await row('berlin').getByText('this one').waitFor();
    for (const [colorScheme, width] of [
      ['light', 1120],
      ['dark', 1120],
      ['dark', 390],
      ['light', 390],
    ] as const) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 800 });
      await assertAccessible(page);
    }
    await page.setViewportSize({ width: 1120, height: 800 });
    await page.getByRole('button', { name: 'Drain berlin…' }).focus();
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Drain berlin?' });
    await dialog.getByText(/hands its [\d,]+ buckets over/).waitFor();
    await assertAccessible(page);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await page.keyboard.press('Enter');
    await dialog.getByRole('button', { name: 'Drain', exact: true }).press('Enter');
    await row('berlin').getByText('drained').waitFor();
    await row('oslo').getByText('4,096').waitFor();
    await page.getByRole('button', { name: 'Let berlin take buckets again' }).click();
    await page.getByRole('button', { name: 'Drain berlin…' }).waitFor();
    await row('berlin').getByText('live', { exact: true }).waitFor();
    assert.deepEqual(suite.complaints, []);
  });

  test('the last node is not drained: the question says why', async () => {
    await other.stop();
    const page = await suite.open('/system/cluster');
    await page.getByRole('row').filter({ hasText: 'oslo' }).waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Drain berlin…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Drain', exact: true }).click();
    await page.getByRole('dialog').getByRole('alert').filter({ hasText: 'No other node is live' }).waitFor();
    await page.keyboard.press('Escape');
  });
});
