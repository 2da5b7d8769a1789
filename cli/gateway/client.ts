/**
 * The HTTP client of the command line, on node:http: loading the global `fetch` costs every command about 100 ms.
 * Throws `GatewayError` for an answer that is an error, `UnreachableError` when nothing answers.
 */
import { open } from 'node:fs/promises';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ErrorBody } from '../../protocol/errors.ts';
import { errorIn } from '../../protocol/http/client.ts';
import { eventReader, followEvents, type ServerSentEvent, streamPlace } from '../../protocol/http/event-stream.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { CommandError, GatewayError, UnreachableError } from '../failure.ts';
import type { Connection } from './connection.ts';
import { checkSize } from './received.ts';

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
type Headers = Record<string, string>;
type RequestOptions = {
  headers?: Headers;
  body?: Buffer;
  /** Is called with the number of bytes that the connection has taken. */
  onSent?: (bytes: number) => void;
  timeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
};

/** An answer below 400, or an action's own status: then the body is not an error envelope. */
type Answer = { status: number; headers: Headers; body: unknown };

export type FollowOptions = {
  /** Called when a stream is open, before its events are read; `again` after a reconnect. What it throws ends the stream. */
  onOpen?: (again: boolean) => void | Promise<void>;
  /** Called once when a stream breaks; reconnects follow. */
  onLost?: () => void;
  /** Ends the stream, which then throws the signal's reason. */
  signal?: AbortSignal;
};

const UPLOAD_CHUNK_BYTES = 64 * 1024;
/** A stream that missed three heartbeats is dead. */
const SILENCE_MS = 3 * LIMITS.changeHeartbeatMs;

