/** Answers with a file: encodings, validators and ranges, whatever the file is (decisions, section 5). */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { SvcError } from '../protocol/errors.ts';
import {
  type Encoding,
  encodedTag,
  isSingleRange,
  noneMatch,
  parseRange,
  preferredEncoding,
  rangeApplies,
} from './conditional.ts';
import type { Exchange, ResponseHeaders } from './edge/edge.ts';

/** Something to be served. */
export type Asset = {
  type: string;
  /** Strong, with its quotes; of the bytes that are not encoded. */
  etag: string;
  /** The encodings there are besides identity, the better one first. */
  encodings: readonly Encoding[];
  /** Sent with every answer for it: cache and security policy. */
  headers: ResponseHeaders;
  /** Its bytes; at once when they are in memory. */
  read(encoding: Encoding): Buffer | Promise<Buffer>;
};

/**
 * Answers a GET or HEAD; other methods are the caller's to refuse. `fail` gets what `read` threw, and the
 * `RANGE_NOT_SATISFIABLE` of a range outside the file; it answers then. A range is always one of the file itself, never of
 * a compressed copy.
 */
export function serveAsset(exchange: Exchange, asset: Asset, fail: (error: unknown) => void): void {
  const range = exchange.method === 'GET' ? exchange.header('range') : undefined;
  const ranged = range !== undefined && isSingleRange(range) && rangeApplies(exchange.header('if-range'), asset.etag);
  const encoding = ranged ? 'identity' : preferredEncoding(exchange.header('accept-encoding'), asset.encodings);
  const etag = encodedTag(asset.etag, encoding);
  const headers: ResponseHeaders = { ...asset.headers, 'content-type': asset.type, etag, 'accept-ranges': 'bytes' };
  if (asset.encodings.length > 0) headers.vary = 'accept-encoding';

  if (noneMatch(exchange.header('if-none-match'), etag)) {
    exchange.send(304, headers, '');
    return;
  }
  const answer = (bytes: Buffer): void => {
    if (encoding !== 'identity') headers['content-encoding'] = encoding;
    const part = ranged ? parseRange(range, bytes.length) : undefined;
    if (part === undefined) {
      exchange.send(200, headers, bytes);
    } else if (part === 'unsatisfiable') {
      fail(
        new SvcError('RANGE_NOT_SATISFIABLE', `The file has ${bytes.length} bytes; the range lies outside it.`, {
          headers: { 'content-range': `bytes */${bytes.length}` },
        }),
      );
    } else {
      headers['content-range'] = `bytes ${part.first}-${part.last}/${bytes.length}`;
      exchange.send(206, headers, bytes.subarray(part.first, part.last + 1));
    }
  };
  const bytes = asset.read(encoding);
  if (Buffer.isBuffer(bytes)) answer(bytes);
  else bytes.then(answer).catch(fail);
}

/** A file of the gateway's own, such as the client script: read once, served from memory. */
export async function openAsset(path: string, type: string, headers: ResponseHeaders): Promise<Asset> {
  const bytes = await readFile(path);
  const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 32)}"`;
  return { type, etag, encodings: [], headers, read: () => bytes };
}
