/** Signs a browser in without a page, for tests that are about what comes afterwards. */
import type { Page } from 'playwright-core';
import type { PageOwner } from '../protocol/http/origins.ts';
import { pagePath } from '../protocol/http/origins.ts';
import type { TestGateway } from './gateway.ts';
import { enter, type Origin, signIn } from './origins.ts';
import { originOf } from './pages.ts';

/**
 * Gives the browser of a window, which shows nothing of it yet, a new session at the origin of a page. `who` is where somebody signed
 * in at the console; without it, it is the administrator. Resolves with the page's address, and the session's console.
 */
export async function signBrowserIn(
  window: Page,
  gateway: TestGateway,
  page: PageOwner,
  who?: Origin,
): Promise<{ address: string; console: Origin }> {
  const console = who ?? (await signIn(gateway));
  const { cookie, pageKey } = await enter(gateway, console, page);
  const origin = originOf(gateway, page);
  const [, name = '', value = ''] = /^([^=]+)=([^;]+)/.exec(cookie) ?? [];
  const place = { domain: new URL(origin).hostname, path: '/', secure: true };
  await window.context().addCookies([{ name, value, ...place, httpOnly: true, sameSite: 'Strict' }]);
  await keepPageKey(window, origin, pageKey);
  return { address: `${origin}${pagePath(page)}/`, console };
}

/** Puts the page key into the storage of the origin, where its pages look for it. */
async function keepPageKey(window: Page, origin: string, pageKey: string): Promise<void> {
  // A page of the origin that is nobody's: it keeps nothing open, and asks for nothing.
  await window.route(`${origin}/`, (route) => route.fulfill({ contentType: 'text/html', body: '' }));
  await window.goto(`${origin}/`);
  await window.evaluate(`localStorage.setItem('svc:page-key', ${JSON.stringify(pageKey)})`);
  await window.unroute(`${origin}/`);
}
