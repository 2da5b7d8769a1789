/**
 * How a browser gets into a gateway: its origins, and the links that sign in (specification, "Origins" and
 * "Sessions of browsers").
 */
import assert from 'node:assert/strict';
import type { Page, Route } from 'playwright-core';
import { type PageOwner, pageHost, pagePath } from '../protocol/http/origins.ts';
import type { TestGateway } from './gateway.ts';

/** Host and port of the console. */
export const baseOf = ({ url }: TestGateway): string => `svc.localhost:${new URL(url).port}`;

export const consoleOf = (gateway: TestGateway): string => `http://${baseOf(gateway)}/svc/`;

/** The origin of an app's page, or of a draft's. */
export const originOf = (gateway: TestGateway, page: PageOwner): string =>
  `http://${pageHost(page)}.${baseOf(gateway)}`;

/** An address that signs one browser in: to the console, or on to a page. */
export async function linkTo(gateway: TestGateway, page?: PageOwner): Promise<string> {
  const body = page === undefined ? {} : { open: pagePath(page).slice('/svc/'.length) };
  const { status, text, json } = await gateway.call('POST', '/svc/_session/links', { body });
  assert.equal(status, 201, text);
  return json.url;
}

/** Signs a window in, and resolves when it shows the page. */
export async function enter(window: Page, gateway: TestGateway, page: PageOwner): Promise<void> {
  await window.goto(await linkTo(gateway, page));
  const origin = originOf(gateway, page);
  await window.waitForURL((url) => url.origin === origin && !url.pathname.startsWith('/svc/_enter'));
}

/** For a script in a page: `fetch` with the page key of its origin, as the console and the bridge send it. */
export const OWN_FETCH: string = `((address, init = {}) =>
  fetch(address, { ...init, headers: { ...init.headers, 'svc-page-key': localStorage.getItem('svc:page-key') } }))`;

/** Sends a page's request to the gateway as the browser would, with its cookies; the page gets nothing. */
export async function arrive(gateway: TestGateway, route: Route): Promise<void> {
  const request = route.request();
  const { host, pathname } = new URL(request.url());
  const cookies = await request.frame().page().context().cookies(request.url());
  const cookie = cookies.map(({ name, value }) => `${name}=${value}`).join('; ');
  await gateway.call(request.method(), pathname, {
    token: null,
    headers: { ...request.headers(), host, cookie, 'sec-fetch-site': 'same-origin' },
    body: request.postData() ?? '',
  });
}
