/** One request and its answer on node:http, the gateway's own or an embedding host's. */
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { AnswerBudget, WaitingAnswer } from './answer-budget.ts';
import { type BodyBudget, type BodyRoom, noRoomForBody } from './body-budget.ts';
import type { ConstantHeaders, Exchange, ResponseHeaders, ResponseStream } from './edge.ts';
import { declaredLength, findHeader, type HeaderList } from './framing.ts';
import { bodyCutShort, bodyTooLarge, bodyTooSlow, checkHeaders, guard, isBodyless, NOWHERE } from './response.ts';

/** Longer bodies are sent in slices of this size, so that it is seen whether the client takes any. */
const SLICE_BYTES = 256 * 1024;

/** What the exchanges of one edge share. */
export type NodeState = {
  draining: boolean;
  readonly bodies: BodyBudget;
  readonly answers: AnswerBudget;
  readonly onFault: (error: unknown) => void;
};

export class NodeExchange implements Exchange {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly headers: HeaderList;
  aborted = false;
  readonly #edge: NodeState;
  readonly #req: IncomingMessage;
  readonly #res: ServerResponse;
  #answered = false;
  /** The connection ends with the answer. */
  #closing = false;
  /** The answer waits until the rest of the body was thrown away. */
  #holding = false;
  #held: (() => void) | null = null;
  #timer: NodeJS.Timeout | undefined;
  /** Bytes of the body that were taken from `#room`. */
  #bodyBytes = 0;
  #room: BodyRoom;
  /** While `readBody` collects: ends it with an error. */
  #refuseBody: ((error: SvcError) => void) | null = null;
  /** A large answer that the socket did not take at once. */
  #waiting: WaitingAnswer | null = null;
  #onAbort: (() => void) | null = null;

