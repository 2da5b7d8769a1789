/**
 * Carries the requests of the command line, on node:http: loading the global `fetch` costs every command about 100 ms. Throws
 * `UnreachableError` where no gateway answers.
 */
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Answer, EVENT_STREAM, type Sending, type Transport } from '../../protocol/http/client.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { UnreachableError } from '../failure.ts';
import type { Connection } from './connection.ts';
import { checkPages, checkSize, listed } from './received.ts';

const UPLOAD_CHUNK_BYTES = 64 * 1024;
/** A stream that missed three heartbeats is dead. */
const SILENCE_MS = 3 * LIMITS.changeHeartbeatMs;
const ANSWER_MS = LIMITS.toolTimeoutMs + LIMITS.requestTimeoutMs;

/** The meaning of the system's errors here. */
const CAUSES: Record<string, string> = {
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: 'it ended the connection',
  EPIPE: 'it ended the connection',
  ENOTFOUND: 'there is no such host',
};

export class NodeTransport implements Transport<NodeAnswer> {
  readonly #connection: Connection;
  readonly checkSize = checkSize;
  readonly checkPages = checkPages;
  readonly checkList = listed;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  get url(): string {
    return this.#connection.url;
  }

  /** Resolves when the head of the answer has arrived. */
  async send({ method, path, headers, body: content, signal, onSent, timeoutMs }: Sending): Promise<NodeAnswer> {
    const url = new URL(this.url + path);
    const { token } = this.#connection;
    const body = typeof content === 'string' ? Buffer.from(content) : (content as Buffer | undefined);
    const whole: Record<string, string> = {
      ...headers,
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    };
    // A body always has a length: an edge may refuse one that is sent chunked.
    if (method !== 'GET' && method !== 'DELETE') whole['content-length'] = String(body?.length ?? 0);
    const request = url.protocol === 'https:' ? httpsRequest : httpRequest;
    const timeout = timeoutMs ?? (headers.accept === EVENT_STREAM ? SILENCE_MS : ANSWER_MS);
    const sent = request(url, { method, headers: whole, agent: false, timeout, ...(signal && { signal }) });
    sent.on('timeout', () => sent.destroy(new Error(`No answer within ${timeout / 1000} s.`)));
    const lost = (error: unknown): unknown =>
      signal?.aborted ? signal.reason : unreachable(this.#connection, error, sent.writableFinished);
    try {
      const response = new Promise<IncomingMessage>((resolve, reject) => {
        sent.on('response', resolve).on('error', reject);
      });
      if (body === undefined || onSent === undefined) sent.end(body);
      // A gateway may refuse an upload before it has read it all: then the response counts, not the broken connection.
      else pipeline(Readable.from(parts(body, onSent)), sent).catch(() => {});
      return new NodeAnswer(await response, lost);
    } catch (error) {
      throw lost(error);
    }
  }
}

export class NodeAnswer implements Answer {
  readonly status: number;
  readonly #response: IncomingMessage;
  /** What a broken connection means. */
  readonly #lost: (error: unknown) => unknown;

  constructor(response: IncomingMessage, lost: (error: unknown) => unknown) {
    this.status = response.statusCode ?? 0;
    this.#response = response;
    this.#lost = lost;
  }

  get headers(): Answer['headers'] {
    const { headers } = this.#response;
    return { get: (name) => (headers[name] as string | undefined) ?? null };
  }

  async *chunks(): AsyncGenerator<Buffer> {
    try {
      for await (const chunk of this.#response as AsyncIterable<Buffer>) yield chunk;
    } catch (error) {
      throw this.#lost(error);
    }
  }

  /** For an answer that is not read. */
  close(): void {
    this.#response.destroy();
  }

  async bytes(): Promise<Buffer> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of this.chunks()) {
      bytes += chunk.length;
      checkSize(bytes);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  }

  async text(): Promise<string> {
    return (await this.bytes()).toString();
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