/** The meaning of the system's errors here. */
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
    return (await this.call('GET', path, { timeoutMs })).body as T;
  }

  async post<T>(path: string, value?: unknown): Promise<T> {
    return (await this.postForAnswer(path, value)).body as T;
  }

  postForAnswer(path: string, value?: unknown, headers: Headers = {}): Promise<Answer> {
    if (value === undefined) return this.call('POST', path, { headers });
    const body = Buffer.from(JSON.stringify(value));
    return this.call('POST', path, { headers: { 'content-type': 'application/json', ...headers }, body });
  }

  async patch<T>(path: string, value: unknown): Promise<T> {
    const body = Buffer.from(JSON.stringify(value));
    return (await this.call('PATCH', path, { headers: { 'content-type': 'application/json' }, body })).body as T;
  }

  /** Sends bytes unchanged. */
  async put<T>(path: string, body: Buffer): Promise<T> {
    const headers = { 'content-type': 'application/octet-stream' };
    return (await this.call('PUT', path, { headers, body })).body as T;
  }

  async delete<T>(path: string): Promise<T> {
    return (await this.call('DELETE', path)).body as T;
  }

  /** Sends a file, a gzipped archive by default. */
  async upload<T>(
    path: string,
    body: Buffer,
    onSent: (bytes: number) => void = () => {},
    type = 'application/gzip',
    method: 'POST' | 'PUT' = 'POST',
  ): Promise<T> {
    const options = { headers: { 'content-type': type }, body, onSent, timeoutMs: LIMITS.uploadTimeoutMs };
    return (await this.call(method, path, options)).body as T;
  }

  /** One call. An answer of 400 and above throws, unless it says `isError: false`: that is an action's own status. */
  async call(method: Method, path: string, options: RequestOptions = {}): Promise<Answer> {
    const response = await this.#send(method, path, options);
    const status = response.statusCode ?? 0;
    const body = parseBody(await this.#readBytes(response, options.signal));
    if (status >= 400 && (body as { isError?: unknown } | null)?.isError !== false)
      throw new GatewayError(status, errorOf(body, status));
    if (body !== undefined) return { status, headers: response.headers as Headers, body };
    const message = `${this.url} is not a gateway: its answer is not JSON.`;
    throw new GatewayError(status, { code: 'INTERNAL', message });
  }

  /** The bytes of an answer that is not JSON. */
  async getBytes(path: string, signal?: AbortSignal): Promise<Buffer> {
    return this.#readBytes(await this.#open('GET', path, { signal }), signal);
  }

  /**
   * Writes an answer to a new file that only its owner may read. With POST, the gateway makes the content first, then
   * sends it. What `onChunk` throws ends it.
   */
  async download(
    path: string,
    file: string,
    signal: AbortSignal,
    { method = 'POST', onChunk = () => {} }: { method?: 'GET' | 'POST'; onChunk?: (chunk: Buffer) => void } = {},
  ): Promise<void> {
    const answer = await this.#open(method, path, { timeoutMs: LIMITS.backupWaitMs, signal });
    try {
      // Created before anything can fail: a stream that opens it later could create it again after the cleanup.
      const target = await open(file, 'wx', 0o600);
      const seen = async function* (chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
        for await (const chunk of chunks) {
          onChunk(chunk);
          yield chunk;
        }
      };
      await pipeline(answer, seen, target.createWriteStream(), { signal });
    } catch (error) {
      answer.destroy();
      signal.throwIfAborted();
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'ECONNRESET' && code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
      throw new CommandError('The gateway ended before it had sent everything.', 'Check its log and try again.');
    }
  }

  /**
   * The events of a stream, without end: reconnects with `Last-Event-ID` when it breaks. Throws `GatewayError` when the
   * gateway refuses it (the app is gone), `UnreachableError` when the very first connection fails, and what `onOpen` and
   * `onLost` throw.
   */
  async *follow(path: string, { onOpen, onLost, signal }: FollowOptions = {}): AsyncGenerator<ServerSentEvent> {
    let connectedBefore = false;
    const read = async function* (response: IncomingMessage): AsyncGenerator<Buffer> {
      try {
        await onOpen?.(connectedBefore);
        connectedBefore = true;
        yield* untilItBreaks(response);
      } finally {
        response.destroy();
      }
      signal?.throwIfAborted();
      onLost?.();
    };
    const place = streamPlace();
    const open = async (): Promise<AsyncIterable<Buffer> | Buffer[]> => {
      const resume = place.lastEventId === '' ? {} : { 'last-event-id': place.lastEventId };
      const headers: Headers = { accept: 'text/event-stream', ...resume };
      const response = await this.#open('GET', path, { headers, timeoutMs: SILENCE_MS, signal }).catch((error) => {
        if (!connectedBefore || !mayPass(error)) throw error;
        return null;
      });
      return response === null ? [] : read(response);
    };
    const wait = () => sleep(place.retryMs, undefined, signal && { signal });
    yield* followEvents(place, open, wait, boundedReader);
  }

  /** The events with which a POST is answered, to the end of the stream. */
  async *postForEvents(path: string, value: unknown, signal?: AbortSignal): AsyncGenerator<ServerSentEvent> {
    const body = Buffer.from(JSON.stringify(value));
    const headers: Headers = { accept: 'text/event-stream', 'content-type': 'application/json' };
    const response = await this.#open('POST', path, { headers, body, timeoutMs: SILENCE_MS, signal });
    const read = boundedReader();
    try {
      for await (const chunk of response) yield* read(chunk as Buffer);
    } catch (error) {
      throw this.#unreachable(error, signal, true);
    }
  }

  /** The head of an answer whose body is not JSON. */
  async #open(method: Method, path: string, options: RequestOptions): Promise<IncomingMessage> {
    const response = await this.#send(method, path, options);
    const status = response.statusCode ?? 0;
    if (status === 200) return response;
    throw new GatewayError(status, errorOf(parseBody(await this.#readBytes(response, options.signal)), status));
  }

  /** Resolves with the response when its head has arrived. */
  async #send(method: Method, path: string, options: RequestOptions): Promise<IncomingMessage> {
    const url = new URL(this.url + path);
    const { token } = this.connection;
    const { body, signal, onSent, timeoutMs = LIMITS.toolTimeoutMs + LIMITS.requestTimeoutMs } = options;
    const headers: Headers = {
      accept: 'application/json',
      ...options.headers,
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    };
    // A body always has a length: an edge may refuse one that is sent chunked.
    if (method !== 'GET' && method !== 'DELETE') headers['content-length'] = String(body?.length ?? 0);
    const request = url.protocol === 'https:' ? httpsRequest : httpRequest;
    const sent = request(url, { method, headers, agent: false, timeout: timeoutMs, ...(signal && { signal }) });
    sent.on('timeout', () => sent.destroy(new Error(`No answer within ${timeoutMs / 1000} s.`)));
    try {
      const response = new Promise<IncomingMessage>((resolve, reject) => {
        sent.on('response', resolve).on('error', reject);
      });
      if (body === undefined || onSent === undefined) sent.end(body);
      // A gateway may refuse an upload before it has read it all: then the response counts, not the broken connection.
      else pipeline(Readable.from(parts(body, onSent)), sent).catch(() => {});
      return await response;
    } catch (error) {
      throw this.#unreachable(error, signal, sent.writableFinished);
    }
  }

  async #readBytes(response: IncomingMessage, signal?: AbortSignal): Promise<Buffer> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        bytes += chunk.length;
        checkSize(bytes);
        chunks.push(chunk);
      }
    } catch (error) {
      throw error instanceof CommandError ? error : this.#unreachable(error, signal, true);
    }
    return Buffer.concat(chunks);
  }

  /** What a failure of the connection means: an interruption, or that no gateway answers. */
  #unreachable(error: unknown, signal: AbortSignal | undefined, sent: boolean): unknown {
    return signal?.aborted ? signal.reason : unreachable(this.connection, error, sent);
  }
}

