/** Nodes of a cluster for tests: real edges, and calls between nodes before handlers of the test. */
import { type ClientRequest, type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import type { TestContext } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { pino } from 'pino';
import { movedError } from '../protocol/errors.ts';
import { Calls } from '../supervisor/cluster/calls/calls.ts';
import type { Locate } from '../supervisor/cluster/calls/finder.ts';
import { type Owner, Owners } from '../supervisor/cluster/calls/owners.ts';
import { resolveConfig } from '../supervisor/config.ts';
import type { Edge, ExchangeHandler } from '../supervisor/edge/edge.ts';
import { type EdgeKind, openEdge } from '../supervisor/edge/open-edge.ts';
import { Places } from '../supervisor/http/access/places.ts';
import { EDGES } from './edges.ts';
import { inTime } from './waiting.ts';

export const SECRET = 'the secret of this cluster';
export const HOST = 'svc.localhost:8787';
/** Of an app. */
export const APP = 'notes';
export const PATH = `/svc/${APP}/_blobs`;
export const QUIET = pino({ enabled: false });

export type TestNode = {
  name: string;
  port: number;
  address: string;
  owners: Owners;
  /** What the directory says. */
  known: Map<number, Owner>;
  calls: Calls;
  /** The Hosts that are its own. */
  places: Places;
  edge: Edge;
  served: number;
};

type TestNodeOptions = {
  name: string;
  kind: EdgeKind;
  next: ExchangeHandler;
  nodes?: () => readonly string[];
  locate?: Locate;
  host?: string;
  waits?: boolean;
};

/**
 * `nodes` are the addresses of all nodes; `locate` what this one has; `host` is a Host of its own beside those of loopback. `waits`:
 * requests wait for a node that serves what they are about.
 */
export async function startNode(
  t: TestContext,
  { name, kind, next, nodes = () => [], locate = () => null, host = '127.0.0.1', waits = false }: TestNodeOptions,
): Promise<TestNode> {
  const known = new Map<number, Owner>();
  const owners = new Owners(name, {
    ownerOf: (bucket) => known.get(bucket),
    isServed: (bucket) => known.get(bucket)?.node === name,
  });
  const places = new Places({ ...resolveConfig('/data'), host });
  const calls = new Calls({
    owners,
    secret: SECRET,
    places,
    storing: () => async () => {},
    next: (exchange) => {
      node.served++;
      next(exchange);
    },
    nodes,
    locate,
    absence: () => (waits ? null : movedError()),
    isStranger: (exchange) => exchange.header('authorization') === 'of a stranger',
    log: QUIET,
  });
  const { edge } = openEdge(kind, {
    handler: calls.handle,
    onFault: (error) => t.diagnostic(`${name} failed: ${(error as Error).stack}`),
  });
  const port = await edge.listen('127.0.0.1', 0);
  const node: TestNode = {
    name,
    port,
    address: `http://127.0.0.1:${port}`,
    owners,
    known,
    calls,
    places,
    edge,
    served: 0,
  };
  t.after(async () => {
    calls.close();
    await edge.close();
  });
  return node;
}

export type Sent = {
  method?: string;
  path?: string;
  headers?: OutgoingHttpHeaders;
  body?: string | Buffer;
  from?: string;
};
export type Got = { status: number; headers: IncomingMessage['headers']; body: Buffer };

export function open(port: number, { method = 'GET', path = PATH, headers = {}, from }: Sent): ClientRequest {
  const options = { port, host: '127.0.0.1', method, path, agent: false, ...(from && { localAddress: from }) };
  return request({ ...options, headers: { host: HOST, ...headers } });
}

/** The whole answer; rejects when the connection ends before its end. */
export async function bodyOf(answer: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of answer) parts.push(part as Buffer);
  return Buffer.concat(parts);
}

/** Resolves with the head of the answer, before its body. */
export function begun(sent: ClientRequest): Promise<IncomingMessage> {
  const answered = new Promise<IncomingMessage>((resolve, reject) => sent.on('response', resolve).on('error', reject));
  return inTime(answered, 'the head of an answer');
}

export async function call({ port }: TestNode, sent: Sent = {}): Promise<Got> {
  const length = sent.body === undefined ? {} : { 'content-length': Buffer.byteLength(sent.body) };
  const client = open(port, { ...sent, headers: { ...length, ...sent.headers } });
  const head = begun(client);
  client.end(sent.body);
  const answer = await head;
  return { status: answer.statusCode ?? 0, headers: answer.headers, body: await inTime(bodyOf(answer), 'an answer') };
}

export function codeOf({ status, body }: Got): string {
  return `${status} ${JSON.parse(body.toString()).error.code}`;
}

/** A promise, and the function that fulfils it. */
export function signal<T = void>() {
  let fire: (value: T) => void = () => {};
  const promise = new Promise<T>((resolve) => {
    fire = resolve;
  });
  return { fire, fired: (what: string) => inTime(promise, what) };
}

/** Waits until a number has stopped changing. */
export async function settled(value: () => number): Promise<number> {
  let last = -1;
  for (let quiet = 0; quiet < 200; quiet++) {
    await nextTurn();
    if (value() !== last) quiet = 0;
    last = value();
  }
  return last;
}

/** Of the node that is asked and of the owner. */
export const PAIRS = EDGES.flatMap((first) => EDGES.map((second): [EdgeKind, EdgeKind] => [first, second]));
