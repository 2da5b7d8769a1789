/** Finds the origin of the gateway that a request's Host names (specification, "Origins"). Pure. */
import { isIP } from 'node:net';
import { SvcError } from '../../../protocol/errors.ts';
import {
  appOfLabel,
  DRAFT_LABEL,
  draftOfLabel,
  LOCAL_BASE,
  type PageOwner,
  pageHost,
} from '../../../protocol/http/origins.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { bareAddress } from '../../../protocol/rules/ip-addresses.ts';
import type { Config } from '../../config.ts';

/**
 * The kind of origin that a request came to.
 * - `console` is the base. Its pages are the gateway's own, and its cookie may do everything.
 * - `page` is the origin of one app, or of one draft.
 * - `shared` is one origin for the pages of all apps.
 * - `loopback` is for programs with a Bearer. Browsers are sent to the base, where they have one.
 * - `embedded` is a host's own server, which decides who may do what.
 */
export type PlaceKind = 'console' | 'page' | 'shared' | 'loopback' | 'embedded';

export type Place = {
  readonly kind: PlaceKind;
  /** Host and port as the request named them, in lower case. It is empty where the request named none. */
  readonly host: string;
  /** This origin, such as `http://svc.localhost:8787`. */
  readonly origin: string;
  /** The console's origin. It is null where this browser could reach none. */
  readonly base: string | null;
  /** The labels of a page's origin below the base. It is empty elsewhere. */
  readonly label: string;
  /** The app or draft of a page's origin. It is null for a hashed label, where only the cookie knows the id. */
  readonly owner: PageOwner | null;
  /** The sources of `frame-ancestors`, which say who may embed a page that is served here. */
  readonly frameAncestors: string;
  /** True for a visitor without a session. The answer is then for everybody, pages of other origins too. */
  readonly isPublic: boolean;
};

const LOOPBACK_V4 = /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/;
const SELF = "'self'";
const MAX_PORT = 65_535;

/** The place of requests from a host's server. */
export const EMBEDDED: Place = {
  kind: 'embedded',
  host: '',
  origin: '',
  base: null,
  label: '',
  owner: null,
  frameAncestors: SELF,
  isPublic: false,
};

export class Places {
  readonly #config: Config;
  /** The names that reach a shared origin. With `isolated` they reach no origin. */
  readonly #named: ReadonlySet<string>;
  /** The names of the console. Users are told of the first one. */
  readonly #bases: readonly { name: string; scheme: 'http' | 'https' }[];
  /** True where the gateway listens on all addresses of the machine, so that any address is its own. */
  readonly #anyAddress: boolean;
  /** Names of other nodes of a cluster, which sent on what came to them. */
  readonly #sentOn = new Set<string>();
  readonly #known = new Map<string, Place | null>();

  constructor(config: Config) {
    const { host, pageOrigins, appDomain, allowedHosts } = config;
    this.#config = config;
    this.#named = new Set([host, ...allowedHosts, ...(appDomain === null ? [] : [appDomain])].map(nameOf));
    this.#anyAddress = host === '0.0.0.0' || host === '::';
    const domain = appDomain === null ? [] : [{ name: nameOf(appDomain), scheme: 'https' as const }];
    this.#bases = pageOrigins === 'shared' ? [] : [...domain, { name: LOCAL_BASE, scheme: 'http' as const }];
  }