/** A gateway that restarts answers 5xx or not at all; other refusals are final. */
function mayPass(error: unknown): boolean {
  return error instanceof UnreachableError || (error instanceof GatewayError && error.status >= 500);
}

/** As `eventReader`; throws for an event that is larger than any answer. */
export function boundedReader(...place: Parameters<typeof eventReader>): ReturnType<typeof eventReader> {
  const read = eventReader(...place);
  let bytes = 0;
  return (chunk) => {
    const events = read(chunk);
    bytes = events.length === 0 ? bytes + chunk.length : 0;
    checkSize(bytes);
    return events;
  };
}

/** The bytes of an answer, as far as the connection lasts. */
export async function* untilItBreaks<Chunk extends Uint8Array>(answer: AsyncIterable<Chunk>): AsyncGenerator<Chunk> {
  try {
    for await (const chunk of answer) yield chunk;
  } catch {
    // The gateway went away, or was silent for too long: whoever follows connects again.
  }
}

/** `error` is what the system said of the connection; `sent` see `UnreachableError`. */
export function unreachable({ url, urlFrom }: Connection, error: unknown, sent: boolean): UnreachableError {
  const { code = '', message } = error as NodeJS.ErrnoException;
  return new UnreachableError(
    `No gateway answers at ${url}: ${CAUSES[code] ?? message}.`,
    `The address comes from ${urlFrom}. Start a gateway with "svc serve", or look closer with "svc doctor".`,
    sent,
  );
}

/** `onSent` is called when the connection has taken a part. */
function* parts(body: Buffer, onSent: (bytes: number) => void): Generator<Buffer> {
  for (let at = 0; at < body.length; at += UPLOAD_CHUNK_BYTES) {
    const part = body.subarray(at, at + UPLOAD_CHUNK_BYTES);
    yield part;
    onSent(at + part.length);
  }
}

/** Parsed JSON, or undefined if it is not JSON. */
function parseBody(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}

function errorOf(body: unknown, status: number): ErrorBody {
  const message = `The answer has status ${status} and is not a gateway's. Is the address right?`;
  return errorIn(body) ?? { code: 'INTERNAL', message };
}
