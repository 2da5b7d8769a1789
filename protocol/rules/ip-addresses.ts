/** Reads IP addresses and networks, as configurations, sockets and headers write them. Pure. */
import { BlockList, isIP, isIPv4 } from 'node:net';

/** `[::ffff:0:0]/96`, and `64:ff9b::/96` of networks that translate: they lead to the IPv4 address in their last four bytes. */
const EMBEDDED_V4 = addressesOf(['::ffff:0:0/96', '64:ff9b::/96']);

/** Whether it is an IP address without a zone, or a network as CIDR. */
export function isNetwork(text: string): boolean {
  const [address = '', bits, more] = text.split('/');
  const version = isIP(address);
  if (version === 0 || address.includes('%') || more !== undefined) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128));
}

/** A list that knows which addresses are in these networks, for each of which `isNetwork` is true. */
export function addressesOf(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = '', bits] = network.split('/');
    const family = isIPv4(address) ? 'ipv4' : 'ipv6';
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return list;
}

// Without regular expressions: they are the one built-in that app code could change here, to connect `ctx.fetch` anywhere.

/** Without a zone, and as IPv4 where it leads to one. */
export function bareAddress(address: string): string {
  const [bare = ''] = address.split('%');
  if (isIPv4(bare) || !EMBEDDED_V4.check(bare, 'ipv6')) return bare;
  const dotted = bare.slice(bare.lastIndexOf(':') + 1);
  if (isIPv4(dotted)) return dotted;
  const words = canonical(bare).split(':');
  const [high = 0, low = 0] = words.slice(-2).map((word) => Number.parseInt(word === '' ? '0' : word, 16));
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
}

/**
 * The network of one customer: an IPv4 address as it is, of IPv6 the first 64 bits, of which one machine has all addresses. What
 * is no address, such as the empty one of a Unix socket, stays.
 */
export function subscriberOf(address: string): string {
  const bare = bareAddress(address);
  if (isIP(bare) !== 6) return bare;
  const [head = '', tail] = canonical(bare).split('::');
  const [first, last] = [head, tail ?? ''].map((part) => (part === '' ? [] : part.split(':'))) as [string[], string[]];
  const zeros = tail === undefined ? 0 : 8 - first.length - last.length;
  return `${[...first, ...Array.from({ length: zeros }, () => '0'), ...last].slice(0, 4).join(':')}::/64`;
}

/** Lower case, shortest form, no dotted part (RFC 5952). */
function canonical(v6: string): string {
  return new URL(`http://[${v6}]`).hostname.slice(1, -1);
}
