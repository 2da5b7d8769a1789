/**
 * A stand-in for an S3-compatible store, in the process of the test: objects by path, as far as the gateway uses them. It checks
 * signatures with code of its own, written from the rules of AWS (Signature Version 4), and the hash of each body.
 */
import { createHash, createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { S3Settings } from '../storage/shared-files/s3.ts';

const REGION = 'eu-test-1';
const ACCESS_KEY = 'test-access-key';
const SECRET_KEY = 'test/secret+key';
const SKEW_MS = 15 * 60 * 1000;
const AUTHORIZATION =
  /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})$/;

/** The variables of the environment that `blobs.s3` names by default. */
export const OBJECT_STORE_KEYS = { AWS_ACCESS_KEY_ID: ACCESS_KEY, AWS_SECRET_ACCESS_KEY: SECRET_KEY };

class Refused extends Error {
  readonly status: number;

  constructor(status: number, code: string) {
    super(code);
    this.status = status;
  }
}

export class TestObjectStore {
  /** By bucket and key, such as `svc-files/test/a`. */
  readonly objects = new Map<string, Buffer>();
  /** By which its clock is ahead. */
  clockMs = 0;
  #server: Server | null = null;
  #port = 0;

  /** Started, with one empty bucket. It ends with the test. */
  static async start(t: { after(end: () => unknown): void }): Promise<TestObjectStore> {
    const store = new TestObjectStore();
    t.after(() => store.stop());
    await store.start();
    return store;
  }

  /** For `blobs.s3` of a configuration. */
  get config() {
    return { endpoint: `http://127.0.0.1:${this.#port}`, bucket: 'svc-files', region: REGION, prefix: 'test/' };
  }

  /** The same, completed. */
  get settings(): S3Settings {
    const names = { accessKeyEnv: 'AWS_ACCESS_KEY_ID', secretKeyEnv: 'AWS_SECRET_ACCESS_KEY' };
    return { ...this.config, ...names, accessKey: ACCESS_KEY, secretKey: SECRET_KEY };
  }

  /** The keys of its objects after the prefix. */
  get keys(): string[] {
    return [...this.objects.keys()].map((path) => path.slice('svc-files/test/'.length)).sort();
  }

  /** Resolves when it takes requests, at the address of before and with what it had. */
  async start(): Promise<void> {
    const server = createServer((request, response) => void this.#answer(request, response));
    this.#server = server;
    await once(server.listen(this.#port, '127.0.0.1'), 'listening');
    this.#port = (server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    if (server === null) return;
    server.closeAllConnections();
    await once(server.close(), 'close');
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const now = Date.now() + this.clockMs;
    response.setHeader('date', new Date(now).toUTCString());
    try {
      const pieces: Buffer[] = [];
      for await (const piece of request) pieces.push(piece);
      const body = Buffer.concat(pieces);
      checkSignature(request, now);
      const path = (request.url ?? '').slice(1);
      if (!path.startsWith('svc-files/')) throw new Refused(404, 'NoSuchBucket');
      if (request.method === 'PUT') {
        if (request.headers['content-length'] === undefined) throw new Refused(411, 'MissingContentLength');
        if (request.headers['x-amz-content-sha256'] !== sha256(body))
          throw new Refused(400, 'XAmzContentSHA256Mismatch');
        this.objects.set(path, body);
        response.end();
      } else if (request.method === 'DELETE') {
        this.objects.delete(path);
        response.writeHead(204).end();
      } else {
        const found = this.objects.get(path);
        if (found === undefined) throw new Refused(404, 'NoSuchKey');
        response.end(found);
      }
    } catch (error) {
      // A request that was broken off has nobody to answer.
      if (!(error instanceof Refused)) return void response.destroy();
      response.writeHead(error.status).end(`<?xml version="1.0"?><Error><Code>${error.message}</Code></Error>`);
    }
  }
}

/** Throws `Refused`. */
function checkSignature({ method, url = '', headers }: IncomingMessage, now: number): void {
  const [, accessKey, day = '', region, names = '', signature] = AUTHORIZATION.exec(headers.authorization ?? '') ?? [];
  if (signature === undefined) throw new Refused(403, 'AccessDenied');
  if (accessKey !== ACCESS_KEY) throw new Refused(403, 'InvalidAccessKeyId');
  if (region !== REGION) throw new Refused(400, 'AuthorizationHeaderMalformed');
  const time = String(headers['x-amz-date']);
  const [, ...parts] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(time) ?? [];
  const [year = 0, month = 0, date, hours, minutes, seconds] = parts.map(Number);
  const at = Date.UTC(year, month - 1, date, hours, minutes, seconds);
  if (!(Math.abs(at - now) < SKEW_MS)) throw new Refused(403, 'RequestTimeTooSkewed');

  const signed = names.split(';');
  for (const name of ['host', 'x-amz-content-sha256', 'x-amz-date'])
    if (!signed.includes(name)) throw new Refused(403, 'AccessDenied');
  const canonical = [
    method,
    url,
    '',
    ...signed.map((name) => `${name}:${String(headers[name]).trim()}`),
    '',
    names,
    headers['x-amz-content-sha256'],
  ].join('\n');
  const text = ['AWS4-HMAC-SHA256', time, `${day}/${region}/s3/aws4_request`, sha256(canonical)].join('\n');
  const key = [day, region, 's3', 'aws4_request'].reduce<Buffer | string>(hmac, `AWS4${SECRET_KEY}`);
  if (hmac(key, text).toString('hex') !== signature) throw new Refused(403, 'SignatureDoesNotMatch');
}

function sha256(bytes: Buffer | string): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function hmac(key: Buffer | string, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
