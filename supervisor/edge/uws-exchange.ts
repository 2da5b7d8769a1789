/**
 * Handles one request and its answer on uWebSockets.js, which is the hot path. `res` may not be touched after an abort or a
 * complete answer. The bytes of a chunk of a body are gone when its callback returns.
 */

import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import type { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import {
  type Answer,
  type ConstantHeaders,
  type Exchange,
  type ExchangeHandler,
  errorAnswer,
  type ResponseHeaders,
  type ResponseStream,
  sendError,
} from './edge.ts';
import {
  BaseExchange,
  CLOSED_STREAM,
  type EdgeState,
  isBodyless,
  KEPT,
  KEPT_FOR,
  statusLine,
  type WaitingAnswer,
} from './exchange.ts';
import { checkFraming, type FramingRules, findHeader, type HeaderList } from './framing.ts';
import { ReaderWatch } from './reader-watch.ts';
import { takePart } from './upload-buffers.ts';
import { UwsStream } from './uws-stream.ts';

/** The socket may copy bodies up to this size. Longer ones are sent from the caller's buffer. */
const COPY_BYTES = 64 * 1024;
const NO_BODY = Buffer.alloc(0);
const LINE_BREAK = '\r\n';
const MAY_HAVE_BODY = new Set(['POST', 'PUT', 'PATCH', 'DELETE']);
const RULES: FramingRules = { chunked: false, hostRequired: true };

/**
 * Holds answers back while the native parser may still be reading their requests. The parser reads a whole buffer before it
 * returns to the event loop. If a request is answered by then, the parser continues with what it takes for the next one; else
 * it ends the connection. So no answer leaves in the turn of its request, and no buffer holds two requests that run, wherever
 * the parser ends the first.
 */
export class ParserTurn {
  #number = 0;
  #entered = false;
  #waiting: (() => void)[] = [];

  /** Notes that the parser hands something over. Answers the number of the turn. */
  enter(): number {
    if (!this.#entered) {
      this.#entered = true;
      setImmediate(this.#leave);
    }
    return this.#number;
  }

  isOver(turn: number): boolean {
    return turn !== this.#number;
  }

  /** Runs `callback` at the end of the turn that was entered last. */
  afterwards(callback: () => void): void {
    this.#waiting.push(callback);
  }

  readonly #leave = (): void => {
    this.#entered = false;
    this.#number += 1;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const callback of waiting) callback();
  };
}

export type UwsState = EdgeState & { readonly turn: ParserTurn };

/** The headers of the current request. One callback for all requests puts them here, and they are read in the same turn. */
let collected: string[] = [];
function collect(name: string, value: string): void {
  collected.push(name, value);
}

/** What the native parser calls with each request. It passes the request on, or refuses it. */
export function requestHandler(
  edge: UwsState,
  handler: ExchangeHandler,
): (res: HttpResponse, req: HttpRequest) => void {
  return (res, req) => {
    const headers: string[] = [];
    collected = headers;
    req.forEach(collect);
    // The native call returns undefined without a query, whatever its type says.
    const query: string | undefined = req.getQuery();
    const exchange = new UwsExchange(edge, res, req.getCaseSensitiveMethod(), req.getUrl(), query ?? '', headers);
    const refusal = checkFraming(exchange.path, exchange.query, headers, RULES);
    if (refusal === null) exchange.guard(() => handler(exchange));
    else exchange.refuse(refusal);
  };
}

class UwsExchange extends BaseExchange implements Exchange {
  readonly #res: HttpResponse;
  readonly #turn: ParserTurn;
  /** True once the last byte was handed to the socket. */
  #complete = false;
  /** The turn in which the parser was last at this request. */
  #parsed: number;
  /** A large answer that the socket did not take at once. */
  #waiting: (WaitingAnswer & { watch: ReaderWatch }) | null = null;
  #stream: UwsStream | null = null;
  #paused = false;

  constructor(edge: UwsState, res: HttpResponse, method: string, path: string, query: string, headers: HeaderList) {
    super(edge, method, path, query, headers);
    this.#res = res;
    this.#turn = edge.turn;
    this.#parsed = edge.turn.enter();
    // A request that may have a body says how long that is. Where it does not, the length may be hidden from us by a header
    // without a name, and what follows on the connection may be that body.
    this.closing = MAY_HAVE_BODY.has(method) && findHeader(headers, 'content-length') === undefined;
    res.onAborted(() => this.abort());
  }

  protected get peerAddress(): string {
    if (this.aborted || this.#complete) return '';
    return Buffer.from(this.#res.getRemoteAddressAsText()).toString();
  }

  /** Reads a body of a declared length, or none. Chunked bodies were refused before. */
  protected startReading(length: number): void {
    // The parser does not report an empty body when the head came in several pieces.
    if (length === 0) this.received(NO_BODY, true);
    else {
      this.#res.onData((chunk, last) => {
        this.#parsed = this.#turn.enter();
        this.received(this.streams ? takePart(chunk) : copy(chunk), last);
      });
    }
  }

  protected pauseReading(): void {
    this.#paused = true;
    this.#res.pause();
  }

  protected resumeReading(): void {
    if (!this.#paused || this.aborted || this.#complete) return;
    this.#paused = false;
    this.#res.resume();
  }

  protected answer(status: number, headers: ResponseHeaders, body: string | Buffer, constant?: ConstantHeaders): void {
    if (this.#isHeld()) this.held = () => this.#write(status, headers, body, constant);
    else this.#write(status, headers, body, constant);
  }

  protected open(status: number, headers: ResponseHeaders, length: number | undefined): ResponseStream {
    if (this.method === 'HEAD') {
      const write = () =>
        length === undefined ? this.#writeHead(status, headers, true) : this.#writeHeadOnly(status, headers, length);
      if (this.#isHeld()) this.held = write;
      else write();
      return CLOSED_STREAM;
    }
    this.#writeHead(status, headers, false);
    // An answer with a length is complete when its last byte is taken, and `res` is gone then.
    if (length !== undefined) this.resumeReading();
    this.#stream = new UwsStream(this.#res, length ?? null, () => this.#finished());
    return this.#stream;
  }

  /** Answers a request that must not reach a handler, and ends its connection. */
  refuse(error: SvcError): void {
    this.closing = true;
    if (error.code === 'LENGTH_REQUIRED') this.#refuseChunks(error);
    else sendError(this, error);
  }

  /**
   * Answers at once and throws the body away, so that its sender reads the answer. The parser finds no end behind a chunk
   * extension. The connection then ends after `LIMITS.lingerMs`.
   */
  #refuseChunks(error: SvcError): void {
    const close = () => {
      if (!this.aborted) this.#res.close();
    };
    this.timer = setTimeout(close, LIMITS.lingerMs);
    this.#res.onData((_chunk, last) => {
      if (last) setImmediate(close);
    });
    this.answered = true;
    this.#turn.afterwards(() => {
      if (!this.aborted) this.#writeOpen(errorAnswer(error));
    });
  }

  /**
   * Writes a whole answer without a native call that ends it, so that the connection stays open. The body is written as the end
   * of the last header. The native code puts a line break behind that, and JSON may end in one.
   */
  #writeOpen({ status, headers, body }: Answer): void {
    const res = this.#res;
    const lastLines = `${Buffer.byteLength(body) + LINE_BREAK.length}${LINE_BREAK}${LINE_BREAK}${body}`;
    const withoutBody = `${Buffer.byteLength(body) + LINE_BREAK.length}${LINE_BREAK}`;
    res.cork(() => {
      res.writeStatus(statusLine(status));
      writeHeaders(res, headers, undefined, false);
      res.writeHeader('connection', 'close');
      res.writeHeader('content-length', this.method === 'HEAD' ? withoutBody : lastLines);
    });
  }

  /** Whether the client means to go on with the connection after the answer. */
  get #isKept(): boolean {
    return findHeader(this.headers, 'connection') !== 'close';
  }

  /** Whether the answer has to wait, for the rest of the body to be thrown away or for the parser (`ParserTurn`). */
  #isHeld(): boolean {
    const turn = this.#turn;
    if (!this.holding && !turn.isOver(this.#parsed)) {
      this.holding = true;
      turn.afterwards(() => this.release());
    }
    return this.holding;
  }

  protected discardBody(): void {
    this.closing = true;
    this.holding = true;
    this.timer = setTimeout(() => this.release(), LIMITS.lingerMs);
    this.#res.onData((_chunk, last) => {
      if (!last) return;
      clearTimeout(this.timer);
      setImmediate(() => this.release());
    });
  }

  #write(status: number, headers: ResponseHeaders, body: string | Buffer, constant?: ConstantHeaders): void {
    const res = this.#res;
    if (isBodyless(status)) {
      this.#writeHead(status, headers, true, constant);
    } else if (this.method === 'HEAD') {
      this.#writeHeadOnly(status, headers, Buffer.byteLength(body), constant);
    } else if (body.length > COPY_BYTES) {
      this.#writeLarge(status, headers, typeof body === 'string' ? Buffer.from(body) : body, constant);
    } else {
      this.#finished();
      const close = this.closing || this.edge.draining;
      res.cork(() => {
        // Without our status line the native code writes that of 200.
        if (status !== 200) res.writeStatus(statusLine(status));
        writeHeaders(res, headers, constant, !close && this.#isKept);
        res.end(body, close);
      });
    }
  }

  /**
   * Answers a HEAD. The native call that takes the length and ends the answer never counts it as complete, and then the next
   * request ends the connection. So the length is written as a header. Where the connection ends here, the answer stays open,
   * because to touch `res` after its end ends the process. The connection is closed once the parser let go of what was written.
   */
  #writeHeadOnly(status: number, headers: ResponseHeaders, length: number, constant?: ConstantHeaders): void {
    if (!this.closing && !this.edge.draining) {
      this.#writeHead(status, { ...headers, 'content-length': String(length) }, true, constant);
      return;
    }
    const res = this.#res;
    this.abortCallback = null;
    if (length === 0) this.#finished();
    res.cork(() => {
      res.writeStatus(statusLine(status));
      writeHeaders(res, headers, constant, false);
      if (length === 0) {
        res.end('', true);
        return;
      }
      res.writeHeader('connection', 'close');
      res.tryEnd('', length);
    });
    if (length === 0) return;
    setImmediate(() => {
      if (this.aborted) return;
      this.#finished();
      res.close();
    });
  }

  #writeLarge(status: number, headers: ResponseHeaders, body: Buffer, constant?: ConstantHeaders): void {
    const res = this.#res;
    this.#writeHead(status, headers, false, constant);
    this.resumeReading();
    let isTaken = false;
    const send = (offset: number): void => {
      const [taken, done] = res.tryEnd(offset === 0 ? body : body.subarray(offset), body.length);
      if (done) this.#finished();
      isTaken = taken;
    };
    res.cork(() => send(0));
    if (!isTaken) this.#waitForReader(body.length, send);
  }

  /** Waits for the reader of a body that the socket did not take whole. `send` goes on from an offset up to the end. */
  #waitForReader(bytes: number, send: (offset: number) => void): void {
    const res = this.#res;
    const cutOff = () => res.close();
    const sendMore = (): boolean => {
      const offset = res.getWriteOffset();
      send(offset);
      if (this.#complete) return true;
      if (res.getWriteOffset() > offset) {
        watch.progress();
        this.edge.answers.progress(waiting);
      }
      return false;
    };
    // The native code would end the connection after some 10 s. Each try to send restarts its timer.
    const watch = new ReaderWatch(() => res.cork(sendMore), cutOff);
    const waiting = { bytes, watch, cutOff };
    this.#waiting = waiting;
    res.onWritable(sendMore);
    this.edge.answers.wait(waiting);
  }

  /** Writes status and headers. `whole` is true when nothing follows, not even a length. */
  #writeHead(status: number, headers: ResponseHeaders, whole: boolean, constant?: ConstantHeaders): void {
    const res = this.#res;
    if (whole) this.#finished();
    const close = this.closing || this.edge.draining;
    res.cork(() => {
      res.writeStatus(statusLine(status));
      writeHeaders(res, headers, constant, !close && this.#isKept);
      if (close) res.writeHeader('connection', 'close');
      if (whole) res.endWithoutBody();
    });
  }

  /** Releases everything right before the last byte is handed over. After that `res` is gone, and a paused socket would stay paused. */
  #finished(): void {
    clearTimeout(this.timer);
    this.giveBodyBack();
    this.resumeReading();
    this.#stopWaiting();
    this.#complete = true;
    this.abortCallback = null;
  }

  #stopWaiting(): void {
    if (this.#waiting === null) return;
    this.#waiting.watch.stop();
    this.edge.answers.remove(this.#waiting);
    this.#waiting = null;
  }

  protected override abort(): void {
    if (this.#complete) return;
    clearTimeout(this.timer);
    this.giveBodyBack();
    this.#stopWaiting();
    this.aborted = true;
    this.#stream?.abandon();
    super.abort();
  }
}

/** Writes headers. The constant ones go with the first other one, as a call into native code costs as much as a short copy. */
function writeHeaders(
  res: HttpResponse,
  headers: ResponseHeaders,
  constant: ConstantHeaders | undefined,
  isKept: boolean,
): void {
  const kept = isKept ? KEPT : '';
  let riders = constant === undefined ? kept : constant.lines + kept;
  for (const name in headers) {
    const value = headers[name] as string | string[];
    if (typeof value !== 'string') for (const item of value) res.writeHeader(name, item);
    else {
      res.writeHeader(name, value + riders);
      riders = '';
    }
  }
  if (riders === '') return;
  if (constant !== undefined) res.writeHeader(constant.first, isKept ? constant.restKept : constant.rest);
  else res.writeHeader('keep-alive', KEPT_FOR);
}

function copy(chunk: ArrayBuffer): Buffer {
  const bytes = Buffer.allocUnsafe(chunk.byteLength);
  bytes.set(new Uint8Array(chunk));
  return bytes;
}
