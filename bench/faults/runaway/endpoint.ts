/** A server that other people might run: `/silent` accepts and never answers, `/drip` answers for ever, a byte at a time. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const DRIP_MS = 100;

export type Endpoint = {
  url: string;
  close(): void;
};

export async function startEndpoint(): Promise<Endpoint> {
  const server = createServer((request, response) => {
    if (request.url !== '/drip') return;
    const drip = setInterval(() => response.write('.'), DRIP_MS);
    response.on('close', () => clearInterval(drip));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
