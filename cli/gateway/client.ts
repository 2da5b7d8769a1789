/**
 * The HTTP client of the command line, on node:http: the global `fetch` costs every command some 100 ms to load.
 * Throws `GatewayError` for an answer that is an error, `UnreachableError` when nothing answers.
 */
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ErrorBody } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { GatewayError, UnreachableError } from '../failure.ts';
import type { Connection } from './connection.ts';
import { EventStreamParser, type ServerSentEvent } from './event-stream.ts';

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';
type Headers = Record<string, string>;
type RequestOptions = {
  headers?: Headers;
  body?: Buffer;
  onSent?: (bytes: number) => void;
  timeoutMs?: number;
  signal?: AbortSignal;
};

/** An answer below 400, or an action's own status: then the body is not an error envelope. */
export type Answer = { status: number; headers: Headers; body: unknown };

export type FollowOptions = {
  /** Called when a stream stands, before its events are read; `again` after a reconnect. */
  onOpen?: (again: boolean) => void | Promise<void>;
  /** Called once when a stream broke; tries follow until one stands. */
  onLost?: () => void;
  /** Ends it: then it throws the signal's reason. */
  signal?: AbortSignal;
};

const UPLOAD_CHUNK_BYTES = 64 * 1024;
/** Three heartbeats that did not come: the stream is dead. */
const SILENCE_MS = 3 * LIMITS.changeHeartbeatMs;

/** What the system's errors mean here. */
const CAUSES: Record<string, string> = {
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: 'it ended the connection',
  EPIPE: 'it ended the connection',
  ENOTFOUND: 'there is no such host',
};

export class Client {
  readonly connection: Connection;

  constructor(connection: Connection) {
    this.connection = connection;
  }

  get url(): string {
    return this.connection.url;
  }

  async get<T>(path: string, timeoutMs?: number): Promise<T> {
    const { body } = await this.call('GET', path, timeoutMs === undefined ? {} : { timeoutMs });
    return body as T;
  }

  /** What is not JSON, as it is. */
  async getBytes(path: string, signal?: AbortSignal): Promise<Buffer> {
    const response = await this.#send('GET', path, signal ? { signal } : {});
    const bytes = await this.#readBytes(response, signal);
    const status = response.statusCode ?? 0;
    if (status !== 200) throw new GatewayError(status, errorOf(parseBody(bytes.toString()), status));
    return bytes;
  }

  async post<T>(path: string, value?: unknown, headers: Headers = {}): Promise<T> {
    return (await this.postForAnswer(path, value, headers)).body as T;
  }

  postForAnswer(path: string, value?: unknown, headers: Headers = {}): Promise<Answer> {
    if (value === undefined) return this.call('POST', path, { headers });
    return this.call('POST', path, {
      headers: { 'content-type': 'application/json', ...headers },
      body: Buffer.from(JSON.stringify(value)),
    });
  }

  /** Sends bytes as they are. */
  async put<T>(path: string, body: Buffer): Promise<T> {
    const headers = { 'content-type': 'application/octet-stream' };
    return (await this.call('PUT', path, { headers, body })).body as T;
  }

  async delete<T>(path: string): Promise<T> {
    return (await this.call('DELETE', path)).body as T;
  }

  /** Sends a file, a gzipped archive by default; `onSent` hears how many bytes the connection has taken. */
  async upload<T>(
    path: string,
    archive: Buffer,
    onSent: (bytes: number) => void,
    type = 'application/gzip',
  ): Promise<T> {
    const headers = { 'content-type': type };
    const answer = await this.call('POST', path, { headers, body: archive, onSent, timeoutMs: LIMITS.uploadTimeoutMs });
    return answer.body as T;
  }

