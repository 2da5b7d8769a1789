/** Finds the route of a request: one table, whole path segments, 405 with `Allow`, 400 for a path that cannot be decoded. */
import { SvcError } from '../../protocol/errors.ts';
import type { Capability, Method } from '../../protocol/routes/row.ts';
import type { NamedSubject } from '../../protocol/routes/subjects.ts';
import type { Exchange } from '../edge/edge.ts';
import type { Caller } from './access/grants.ts';
import type { Place } from './access/places.ts';

/** Path parameters by name; the last one of a route that ends in `*` is the undecoded rest of the path. */
export type Params = Record<string, string>;

/** As in the row of the route (`RowNeeds`). `route`: the app is not named in the address, so the right is asked for later (`demand`). */
export type Needs = Capability | 'anyone' | 'account' | 'route';

export type Handle = (exchange: Exchange, params: Params, caller: Caller, place: Place) => void | Promise<void>;

/** What a request is matched with. */
export type Matched = {
  method: Method;
  /** Segments, `:name` for a parameter, `*` at the end for the rest (which may be empty). */
  path: string;
  needs: Needs;
};

/** A row declares it (`protocol/routes/`). */
export type Route = Matched & {
  handle: Handle;
  /**
   * What visitors without a token may use of it: `page`, where the app's page is public; `tool`, which the handler checks
   * itself.
   */
  visitors?: 'page' | 'tool';
  /** Whose data it is about; absent where only the body says that. */
  about?: NamedSubject;
  /** Answers with a file that browsers load by themselves: its address may be signed in place of the page key. */
  isFile?: true;
  /** Its place in `ROUTE_KINDS`, for metrics. */
  kind: number;
};

/** What programs ask for before they sign in at an MCP address, where the gateway signs people in. */
const WELL_KNOWN = /^\/\.well-known\/oauth-(?:authorization-server$|protected-resource\/svc\/)/;

/** First segments that belong to the gateway; everything else is the host's. */
const OUR_PREFIXES = new Set(['svc', '_svc-user', '_svc-hook', '_svc-conversations']);

type Node<R> = {
  children: Map<string, Node<R>>;
  parameter: { name: string; node: Node<R> } | null;
  rest: Leaf<R> | null;
  leaf: Leaf<R> | null;
};
type Leaf<R> = Map<string, R>;

/** A route and its parameters, or why there is none; `open` errors are answered without a token too. */
export type Match<R = Route> = { route: R; params: Params } | { error: SvcError; open?: boolean };

export class Router<R extends Matched = Route> {
  readonly routes: readonly R[];
  readonly #root: Node<R> = node();
  /** Routes without parameters, by their whole path: most calls are to one of the tools. */
  readonly #exact = new Map<string, Leaf<R>>();

  /** Throws when two routes are the same, or give one place in their paths two names: only one of them would be used. */
  constructor(routes: readonly R[]) {
    this.routes = routes;
    for (const route of routes) this.#add(route);
  }

  /** Whether a path lies under one of the gateway's prefixes, or is about signing in at an address there. */
  claims(path: string): boolean {
    const end = path.indexOf('/', 1);
    return OUR_PREFIXES.has(path.slice(1, end < 0 ? undefined : end)) || WELL_KNOWN.test(path);
  }

  match(method: string, path: string): Match<R> {
    const exact = this.#exact.get(path);
    if (exact) return choose(exact, method, {});
    const params: Params = {};
    try {
      const leaf = find(this.#root, path.slice(1).split('/'), 0, params);
      return leaf ? choose(leaf, method, params) : { error: notFound() };
    } catch {
      return { error: new SvcError('BAD_REQUEST', 'The address has a percent sign that encodes nothing.') };
    }
  }

  #add(route: R): void {
    const segments = route.path.slice(1).split('/');
    if (!route.path.includes(':') && !route.path.endsWith('*')) {
      const leaf = this.#exact.get(route.path) ?? new Map<string, R>();
      this.#exact.set(route.path, leaf);
      put(leaf, route);
    }
    let at = this.#root;
    for (const segment of segments) {
      if (segment === '*') {
        at.rest ??= new Map();
        put(at.rest, route);
        return;
      }
      if (segment.startsWith(':')) {
        const name = segment.slice(1);
        at.parameter ??= { name, node: node() };
        if (at.parameter.name !== name)
          throw new Error(`${route.path}: another route calls this parameter :${at.parameter.name}, not :${name}.`);
        at = at.parameter.node;
        continue;
      }
      const next = at.children.get(segment) ?? node<R>();
      at.children.set(segment, next);
      at = next;
    }
    at.leaf ??= new Map();
    put(at.leaf, route);
  }
}

function put<R extends Matched>(leaf: Leaf<R>, route: R): void {
  if (leaf.has(route.method)) throw new Error(`There are two routes ${route.method} ${route.path}.`);
  leaf.set(route.method, route);
}

function node<R>(): Node<R> {
  return { children: new Map(), parameter: null, rest: null, leaf: null };
}

/** Literal segments win over parameters, parameters over a rest. Throws when a parameter cannot be decoded. */
function find<R>(at: Node<R>, segments: string[], index: number, params: Params): Leaf<R> | null {
  const segment = segments[index];
  if (segment === undefined) return at.leaf ?? takeRest(at, '', params);
  const literal = at.children.get(segment);
  if (literal) {
    const leaf = find(literal, segments, index + 1, params);
    if (leaf) return leaf;
  }
  if (at.parameter && segment !== '') {
    const leaf = find(at.parameter.node, segments, index + 1, params);
    if (leaf) {
      params[at.parameter.name] = decodeURIComponent(segment);
      return leaf;
    }
  }
  return takeRest(at, `/${segments.slice(index).join('/')}`, params);
}

function takeRest<R>(at: Node<R>, rest: string, params: Params): Leaf<R> | null {
  if (at.rest) params['*'] = rest;
  return at.rest;
}

function choose<R extends Matched>(leaf: Leaf<R>, method: string, params: Params): Match<R> {
  const route = leaf.get(method === 'HEAD' ? 'GET' : method);
  if (route) return { route, params };
  const allowed = [...leaf.keys()].flatMap((name) => (name === 'GET' ? ['GET', 'HEAD'] : [name]));
  const allow = [...allowed, 'OPTIONS'].join(', ');
  const error = new SvcError('METHOD_NOT_ALLOWED', `This address supports ${allow}.`, { headers: { allow } });
  return { error, open: [...leaf.values()].every((other) => other.needs === 'anyone') };
}

export function notFound(): SvcError {
  return new SvcError('NOT_FOUND', 'Nothing is served at this address.');
}
