/**
 * Serves HTTP with node:http, on every platform. Its parser is strict (llhttp, never the insecure mode); `framing.ts` adds
 * further checks. An embedding host's requests come in through `handleNodeRequest`.
 */
import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { connectionLimit, descriptorLimit } from './descriptors.ts';
import {
  type ConstantHeaders,
  type Edge,
  type Exchange,
  type ExchangeHandler,
  errorAnswer,
  type ResponseHeaders,
  type ResponseStream,
  sendError,
} from './edge.ts';
import {
  BaseExchange,
  bodyTooSlow,
  type EdgeOptions,
  type EdgeState,
  isBodyless,
  stateOf,
  type WaitingAnswer,
} from './exchange.ts';
import { checkFraming, type FramingRules } from './framing.ts';
import { ReaderWatch } from './reader-watch.ts';

const HTTP_1_1: FramingRules = { chunked: true, hostRequired: true };
const HTTP_1_0: FramingRules = { chunked: false, hostRequired: false };
/** The size of slices in which longer bodies are sent. After each, it is known whether the client takes any. */
const SLICE_BYTES = 256 * 1024;
const NO_BODY = Buffer.alloc(0);
/** Bodies up to this size leave in one piece of text with their headers, which costs Node less than two pieces. */
const TEXT_BYTES = 16 * 1024 - 2048;
const NOTHING = (): void => {};

