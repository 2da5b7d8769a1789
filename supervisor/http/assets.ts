/** Answers with a file: encodings, validators and ranges, whatever the file is (decisions, section 5). */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { SvcError } from '../../protocol/errors.ts';
import type { ConstantHeaders, Exchange, ResponseHeaders } from '../edge/edge.ts';
import { constantHeaders } from '../edge/response.ts';
import {
  type Encoding,
  encodedTag,
  isSingleRange,
  noneMatch,
  parseRange,
  preferredEncoding,
  rangeApplies,
} from './conditional.ts';

/** Something to be served: all that its answers say of it. The headers of each encoding are put together once. */
export class Asset {
  /** Strong, with its quotes; of the bytes that are not encoded. */
  readonly etag: string;
  /** The encodings there are besides identity, the better one first. */
  readonly encodings: readonly Encoding[];
  readonly #headers: Record<string, string>;
  readonly #heads = new Map<Encoding, ConstantHeaders>();

  /** `headers` are cache and security policy. */
  constructor(type: string, etag: string, encodings: readonly Encoding[], headers: Record<string, string>) {
    this.etag = etag;
    this.encodings = encodings;
    const vary = encodings.length > 0 && { vary: 'accept-encoding' };
    this.#headers = { ...headers, 'content-type': type, 'accept-ranges': 'bytes', ...vary };
  }

  /** The headers of every answer with it, but for `content-encoding` and `content-range`. */
  head(encoding: Encoding): ConstantHeaders {
    let head = this.#heads.get(encoding);
    if (head === undefined) {
      head = constantHeaders({ ...this.#headers, etag: encodedTag(this.etag, encoding) });
      this.#heads.set(encoding, head);
    }
    return head;
  }
}

const NO_MORE: ResponseHeaders = {};
const ENCODED: Record<Encoding, ResponseHeaders> = {
  identity: NO_MORE,
  br: { 'content-encoding': 'br' },
  gzip: { 'content-encoding': 'gzip' },
};

/**
 * Answers a GET or HEAD; other methods are the caller's to refuse. `read` gives the bytes, at once when they are in memory. `fail`
 * gets what it threw, and the `RANGE_NOT_SATISFIABLE` of a range outside the file; it answers then. A range is always one of the
 * file itself, never of a compressed copy.
 */
export function serveAsset(
  exchange: Exchange,
  asset: Asset,
  read: (encoding: Encoding) => Buffer | Promise<Buffer>,
  fail: (error: unknown) => void,
): void {
  const range = exchange.method === 'GET' ? exchange.header('range') : undefined;
  const ranged = range !== undefined && isSingleRange(range) && rangeApplies(exchange.header('if-range'), asset.etag);
  const encoding = ranged ? 'identity' : preferredEncoding(exchange.header('accept-encoding'), asset.encodings);
  const head = asset.head(encoding);
  const ifNoneMatch = exchange.header('if-none-match');
  if (ifNoneMatch !== undefined && noneMatch(ifNoneMatch, encodedTag(asset.etag, encoding))) {
    exchange.send(304, NO_MORE, '', head);
    return;
  }
  const answer = (bytes: Buffer): void => {
    const part = ranged ? parseRange(range, bytes.length) : undefined;
    if (part === undefined) {
      exchange.send(200, ENCODED[encoding], bytes, head);
    } else if (part === 'unsatisfiable') {
      fail(
        new SvcError('RANGE_NOT_SATISFIABLE', `The file has ${bytes.length} bytes; the range lies outside it.`, {
          headers: { 'content-range': `bytes */${bytes.length}` },
        }),
      );
    } else {
      const headers = { 'content-range': `bytes ${part.first}-${part.last}/${bytes.length}` };
      exchange.send(206, headers, bytes.subarray(part.first, part.last + 1), head);
    }
  };
  const bytes = read(encoding);
  if (Buffer.isBuffer(bytes)) answer(bytes);
  else bytes.then(answer).catch(fail);
}

/** A file of the gateway's own, such as a script of the console: read once, served from memory. */
export type OwnFile = { type: string; etag: string; bytes: Buffer };

export async function openOwnFile(path: string, type: string): Promise<OwnFile> {
  const bytes = await readFile(path);
  const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 32)}"`;
  return { type, etag, bytes };
}

/** `policy` are the headers that every page has. */
export function serveOwnFile(
  exchange: Exchange,
  { type, etag, bytes }: OwnFile,
  policy: Record<string, string>,
  fail: (error: unknown) => void,
): void {
  const asset = new Asset(type, etag, [], { ...policy, 'cache-control': 'no-cache' });
  serveAsset(exchange, asset, () => bytes, fail);
}
