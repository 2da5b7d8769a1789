/** Signs a browser in without a page, for tests that are about what comes afterwards. */
import type { BrowserContext } from 'playwright-core';
import { type PageOwner, pageHost, pagePath } from '../protocol/origins.ts';
import type { TestGateway } from './gateway.ts';
import { Origin, pathAt, signIn } from './origins.ts';

/** Gives the browser a new session at the origin of a page. Resolves with the page's address, and the session's console. */
export async function signBrowserIn(
  context: BrowserContext,
  gateway: TestGateway,
  page: PageOwner,
): Promise<{ address: string; console: Origin }> {
  const console = await signIn(gateway);
  const host = `${pageHost(page)}.${console.host}`;
  const address = `http://${host}${pagePath(page)}/`;
  const ticket = pathAt(await console.visit(`/svc/_enter?to=${encodeURIComponent(address)}`), host);
  const { headers } = await new Origin(gateway, host, '').visit(ticket);
  const [, name = '', value = ''] = /^([^=]+)=([^;]+)/.exec(headers['set-cookie']?.[0] ?? '') ?? [];
  const place = { domain: new URL(address).hostname, path: '/', secure: true };
  await context.addCookies([{ name, value, ...place, httpOnly: true, sameSite: 'Strict' }]);
  return { address, console };
}
