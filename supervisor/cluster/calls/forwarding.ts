/**
 * Sends a request to another node and its answer back, as fast as both sides take it (specification, "Calls between nodes").
 */
import { Agent, type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Exchange, ResponseHeaders } from '../../edge/edge.ts';
import { isBodyless } from '../../edge/exchange.ts';
import { FORWARDED, OWNER } from './proofs.ts';

/** What a node that does not own the bucket answers. */
export const NOT_OWNER = 421;

/** Of one connection only (RFC 9110, 7.6.1), or made anew for each. */
const OF_CONNECTION = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
  'content-length',
  FORWARDED,
]);
/** In addition, what each edge writes itself. */
const OF_ANSWER = new Set([...OF_CONNECTION, 'date', 'uwebsockets', OWNER]);
const MAY_HAVE_BODY = new Set(['POST', 'PUT', 'PATCH', 'DELETE']);

/** A request that is sent on. `proof` is the value of `FORWARDED`. */
export type Forwarding = {
  readonly exchange: Exchange;
  readonly address: string;
  readonly proof: string;
  readonly body: Buffer | Readable | null;
  /** Runs when the other node has begun to answer. */
  readonly onAnswer: () => void;
  /** Gets the value of `OWNER` where the other node does not own the bucket. Nothing was done. */
  readonly onOther: (owner: string) => void;
  /** Runs when the other node is gone before its answer begins. `wasSent`: it may have done what was asked. */
  readonly onLost: (wasSent: boolean) => void;
};

export type NodeAnswer = { status: number; headers: IncomingHttpHeaders; body: Buffer };

/** A question to a node at the path of a request. */
export type Asking = {
  readonly exchange: Exchange;
  readonly address: string;
  readonly proof: string;
  readonly method: string;
  readonly query: string;
  readonly body: Buffer | null;
  readonly timeoutMs?: number;
};

/** A question of this node itself. `ms` is null where `signal` alone ends it. */
export type OwnAsking = {
  readonly headers: string[];
  readonly body: Buffer;
  readonly ms: number | null;
  readonly signal?: AbortSignal | undefined;
};

/** An answer that has begun. */
export type Opened = { readonly answer: IncomingMessage; readonly head: Head };

/** What all requests to one node share. */
type Node = { readonly host: string; readonly port: string; readonly agent: Agent };

export class NodeClient {
  readonly #nodes = new Map<string, Node>();
  /** Requests that were sent on and have no answer yet, or one of known length that is not complete. */
  #underWay = 0;
  #waiting: (() => void)[] = [];

