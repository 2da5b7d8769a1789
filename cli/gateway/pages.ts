/** Tells where people open what a gateway serves: each app at an origin of its own, or all at one (protocol/origins.ts). */
import { type PageOwner, pageHost, pagePath } from '../../protocol/origins.ts';
import type { SessionRecord, SignInLink } from './api.ts';
import type { Client } from './client.ts';

/** The address of an app's page, or of a draft's. */
export type AddressOf = (page: PageOwner) => string;

/** Never rejects: what was done is done, whatever becomes of this question. A host of its own has all pages at its address. */
export async function findPages(client: Client): Promise<AddressOf> {
  const session = await client.get<SessionRecord>('/svc/_session').catch(() => null);
  const base = session === null || session.place === 'shared' ? null : session.console;
  if (base === null) return (page) => `${client.url}${pagePath(page)}/`;
  const { protocol, host } = new URL(base);
  return (page) => `${protocol}//${pageHost(page)}.${host}/`;
}

/** A link that signs a browser in, once and for ten minutes: to the console, or on to a page. */
export function makeLink(client: Client, page?: PageOwner): Promise<SignInLink> {
  const open = page && pagePath(page).slice('/svc/'.length);
  return client.post<SignInLink>('/svc/_session/links', open === undefined ? {} : { open });
}
