/** Implements what both edges share: budgets of memory, the part of an exchange that no server decides, rules for headers. */
import type { IncomingMessage } from 'node:http';
import { STATUS_CODES } from 'node:http';
import { Readable } from 'node:stream';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Span } from '../tracing/span.ts';
import {
  type AnswerMeter,
  type Asker,
  type BodyRoom,
  type ConstantHeaders,
  type ExchangeHandler,
  type ResponseHeaders,
  type ResponseStream,
  sendError,
} from './edge.ts';
import { declaredLength, findHeader, type HeaderList } from './framing.ts';

export type EdgeOptions = {
  /** Gets every well-formed request. What it throws is answered as `INTERNAL` and given to `onFault`. */
  handler: ExchangeHandler;
  /** Gets the errors of `handler`, and of the callbacks that it gave to `readBody`, for the log. */
  onFault(error: unknown): void;
  /** The budget of `readBody`, from the first byte until the answer. By default all edges of the process share one. */
  bodies?: BodyBudget;
  /** The budget of `send` for slow readers. By default all edges of the process share one. */
  answers?: AnswerBudget;
};

/**
 * Bounds the bytes of request bodies that the process holds at once, over all connections. Clients that fill it with large
 * bodies leave room for the calls of others, which are small.
 */
export class BodyBudget implements BodyRoom {
  readonly #limit: number;
  readonly #limitOfLarge: number;
  #held = 0;

  constructor(limit: number) {
    this.#limit = limit;
    this.#limitOfLarge = limit - limit / 16;
  }

  /** The bytes that were taken and not given back. */
  get held(): number {
    return this.#held;
  }

  take(bytes: number, isSmall: boolean): boolean {
    if (this.#held + bytes > (isSmall ? this.#limit : this.#limitOfLarge)) return false;
    this.#held += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#held -= bytes;
  }
}

/** A large answer that its client has not taken whole. */
export type WaitingAnswer = {
  /** The bytes of the whole body. They are held until the last one is sent. */
  readonly bytes: number;
  /** Ends the connection. */
  cutOff(): void;
};

/**
 * Bounds the bytes of answers that wait for slow readers, over all connections. An answer reports finished work, so it cannot
 * be refused. Over the limit, those are cut off whose readers have been idle longest. The newest one never is.
 */
export class AnswerBudget {
  readonly #limit: number;
  /** The answers that wait, in the order in which their readers last took something. */
  readonly #waiting = new Set<WaitingAnswer>();
  #held = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** The bytes of the answers that wait. */
  get held(): number {
    return this.#held;
  }

