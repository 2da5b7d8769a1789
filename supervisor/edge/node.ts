/**
 * The portable edge: HTTP by node:http. Its parser is strict (llhttp, never the insecure mode); `framing.ts` adds what it
 * does not look at. An embedding host's requests come in through `handleNodeRequest`.
 */
import { createServer, type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { PROCESS_ANSWERS } from './answer-budget.ts';
import { PROCESS_BODIES } from './body-budget.ts';
import { connectionLimit, descriptorLimit } from './descriptors.ts';
import type { Edge, EdgeOptions, ExchangeHandler } from './edge.ts';
import { checkFraming, type FramingRules } from './framing.ts';
import { NodeExchange, type NodeState } from './node-exchange.ts';
import { bodyTooSlow, errorAnswer, guard, sendError } from './response.ts';

const HTTP_1_1: FramingRules = { chunked: true, hostRequired: true };
const HTTP_1_0: FramingRules = { chunked: false, hostRequired: false };

export function createNodeEdge(options: EdgeOptions): Edge {
  const state = stateOf(options);
  const unanswered = new WeakMap<Duplex, Set<ServerResponse>>();
  /** The request that each connection is at: the last one whose head was read. */
  const latest = new WeakMap<Duplex, ServerResponse>();

  const server = createServer({
    maxHeaderSize: LIMITS.headerBytes + LIMITS.urlBytes,
    headersTimeout: LIMITS.requestTimeoutMs,
    // The longest that any route allows; `readBody` keeps the shorter time of the others.
    requestTimeout: LIMITS.uploadTimeoutMs,
    // Announced in a Keep-Alive header; Node keeps the connection for a second longer than it says.
    keepAliveTimeout: LIMITS.keepAliveMs,
    connectionsCheckingInterval: LIMITS.connectionCheckMs,
    insecureHTTPParser: false,
    // Answered by checkFraming, in the one error shape.
    requireHostHeader: false,
  });
  // Headers over Node's own maximum would be dropped without a word, Content-Length among them.
  server.maxHeadersCount = 0;
  server.maxConnections = connectionLimit(descriptorLimit());

  const condemned = new WeakSet<Duplex>();
  const onRequest = (req: IncomingMessage, res: ServerResponse): void => {
    // Node's parser goes on behind a request that we refused; where that one ended is not known.
    if (condemned.has(req.socket)) return;
    const waiting = unanswered.get(req.socket) ?? new Set();
    unanswered.set(req.socket, waiting.add(res));
    latest.set(req.socket, res);
    res.once('close', () => waiting.delete(res));
    const hasTooManyWaiting = waiting.size > LIMITS.pipelinedRequests;
    if (!serve(state, req, res, options.handler, hasTooManyWaiting)) condemned.add(req.socket);
  };
  server.on('request', onRequest);
  // An expectation that is not 100-continue may be ignored (RFC 9110, 10.1.1).
  server.on('checkExpectation', onRequest);

  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const waiting = unanswered.get(socket) ?? new Set();
    const [first] = waiting;
    // What is malformed is the body of a request that was answered already: there is no second answer to it.
    if (first === undefined && latest.get(socket)?.req.complete === false) {
      (socket as Socket).destroySoon();
      return;
    }
    // An answer may be written only where the malformed request is the one that is next to be answered.
    const isItsTurn = first === undefined || (waiting.size === 1 && !first.req.complete && !first.headersSent);
    if (socket.writable && isItsTurn && error.code !== 'ECONNRESET') socket.end(rawAnswer(refusalOf(error)));
    else socket.destroy();
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
 * Serves a request of an embedding host's own server (`gateway.handle(req, res)`). Where a body parser of the host has
 * consumed the body, `req.body` is taken: bytes and text as they are, anything else as JSON.
 */
export function handleNodeRequest(req: IncomingMessage, res: ServerResponse, options: EdgeOptions): void {
  serve(stateOf(options), req, res, options.handler);
}

function stateOf({ bodies = PROCESS_BODIES, answers = PROCESS_ANSWERS, onFault }: EdgeOptions): NodeState {
  return { draining: false, bodies, answers, onFault };
}

/** False when the request was refused: nothing that follows on its connection may be served. */
function serve(
  state: NodeState,
  req: IncomingMessage,
  res: ServerResponse,
  handler: ExchangeHandler,
  hasTooManyWaiting = false,
): boolean {
  const exchange = new NodeExchange(state, req, res);
  const refusal = refuse(exchange, req) ?? (hasTooManyWaiting ? tooManyWaiting() : null);
  if (refusal === null) {
    guard(exchange, state.onFault, () => handler(exchange));
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

/** A whole answer as text, for a request that never became one. */
function rawAnswer(error: SvcError): string {
  const { status, headers, body } = errorAnswer(error);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const length = `content-length: ${Buffer.byteLength(body)}\r\n`;
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}${length}connection: close\r\n\r\n${body}`;
}
