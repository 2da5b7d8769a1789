/** The heap of a daemon's supervisor after a forced collection, as the probe that was loaded into it tells. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** Bytes: JavaScript objects, and what they hold outside of the heap, of which `arrayBuffers` is a part. */
export type Heap = { heapUsed: number; external: number; arrayBuffers: number };

const PROBE = new URL('./heap-probe.mjs', import.meta.url);

/** Flags of Node with which a process listens at `socket`; the path of a socket has about a hundred characters at most. */
export function probeFlags(socket: string): string[] {
  return ['--expose-gc', '--import', `${fileURLToPath(PROBE)}?${encodeURIComponent(socket)}`];
}

/** What the heap holds when all garbage is gone. */
export async function heapAt(path: string): Promise<Heap> {
  const socket = connect(path);
  try {
    const [answer] = (await Promise.race([
      once(createInterface(socket), 'line'),
      once(socket, 'close').then(() => {
        throw new Error('The process whose heap is measured has ended.');
      }),
    ])) as [string];
    return JSON.parse(answer) as Heap;
  } finally {
    socket.destroy();
  }
}