  /** Takes an answer that its reader did not take at once. May cut off others. */
  wait(answer: WaitingAnswer): void {
    this.#waiting.add(answer);
    this.#held += answer.bytes;
    for (const other of this.#waiting) {
      if (this.#held <= this.#limit || other === answer) return;
      this.remove(other);
      other.cutOff();
    }
  }

  /** Notes that the reader of an answer took some of it. */
  progress(answer: WaitingAnswer): void {
    if (this.#waiting.delete(answer)) this.#waiting.add(answer);
  }

  /** Lets go of an answer whose last byte was sent, or whose client left. Does nothing the second time. */
  remove(answer: WaitingAnswer): void {
    if (this.#waiting.delete(answer)) this.#held -= answer.bytes;
  }
}

/** What the exchanges of one edge share. */
export type EdgeState = Required<Omit<EdgeOptions, 'handler'>> & { draining: boolean };

const PROCESS_BODIES = new BodyBudget(LIMITS.bodiesBytes);
const PROCESS_ANSWERS = new AnswerBudget(LIMITS.answersBytes);

export function stateOf({ bodies = PROCESS_BODIES, answers = PROCESS_ANSWERS, onFault }: EdgeOptions): EdgeState {
  return { draining: false, bodies, answers, onFault };
}

/** The part of an exchange that both edges share. `UwsExchange` and `NodeExchange` read and write the bytes. */
export abstract class BaseExchange {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly headers: HeaderList;
  raw: IncomingMessage | null = null;
  aborted = false;
  clientAddress: string | null = null;
  meter: AnswerMeter | null = null;
  begunAt = 0;
  routeKind = 0;
  caller: Asker | null = null;
  beforeAnswer: (() => Promise<void>) | null = null;
  onceOver: (() => void) | null = null;
  span: Span | null = null;
  protected readonly edge: EdgeState;
  /** True once `send` or `stream` was called. */
  protected answered = false;
  /** True where the connection ends with the answer. */
  protected closing = false;
  /** True while the answer waits, such as for the rest of the body to be thrown away. */
  protected holding = false;
  protected held: (() => void) | null = null;
  protected timer: NodeJS.Timeout | undefined;
  #room: BodyRoom;
  /** The bytes that were taken from `#room`. */
  #bodyBytes = 0;
  #bodyLimit = 0;
  #declared = 0;
  /** The stream of `streamBody`, until the body is complete. */
  #upload: Readable | null = null;
  #uploadBytes = 0;
  #parts: Buffer[] | null = null;
  #onBody: ((body: Buffer) => void) | null = null;
  /** What gets the error of `readBody`. It is null unless a body is collected. */
  #onBodyError: ((error: SvcError) => void) | null = null;
  /** The body that `readBody` gave. */
  #collected: Buffer | null = null;
  protected abortCallback: (() => void) | null = null;
  #added: ResponseHeaders | null = null;

  constructor(edge: EdgeState, method: string, path: string, query: string, headers: HeaderList) {
    this.edge = edge;
    this.method = method;
    this.path = path;
    this.query = query;
    this.headers = headers;
    this.#room = edge.bodies;
  }

  /** Writes what `send` and `stream` were given. One of the two is called, once, with headers that were checked. */
  protected abstract answer(
    status: number,
    headers: ResponseHeaders,
    body: string | Buffer,
    constant?: ConstantHeaders,
  ): void;
  protected abstract open(status: number, headers: ResponseHeaders, length: number | undefined): ResponseStream;

  /** Has the bytes of the body come to `received`. `length` is what was declared. */
  protected abstract startReading(length: number): void;
  protected abstract pauseReading(): void;
  /** Goes on reading the socket, after a slow consumer of the body stopped it. */
  protected abstract resumeReading(): void;
  /** Throws the rest of the body away, and holds the answer until then, so that the sender reads it. */
  protected abstract discardBody(): void;

  /** The address at the other end of the connection. It is empty once the client has gone or has its answer. */
  protected abstract get peerAddress(): string;

  get remoteAddress(): string {
    return this.clientAddress ?? this.peerAddress;
  }

  header(name: string): string | undefined {
    return findHeader(this.headers, name);
  }

  onAbort(callback: () => void): void {
    const before = this.abortCallback;
    if (this.aborted) callback();
    else if (before === null) this.abortCallback = callback;
    else {
      this.abortCallback = () => {
        this.guard(before);
        callback();
      };
    }
  }

  get bodyReceived(): number {
    return this.#bodyBytes;
  }

  readBody(
    limit: number,
    onBody: (body: Buffer) => void,
    onError: (error: SvcError) => void,
    room: BodyRoom = this.edge.bodies,
  ): void {
    if (this.#collected !== null) {
      this.#giveAgain(this.#collected, limit, onBody, onError, room);
      return;
    }
    const length = this.bodyLength();
    if (length > limit) {
      this.discardBody();
      onError(bodyTooLarge(limit));
      return;
    }
    this.#bodyLimit = limit;
    this.#declared = length;
    this.#room = room;
    this.#onBody = onBody;
    this.#onBodyError = onError;
    this.startReading(length);
  }

  /** Gives a body that was collected already. Its bytes move to this budget. */
  #giveAgain(
    body: Buffer,
    limit: number,
    onBody: (body: Buffer) => void,
    onError: (error: SvcError) => void,
    room: BodyRoom,
  ): void {
    if (this.aborted) return;
    this.giveBodyBack();
    this.#room = room;
    if (body.length > limit) onError(bodyTooLarge(limit));
    else if (!room.take(body.length, body.length <= LIMITS.smallBodyBytes)) onError(noRoomForBody());
    else {
      this.#bodyBytes = body.length;
      onBody(body);
    }
  }

  streamBody(limit: number, timeoutMs: number): Readable {
    const upload = new Readable({
      read: () => this.resumeReading(),
      destroy: (error, callback) => {
        clearTimeout(this.timer);
        this.resumeReading();
        callback(error);
      },
    });
    // The stream may fail after its consumer is done with it, and an error without a listener ends the process.
    upload.on('error', () => {});
    const collected = this.#collected;
    if (collected !== null) {
      if (collected.length > limit) upload.destroy(bodyTooLarge(limit));
      else {
        if (collected.length > 0) upload.push(collected);
        upload.push(null);
      }
      return upload;
    }
    const length = this.bodyLength();
    if (length > limit) {
      upload.destroy(bodyTooLarge(limit));
      this.discardBody();
      return upload;
    }
    this.#upload = upload;
    this.#bodyLimit = limit;
    this.timer = setTimeout(() => {
      this.closing = true;
      upload.destroy(bodyTooSlow(timeoutMs));
    }, timeoutMs);
    this.startReading(length);
    return upload;
  }

  #passOn(upload: Readable, bytes: Buffer, last: boolean): void {
    if (upload.destroyed) return;
    this.#uploadBytes += bytes.length;
    if (this.#uploadBytes > this.#bodyLimit) {
      upload.destroy(bodyTooLarge(this.#bodyLimit));
      if (!last) this.discardBody();
      return;
    }
    if (bytes.length > 0 && !upload.push(bytes) && !last) this.pauseReading();
    if (!last) return;
    clearTimeout(this.timer);
    this.#upload = null;
    upload.push(null);
  }

  /** Whether the parts of the body go to a stream, and not into one piece of memory. */
  protected get streams(): boolean {
    return this.#upload !== null;
  }

  protected bodyLength(): number {
    return declaredLength(this.headers);
  }

  /** A part of the body that is collected or streamed; without `last` others follow. */
  protected received(bytes: Buffer, last: boolean): void {
    if (this.#upload !== null) this.#passOn(this.#upload, bytes, last);
    if (this.#onBodyError === null) return;
    const bodyBytes = this.#bodyBytes + bytes.length;
    const isTooLarge = bodyBytes > this.#bodyLimit;
    const isSmall = Math.max(bodyBytes, this.#declared) <= LIMITS.smallBodyBytes;
    const isTaken = !isTooLarge && this.#room.take(bytes.length, isSmall);
    // This body may be the one that was refused to make room.
    if (this.#onBodyError === null) {
      if (isTaken) this.#room.give(bytes.length);
      return;
    }
    if (!isTaken) {
      clearTimeout(this.timer);
      if (!last) this.discardBody();
      this.refuseBody(isTooLarge ? bodyTooLarge(this.#bodyLimit) : noRoomForBody());
      return;
    }
    this.#bodyBytes += bytes.length;
    if (last && this.#parts === null) {
      this.#finishBody(bytes);
      return;
    }
    this.#parts ??= [];
    const parts = this.#parts;
    if (bytes.length > 0) parts.push(bytes);
    if (last) this.#finishBody(parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts));
    else this.timer ??= setTimeout(() => this.refuseBody(bodyTooSlow()), LIMITS.requestTimeoutMs);
  }

  #finishBody(body: Buffer): void {
    const onBody = this.#onBody;
    clearTimeout(this.timer);
    this.#onBodyError = null;
    this.#collected = body;
    this.guard(() => onBody?.(body));
  }

  refuseBody(error: SvcError): void {
    const onError = this.#onBodyError;
    if (onError === null || this.aborted) return;
    this.#onBodyError = null;
    this.#parts = null;
    this.closing = true;
    this.giveBodyBack();
    if (!this.holding) clearTimeout(this.timer);
    this.guard(() => onError(error));
  }

  addHeaders(headers: ResponseHeaders): void {
    this.#added = this.#added === null ? headers : { ...this.#added, ...headers };
  }

  send(status: number, headers: ResponseHeaders, body: string | Buffer, constant?: ConstantHeaders): void {
    if (this.answered || this.aborted) return;
    if (this.beforeAnswer !== null) {
      void this.#sendAfter(this.beforeAnswer, () => this.send(status, headers, body, constant));
      return;
    }
    const plain = this.#added === null;
    const all = plain ? headers : this.#withAdded({ ...constant?.headers, ...headers });
    checkHeaders(all);
    this.#begin(status);
    this.answer(status, all, body, plain ? constant : undefined);
  }

  async #sendAfter(before: () => Promise<void>, send: () => void): Promise<void> {
    // Whatever is sent meanwhile is no second answer.
    this.answered = true;
    this.beforeAnswer = null;
    let error: unknown = null;
    await before().catch((reason: unknown) => {
      error = reason;
    });
    this.answered = false;
    if (error instanceof SvcError) sendError(this, error);
    else {
      this.guard(() => {
        if (error !== null) throw error;
        send();
      });
    }
  }

  stream(status: number, headers: ResponseHeaders, length?: number): ResponseStream {
    if (this.answered || this.aborted) return CLOSED_STREAM;
    const all = this.#withAdded(headers);
    checkHeaders(all);
    this.#begin(status);
    return this.open(status, all, length);
  }

  #begin(status: number): void {
    this.answered = true;
    this.#collected = null;
    if (this.meter !== null) this.meter.answered(this.routeKind, status, performance.now() - this.begunAt);
    if (this.span !== null) endOfAnswer(this.span, status);
    if (this.onceOver !== null) this.#over();
  }

  #over(): void {
    const once = this.onceOver;
    this.onceOver = null;
    once?.();
  }

  /** Has the connection end with the answer to this request. */
  closeAfter(): void {
    this.closing = true;
  }

  /** Runs code of the routes. Reports and answers its errors, which affect no other exchange. */
  guard(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.edge.onFault(error);
      sendError(this, new SvcError('INTERNAL', 'The gateway failed on this request; its log has the details.'));
    }
  }

  /** Lets an answer go that had to wait. */
  protected release(): void {
    this.holding = false;
    const held = this.held;
    this.held = null;
    if (!this.aborted) held?.();
  }

  protected giveBodyBack(): void {
    this.#room.give(this.#bodyBytes);
    this.#bodyBytes = 0;
  }

  /** Ends the upload of a sender that has gone. */
  protected cutUploadShort(): void {
    this.#upload?.destroy(bodyCutShort());
  }

  protected abort(): void {
    this.aborted = true;
    this.held = null;
    if (this.span !== null && !this.answered) endOfNone(this.span);
    this.cutUploadShort();
    const callback = this.abortCallback;
    this.abortCallback = null;
    if (callback !== null) this.guard(callback);
    this.guard(() => this.#over());
  }

  #withAdded(headers: ResponseHeaders): ResponseHeaders {
    const added = this.#added;
    if (added === null) return headers;
    const vary = [headers.vary, added.vary].filter((value) => value !== undefined).join(', ');
    return { ...headers, ...added, ...(vary === '' ? {} : { vary }) };
  }
}

function endOfAnswer(span: Span, status: number): void {
  span.set('http.response.status_code', status);
  if (status >= 500) span.fail(String(status));
  span.end();
}

/** Ends the span of a request whose client went away before it had an answer. */
function endOfNone(span: Span): void {
  span.fail('client_gone');
  span.end();
}

function bodyTooLarge(limit: number): SvcError {
  return new SvcError('PAYLOAD_TOO_LARGE', `The body is over the limit of ${limit} bytes.`);
}

export function bodyTooSlow(timeoutMs: number = LIMITS.requestTimeoutMs): SvcError {
  return new SvcError('BAD_REQUEST', `The body did not arrive within ${timeoutMs / 1000} s.`);
}

function noRoomForBody(): SvcError {
  return new SvcError('OVERLOADED', 'The gateway has too many request bodies in memory; try again in a moment.', {
    headers: { 'retry-after': '1' },
  });
}

function bodyCutShort(): SvcError {
  return new SvcError('BAD_REQUEST', 'The connection was closed before the body was complete.');
}

/** Whether answers with a status never have a body or length (RFC 9110, 15.3.5 and 15.4.5). */
export function isBodyless(status: number): boolean {
  return status === 204 || status === 304;
}

/** The stream to a client that has gone, or that asked for the headers only. */
export const CLOSED_STREAM: ResponseStream = {
  write: () => true,
  buffered: 0,
  onDrain: () => {},
  end: () => {},
  cutOff: () => {},
};

const UNSAFE_VALUE = /[^\t\x20-\x7e]/;

/** Throws a `TypeError` for a header value that could end its line and inject headers. */
function checkHeaders(headers: ResponseHeaders): void {
  for (const name in headers) {
    const value = headers[name] as string | string[];
    if (typeof value === 'string' ? UNSAFE_VALUE.test(value) : value.some((item) => UNSAFE_VALUE.test(item))) {
      throw new TypeError(`The response header ${name} holds a character that is not printable ASCII.`);
    }
  }
}

/** The value of `keep-alive` on the uws edge. The native code ends an idle connection a little later. */
export const KEPT_FOR = `timeout=${LIMITS.uwsKeepAliveMs / 1000}`;
export const KEPT = `\r\nkeep-alive: ${KEPT_FOR}`;

/** Makes headers for the `constant` argument of `send`. Throws as `checkHeaders` does. */
export function constantHeaders(headers: Record<string, string>): ConstantHeaders {
  checkHeaders(headers);
  const [[first, value], ...others] = Object.entries(headers) as [[string, string], ...[string, string][]];
  const rest = [value, ...others.map(([name, other]) => `${name}: ${other}`)].join('\r\n');
  return { headers, first, rest, restKept: rest + KEPT, lines: `\r\n${first}: ${rest}` };
}

/** The status line of a code, such as `404 Not Found`. */
export function statusLine(status: number): string {
  return STATUS_LINES[status] ?? `${status} Unknown`;
}

const STATUS_LINES: Record<number, string> = Object.fromEntries(
  Object.entries(STATUS_CODES).map(([code, text]) => [code, `${code} ${text}`]),
);
