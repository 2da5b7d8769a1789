/** Which connections the gateway still holds, asked of the system: a client that does not read cannot tell. */
import { readFileSync } from 'node:fs';

const ESTABLISHED = '01';

/** The clients' ports of the connections that are open on the gateway's side. */
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
