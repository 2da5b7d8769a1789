/** The heap of a daemon's supervisor after a forced collection, as the probe that was loaded into it tells. */
import { connect } from 'node:net';
import { json } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

/** Bytes: JavaScript objects, and the buffers that they hold outside of the heap. */
export type Heap = { heapUsed: number; arrayBuffers: number };

const PROBE = new URL('./heap-probe.mjs', import.meta.url);

/** Flags of Node with which a process listens at `socket`; the path of a socket has about a hundred characters at most. */
export function probeFlags(socket: string): string[] {
  return ['--expose-gc', '--import', `${fileURLToPath(PROBE)}?${encodeURIComponent(socket)}`];
}

/** What the heap holds when all garbage is gone. */
export async function heapAt(path: string): Promise<Heap> {
  return (await json(connect(path))) as Heap;
}