export function createNodeEdge(options: EdgeOptions): Edge {
  const state = stateOf(options);
  const unanswered = new WeakMap<Duplex, Set<ServerResponse>>();
  /** The answer to the last request of each connection whose head was read. */
  const latest = new WeakMap<Duplex, ServerResponse>();

  const server = createServer({
    maxHeaderSize: LIMITS.headerBytes + LIMITS.urlBytes,
    headersTimeout: LIMITS.requestTimeoutMs,
    // This is the longest time that any route allows. `readBody` keeps the shorter time of the others.
    requestTimeout: LIMITS.uploadTimeoutMs,
    // A Keep-Alive header announces this. Node keeps the connection for a second longer than it says.
    keepAliveTimeout: LIMITS.keepAliveMs,
    connectionsCheckingInterval: LIMITS.connectionCheckMs,
    insecureHTTPParser: false,
    // `checkFraming` refuses a missing Host, in the one shape of errors.
    requireHostHeader: false,
  });
  // Headers over Node's own maximum would be dropped without a word, Content-Length among them.
  server.maxHeadersCount = 0;
  server.maxConnections = connectionLimit(descriptorLimit());

  const condemned = new WeakSet<Duplex>();
  function isAnswered(this: ServerResponse): void {
    unanswered.get(this.req.socket)?.delete(this);
  }
  const onRequest = (req: IncomingMessage, res: ServerResponse): void => {
    // Node's parser goes on behind a refused request. Where that one ended is not known.
    if (condemned.has(req.socket)) return;
    const { socket } = req;
    let waiting = unanswered.get(socket);
    if (waiting === undefined) {
      waiting = new Set();
      unanswered.set(socket, waiting);
    }
    waiting.add(res);
    latest.set(socket, res);
    res.on('close', isAnswered);
    const hasTooManyWaiting = waiting.size > LIMITS.pipelinedRequests;
    const exchange = new NodeExchange(state, req, res, true);
    if (!serve(exchange, req, options.handler, hasTooManyWaiting)) condemned.add(socket);
  };
  server.on('request', onRequest);
  // An expectation that is not 100-continue may be ignored (RFC 9110, 10.1.1).
  server.on('checkExpectation', onRequest);

  server.on('clientError', (error: NodeJS.ErrnoException & { rawPacket?: Buffer }, socket) => {
    const waiting = unanswered.get(socket) ?? new Set();
    const [first] = waiting;
    // The malformed body belongs to a request that was answered already, so there is no second answer.
    if (first === undefined && latest.get(socket)?.req.complete === false) {
      (socket as Socket).destroySoon();
      return;
    }
    // An answer may be written only where the malformed request is the next one to be answered.
    const isItsTurn = first === undefined || (waiting.size === 1 && !first.req.complete && !first.headersSent);
    if (socket.writable && isItsTurn && error.code !== 'ECONNRESET') {
      // The parser does not say the method of a head that it refused.
      const isHead = first === undefined ? error.rawPacket?.indexOf('HEAD ') === 0 : first.req.method === 'HEAD';
      socket.end(rawAnswer(refusalOf(error), isHead));
    } else socket.destroy();
  });

  return {
    kind: 'node',
    listen: (host, port) =>
      new Promise((resolve, reject) => {
        server.once('error', reject);
        server.listen(port, host, () => {
          server.off('error', reject);
          resolve((server.address() as AddressInfo).port);
        });
      }),
    adopt: (fd) =>
      new Promise((resolve, reject) => {
        server.once('error', reject);
        server.listen({ fd }, () => {
          server.off('error', reject);
          const address = server.address();
          if (address !== null && typeof address === 'object') resolve({ host: address.address, port: address.port });
          else reject(new Error('The socket that was passed is not one of TCP.'));
        });
      }),
    stopAccepting: () => {
      state.draining = true;
      server.close();
    },
    close: () =>
      new Promise((resolve) => {
        state.draining = true;
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/**
 * Serves a request of an embedding host's own server (`gateway.handle(req, res)`). Where a body parser of the host consumed the
 * body, `req.body` is taken: bytes and text as they are, anything else as JSON.
 */
export function handleNodeRequest(req: IncomingMessage, res: ServerResponse, options: EdgeOptions): void {
  const exchange = new NodeExchange(stateOf(options), req, res, false);
  serve(exchange, req, options.handler);
}

/** Serves a request. False: it was refused, and nothing that follows on its connection may be served. */
function serve(
  exchange: NodeExchange,
  req: IncomingMessage,
  handler: ExchangeHandler,
  hasTooManyWaiting = false,
): boolean {
  const refusal = refuse(exchange, req) ?? (hasTooManyWaiting ? tooManyWaiting() : null);
  if (refusal === null) {
    exchange.guard(() => handler(exchange));
    return true;
  }
  exchange.closeAfter();
  sendError(exchange, refusal);
  return false;
}

function tooManyWaiting(): SvcError {
  const message = `The connection has ${LIMITS.pipelinedRequests} requests that wait for their answers; read those first.`;
  return new SvcError('OVERLOADED', message, { headers: { 'retry-after': '1' } });
}

function refuse(exchange: NodeExchange, req: IncomingMessage): SvcError | null {
  if (req.httpVersion !== '1.1' && req.httpVersion !== '1.0') {
    return new SvcError('BAD_REQUEST', 'Only HTTP/1.1 and HTTP/1.0 are supported.');
  }
  const rules = req.httpVersion === '1.1' ? HTTP_1_1 : HTTP_1_0;
  return checkFraming(exchange.path, exchange.query, exchange.headers, rules);
}

function refusalOf(error: NodeJS.ErrnoException): SvcError {
  if (error.code === 'HPE_HEADER_OVERFLOW') {
    return new SvcError('HEADERS_TOO_LARGE', `The headers are over ${LIMITS.headerBytes} bytes.`);
  }
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') return bodyTooSlow();
  return new SvcError('BAD_REQUEST', 'The request is not well-formed HTTP/1.1.');
}

/** A whole answer as text, for a request whose head was refused. To a HEAD it has no body. */
function rawAnswer(error: SvcError, isHead: boolean): string {
  const { status, headers, body } = errorAnswer(error);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const length = `content-length: ${Buffer.byteLength(body)}\r\n`;
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}${length}connection: close\r\n\r\n${isHead ? '' : body}`;
}

/** One request and its answer on node:http, of the gateway's own server or of an embedding host's. */
class NodeExchange extends BaseExchange implements Exchange {
  readonly #req: IncomingMessage;
  readonly #res: ServerResponse;
  readonly #isOwn: boolean;
  /** A large answer that the socket did not take at once. */
  #waiting: WaitingAnswer | null = null;
  /** Runs while something waits for the client to take it. */
  #watch: ReaderWatch | null = null;

  /** `isOwn` is true for our own server, where only Node handles the written bytes. */
  constructor(edge: EdgeState, req: IncomingMessage, res: ServerResponse, isOwn: boolean) {
    // A host's router may have cut off the part of the path under which it mounted us.
    const target = (req as { originalUrl?: string }).originalUrl ?? req.url ?? '';
    const mark = target.indexOf('?');
    const path = mark < 0 ? target : target.slice(0, mark);
    const headers = req.rawHeaders.slice();
    for (let at = 0; at < headers.length; at += 2) headers[at] = (headers[at] as string).toLowerCase();
    super(edge, req.method ?? '', path, mark < 0 ? '' : target.slice(mark + 1), headers);
    this.#req = req;
    this.#res = res;
    this.#isOwn = isOwn;
    if (!isOwn) this.raw = req;
    res.on('close', () => {
      clearTimeout(this.timer);
      this.#stopWatch();
      this.giveBodyBack();
      if (this.#waiting !== null) edge.answers.remove(this.#waiting);
      if (!res.writableFinished) this.abort();
    });
    // A write to a closing socket makes the response fail, which `close` reports. An error without a listener ends the process.
    res.on('error', NOTHING);
  }

  protected get peerAddress(): string {
    return this.#req.socket.remoteAddress ?? '';
  }

  protected override bodyLength(): number {
    return parsedBody(this.#req)?.length ?? super.bodyLength();
  }

  protected startReading(): void {
    const req = this.#req;
    const parsed = parsedBody(req);
    if (parsed !== null) {
      this.received(parsed, true);
      return;
    }
    this.timer ??= setTimeout(() => this.refuseBody(bodyTooSlow()), LIMITS.requestTimeoutMs);
    req.on('data', (chunk: Buffer) => this.received(chunk, false)).on('end', () => this.received(NO_BODY, true));
    if (this.streams) req.on('close', () => this.cutUploadShort());
  }

  protected pauseReading(): void {
    this.#req.pause();
  }

  protected resumeReading(): void {
    this.#req.resume();
  }

  protected answer(status: number, own: ResponseHeaders, body: string | Buffer, constant?: ConstantHeaders): void {
    if (this.holding) this.held = () => this.#write(status, own, body, constant);
    else this.#write(status, own, body, constant);
  }

  #write(status: number, own: ResponseHeaders, body: string | Buffer, constant: ConstantHeaders | undefined): void {
    const res = this.#res;
    const bodyless = isBodyless(status);
    const headers: OutgoingHttpHeaders = constant ? { ...constant.headers, ...own } : { ...own };
    if (!bodyless) headers['content-length'] = Buffer.byteLength(body);
    res.writeHead(status, this.#closing(headers));
    if (bodyless || this.method === 'HEAD') res.end();
    else if (body.length > SLICE_BYTES) this.#writeLarge(typeof body === 'string' ? Buffer.from(body) : body);
    else if (typeof body === 'string' || body.length > TEXT_BYTES || !this.#isOwn) res.end(body);
    else res.end(body.toString('latin1'), 'latin1');
    // Most answers have gone as a whole now. One that waits for those before it has no socket yet.
    if (res.socket?.writableLength !== 0) this.#watchReader();
  }

  protected open(status: number, headers: ResponseHeaders, length: number | undefined): ResponseStream {
    const res = this.#res;
    const all: OutgoingHttpHeaders = { ...headers };
    if (length !== undefined) all['content-length'] = length;
    res.writeHead(status, this.#closing(all));
    let left = this.method === 'HEAD' ? 0 : (length ?? 0);
    const isOver = () => this.aborted || res.writableEnded;
    let onDrain: (() => void) | null = null;
    res.on('drain', () => {
      this.#stopWatch();
      onDrain?.();
    });
    return {
      write: (chunk) => {
        if (isOver()) return true;
        left -= Buffer.byteLength(chunk);
        if (res.write(chunk)) return true;
        this.#watchReader();
        return false;
      },
      get buffered() {
        return isOver() ? 0 : res.writableLength;
      },
      onDrain: (callback) => {
        onDrain = callback;
      },
      end: () => {
        if (isOver()) return;
        if (left > 0) {
          res.destroy();
          return;
        }
        res.end();
        if (res.socket?.writableLength !== 0) this.#watchReader();
      },
      cutOff: () => {
        if (!isOver()) res.destroy();
      },
    };
  }

  protected discardBody(): void {
    if (parsedBody(this.#req) !== null) return;
    this.closing = true;
    this.holding = true;
    const release = () => {
      clearTimeout(this.timer);
      this.release();
    };
    this.timer = setTimeout(release, LIMITS.lingerMs);
    this.#req.once('end', release).resume();
  }

  /** Writes a large body as its client takes it. `close` ends that. */
  #writeLarge(body: Buffer): void {
    const res = this.#res;
    const { answers } = this.edge;
    const waiting = { bytes: body.length, cutOff: () => res.destroy() };
    let at = 0;
    const more = (): void => {
      let takes = true;
      while (takes && at < body.length) {
        takes = res.write(body.subarray(at, at + SLICE_BYTES));
        at += SLICE_BYTES;
      }
      if (at >= body.length) res.end();
    };
    res.on('drain', () => {
      answers.progress(waiting);
      if (!res.writableEnded) more();
    });
    more();
    this.#waiting = waiting;
    answers.wait(waiting);
  }

  /** Cuts the client off when it takes nothing for too long. An answer that waits for those before it is not offered yet. */
  #watchReader(): void {
    if (this.#watch !== null) return;
    const res = this.#res;
    const { socket } = res;
    if (socket === null) {
      res.once('socket', () => this.#watchReader());
      return;
    }
    let taken = takenOf(socket);
    const look = (): void => {
      const before = taken;
      taken = takenOf(socket);
      if (socket.writableLength === 0) this.#stopWatch();
      else if (taken > before) {
        watch.progress();
        if (this.#waiting !== null) this.edge.answers.progress(this.#waiting);
      }
    };
    const watch = new ReaderWatch(look, () => res.destroy());
    this.#watch = watch;
  }

  #stopWatch(): void {
    this.#watch?.stop();
    this.#watch = null;
  }

  #closing(headers: OutgoingHttpHeaders): OutgoingHttpHeaders {
    if (this.closing || this.edge.draining) headers.connection = 'close';
    return headers;
  }
}

/** The bytes of a body that a host's body parser consumed. They are null when the body is still to be read. */
function parsedBody(req: IncomingMessage): Buffer | null {
  if (!req.readableDidRead && !req.readableEnded) return null;
  const body = (req as { body?: unknown }).body;
  if (body === undefined || body === null) return NO_BODY;
  if (body instanceof Uint8Array) return Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
}

/**
 * The bytes of a connection that its client has taken, as far as the system tells. Only the handle knows what it still holds of
 * the write that is under way, which may be all that waits. Node's own timeout of sockets asks it too.
 */
function takenOf(socket: Socket): number {
  const { _handle: handle } = socket as { _handle?: { bytesWritten?: number; writeQueueSize?: number } | null };
  return (handle?.bytesWritten ?? 0) - (handle?.writeQueueSize ?? 0);
}
