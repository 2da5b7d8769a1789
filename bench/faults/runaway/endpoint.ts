/** A server that other people might run: `/silent` accepts and never answers, `/drip` answers for ever, a byte at a time. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const DRIP_MS = 100;

export type Endpoint = {
  url: string;
  /** Requests that wait for their answer now. */
  open(): number;
  close(): void;
};

export async function startEndpoint(): Promise<Endpoint> {
  let open = 0;
  const server = createServer((request, response) => {
    open++;
    response.on('close', () => open--);
    if (request.url !== '/drip') return;
    const drip = setInterval(() => response.write('.'), DRIP_MS);
    response.on('close', () => clearInterval(drip));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    open: () => open,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
