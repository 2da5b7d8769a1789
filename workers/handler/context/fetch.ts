/**
 * Implements `ctx.fetch` with Node's own HTTP client: requests end with the call and connect only where the app may. It checks
 * each connection when it is made, redirects included, by its address. The client takes up to 50 ms and two MiB, so it is
 * loaded on the first use; the dispatcher that it shares, which app code could find, is closed.
 */
import type * as dns from 'node:dns';
import type * as net from 'node:net';
import type * as os from 'node:os';
import process from 'node:process';
import type * as tls from 'node:tls';
import { withReason } from '../../../protocol/http/network-errors.ts';
import { Egress, type EgressPolicy } from '../../../protocol/rules/egress.ts';
import { joinSignals } from '../../../protocol/signals.ts';
import type { Redactor } from '../../../protocol/text/redactor.ts';
import type { HandlerCall } from '../calls.ts';
import { effect } from '../effects.ts';
import { placeError, siteOf } from './call-sites.ts';
import type { CallTrace } from './call-trace.ts';

export type FetchInput = string | URL | Request;

/** Is told of each request, and with the function that it returns of how it ended: the handler gets that after it resolves. */
export type FetchWatch = (method: string, url: URL) => (end: { status: number } | { error: unknown }) => Promise<void>;

/** The error of a handler's fetch to where the app may not connect. */
export class EgressError extends Error {
  readonly code = 'EGRESS_REFUSED';

  constructor(host: string, why: string) {
    super(`ctx.fetch may not connect to ${host}: ${why}.`);
    this.name = 'EgressError';
  }
}

/** The options with which Node's client asks for a connection. */
type ConnectOptions = { hostname: string; protocol: string; port: string; servername: string | null };
type Connected = (error: Error | null, socket: net.Socket | null) => void;
type Connector = (options: ConnectOptions, connected: Connected) => void;
type AgentClass = new (options: { connect: Connector }) => object;

/** Symbols under which every copy of Node's client in a process finds the shared dispatcher; newer versions use both. */
const SHARED_DISPATCHERS = [Symbol.for('undici.globalDispatcher.2'), Symbol.for('undici.globalDispatcher.1')];
const USED = (
  'FormData Headers Request Response AbortController AbortSignal Blob File ReadableStream ReadableStreamDefaultReader ' +
  'ReadableStreamBYOBReader ReadableStreamDefaultController ReadableByteStreamController TransformStream WritableStream ' +
  'TextDecoder TextEncoder'
).split(' ');
/** Globals of the web that are the client's classes. */
export const HTTP_CLASSES = ['FormData', 'Headers', 'Request', 'Response'];
const CONNECT_MS = 10_000;
/** A fetch ends this long after the deadline: by then the supervisor has answered with the timeout, a better message. */
const LATE_MS = 250;
/** Names of requests in traces. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);
const DEFAULT_PORTS: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443 };

// Taken before app code runs.
const nativeFetch = globalThis.fetch;
const NativeURL = globalThis.URL;
const NodesMessagePort = globalThis.MessagePort;
const { now } = Date;
const { defineProperties, defineProperty, freeze, hasOwn } = Object;
const { deleteProperty, get } = Reflect;
const startTimer = setTimeout;
const stopTimer = clearTimeout;
const { getBuiltinModule } = process as unknown as { getBuiltinModule(name: string): unknown };

let agentClass: AgentClass | null = null;
/** The classes of Node's client by their names, found while it is loaded. */
const classes = new Map<string, unknown>();
let isLoading = false;

/**
 * Lets `loadHttpClient` find the client's classes, whose members the client defines with `Object.defineProperties`. From Node
 * 22 on, any look at their names on `globalThis` would load it. Called once, before app code.
 */
export function watchHttpClient(): void {
  const watching = {
    defineProperties(target: object, members: PropertyDescriptorMap & ThisType<unknown>): object {
      if (isLoading && hasOwn(target, 'constructor')) classes.set(target.constructor.name, target.constructor);
      return defineProperties(target, members);
    },
  };
  Object.defineProperties = watching.defineProperties as typeof Object.defineProperties;
}

/** A class of Node's client that is a global of the web. */
export function httpClass(name: string): unknown {
  loadHttpClient();
  return classes.get(name);
}

