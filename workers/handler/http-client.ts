/**
 * Node's own HTTP client, behind `ctx.fetch`: loaded when something first needs it, because it takes milliseconds and two MiB, and
 * connected only to where the app may go. Each connection is judged when it is made, redirects included, by the address that it
 * then goes to. Its dispatcher for everybody, which app code could find, is closed.
 */
import type * as dns from 'node:dns';
import type * as net from 'node:net';
import type * as os from 'node:os';
import process from 'node:process';
import type * as tls from 'node:tls';
import { Egress, type EgressPolicy } from '../../protocol/rules/egress.ts';

/** What a handler's fetch rejects with where the app may not connect. */
export class EgressError extends Error {
  readonly code = 'EGRESS_REFUSED';

  constructor(host: string, why: string) {
    super(`ctx.fetch may not connect to ${host}: ${why}.`);
    this.name = 'EgressError';
  }
}

/** As Node's client asks for a connection. */
type ConnectOptions = { hostname: string; protocol: string; port: string; servername: string | null };
type Connected = (error: Error | null, socket: net.Socket | null) => void;
type Connector = (options: ConnectOptions, connected: Connected) => void;
type AgentClass = new (options: { connect: Connector }) => object;

/** How Node's client, and every copy of it in a process, finds the dispatcher for requests without one of their own. */
const SHARED_DISPATCHER = Symbol.for('undici.globalDispatcher.1');
const USED = (
  'FormData Headers Request Response AbortController AbortSignal Blob File ReadableStream ReadableStreamDefaultReader ' +
  'ReadableStreamBYOBReader ReadableStreamDefaultController ReadableByteStreamController TransformStream WritableStream ' +
  'TextDecoder TextEncoder'
).split(' ');
const CONNECT_MS = 10_000;
const DEFAULT_PORTS: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443 };

// Taken before app code runs.
const nativeFetch = globalThis.fetch;
const { defineProperty, freeze, getOwnPropertyDescriptor } = Object;
const nodesRequest = getOwnPropertyDescriptor(globalThis, 'Request');
const { apply, get } = Reflect;
const startTimer = setTimeout;
const stopTimer = clearTimeout;
const { getBuiltinModule } = process as unknown as { getBuiltinModule(name: string): unknown };

let agentClass: AgentClass | null = null;

/** Loads Node's client, once. To be called before anything else does: what it leaves for everybody is taken away. */
export function loadHttpClient(): void {
  if (agentClass !== null) return;
  // Reading the class is what loads it, and puts it in the place of our own getter.
  const ours = getOwnPropertyDescriptor(globalThis, 'Request');
  if (nodesRequest?.get) apply(nodesRequest.get, globalThis, []);
  if (ours) defineProperty(globalThis, 'Request', ours);
  const shared = get(globalThis, SHARED_DISPATCHER) as { constructor: AgentClass } | undefined;
  if (shared?.constructor.name !== 'Agent')
    throw new Error(`ctx.fetch does not know the HTTP client of Node ${process.version}.`);
  agentClass = shared.constructor;
  const closed = freeze({
    dispatch: () => {
      throw new Error('Use ctx.fetch.');
    },
  });
  defineProperty(globalThis, SHARED_DISPATCHER, { value: closed, writable: false, configurable: false });
  // What a response is made of is closed now, not when app code asks for it by name.
  for (const name of USED) get(globalThis, name);
}

/** Whether it is a `Request` of Node's. */
export function isRequest(input: unknown): input is Request {
  loadHttpClient();
  const { Request: NativeRequest } = globalThis;
  return input instanceof NativeRequest;
}

/** `fetch` within the policy. Rejects with an `EgressError` where it does not let the connection be made. */
export class HttpClient {
  readonly #policy: EgressPolicy;
  #agent: object | null = null;

  constructor(policy: EgressPolicy) {
    this.#policy = policy;
  }

  async fetch(input: string | URL | Request, init: RequestInit): Promise<Response> {
    try {
      // The client takes it from here, whatever app code put there.
      return await nativeFetch(input, { ...init, dispatcher: this.#dispatcher() } as RequestInit);
    } catch (error) {
      // Undici says only that it failed.
      const { cause } = error as { cause?: unknown };
      throw cause instanceof EgressError ? cause : error;
    }
  }

  #dispatcher(): object {
    if (this.#agent !== null) return this.#agent;
    loadHttpClient();
    this.#agent = new (agentClass as AgentClass)({ connect: connector(this.#policy) });
    return this.#agent;
  }
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
    /** Of a name; an address is not looked up. The socket goes to one of those that are handed on. */
    const judged: net.LookupFunction = (name, options, found) => {
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
    const where = { host, port: toPort, lookup: judged, autoSelectFamily: true, noDelay: true, keepAlive: true };
    const socket: net.Socket =
      protocol === 'https:'
        ? secure.connect({
            ...where,
            ...(isIP(host) === 0 ? { servername: servername ?? host } : {}),
            ALPNProtocols: ['http/1.1'],
          })
        : connect(where);
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
    socket.once(protocol === 'https:' ? 'secureConnect' : 'connect', () => settle(null));
    socket.once('error', settle);
  };
}

/** Whether an address is this machine's: where the gateway may listen. */
function isOurs(address: string): boolean {
  if (address === '::1' || address === '::' || address === '0.0.0.0' || address.startsWith('127.')) return true;
  const { networkInterfaces } = getBuiltinModule('node:os') as typeof os;
  return Object.values(networkInterfaces()).some((own) => own?.some((one) => one.address === address));
}