  /** Takes the Host of a request for this gateway's own that another node of the cluster took for its own, and sent on. */
  takeSentOn(host: string | undefined): void {
    const key = host ?? '';
    if (this.#known.get(key)) return;
    if (this.#sentOn.size >= LIMITS.hostNames) this.#sentOn.clear();
    this.#sentOn.add(nameOf(key));
    this.#known.delete(key);
  }

  /** The place that a Host header names. Throws `MISDIRECTED` when it is none of this gateway's. */
  of(host: string | undefined): Place {
    const key = host ?? '';
    let place = this.#known.get(key);
    if (place === undefined) {
      if (this.#known.size >= LIMITS.hostNames) this.#known.clear();
      place = this.#find(key.toLowerCase());
      this.#known.set(key, place);
    }
    if (place !== null) return place;
    throw new SvcError(
      'MISDIRECTED',
      `This gateway is not "${key.slice(0, 80)}". To use that name, add it to allowedHosts in the configuration.`,
    );
  }

  /** The origin of a page, seen from `place`. It is that place's own where all pages share one. */
  originOf(place: Place, owner: PageOwner): string {
    if (place.base === null) return place.origin;
    const [scheme = 'http', name = ''] = place.base.split('://');
    return `${scheme}://${pageHost(owner)}.${name}`;
  }

  /**
   * The console that users of `place` are told of. A program of this machine is told of the one that is reached from outside,
   * if any.
   */
  consoleOf(place: Place): string | null {
    const [first] = this.#bases;
    return place.kind === 'loopback' && first?.scheme === 'https' ? `https://${first.name}` : place.base;
  }

  #find(host: string): Place | null {
    const { name, port } = split(host);
    if (Number(port.slice(1)) > MAX_PORT) return null;
    for (const { name: base, scheme } of this.#bases) {
      const origin = `${scheme}://${base}${port}`;
      if (name === base) return { ...at('console', host, `${scheme}://${host}`, origin), frameAncestors: SELF };
      if (!name.endsWith(`.${base}`)) continue;
      const page = pageOf(name.slice(0, -base.length - 1));
      if (page) return { ...at('page', host, `${scheme}://${host}`, origin), ...page };
    }
    const isLoopback = host === '' || isLoopbackName(name);
    const isNamed = this.#named.has(name) || this.#sentOn.has(name);
    if (!isLoopback && !isNamed && !(this.#anyAddress && isIP(name) !== 0)) return null;
    const [base] = this.#bases;
    const origin = `http://${host}`;
    if (base === undefined || (this.#config.pageOrigins === 'auto' && !isLoopback)) {
      return { ...at('shared', host, origin, null), frameAncestors: SELF };
    }
    if (isLoopback) return at('loopback', host, origin, `http://${LOCAL_BASE}${port}`);
    return at('loopback', host, origin, base.scheme === 'https' ? `https://${base.name}` : null);
  }
}

function at(kind: PlaceKind, host: string, origin: string, base: string | null): Place {
  const frameAncestors = base === null ? SELF : `${SELF} ${base}`;
  return { kind, host, origin, base, label: '', owner: null, frameAncestors, isPublic: false };
}

/** The page that the labels below a base name. It is null when they name none. */
function pageOf(labels: string): Pick<Place, 'label' | 'owner'> | null {
  const [first = '', second, more] = labels.split('.');
  if (second === undefined) {
    const app = appOfLabel(first);
    return { label: labels, owner: app === null ? null : { app } };
  }
  return second === DRAFT_LABEL && more === undefined ? { label: labels, owner: draftOfLabel(first) } : null;
}

/** The name and the `:port` of a Host header. An IPv6 address has no brackets. */
function split(host: string): { name: string; port: string } {
  const [, bracketed, plain = '', port = ''] = /^(?:\[([^\]]*)\]|([^:]*))(:\d*)?$/.exec(host) ?? [];
  return { name: (bracketed ?? plain).replace(/\.$/, ''), port: port === ':' ? '' : port };
}

function nameOf(configured: string): string {
  return split(configured.toLowerCase()).name || configured.toLowerCase();
}

function isLoopbackName(name: string): boolean {
  return name === 'localhost' || name.endsWith('.localhost') || name === '::1' || LOOPBACK_V4.test(name);
}

/** Whether a request came to a name of this machine from one of its addresses. A tunnel from another machine looks the same. */
export function isSameMachine({ host }: Place, remoteAddress: string): boolean {
  return isLoopbackName(split(host).name) && isLoopbackName(bareAddress(remoteAddress));
}