/** Loads Node's client, once, before anything else does, and closes what it shares. */
function loadHttpClient(): void {
  if (agentClass !== null) return;
  isLoading = true;
  // A class that app code lacks and the client needs while it loads.
  defineProperty(globalThis, 'MessagePort', { value: NodesMessagePort, configurable: true });
  // Any call loads it; this one has no address and fails.
  nativeFetch('').catch(() => {});
  deleteProperty(globalThis, 'MessagePort');
  isLoading = false;
  const found = SHARED_DISPATCHERS.filter((symbol) => get(globalThis, symbol) !== undefined);
  const shared = found.length > 0 ? (get(globalThis, found[0] as symbol) as { constructor: AgentClass }) : null;
  if (shared?.constructor.name !== 'Agent' || !HTTP_CLASSES.every((name) => classes.has(name)))
    throw new Error(`ctx.fetch does not know the HTTP client of Node ${process.version}.`);
  agentClass = shared.constructor;
  const closed = freeze({
    dispatch: () => {
      throw new Error('Use ctx.fetch.');
    },
  });
  for (const symbol of found)
    defineProperty(globalThis, symbol, { value: closed, writable: false, configurable: false });
  // Closes the classes that responses use now, not when app code asks for them by name.
  for (const name of USED) get(globalThis, name);
}

function isRequest(input: unknown): input is Request {
  loadHttpClient();
  const { Request: NativeRequest } = globalThis;
  return input instanceof NativeRequest;
}

/** `fetch` within the policy. */
export class HttpClient {
  readonly #policy: EgressPolicy;
  readonly #redactor: Redactor;
  #agent: object | null = null;

  constructor(policy: EgressPolicy, redactor: Redactor) {
    this.#policy = policy;
    this.#redactor = redactor;
  }

  /**
   * Ends with the call, even if it is not awaited, and with the handler's signal. http and https only. Rejects with an
   * `EgressError` where the policy does not let the connection be made, and with the reason where it fails.
   */
  async fetch(call: HandlerCall, input: FetchInput, init?: RequestInit, watch?: FetchWatch): Promise<Response> {
    effect();
    // Node answers long after the handler's call.
    const site = siteOf(this.fetch);
    const request = typeof input === 'object' && isRequest(input) ? input : null;
    // Converted to text once, so that the checked address is the requested one.
    const target = request ?? String(input);
    const url = new NativeURL(request ? request.url : String(target));
    const { protocol } = url;
    if (protocol !== 'http:' && protocol !== 'https:') {
      throw new TypeError(`ctx.fetch takes http and https addresses, not "${protocol}".`);
    }
    const own = init?.signal ?? request?.signal;
    const signal = own ? joinSignals([own, endOf(call)]).signal : endOf(call);
    // Node's client uses this dispatcher, not one that app code set.
    const options = { ...init, signal, dispatcher: this.#dispatcher() } as RequestInit;
    const method = (options.method ?? request?.method ?? 'GET').toUpperCase();
    const traced = call.trace === null ? null : this.#trace(call.trace, method, url, request, options);
    const ended = watch?.(method, url);
    try {
      const response = await nativeFetch(target, options);
      traced?.ended(response.status, response.status < 400 ? '' : String(response.status));
      if (ended !== undefined) await ended({ status: response.status });
      return response;
    } catch (error) {
      const { cause } = error as { cause?: unknown };
      const thrown = cause instanceof EgressError ? cause : withReason(error, url);
      placeError(thrown, site);
      traced?.ended(0, errorType(thrown));
      if (ended !== undefined) await ended({ error: thrown });
      throw thrown;
    }
  }

  /** Passes the trace on with the request, unless the handler names another one. */
  #trace(
    trace: CallTrace,
    method: string,
    url: URL,
    request: Request | null,
    options: RequestInit,
  ): ReturnType<CallTrace['request']> {
    const { protocol, hostname, port } = url;
    const traced = trace.request({
      method: METHODS.has(method) ? method : '_OTHER',
      // A name can hold a secret, such as a token as its first label.
      host: this.#redactor.text(hostname),
      port: port === '' ? (DEFAULT_PORTS[protocol] as number) : +port,
    });
    const { Headers: NativeHeaders } = globalThis;
    const headers = new NativeHeaders(options.headers ?? request?.headers);
    if (!headers.has('traceparent')) headers.set('traceparent', traced.traceparent);
    options.headers = headers;
    return traced;
  }