  constructor(edge: NodeState, req: IncomingMessage, res: ServerResponse) {
    this.#edge = edge;
    this.#req = req;
    this.#res = res;
    this.#room = edge.bodies;
    this.method = req.method ?? '';
    // A host's router may have cut off the part of the path under which it mounted us.
    const target = (req as { originalUrl?: string }).originalUrl ?? req.url ?? '';
    const mark = target.indexOf('?');
    this.path = mark === -1 ? target : target.slice(0, mark);
    this.query = mark === -1 ? '' : target.slice(mark + 1);
    this.headers = req.rawHeaders.map((text, at) => (at % 2 === 0 ? text.toLowerCase() : text));
    res.on('close', () => {
      clearTimeout(this.#timer);
      this.#giveBodyBack();
      if (this.#waiting !== null) edge.answers.done(this.#waiting);
      if (!res.writableFinished) this.#abort();
    });
    // A write that meets a closing socket makes the response fail; `close` tells us, and an error that nobody hears
    // ends the process.
    res.on('error', () => {});
  }

  header(name: string): string | undefined {
    return findHeader(this.headers, name);
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
    const parsed = parsedBody(this.#req);
    if (parsed !== null) {
      if (parsed.length > limit) onError(bodyTooLarge(limit));
      else onBody(parsed);
      return;
    }
    const fail = (error: SvcError) => guard(this, this.#edge.onFault, () => onError(error));
    if (declaredLength(this.headers) > limit) {
      this.#discardBody();
      fail(bodyTooLarge(limit));
      return;
    }
    const req = this.#req;
    this.#room = room;
    const parts: Buffer[] = [];
    const stop = () => {
      clearTimeout(this.#timer);
      req.off('data', onData).off('end', onEnd);
      this.#refuseBody = null;
    };
    const onData = (chunk: Buffer) => {
      const isTooLarge = this.#bodyBytes + chunk.length > limit;
      const isTaken = !isTooLarge && room.take(chunk.length);
      // To make room, this very body may have been refused.
      if (this.#refuseBody === null) {
        if (isTaken) room.give(chunk.length);
        return;
      }
      if (isTaken) {
        this.#bodyBytes += chunk.length;
        parts.push(chunk);
        return;
      }
      stop();
      parts.length = 0;
      this.#giveBodyBack();
      this.#discardBody();
      fail(isTooLarge ? bodyTooLarge(limit) : noRoomForBody());
    };
    const onEnd = () => {
      stop();
      const body = parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
      guard(this, this.#edge.onFault, () => onBody(body));
    };
    this.#refuseBody = (error) => {
      stop();
      this.#giveBodyBack();
      this.#closing = true;
      fail(error);
    };
    this.#timer = setTimeout(() => this.refuseBody(bodyTooSlow()), LIMITS.requestTimeoutMs);
    req.on('data', onData).on('end', onEnd);
  }

  refuseBody(error: SvcError): void {
    if (!this.aborted) this.#refuseBody?.(error);
  }

  streamBody(limit: number, timeoutMs: number): Readable {
    const req = this.#req;
    const parsed = parsedBody(req);
    const source: Readable = parsed === null ? req : Readable.from([parsed]);
    let received = 0;
    let whole = false;
    const onData = (chunk: Buffer) => {
      received += chunk.length;
      if (received > limit) tooLarge();
      else if (!upload.push(chunk)) source.pause();
    };
    const onEnd = () => {
      whole = true;
      clearTimeout(this.#timer);
      upload.push(null);
    };
    const onClose = () => {
      if (!whole) upload.destroy(bodyCutShort());
    };
    const upload = new Readable({
      read: () => {
        source.resume();
      },
      destroy: (error, callback) => {
        clearTimeout(this.#timer);
        source.off('data', onData).off('end', onEnd).off('close', onClose);
        source.resume();
        callback(error);
      },
    });
    // Its consumer may be done with it when it fails, and an error that nobody hears ends the process.
    upload.on('error', () => {});
    const tooLarge = () => {
      upload.destroy(bodyTooLarge(limit));
      if (parsed === null) this.#discardBody();
    };
    if (declaredLength(this.headers) > limit) {
      tooLarge();
      return upload;
    }
    this.#timer = setTimeout(() => {
      this.#closing = true;
      upload.destroy(bodyTooSlow(timeoutMs));
    }, timeoutMs);
    source.on('data', onData).on('end', onEnd).on('close', onClose);
    source.pause();
    return upload;
  }

  send(status: number, own: ResponseHeaders, body: string | Buffer, constant?: ConstantHeaders): void {
    if (this.#answered || this.aborted) return;
    checkHeaders(own);
    const headers = constant ? { ...constant.headers, ...own } : own;
    this.#answered = true;
    const write = () => {
      const bodyless = isBodyless(status);
      const length = bodyless ? {} : { 'content-length': Buffer.byteLength(body) };
      this.#endWhenStalled();
      this.#res.writeHead(status, this.#headersFor(headers, length));
      if (bodyless || this.method === 'HEAD') this.#res.end();
      else if (body.length > SLICE_BYTES) this.#writeLarge(typeof body === 'string' ? Buffer.from(body) : body);
      else this.#res.end(body);
    };
    if (this.#holding) this.#held = write;
    else write();
  }

  stream(status: number, headers: ResponseHeaders): ResponseStream {
    if (this.#answered || this.aborted) return NOWHERE;
    checkHeaders(headers);
    this.#answered = true;
    const res = this.#res;
    res.writeHead(status, this.#headersFor(headers, {}));
    const isOver = () => this.aborted || res.writableEnded;
    this.#timer = undefined;
    res.on('drain', () => {
      clearTimeout(this.#timer);
      this.#timer = undefined;
    });
    return {
      write: (chunk) => {
        if (isOver() || res.write(chunk)) return true;
        this.#timer ??= setTimeout(() => res.destroy(), LIMITS.stalledReaderMs);
        return false;
      },
      get buffered() {
        return isOver() ? 0 : res.writableLength;
      },
      onDrain: (callback) => {
        res.on('drain', callback);
      },
      end: () => {
        if (!isOver()) res.end();
      },
    };
  }

  /** The connection ends with the answer to this request. */
  closeAfter(): void {
    this.#closing = true;
  }

  /** Throws the rest of the body away and holds the answer until then, so that the sender gets to read it. */
  #discardBody(): void {
    this.#closing = true;
    this.#holding = true;
    const release = () => {
      clearTimeout(this.#timer);
      this.#holding = false;
      const held = this.#held;
      this.#held = null;
      if (!this.aborted) held?.();
    };
    this.#timer = setTimeout(release, LIMITS.lingerMs);
    this.#req.once('end', release).resume();
  }

  /** It is over when `close` tells so. */
  #writeLarge(body: Buffer): void {
    const res = this.#res;
    const { answers } = this.#edge;
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

  #giveBodyBack(): void {
    this.#room.give(this.#bodyBytes);
    this.#bodyBytes = 0;
  }

  /**
   * Ends the connection when the client takes nothing of this answer. Node looks after half of the time whether anything
   * was taken, and ends it after the other half.
   */
  #endWhenStalled(): void {
    const res = this.#res;
    res.setTimeout(LIMITS.stalledReaderMs / 2, () => res.destroy());
  }

  #headersFor(headers: ResponseHeaders, more: OutgoingHttpHeaders): OutgoingHttpHeaders {
    return this.#closing || this.#edge.draining
      ? { ...headers, ...more, connection: 'close' }
      : { ...headers, ...more };
  }

  #abort(): void {
    this.aborted = true;
    this.#held = null;
    const callback = this.#onAbort;
    this.#onAbort = null;
    if (callback !== null) guard(this, this.#edge.onFault, callback);
  }
}

/** The bytes of a body that a host's body parser has consumed, or null when it is still to be read. */
function parsedBody(req: IncomingMessage): Buffer | null {
  if (!req.readableDidRead && !req.readableEnded) return null;
  const body = (req as { body?: unknown }).body;
  if (body === undefined || body === null) return Buffer.alloc(0);
  if (body instanceof Uint8Array) return Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
}