  /** Asks for something that is made first and then sent; its bytes as they come. */
  async download(path: string, timeoutMs: number, signal: AbortSignal): Promise<IncomingMessage> {
    const response = await this.#send('POST', path, { timeoutMs, signal });
    const status = response.statusCode ?? 0;
    if (status !== 200) throw new GatewayError(status, errorOf(parseBody(await this.#readText(response)), status));
    return response;
  }

  /** One call. An answer of 400 and above throws, unless it says `isError: false`: that is an action's own status. */
  async call(method: Method, path: string, options: RequestOptions = {}): Promise<Answer> {
    const response = await this.#send(method, path, options);
    const text = await this.#readText(response, options.signal);
    const status = response.statusCode ?? 0;
    const body = parseBody(text);
    if (status >= 400 && (body as { isError?: unknown } | null)?.isError !== false) {
      throw new GatewayError(status, errorOf(body, status));
    }
    if (body === undefined)
      throw new GatewayError(status, {
        code: 'INTERNAL',
        message: `${this.url} is not a gateway: its answer is not JSON.`,
      });
    return { status, headers: response.headers as Headers, body };
  }

  /**
   * The events of a stream, without end: reconnects with `Last-Event-ID` when it breaks. Ends with `GatewayError` when the
   * gateway refuses it (the app is gone), and with `UnreachableError` when the very first connection fails.
   */
  async *follow(path: string, options: FollowOptions = {}): AsyncGenerator<ServerSentEvent> {
    let lastEventId = '';
    let retryMs: number = LIMITS.changeRetryMs;
    let connectedBefore = false;
    for (;;) {
      const parser = new EventStreamParser(lastEventId);
      let connected = false;
      try {
        const response = await this.#openStream(path, lastEventId, options.signal);
        await options.onOpen?.(connectedBefore);
        connected = true;
        connectedBefore = true;
        for await (const chunk of response) yield* parser.push(chunk as string);
      } catch (error) {
        if (!connectedBefore || isFinal(error)) throw error;
      }
      options.signal?.throwIfAborted();
      if (connected) options.onLost?.();
      lastEventId = parser.lastEventId;
      retryMs = parser.retryMs ?? retryMs;
      await sleep(retryMs, undefined, options.signal === undefined ? {} : { signal: options.signal });
    }
  }

  async #openStream(path: string, lastEventId: string, signal?: AbortSignal): Promise<IncomingMessage> {
    const resume = lastEventId === '' ? {} : { 'last-event-id': lastEventId };
    const headers: Headers = { accept: 'text/event-stream', ...resume };
    const more = signal === undefined ? {} : { signal };
    const response = await this.#send('GET', path, { headers, timeoutMs: SILENCE_MS, ...more });
    const status = response.statusCode ?? 0;
    if (status !== 200) throw new GatewayError(status, errorOf(parseBody(await this.#readText(response)), status));
    return response.setEncoding('utf8');
  }

  /** Resolves with the response once its head is there. */
  async #send(method: Method, path: string, options: RequestOptions): Promise<IncomingMessage> {
    const url = new URL(this.url + path);
    const { token } = this.connection;
    const headers: Headers = {
      accept: 'application/json',
      ...options.headers,
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    };
    // What has a body always has a length: an edge may refuse one that is sent chunked.
    if (method === 'POST' || method === 'PUT') headers['content-length'] = String(options.body?.length ?? 0);
    const timeoutMs = options.timeoutMs ?? LIMITS.toolTimeoutMs + LIMITS.requestTimeoutMs;
    const open = url.protocol === 'https:' ? httpsRequest : httpRequest;
    const { signal } = options;
    const request = open(url, { method, headers, agent: false, timeout: timeoutMs, ...(signal ? { signal } : {}) });
    request.on('timeout', () => request.destroy(new Error(`No answer within ${timeoutMs / 1000} s.`)));
    try {
      const response = responseOf(request);
      if (options.body === undefined) request.end();
      else sendBody(request, options.body, options.onSent);
      return await response;
    } catch (error) {
      if (options.signal?.aborted) throw options.signal.reason;
      throw this.#unreachable(error as NodeJS.ErrnoException);
    }
  }

  async #readText(response: IncomingMessage, signal?: AbortSignal): Promise<string> {
    return (await this.#readBytes(response, signal)).toString();
  }

  async #readBytes(response: IncomingMessage, signal?: AbortSignal): Promise<Buffer> {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of response) chunks.push(chunk as Buffer);
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw this.#unreachable(error as NodeJS.ErrnoException);
    }
    return Buffer.concat(chunks);
  }

  #unreachable(error: NodeJS.ErrnoException): UnreachableError {
    const { url, urlFrom } = this.connection;
    const cause = CAUSES[error.code ?? ''] ?? error.message;
    return new UnreachableError(
      `No gateway answers at ${url}: ${cause}.`,
      `The address comes from ${urlFrom}. Start a gateway with "svc serve", or look closer with "svc doctor".`,
    );
  }
}

function responseOf(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.on('response', resolve);
    request.on('error', reject);
  });
}

/**
 * Writes the body as fast as the connection takes it. Its own failure is not looked at: a gateway may refuse an upload
 * before it has read it all, and then the response is what counts; without one, the request itself fails.
 */
function sendBody(request: ClientRequest, body: Buffer, onSent?: (bytes: number) => void): void {
  if (onSent === undefined) {
    request.end(body);
    return;
  }
  let sent = 0;
  const count = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      sent += chunk.length;
      onSent(sent);
      done(null, chunk);
    },
  });
  pipeline(Readable.from(chunksOf(body)), count, request).catch(() => {});
}

function* chunksOf(body: Buffer): Generator<Buffer> {
  for (let offset = 0; offset < body.length; offset += UPLOAD_CHUNK_BYTES) {
    yield body.subarray(offset, offset + UPLOAD_CHUNK_BYTES);
  }
}

/** Parsed JSON, or undefined when it is none. */
function parseBody(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function errorOf(body: unknown, status: number): ErrorBody {
  const error = (body as { error?: ErrorBody } | null | undefined)?.error;
  if (typeof error?.code === 'string' && typeof error.message === 'string') return error;
  return { code: 'INTERNAL', message: `The answer has status ${status} and is not a gateway's. Is the address right?` };
}

/** Client errors do not get better by asking again; a gateway that restarts answers 5xx or not at all. */
function isFinal(error: unknown): boolean {
  return error instanceof GatewayError && error.status < 500;
}
