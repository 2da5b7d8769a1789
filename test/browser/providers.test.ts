/** Signing in with a provider and by a proxy as people see it: buttons, the way there and back, and what is said when it fails. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { BrowserContext, Page } from 'playwright-core';
import { assertAccessible } from '../../testing/console.ts';
import { makeGateway, type TestGateway } from '../../testing/gateway.ts';
import { CLIENT, OpenIdProvider } from '../../testing/openid-provider.ts';
import { sharedChromium, withoutChromium } from './chromium.ts';

/** Far more than anything here takes, so that no test fails on a busy machine. */
const PATIENCE_MS = 90_000;
const ADA = { sub: 'ada', name: 'Ada', email: 'ada@example.org', email_verified: true };

describe('providers in a browser', { skip: withoutChromium() }, () => {
  const provider = new OpenIdProvider();
  let gateway: TestGateway;
  let remove: () => Promise<void>;
  let context: BrowserContext;
  const home = () => `http://svc.localhost:${gateway.port}/svc/`;

  before(async () => {
    await provider.listen();
    const company = { issuer: provider.issuer, clientId: CLIENT.id, clientSecretEnv: 'SVC_TEST_SECRET' };
    const providers = { company: { ...company, allow: { domains: ['example.org'] } } };
    const proxy = { header: 'Remote-Email', from: ['127.0.0.1'] };
    ({ gateway, remove } = makeGateway({
      apps: ['todos'],
      config: { signIn: { passwords: false, providers, proxy } },
      env: { SVC_TEST_SECRET: CLIENT.secret },
    }));
    await gateway.start();
    await provider.serve([`${home()}_auth/provider/company/callback`]);
    context = await (await sharedChromium()).newContext({ viewport: { width: 1280, height: 900 } });
    context.setDefaultTimeout(PATIENCE_MS);
  });
  after(async () => {
    await context?.close();
    provider.close();
    await remove();
  });

  const begin = async (page: Page) => page.getByRole('button', { name: 'Sign in with company' }).click();

  test('who is let in comes to the app that they wanted, and finds the provider under their account', async () => {
    provider.subject = ADA;
    const page = await context.newPage();
    await page.goto(`${home()}#open=todos`);
    await page.getByRole('button', { name: 'Sign in with company' }).waitFor();
    assert.equal(await page.getByLabel('Password').count(), 0);
    await assertAccessible(page);
    await begin(page);
    // Nothing is shared with her yet, which the app's own origin says.
    // Not the page on the way, which would lead there after the test had gone on.
    await page.waitForURL(({ host, pathname }) => host.startsWith('todos.') && !pathname.endsWith('/_enter'));
    await page.goto(`${home()}#/account`);
    const card = page.getByRole('region', { name: 'Sign-in by providers' });
    await card.getByText('ada@example.org').waitFor();
    await assertAccessible(page);
    await card.getByRole('button', { name: 'Unlink company' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Unlink', exact: true }).click();
    await dialog.getByText('only way to sign in').waitFor();
    assert.equal(new URL(page.url()).search, '');
  });

  test('who signs in at the provider to connect a program is asked about that program then', async () => {
    provider.subject = ADA;
    const redirect = 'http://127.0.0.1:9/callback';
    const metadata = { client_name: 'Editor', redirect_uris: [redirect] };
    const { client_id } = (await gateway.call('POST', '/svc/_oauth/register', { body: metadata })).json;
    const share = { body: { everyone: true, role: 'viewer' } };
    assert.equal((await gateway.call('POST', '/svc/_apps/todos/shares', share)).status, 201);
    const other = await (await sharedChromium()).newContext();
    other.setDefaultTimeout(PATIENCE_MS);
    try {
      const page = await other.newPage();
      const asked = {
        ...{ client_id, redirect_uri: redirect, response_type: 'code', state: 'abc' },
        ...{ code_challenge: 'x'.repeat(43), code_challenge_method: 'S256' },
        resource: `${gateway.url}/svc/todos/_mcp`,
      };
      await page.goto(`${home()}_oauth/authorize?${new URLSearchParams(asked)}`);
      await begin(page);
      await page.getByRole('heading', { name: 'Connect a program to Todos?' }).waitFor();
      await page.getByText('It will act as Ada').waitFor();
    } finally {
      await other.close();
    }
  });

  test('what fails is said on a page of the console, which leads back to signing in', async () => {
    const other = await (await sharedChromium()).newContext({
      viewport: { width: 390, height: 780 },
      colorScheme: 'dark',
    });
    other.setDefaultTimeout(PATIENCE_MS);
    const page = await other.newPage();
    const failure = page.getByRole('heading', { name: 'The sign-in did not work' });
    try {
      provider.subject = null;
      await page.goto(home());
      await begin(page);
      await failure.waitFor();
      await page.getByText('was cancelled').waitFor();
      await assertAccessible(page);
      await page.getByRole('button', { name: 'Continue' }).click();
      provider.subject = { ...ADA, sub: 'eve', email: 'eve@elsewhere.test' };
      await begin(page);
      await page.getByText('ask an owner of this gateway for an invitation').waitFor();
      // Somebody is led to the end of a sign-in that they did not begin.
      await page.goto(`${home()}_auth/provider/company/callback?code=stolen&state=planted`);
      await page.getByText('was not begun in this browser').waitFor();
      assert.doesNotMatch(page.url(), /stolen|planted/);
    } finally {
      await other.close();
    }
  });

  test('whom the proxy names is signed in when the console opens, and asked after signing out', async () => {
    const extraHTTPHeaders = { 'Remote-Email': 'grace@example.org' };
    const proxied = await (await sharedChromium()).newContext({
      viewport: { width: 1280, height: 900 },
      extraHTTPHeaders,
    });
    proxied.setDefaultTimeout(PATIENCE_MS);
    const page = await proxied.newPage();
    try {
      await page.goto(home());
      await page.getByRole('link', { name: 'grace', exact: true }).waitFor();
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByRole('button', { name: 'Sign in by the proxy' }).click();
      await page.getByRole('link', { name: 'grace', exact: true }).waitFor();
    } finally {
      await proxied.close();
    }
  });
});
