/** Opens pages of a gateway in the browser of whoever sits here. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Connection } from './connection.ts';

/** How long a browser may take to start. */
const LINK_MS = 60_000;

/** Goes to `/svc/<page>/` of the gateway by its console, which signs the browser in when there is a token. */
export async function openPage({ url, token }: Connection, page: string, platform: NodeJS.Platform): Promise<void> {
  if (token === undefined) start(`${url}/svc/${page}/`, platform);
  else start(await linkOnce(`${url}/svc/#${new URLSearchParams({ token, open: page })}`), platform);
}

/**
 * An address on this machine that leads to another, for the first who comes: what a browser is started with can be read by
 * everybody on the machine for as long as it runs, so it is not the address with the token.
 */
async function linkOnce(target: string): Promise<string> {
  const path = `/${randomBytes(16).toString('hex')}`;
  const server = createServer((request, response) => {
    const isFirst = request.url === path && server.listening;
    if (isFirst) server.close();
    response.writeHead(isFirst ? 303 : 404, {
      ...(isFirst ? { location: target } : {}),
      'cache-control': 'no-store',
      connection: 'close',
    });
    response.end();
  });
  await new Promise<void>((resolve, reject) => {
    server.on('error', reject).listen(0, '127.0.0.1', resolve);
  });
  server.unref();
  setTimeout(() => server.close(), LINK_MS).unref();
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`;
}

function start(url: string, platform: NodeJS.Platform): void {
  const [command, ...args] =
    platform === 'darwin' ? ['open'] : platform === 'win32' ? ['cmd', '/c', 'start', ''] : ['xdg-open'];
  spawn(command as string, [...args, url], { stdio: 'ignore', detached: true })
    .on('error', () => {})
    .unref();
}
