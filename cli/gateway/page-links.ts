/** The addresses of apps' pages, and links that sign a browser in to them. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type PageOwner, pageHost, pagePath } from '../../protocol/http/origins.ts';
import type { Received } from '../../protocol/routes/api.ts';
import type { Client } from './client.ts';
import { checkOwnAddress, pageAddress } from './received.ts';

/** The address of an app's page, or of a draft's. */
type AddressOf = (page: PageOwner) => string;

/** Milliseconds that a browser may take to start. */
const FILE_MS = 60_000;

/** Each app has a separate origin, or all share one (protocol/http/origins.ts). Rejects only for an address that is no page's. */
export async function findPages(client: Client): Promise<AddressOf> {
  const session = await client.call('GET /svc/_session').catch(() => null);
  // A host that embeds the gateway has no such route, and serves all pages at its address.
  const base = session === null || session.place === 'shared' ? null : session.console;
  if (base === null) return (page) => `${client.url}${pagePath(page)}/`;
  const { protocol, host } = pageAddress(base);
  return (page) => `${protocol}//${pageHost(page)}.${host}/`;
}

/** `expiresAt`: when it can no longer be used, in milliseconds since the epoch. */
export type Link = Received<'POST /svc/_session/links'>;

/** A link that signs a browser in, once and within ten minutes: to the console, or on to a page; at `host`, if that is given. */
export async function makeLink(client: Client, page?: PageOwner, host?: string): Promise<Link> {
  const body = page === undefined ? {} : { open: pagePath(page).slice('/svc/'.length) };
  const headers = host === undefined ? {} : { host };
  const link = await client.call('POST /svc/_session/links', { body }, { headers });
  pageAddress(link.url);
  return link;
}

/**
 * Opens such a link in the browser of this machine, if it is an address of the gateway that it came from. Every user of the machine can read a browser's arguments while it
 * runs: so it is started with a file that only its owner may read, which redirects to the link. The file is removed
 * after a minute, or when this process ends.
 */
export function openBrowser(url: string, { connection }: Client, platform: NodeJS.Platform): void {
  checkOwnAddress(url, connection);
  const folder = mkdtempSync(join(tmpdir(), 'svc-open-'));
  const file = join(folder, 'open.html');
  writeFileSync(file, forwardingPage(url), { mode: 0o600 });
  const remove = (): void => {
    process.off('exit', remove);
    rmSync(folder, { recursive: true, force: true });
  };
  process.on('exit', remove);
  setTimeout(remove, FILE_MS).unref();
  spawn(platform === 'darwin' ? 'open' : 'xdg-open', [file], { stdio: 'ignore', detached: true })
    .on('error', () => {})
    .unref();
}

/** Redirects by script, which leaves no entry in the history, or offers a link if scripts are off. */
export function forwardingPage(url: string): string {
  // A script's text ends at "</script", even inside a string.
  const script = JSON.stringify(url).replaceAll('<', '\\u003c');
  const attribute = url.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;');
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<title>svc</title>
<script>location.replace(${script})</script>
<p><a href="${attribute}">Open</a></p>
</html>
`;
}
