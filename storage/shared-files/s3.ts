/**
 * Keeps objects in an S3-compatible store, over HTTP with AWS signatures of version 4. The package that signs is loaded with the first
 * request.
 */

import type { IncomingMessage } from 'node:http';
import { request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { pipeline } from 'node:stream/promises';
import { setTimeout as wait } from 'node:timers/promises';
import type { AwsV4Signer } from 'aws4fetch';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';

/**
 * `blobs.s3` of the configuration, with the keys that its variables have. `prefix` comes before each key.
 */
export type S3Settings = {
  endpoint: string;
  bucket: string;
  region: string;
  prefix: string;
  accessKeyEnv: string;
  secretKeyEnv: string;
  accessKey: string;
  secretKey: string;
};

/** `hash` is the SHA-256 in hex, which the store compares with what it gets; `read` begins anew with each try. */
export type ObjectBody = { size: number; hash: string; read(): AsyncIterable<Buffer> };

/** The error of a store that cannot be used: `STORAGE_UNAVAILABLE`, with what to do. */
export class ObjectStoreError extends SvcError {
  constructor(message: string, cause?: unknown) {
    super('STORAGE_UNAVAILABLE', message, { cause });
  }
}

type Method = 'GET' | 'PUT' | 'DELETE';

const NO_BODY = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
const ERROR_BYTES = 64 * 1024;
const CODE = /<Code>([A-Za-z0-9]{1,100})<\/Code>/;
const OTHER_REGION = new Set([
  'AuthorizationHeaderMalformed',
  'IllegalLocationConstraintException',
  'PermanentRedirect',
  'TemporaryRedirect',
]);

/** The store did not get a request, or could not answer it now: the same may succeed again. */
class Away extends Error {}

export class S3 {
  readonly #settings: S3Settings;
  /** Keys that are derived from the secret, by day. */
  readonly #cache = new Map<string, ArrayBuffer>();

  constructor(settings: S3Settings) {
    this.#settings = settings;
  }

  /** Resolves when the store has the object. Rejects with `ObjectStoreError`, and as `read` does. */
  async put(key: string, body: ObjectBody): Promise<void> {
    const answer = await this.#ask('PUT', key, body);
    answer.resume();
  }

  /** What the object has, from its begin; null where there is none. Rejects, also in the middle, with `ObjectStoreError`. */
  async get(key: string): Promise<AsyncIterable<Buffer> | null> {
    const answer = await this.#ask('GET', key);
    if (answer.statusCode === 200) return this.#read(answer);
    answer.resume();
    return null;
  }

  /** Also where there is none. Rejects with `ObjectStoreError`. */
  async delete(key: string): Promise<void> {
    const answer = await this.#ask('DELETE', key);
    answer.resume();
  }

  async *#read(answer: IncomingMessage): AsyncGenerator<Buffer> {
    try {
      for await (const bytes of answer) yield bytes;
    } catch (error) {
      throw this.error(`broke its answer off: ${(error as Error).message}`, error);
    }
  }

  /** An answer with 200, or 404 where a bucket has no such object. */
  async #ask(method: Method, key: string, body?: ObjectBody): Promise<IncomingMessage> {
    for (let tries = 1; ; tries++) {
      try {
        const answer = await this.#send(method, key, body);
        if ((answer.statusCode ?? 500) < 300) return answer;
        const code = await codeOf(answer);
        if (method !== 'PUT' && answer.statusCode === 404 && code !== 'NoSuchBucket') return answer;
        const isBusy = (answer.statusCode ?? 500) >= 500 || answer.statusCode === 429;
        if (isBusy) throw new Away(`status ${answer.statusCode} ${code}`.trim());
        throw this.error(this.#reasonOf(method, answer, code));
      } catch (error) {
        if (!(error instanceof Away)) throw error;
        if (tries === LIMITS.objectTries) throw this.error(`does not answer: ${error.message}`, error);
        await wait(LIMITS.objectRetryMs * 2 ** (tries - 1));
      }
    }
  }

  /** Rejects with `Away`, and as the body does. */
  async #send(method: Method, key: string, body?: ObjectBody): Promise<IncomingMessage> {
    const { url, headers } = await this.#signed(method, key, body?.hash ?? NO_BODY);
    const length = body === undefined ? {} : { 'content-length': String(body.size) };
    const ask = url.protocol === 'https:' ? requestHttps : requestHttp;
    const asked = ask(url, {
      method,
      headers: { ...Object.fromEntries(headers), ...length },
      timeout: LIMITS.objectSilenceMs,
    });
    return await new Promise((resolve, reject) => {
      let ofBody: unknown;
      asked.on('response', resolve);
      asked.on('timeout', () => asked.destroy(new Error(`it was silent for ${LIMITS.objectSilenceMs} ms`)));
      asked.on('error', (error) => reject(ofBody ?? new Away(error.message || (error as NodeJS.ErrnoException).code)));
      if (body === undefined) asked.end();
      else
        pipeline(
          noting(body.read(), (error) => (ofBody = error)),
          asked,
        ).catch((error: unknown) => {
          // What the connection says of itself is told there.
          if (ofBody !== undefined) reject(error);
        });
    });
  }

  async #signed(method: Method, key: string, hash: string): Promise<{ url: URL; headers: Headers }> {
    const { AwsV4Signer: Signer } = await import('aws4fetch');
    const { accessKey, secretKey, region } = this.#settings;
    const signer: AwsV4Signer = new Signer({
      method,
      url: this.#urlOf(key),
      headers: { 'x-amz-content-sha256': hash },
      service: 's3',
      region,
      accessKeyId: accessKey,
      secretAccessKey: secretKey,
      cache: this.#cache,
    });
    return await signer.sign();
  }

  #urlOf(key: string): string {
    const { endpoint, bucket, prefix } = this.#settings;
    return `${endpoint.replace(/\/$/, '')}/${bucket}/${prefix}${key}`;
  }

  #reasonOf(method: Method, { headers, statusCode }: IncomingMessage, code: string): string {
    const { bucket, region, accessKeyEnv, secretKeyEnv } = this.#settings;
    if (code === 'NoSuchBucket') return `has no bucket "${bucket}": correct "blobs.s3.bucket", or make that bucket`;
    if (code === 'InvalidAccessKeyId') return `does not know the access key of the variable ${accessKeyEnv}`;
    if (code === 'SignatureDoesNotMatch')
      return `refuses the signature: the secret key of the variable ${secretKeyEnv} does not belong to the access key of ${accessKeyEnv}, or "blobs.s3.region" is not "${region}"`;
    if (code === 'RequestTimeTooSkewed') {
      const apart = Math.abs(Date.parse(headers.date ?? '') - Date.now()) / 1000;
      return `refuses requests, as its clock and that of this machine are ${apart.toFixed(0)} s apart: let NTP set both`;
    }
    if (OTHER_REGION.has(code)) {
      const other = headers['x-amz-bucket-region'];
      return `has the bucket "${bucket}" in another region than "${region}": set "blobs.s3.region"${other === undefined ? '' : ` to "${other}"`}`;
    }
    if (statusCode === 403)
      return `refuses ${method} in the bucket "${bucket}" (${code || statusCode}): let the access key of the variable ${accessKeyEnv} get, put and delete objects there`;
    return `answers ${method} in the bucket "${bucket}" with status ${statusCode} ${code}`.trim();
  }

  /** With a message that names the store. */
  error(what: string, cause?: unknown): ObjectStoreError {
    const { endpoint } = this.#settings;
    return new ObjectStoreError(`The S3-compatible store of "blobs.s3.endpoint" (${endpoint}) ${what}.`, cause);
  }
}

/** Tells of an error of what is read, before whoever reads it. */
async function* noting(body: AsyncIterable<Buffer>, failed: (error: unknown) => void): AsyncGenerator<Buffer> {
  try {
    yield* body;
  } catch (error) {
    failed(error);
    throw error;
  }
}

/** The word by which S3 tells its errors apart; empty where the answer has none. */
async function codeOf(answer: IncomingMessage): Promise<string> {
  let text = '';
  try {
    for await (const bytes of answer) {
      text += bytes;
      if (text.length > ERROR_BYTES) break;
    }
  } catch (error) {
    throw new Away((error as Error).message);
  }
  return CODE.exec(text)?.[1] ?? '';
}