  /** Resolves when no request that was sent on waits for its answer, or for the rest of one whose length is known. */
  async settled(): Promise<void> {
    if (this.#underWay > 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  /** Something waits for another node until the function that this returns is called. */
  begin(): () => void {
    this.#underWay++;
    let isDone = false;
    return () => {
      if (isDone) return;
      isDone = true;
      this.#underWay--;
      if (this.#underWay === 0) for (const resolve of this.#waiting.splice(0)) resolve();
    };
  }

  /** Sends a request on. The exchange gets the answer, unless one of the callbacks runs. */
  forward({ exchange, address, proof, body, onAnswer, onOther, onLost }: Forwarding): void {
    const { method, path, query } = exchange;
    const headers = requestHeaders(exchange.headers, proof);
    if (Buffer.isBuffer(body)) headers.push('content-length', String(body.length));
    else if (body === null) {
      if (MAY_HAVE_BODY.has(method)) headers.push('content-length', '0');
    } else {
      const length = exchange.header('content-length');
      headers.push(...(length === undefined ? ['transfer-encoding', 'chunked'] : ['content-length', length]));
    }
    const sent = this.#open(address, method, query === '' ? path : `${path}?${query}`, headers);
    const done = this.begin();
    sent.on('close', done);
    let isConnected = false;
    let isAnswered = false;
    exchange.onAbort(() => sent.destroy());
    sent.on('socket', (socket) => onceConnected(socket, () => (isConnected = true)));
    sent.on('response', (answer) => {
      isAnswered = true;
      const head = headOf(answer);
      if (head.length === undefined) done();
      if (head.owner === null) {
        onAnswer();
        passOn(exchange, sent, answer, head, () => onLost(true));
      } else {
        answer.resume();
        onOther(head.owner);
      }
    });
    // After the beginning of an answer its own end says the same.
    sent.on('error', () => {
      if (!exchange.aborted && !isAnswered) onLost(isConnected);
    });
    if (body === null) sent.end();
    // Text leaves in one piece with the headers.
    else if (Buffer.isBuffer(body)) sent.end(body.toString('latin1'), 'latin1');
    else {
      body.on('error', () => sent.destroy());
      sent.on('close', () => body.destroy());
      body.pipe(sent);
    }
  }

  /**
   * Asks a node whether it owns the bucket of a proof for the method `OPTIONS`. Resolves with null if so, else with the value of
   * `OWNER`. Rejects when it cannot be reached, or answers something else.
   */
  async askOwner(exchange: Exchange, address: string, proof: string): Promise<string | null> {
    const { query } = exchange;
    const { answer, head } = await this.open({ exchange, address, proof, method: 'OPTIONS', query, body: null });
    answer.resume();
    if (head.owner !== null || head.status === 204) return head.owner;
    throw new Error(`The node at ${address} answered ${head.status}.`);
  }

  /**
   * Asks a node at the path of a request, with its headers. Resolves when its answer begins, whose body is to be read. It ends when the
   * client leaves. Rejects when the node cannot be reached or `timeoutMs` have passed.
   */
  open({ exchange, address, proof, method, query, body, timeoutMs }: Asking): Promise<Opened> {
    const { path } = exchange;
    const headers = requestHeaders(exchange.headers, proof);
    if (MAY_HAVE_BODY.has(method)) headers.push('content-length', String(body?.length ?? 0));
    return new Promise((resolve, reject) => {
      const sent = this.#open(address, method, query === '' ? path : `${path}?${query}`, headers);
      const late = () => sent.destroy(new Error(`The node at ${address} did not answer in time.`));
      const timer = timeoutMs === undefined ? undefined : setTimeout(late, timeoutMs);
      exchange.onAbort(() => sent.destroy());
      sent.on('error', reject).on('close', () => clearTimeout(timer));
      sent.on('response', (answer) => {
        clearTimeout(timer);
        resolve({ answer, head: headOf(answer) });
      });
      if (body === null) sent.end();
      else sent.end(body);
    });
  }

  /**
   * Asks a node for what this one needs itself. Resolves with null where it cannot be reached. Rejects when it went away after that, or
   * did not answer within `ms`: it may have done what was asked.
   */
  ask(address: string, path: string, { headers, body, ms, signal }: OwnAsking): Promise<NodeAnswer | null> {
    return new Promise((resolve, reject) => {
      const all = ['host', new URL(address).host, 'content-length', String(body.length), ...headers];
      const sent = this.#open(address, 'POST', path, all);
      let isConnected = false;
      sent.on('socket', (socket) => onceConnected(socket, () => (isConnected = true)));
      const end = (reason: string) => sent.destroy(new Error(reason));
      const timer = ms === null ? undefined : setTimeout(end, ms, `The node at ${address} did not answer.`);
      const leave = () => end('The caller has left.');
      signal?.addEventListener('abort', leave, { once: true });
      if (signal?.aborted) leave();
      sent.on('error', (error) => (isConnected ? reject(error) : resolve(null)));
      sent.on('close', () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', leave);
      });
      sent.on('response', (answer) => {
        const parts: Buffer[] = [];
        answer.on('error', reject).on('data', (part: Buffer) => parts.push(part));
        answer.on('end', () =>
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(parts) }),
        );
      });
      sent.end(body.toString('latin1'), 'latin1');
    });
  }

