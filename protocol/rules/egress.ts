/** Decides where `ctx.fetch` may connect to, by the patterns of hosts in the configuration and in manifests. Pure. */
import { type BlockList, isIPv4 } from 'node:net';
import { addressesOf, bareAddress, isNetwork } from './ip-addresses.ts';

/** `egress` of the configuration: `deny` wins over everything; `allow` opens what is refused by default. */
export type EgressSettings = { allow: string[]; deny: string[] };

/** Sockets of a test to which every connection goes instead, by the protocol of its address; neither speaks TLS. */
export type Relay = { http: string; https: string };

/**
 * What applies to one app. `network`: its manifest's list, null without one. `port`: the gateway's own, null while it has none.
 * `relay`: only where the app is tested.
 */
export type EgressPolicy = EgressSettings & { network: string[] | null; port: number | null; relay?: Relay };

/** Link-local addresses, among them the metadata services of clouds, and those of them that are not link-local. */
const REFUSED_BY_DEFAULT: readonly string[] = [
  '169.254.0.0/16',
  'fe80::/10',
  'fd00:ec2::254',
  'fd20:ce::254',
  '100.100.100.200',
];

const ANY = '*';
const PATTERN_CHARS = 300;
const NAME = /^(?:\*\.)?(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;
const PORT = /^[1-9]\d{0,4}$/;
const MAX_PORT = 65_535;

/** A pattern in parts: a name, `*.name` or `*`; or addresses. */
type Pattern = { text: string; name: string | null; addresses: BlockList | null; port: number | null };

/** Where a connection is about to go. `address` is null before the host is looked up, where only names can be checked. */
type Target = { host: string; address: string | null; port: number };

/** What a pattern must look like, for messages. */
export const PATTERN_FORM =
  'a host such as "api.example.com", "*.example.com", "10.0.0.0/8", "[fd00::1]" or "*", with ":port" behind it if only that one is meant';

/** Whether it is a pattern: a name, `*.` and a name, an IP address, a network as CIDR, or `*`; and `:port`. */
export function isHostPattern(text: unknown): text is string {
  return typeof text === 'string' && parsePattern(text) !== null;
}

function parsePattern(text: string): Pattern | null {
  if (text.length > PATTERN_CHARS) return null;
  const { host, port } = splitPort(text.toLowerCase());
  if (port !== null && !(PORT.test(port) && Number(port) <= MAX_PORT)) return null;
  const parts = { text, port: port === null ? null : Number(port) };
  const addresses = parseAddresses(host);
  if (addresses !== null) return { ...parts, name: null, addresses };
  // What looks like an address but is not one is a mistake.
  const isName = host === ANY || (NAME.test(host) && !/^[\d.]+$/.test(host));
  return isName ? { ...parts, name: host, addresses: null } : null;
}

/** An IPv6 address with a port stands in brackets; one without may. */
function splitPort(text: string): { host: string; port: string | null } {
  const bracketed = /^\[([^\]]*)\](\/\d+)?(?::(.*))?$/.exec(text);
  if (bracketed) return { host: `${bracketed[1]}${bracketed[2] ?? ''}`, port: bracketed[3] ?? null };
  const colon = text.indexOf(':');
  if (colon < 0 || colon !== text.lastIndexOf(':')) return { host: text, port: null };
  return { host: text.slice(0, colon), port: text.slice(colon + 1) };
}

function parseAddresses(host: string): BlockList | null {
  return isNetwork(host) ? addressesOf([host]) : null;
}

/** The compiled rules of one app. */
export class Egress {
  readonly #allow: Pattern[];
  readonly #deny: Pattern[];
  readonly #network: Pattern[] | null;
  readonly #refused = patterns(REFUSED_BY_DEFAULT);
  readonly #port: number | null;
  readonly #isOurs: (address: string) => boolean;

  /** `isOurs` says whether an address is one of this machine. Patterns that are none are left out: they were checked before. */
  constructor({ allow, deny, network, port }: EgressPolicy, isOurs: (address: string) => boolean) {
    this.#allow = patterns(allow);
    this.#deny = patterns(deny);
    this.#network = network === null ? null : patterns(network);
    this.#port = port;
    this.#isOurs = isOurs;
  }

  /**
   * Why the connection is refused, for the handler's author; null when it is not. Without an address it is refused only if no address
   * could be allowed.
   */
  refusal(target: Target): string | null {
    const known = { ...target, host: bareHost(target.host), address: target.address && bareAddress(target.address) };
    const { host, address, port } = known;
    const denied = this.#deny.find((pattern) => matches(pattern, known));
    if (denied) return `the operator denies it ("${denied.text}" in egress.deny of the configuration)`;
    if (
      this.#network &&
      !this.#network.some((pattern) => matches(pattern, known) || (address === null && pattern.addresses))
    )
      return `it is not in the app's list: add "${port === 443 || port === 80 ? host : `${host}:${port}`}" to "network" in app.json`;
    if (address === null || this.#allow.some((pattern) => matches(pattern, known))) return null;
    const refused = this.#refused.find((pattern) => matches(pattern, known));
    const opened = 'an operator can open it with egress.allow in the configuration';
    if (refused) return `addresses in ${refused.text} belong to the machine's own network and are refused; ${opened}`;
    if (port === this.#port && this.#isOurs(address))
      return `it is the gateway itself, which apps must not call; ${opened}`;
    return null;
  }
}

function patterns(texts: readonly string[]): Pattern[] {
  return texts.flatMap((text) => parsePattern(text) ?? []);
}

function matches({ name, addresses, port }: Pattern, target: Target): boolean {
  if (port !== null && port !== target.port) return false;
  if (addresses !== null)
    return target.address !== null && addresses.check(target.address, isIPv4(target.address) ? 'ipv4' : 'ipv6');
  if (name === ANY) return true;
  return name?.startsWith('*.') ? target.host.endsWith(name.slice(1)) : target.host === name;
}

// Without regular expressions: they are the one built-in that app code could change here.

/** Without brackets and the dot that ends a whole name. */
function bareHost(host: string): string {
  const bare = host.startsWith('[') ? host.slice(1, -1) : host.toLowerCase();
  return bare.endsWith('.') ? bare.slice(0, -1) : bare;
}