  #dispatcher(): object {
    if (this.#agent !== null) return this.#agent;
    loadHttpClient();
    this.#agent = new (agentClass as AgentClass)({ connect: connector(this.#policy) });
    return this.#agent;
  }
}

/** The name of a failure in traces: its class or code; messages may hold anything. */
function errorType(error: unknown): string {
  const { name, code } = error as { name?: unknown; code?: unknown };
  const type = typeof code === 'string' ? code : name;
  return typeof type === 'string' && /^[A-Za-z_]{1,60}$/.test(type) ? type : 'Error';
}

/** One signal for all fetches of a call, since it is kept until the deadline. */
function endOf(call: HandlerCall): AbortSignal {
  call.fetchEnd ??= joinSignals([call.signal], Math.max(0, call.deadline - now()) + LATE_MS).signal;
  return call.fetchEnd;
}

function connector(policy: EgressPolicy): Connector {
  const { connect, isIP } = getBuiltinModule('node:net') as typeof net;
  const { lookup } = getBuiltinModule('node:dns') as typeof dns;
  const secure = getBuiltinModule('node:tls') as typeof tls;
  const egress = new Egress(policy, isOurs);

  return ({ hostname, protocol, port, servername }, connected) => {
    const host = hostname[0] === '[' ? hostname.slice(1, -1) : hostname;
    const toPort = port === '' ? (DEFAULT_PORTS[protocol] as number) : +port;
    const refusal = egress.refusal({ host, address: isIP(host) === 0 ? null : host, port: toPort });
    if (refusal !== null) {
      connected(new EgressError(hostname, refusal), null);
      return;
    }
    const relay = policy.relay?.[protocol === 'https:' ? 'https' : 'http'];
    /** Looks up a name; addresses need none. The socket connects to one of the results. */
    const checkedLookup: net.LookupFunction = (name, options, found) => {
      lookup(name, { ...options, all: true }, (error, addresses) => {
        if (error) {
          found(error, []);
          return;
        }
        let why: string | null = null;
        const open: dns.LookupAddress[] = [];
        for (const one of addresses) {
          const refused = egress.refusal({ host, address: one.address, port: toPort });
          if (refused === null) open[open.length] = one;
          else why = `${one.address}: ${refused}`;
        }
        if (open.length > 0) found(null, open);
        else found(new EgressError(hostname, why ?? 'it has no address'), []);
      });
    };
    const where = { host, port: toPort, lookup: checkedLookup, autoSelectFamily: true, noDelay: true, keepAlive: true };
    if (relay !== undefined || protocol !== 'https:') {
      whenOpen(connect(relay === undefined ? where : { path: relay }), 'connect', hostname, connected);
      return;
    }
    const named = isIP(host) === 0 ? { servername: servername ?? host } : {};
    const socket = secure.connect({ ...where, ...named, ALPNProtocols: ['http/1.1'] });
    whenOpen(socket, 'secureConnect', hostname, connected);
  };
}

/** Passes on the socket once `event` reports it open, or the error within `CONNECT_MS`. */
function whenOpen(
  socket: net.Socket,
  event: 'connect' | 'secureConnect',
  hostname: string,
  connected: Connected,
): void {
  const timer = startTimer(
    () => socket.destroy(new Error(`${hostname} did not answer within ${CONNECT_MS} ms`)),
    CONNECT_MS,
  );
  let waiting = true;
  const settle = (error: Error | null): void => {
    if (!waiting) return;
    waiting = false;
    stopTimer(timer);
    connected(error, error === null ? socket : null);
  };
  socket.once(event, () => settle(null));
  socket.once('error', settle);
}

/** Whether an address is this machine's: where the gateway may listen. */
function isOurs(address: string): boolean {
  if (address === '::1' || address === '::' || address === '0.0.0.0' || address.startsWith('127.')) return true;
  const { networkInterfaces } = getBuiltinModule('node:os') as typeof os;
  return Object.values(networkInterfaces()).some((own) => own?.some((one) => one.address === address));
}
