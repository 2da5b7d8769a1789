/**
 * One request and its answer on uWebSockets.js: the hot path. `res` may not be touched after an abort or a complete
 * answer, and the bytes of a body chunk are gone when its callback returns.
 */

import type { HttpResponse } from 'uWebSockets.js';
import { Readable } from 'node:stream';
import type { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { AnswerBudget, WaitingAnswer } from './answer-budget.ts';
import { type BodyBudget, type BodyRoom, noRoomForBody } from './body-budget.ts';
import type { ConstantHeaders, Exchange, ResponseHeaders, ResponseStream } from './edge.ts';
import { declaredLength, findHeader, type HeaderList } from './framing.ts';
import type { ParserTurn } from './parser-turn.ts';
import { ReaderWatch } from './reader-watch.ts';
import {
  type Answer,
  bodyCutShort,
  bodyTooLarge,
  bodyTooSlow,
  checkHeaders,
  errorAnswer,
  guard,
  isBodyless,
  KEPT,
  KEPT_FOR,
  NOWHERE,
  sendError,
  statusLine,
} from './response.ts';
import { UwsStream } from './uws-stream.ts';

/** Longer bodies are sent from the caller's buffer as the socket takes them; shorter ones the socket may copy. */
const COPY_BYTES = 64 * 1024;

const NO_BODY = Buffer.alloc(0);

const LINE_BREAK = '\r\n';

const MAY_HAVE_BODY = new Set(['POST', 'PUT', 'PATCH', 'DELETE']);

/** What the exchanges of one edge share. */
export type UwsState = {
  draining: boolean;
  readonly turn: ParserTurn;
  readonly bodies: BodyBudget;
  readonly answers: AnswerBudget;
  readonly onFault: (error: unknown) => void;
};

export class UwsExchange implements Exchange {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  aborted = false;
  readonly #res: HttpResponse;
  readonly #headers: HeaderList;
  readonly #edge: UwsState;
  /** `send` or `stream` was called. */
  #answered = false;
  /** The last byte was handed to the socket. */
  #complete = false;
  /** The connection ends with the answer. */
  #closing = false;
  /** The answer waits until the rest of the body was thrown away, or the parser has left its buffer. */
  #holding = false;
  #held: (() => void) | null = null;
  /** When the parser was last at this request. */
  #parsed: number;
  #timer: NodeJS.Timeout | undefined;
  /** Bytes of the body that were taken from `#room`. */
  #bodyBytes = 0;
  #room: BodyRoom;
  /** While `readBody` collects: what it was given for errors. */
  #onBodyError: ((error: SvcError) => void) | null = null;
  /** A large answer that the socket did not take at once. */
  #waiting: (WaitingAnswer & { watch: ReaderWatch }) | null = null;
  #stream: UwsStream | null = null;
  #upload: Readable | null = null;
  #paused = false;
  #onAbort: (() => void) | null = null;

  constructor(edge: UwsState, res: HttpResponse, method: string, path: string, query: string, headers: HeaderList) {
    this.#edge = edge;
    this.#res = res;
    this.method = method;
    this.path = path;
    this.query = query;
    this.#headers = headers;
    this.#room = edge.bodies;
    this.#parsed = edge.turn.enter();
    // Such a request says how long its body is. Where it does not, the length may be hidden from us (a header without a
    // name), and what follows on the connection may be that body.
    this.#closing = MAY_HAVE_BODY.has(method) && findHeader(headers, 'content-length') === undefined;
    res.onAborted(() => this.#abort());
  }

  header(name: string): string | undefined {
    return findHeader(this.#headers, name);
  }

  onAbort(callback: () => void): void {
    if (this.aborted) callback();
    else this.#onAbort = callback;
  }

  get bodyReceived(): number {
    return this.#bodyBytes;
  }

  readBody(
    limit: number,
    onBody: (body: Buffer) => void,
    onError: (error: SvcError) => void,
    room: BodyRoom = this.#edge.bodies,
  ): void {
    // A length was declared, or there is no body: chunked bodies do not come this far.
    const length = declaredLength(this.#headers);
    if (length > limit) {
      this.#discardBody();
      onError(bodyTooLarge(limit));
      return;
    }
    // Of a body of no bytes the parser says nothing when the head came in several pieces.
    if (length === 0) {
      onBody(NO_BODY);
      return;
    }
    this.#room = room;
    this.#onBodyError = onError;
    let parts: Buffer[] | null = null;
    this.#res.onData((chunk, last) => {
      if (this.#onBodyError === null) return;
      this.#parsed = this.#edge.turn.enter();
      const isTaken = room.take(chunk.byteLength);
      // To make room, this very body may have been refused.
      if (this.#onBodyError === null) {
        if (isTaken) room.give(chunk.byteLength);
        return;
      }
      if (!isTaken) {
        clearTimeout(this.#timer);
        if (!last) this.#discardBody();
        this.refuseBody(noRoomForBody());
        return;
      }
      this.#bodyBytes += chunk.byteLength;
      if (last && parts === null) {
        this.#onBodyError = null;
        guard(this, this.#edge.onFault, () => onBody(copy(chunk)));
        return;
      }
      if (parts === null) {
        parts = [];
        this.#timer = setTimeout(() => this.refuseBody(bodyTooSlow()), LIMITS.requestTimeoutMs);
      }
      parts.push(copy(chunk));
      if (!last) return;
      clearTimeout(this.#timer);
      this.#onBodyError = null;
      const body = Buffer.concat(parts);
      guard(this, this.#edge.onFault, () => onBody(body));
    });
  }

  refuseBody(error: SvcError): void {
    const onError = this.#onBodyError;
    if (onError === null || this.aborted) return;
    this.#onBodyError = null;
    this.#closing = true;
    this.#giveBodyBack();
    if (!this.#holding) clearTimeout(this.#timer);
    guard(this, this.#edge.onFault, () => onError(error));
  }

  streamBody(limit: number, timeoutMs: number): Readable {
    const upload = new Readable({
      read: () => this.#resume(),
      destroy: (error, callback) => {
        clearTimeout(this.#timer);
        this.#resume();
        callback(error);
      },
    });
    // Its consumer may be done with it when it fails, and an error that nobody hears ends the process.
    upload.on('error', () => {});
    this.#upload = upload;
    const length = declaredLength(this.#headers);
    if (length > limit) {
      upload.destroy(bodyTooLarge(limit));
      this.#discardBody();
      return upload;
    }
    if (length === 0) {
      upload.push(null);
      return upload;
    }
    this.#timer = setTimeout(() => {
      this.#closing = true;
      upload.destroy(bodyTooSlow(timeoutMs));
    }, timeoutMs);
    this.#res.onData((chunk, last) => {
      if (upload.destroyed) return;
      this.#parsed = this.#edge.turn.enter();
      if (chunk.byteLength > 0 && !upload.push(copy(chunk)) && !last) {
        this.#paused = true;
        this.#res.pause();
      }
      if (!last) return;
      clearTimeout(this.#timer);
      upload.push(null);
    });
    return upload;
  }

  send(status: number, headers: ResponseHeaders, body: string | Buffer, constant?: ConstantHeaders): void {
    if (this.#answered || this.aborted) return;
    checkHeaders(headers);
    this.#answered = true;
    if (this.#isHeld()) this.#held = () => this.#write(status, headers, body, constant);
    else this.#write(status, headers, body, constant);
  }

  stream(status: number, headers: ResponseHeaders): ResponseStream {
    if (this.#answered || this.aborted) return NOWHERE;
    checkHeaders(headers);
    this.#answered = true;
    if (this.method === 'HEAD') {
      if (this.#isHeld()) this.#held = () => this.#writeHead(status, headers, true);
      else this.#writeHead(status, headers, true);
      return NOWHERE;
    }
    this.#writeHead(status, headers, false);
    this.#stream = new UwsStream(this.#res, () => this.#finished());
    return this.#stream;
  }

  /** Answers a request that must not reach a handler and ends its connection. */
  refuse(error: SvcError): void {
    this.#closing = true;
    if (error.code === 'LENGTH_REQUIRED') this.#refuseChunks(error);
    else sendError(this, error);
  }

  /**
   * Answers at once, and throws the body away until its end, so that its sender gets to read the answer. The parser finds no
   * end behind a chunk extension: then the connection ends after `LIMITS.lingerMs`.
   */
  #refuseChunks(error: SvcError): void {
    const close = () => {
      if (!this.aborted) this.#res.close();
    };
    this.#timer = setTimeout(close, LIMITS.lingerMs);
    this.#res.onData((_chunk, last) => {
      if (last) setImmediate(close);
    });
    this.#answered = true;
    this.#edge.turn.afterwards(() => {
      if (!this.aborted) this.#writeOpen(errorAnswer(error));
    });
  }

  /**
   * A whole answer after which the connection stays as it is: no native call ends it. So its body, which whitespace at the end
   * does not change, is written as if it were the end of the last header: the native code puts a line break behind that.
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
    return findHeader(this.#headers, 'connection') !== 'close';
  }

  /** Whether the answer has to wait: for the rest of the body to be thrown away, or for the parser (`ParserTurn`). */
  #isHeld(): boolean {
    const { turn } = this.#edge;
    if (!this.#holding && !turn.isOver(this.#parsed)) {
      this.#holding = true;
      turn.afterwards(() => this.#release());
    }
    return this.#holding;
  }

  /** Throws the rest of the body away and holds the answer until then, so that the sender gets to read it. */
  #discardBody(): void {
    this.#closing = true;
    this.#holding = true;
    this.#timer = setTimeout(() => this.#release(), LIMITS.lingerMs);
    this.#res.onData((_chunk, last) => {
      if (!last) return;
      clearTimeout(this.#timer);
      setImmediate(() => this.#release());
    });
  }

  #release(): void {
    this.#holding = false;
    const held = this.#held;
    this.#held = null;
    if (!this.aborted) held?.();
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
      const close = this.#closing || this.#edge.draining;
      res.cork(() => {
        // Without a status line of ours the native code writes the one for 200.
        if (status !== 200) res.writeStatus(statusLine(status));
        writeHeaders(res, headers, constant, !close && this.#isKept);
        res.end(body, close);
      });
    }
  }

  /**
   * The native call that takes the length and ends the answer never counts it as complete: the connection does not end by
   * itself, and the next request on it ends it. So the length is written as a header, except where the connection ends here.
   * There the answer is left open, because `res` is gone after one that was ended, and touching it ends the process; and
   * the connection is closed in the next turn, because what is written while the parser runs leaves when it is done.
   */
  #writeHeadOnly(status: number, headers: ResponseHeaders, length: number, constant?: ConstantHeaders): void {
    if (!this.#closing && !this.#edge.draining) {
      this.#writeHead(status, { ...headers, 'content-length': String(length) }, true, constant);
      return;
    }
    const res = this.#res;
    this.#onAbort = null;
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
    this.#resume();
    let isTaken = false;
    const send = (offset: number): void => {
      const [taken, done] = res.tryEnd(offset === 0 ? body : body.subarray(offset), body.length);
      if (done) this.#finished();
      isTaken = taken;
    };
    res.cork(() => send(0));
    if (!isTaken) this.#waitForReader(body.length, send);
  }

  /** The socket did not take a whole body: `send` goes on from an offset, and makes the answer complete when it takes the rest. */
  #waitForReader(bytes: number, send: (offset: number) => void): void {
    const res = this.#res;
    const cutOff = () => res.close();
    const sendMore = (): boolean => {
      const offset = res.getWriteOffset();
      send(offset);
      if (this.#complete) return true;
      if (res.getWriteOffset() > offset) {
        watch.progress();
        this.#edge.answers.progress(waiting);
      }
      return false;
    };
    const watch = new ReaderWatch(() => res.cork(sendMore), cutOff);
    const waiting = { bytes, watch, cutOff };
    this.#waiting = waiting;
    res.onWritable(sendMore);
    this.#edge.answers.wait(waiting);
  }

  /** Status and headers; `whole` when nothing follows, not even a length. */
  #writeHead(status: number, headers: ResponseHeaders, whole: boolean, constant?: ConstantHeaders): void {
    const res = this.#res;
    if (whole) this.#finished();
    const close = this.#closing || this.#edge.draining;
    res.cork(() => {
      res.writeStatus(statusLine(status));
      writeHeaders(res, headers, constant, !close && this.#isKept);
      if (close) res.writeHeader('connection', 'close');
      if (whole) res.endWithoutBody();
    });
  }

  /** Goes on reading the socket, which a slow consumer of the body had stopped. */
  #resume(): void {
    if (!this.#paused || this.aborted || this.#complete) return;
    this.#paused = false;
    this.#res.resume();
  }

  /** Right before the last byte is handed over: from then on `res` is gone, and a paused socket would stay so. */
  #finished(): void {
    clearTimeout(this.#timer);
    this.#giveBodyBack();
    this.#resume();
    this.#stopWaiting();
    this.#complete = true;
    this.#onAbort = null;
  }

  #giveBodyBack(): void {
    this.#room.give(this.#bodyBytes);
    this.#bodyBytes = 0;
  }

  #stopWaiting(): void {
    if (this.#waiting === null) return;
    this.#waiting.watch.stop();
    this.#edge.answers.done(this.#waiting);
    this.#waiting = null;
  }

  #abort(): void {
    if (this.#complete) return;
    clearTimeout(this.#timer);
    this.#giveBodyBack();
    this.#stopWaiting();
    this.aborted = true;
    this.#held = null;
    this.#stream?.abandon();
    if (this.#upload !== null && !this.#upload.readableEnded) this.#upload.destroy(bodyCutShort());
    const callback = this.#onAbort;
    this.#onAbort = null;
    if (callback !== null) guard(this, this.#edge.onFault, callback);
  }
}

/** The constant ones ride on the first of the others, as each call into native code costs as much as a short copy. */
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
