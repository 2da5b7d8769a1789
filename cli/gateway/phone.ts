/** Makes a link that signs in a phone of this network, at an address of this machine that the phone can reach. */
import { networkInterfaces } from 'node:os';
import { GatewayError } from '../../protocol/http/gateway-error.ts';
import type { PageOwner } from '../../protocol/http/origins.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { CommandError, UnreachableError } from '../failure.ts';
import { Client } from './client.ts';
import { type Link, makeLink } from './page-links.ts';

/** Networks of containers and virtual machines, in which no phone is. */
const VIRTUAL = /^(?:docker|br-|veth|virbr|vmnet|vboxnet|cni|podman|lxc)/;
const LOOPBACK = /^(?:localhost|.*\.localhost|127\..*|\[::1\])$/;
const SET = 'docs/share.md says more.';

/** IPv4 addresses of this machine that others can reach, those of real networks first. */
export function networkAddresses(): string[] {
  const found = Object.entries(networkInterfaces()).flatMap(([name, addresses = []]) =>
    addresses
      .filter(({ family, internal }) => family === 'IPv4' && !internal)
      .map(({ address }) => ({ name, address })),
  );
  return found
    .sort((a, b) => Number(VIRTUAL.test(a.name)) - Number(VIRTUAL.test(b.name)))
    .map(({ address }) => address);
}

/**
 * The gateway's own domain or address if others can reach that, else an address of this network. `serve` is the command
 * that starts the gateway. Throws `CommandError` that says what to set where a phone cannot reach it or sign in there.
 */
export async function linkForPhone(client: Client, page: PageOwner | undefined, serve: string): Promise<Link> {
  const { hostname, port } = new URL(client.url);
  const { console: base } = await client.call('GET /svc/_session');
  if (base?.startsWith('https:') || !LOOPBACK.test(hostname)) return makeLink(client, page);
  for (const address of networkAddresses()) {
    const host = `${address}:${port}`;
    const place = await placeAt(client, host);
    if (place === null) continue;
    if (place !== 'shared')
      throw new CommandError(`Browsers cannot sign in at http://${host}.`, [
        'Every app there would share one address, which "pageOrigins" of the configuration does not allow: set it to "auto".',
        `Or give the gateway a domain: "appDomain". ${SET}`,
      ]);
    // The token is not sent there: another program may listen at that address.
    if (await answers(`http://${host}`)) return makeLink(client, page, host);
  }
  throw new CommandError('A phone cannot reach this gateway: it listens on this machine only.', [
    `Stop it, then start it so that this network reaches it: ${serve} --host 0.0.0.0`,
    'Or set "host": "0.0.0.0" in its configuration file, for a service.',
    `Then others in this network can read what it sends, and sign in if they have the token: ${SET}`,
  ]);
}

/** What the gateway is at that address; null if it says that this is not its own. */
async function placeAt(client: Client, host: string): Promise<string | null> {
  try {
    return (await client.call('GET /svc/_session', {}, { headers: { host } })).place;
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'MISDIRECTED') return null;
    throw error;
  }
}

async function answers(url: string): Promise<boolean> {
  try {
    const there = new Client({ url, urlFrom: 'this machine', token: undefined, tokenFrom: 'nowhere' });
    await there.call('GET /svc/_health', {}, { timeoutMs: LIMITS.helloMs });
    return true;
  } catch (error) {
    if (error instanceof UnreachableError) return false;
    throw error;
  }
}