  /** Ends what is under way to nodes at other addresses than these. */
  keep(addresses: readonly string[]): void {
    for (const address of this.#nodes.keys()) if (!addresses.includes(address)) this.drop(address);
  }

  /** Ends what is under way to a node that is gone: its clients learn it as if the node had closed the connections. */
  drop(address: string): void {
    this.#nodes.get(address)?.agent.destroy();
    this.#nodes.delete(address);
  }

  close(): void {
    for (const address of this.#nodes.keys()) this.drop(address);
  }

  #open(address: string, method: string, path: string, headers: string[]): ClientRequest {
    const sent = request({ ...this.#nodeOf(address), method, path, headers });
    sent.on('socket', (socket) => limitConnecting(socket, sent));
    return sent;
  }

  #nodeOf(address: string): Node {
    let node = this.#nodes.get(address);
    if (node === undefined) {
      const { hostname, port } = new URL(address);
      const agent = new Agent({
        keepAlive: true,
        scheduling: 'lifo',
        timeout: LIMITS.nodeIdleMs,
        maxFreeSockets: LIMITS.nodeConnections,
      });
      node = { host: hostname.replace(/^\[|\]$/g, ''), port, agent };
      this.#nodes.set(address, node);
    }
    return node;
  }
}

function onceConnected(socket: Socket, run: () => void): void {
  if (socket.connecting) socket.once('connect', run);
  else run();
}

function limitConnecting(socket: Socket, sent: ClientRequest): void {
  if (!socket.connecting) return;
  const timer = setTimeout(() => sent.destroy(new Error('The node does not take connections.')), LIMITS.nodeConnectMs);
  socket.once('connect', () => clearTimeout(timer)).once('close', () => clearTimeout(timer));
}

function requestHeaders(headers: readonly string[], proof: string): string[] {
  const dropped = named(headers);
  const sent: string[] = [];
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] as string;
    if (!OF_CONNECTION.has(name) && !dropped?.has(name)) sent.push(name, headers[at + 1] as string);
  }
  sent.push(FORWARDED, proof);
  return sent;
}

/** The headers that a `Connection` header names. Host is of the request, whatever that says, and the proof is of it too. */
function named(headers: readonly string[]): ReadonlySet<string> | null {
  const at = headers.findIndex((name, i) => i % 2 === 0 && name === 'connection');
  const value = at < 0 ? '' : (headers[at + 1] as string);
  if (value === '' || value === 'close' || value === 'keep-alive') return null;
  const names = new Set(value.split(',').map((name) => name.trim().toLowerCase()));
  names.delete('host');
  return names;
}

/** What an answer begins with. `owner` is the value of `OWNER` of a node that does not own the bucket, else null. */
export type Head = { status: number; headers: ResponseHeaders; length: number | undefined; owner: string | null };

/** Reads the headers as they came: the object that Node makes of them costs more. */
function headOf({ statusCode: status = 0, rawHeaders }: IncomingMessage): Head {
  const headers: ResponseHeaders = {};
  let length: number | undefined;
  let owner: string | null = null;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] as string).toLowerCase();
    const value = rawHeaders[at + 1] as string;
    if (name === 'content-length') length = Number(value);
    else if (name === OWNER && status === NOT_OWNER) owner = value;
    if (OF_ANSWER.has(name)) continue;
    const before = headers[name];
    headers[name] = before === undefined ? value : [...(typeof before === 'string' ? [before] : before), value];
  }
  return { status, headers, length, owner };
}

/** Answers as the other node does. `onLost` runs where it is gone before anything of that was sent. */
function passOn(
  exchange: Exchange,
  sent: ClientRequest,
  answer: IncomingMessage,
  { status, headers, length }: Head,
  onLost: () => void,
): void {
  // What follows the answer of a node that has read enough is of no use.
  answer.on('end', () => {
    if (!sent.writableFinished) sent.destroy();
  });
  answer.on('error', () => {});
  if (isBodyless(status) || length === 0 || exchange.method === 'HEAD') {
    answer.resume();
    if (exchange.method === 'HEAD' && length !== 0) exchange.stream(status, headers, length).end();
    else exchange.send(status, headers, '');
    return;
  }
  if (length !== undefined && length <= LIMITS.forwardedPieceBytes) {
    const parts: Buffer[] = [];
    answer.on('data', (part: Buffer) => parts.push(part));
    answer.on('end', () =>
      exchange.send(status, headers, parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)),
    );
    answer.on('close', () => {
      if (!answer.complete && !exchange.aborted) onLost();
    });
    return;
  }
  const stream = exchange.stream(status, headers, length);
  stream.onDrain(() => answer.resume());
  answer.on('data', (part: Buffer) => {
    if (!stream.write(part)) answer.pause();
  });
  answer.on('end', () => stream.end());
  answer.on('close', () => {
    if (!answer.complete) stream.cutOff();
  });
}
