/** Raw sockets in numbers: clients that connect, say what they are told, and behave badly. */
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';

/** Connections that one pair of addresses takes before its ports run out; the next ones come from another address. */
const PER_ADDRESS = 20_000;
const ESTABLISHED = '01';

export class BadClient {
  readonly socket: Socket;
  /** Of its own end; 0 until it is connected. Kept here, because a socket forgets it when it ends. */
  localPort = 0;
  received = '';
  /** Milliseconds from the connect until the gateway ended the connection. */
  readonly ended: Promise<number>;
  readonly opened: Promise<boolean>;

  constructor(port: number, index: number, reads: boolean) {
    const startedAt = performance.now();
    const localAddress = `127.0.0.${1 + Math.floor(index / PER_ADDRESS)}`;
    this.socket = connect({ port, host: '127.0.0.1', localAddress, noDelay: true });
    if (!reads) this.socket.pause();
    this.socket.on('error', () => {});
    this.opened = new Promise((resolve) => {
      this.socket
        .once('close', () => resolve(false))
        .once('connect', () => {
          this.localPort = this.socket.localPort ?? 0;
          resolve(true);
        });
    });
    this.ended = new Promise((resolve) => {
      this.socket.once('close', () => resolve(performance.now() - startedAt));
    });
    if (reads) {
      this.socket.on('data', (chunk: Buffer) => {
        if (this.received.length < 65_536) this.received += chunk.toString('latin1');
      });
    }
  }

  write(bytes: string | Buffer): void {
    if (this.socket.writable) this.socket.write(bytes);
  }
}

/** Opens `count` at once, a hundred at a time; resolves when all are open or refused. */
export async function openCrowd(
  port: number,
  count: number,
  greet: (client: BadClient) => void = () => {},
  reads = true,
): Promise<BadClient[]> {
  const crowd: BadClient[] = [];
  while (crowd.length < count) {
    const some = Array.from(
      { length: Math.min(100, count - crowd.length) },
      (_, i) => new BadClient(port, crowd.length + i, reads),
    );
    await Promise.all(some.map((client) => client.opened));
    for (const client of some) greet(client);
    crowd.push(...some);
  }
  return crowd;
}

export function dismiss(crowd: BadClient[]): void {
  for (const { socket } of crowd) socket.destroy();
}

/** The clients' ports of the connections that the gateway still holds, asked of the system: a client that does not read cannot tell. */
export function heldConnections(port: number): Set<number> {
  const held = new Set<number>();
  for (const line of readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1)) {
    const [, local, remote, state] = line.trim().split(/ +/);
    if (state === ESTABLISHED && portOf(local) === port) held.add(portOf(remote));
  }
  return held;
}

/** Of `0100007F:1F90`: an address and a port, in hexadecimal digits. */
function portOf(address = ''): number {
  return Number.parseInt(address.slice(address.indexOf(':') + 1), 16);
}
