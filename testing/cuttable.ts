/** A proxy of TCP connections whose network a test cuts: then nothing passes, and nobody is told. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export type Cuttable = {
  /** The same address, with the proxy's place. */
  url: string;
  cut(): void;
  mend(): void;
  close(): Promise<void>;
};

/** Passes connections to the host of `url` on. */
export async function cuttable(url: string): Promise<Cuttable> {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  let isCut = false;
  const server = createServer((near) => {
    const far = connect(Number(port), hostname);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      if (isCut) from.pause();
      from.on('data', (data) => void to.write(data));
      from.on('error', () => from.destroy());
      from.on('close', () => {
        sockets.delete(from);
        to.destroy();
      });
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const here = Object.assign(new URL(url), {
    hostname: '127.0.0.1',
    port: `${(server.address() as AddressInfo).port}`,
  });
  const end = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: here.href,
    cut() {
      isCut = true;
      for (const socket of sockets) socket.pause();
    },
    mend() {
      isCut = false;
      // What waited was given up long ago.
      end();
    },
    async close() {
      end();
      server.close();
      await once(server, 'close');
    },
  };
}
