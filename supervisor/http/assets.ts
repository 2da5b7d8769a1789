/** Answers with any file: encodings, validators and ranges (RFC 9110; specification, "Static files"). */
import { SvcError } from '../../protocol/errors.ts';
import type { ConstantHeaders, Exchange, ResponseHeaders } from '../edge/edge.ts';
import { constantHeaders } from '../edge/exchange.ts';

export type Encoding = 'br' | 'gzip' | 'identity';

/** Something to be served: all that its answers say of it. The headers of each encoding are put together once. */
export class Asset {
  /** Strong, with its quotes; of the bytes that are not encoded. */
  readonly etag: string;
  /** The encodings beside identity, the better one first. */
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
 * Answers a GET or HEAD; other methods are the caller's to refuse. `read` gives the bytes. Rejects as it does, and with
 * `RANGE_NOT_SATISFIABLE` for a range outside the file. A range is always one of the file itself, never of a compressed copy.
 */
export async function serveAsset(
  exchange: Exchange,
  asset: Asset,
  read: (encoding: Encoding) => Promise<Buffer>,
): Promise<void> {
  const range = exchange.method === 'GET' ? exchange.header('range') : undefined;
  const ranged = range !== undefined && isSingleRange(range) && rangeApplies(exchange.header('if-range'), asset.etag);
  const encoding = ranged ? 'identity' : preferredEncoding(exchange.header('accept-encoding'), asset.encodings);
  const head = asset.head(encoding);
  const ifNoneMatch = exchange.header('if-none-match');
  if (ifNoneMatch !== undefined && noneMatch(ifNoneMatch, encodedTag(asset.etag, encoding))) {
    exchange.send(304, NO_MORE, '', head);
    return;
  }
  const bytes = await read(encoding);
  const part = ranged ? parseRange(range, bytes.length) : undefined;
  if (part === undefined) {
    exchange.send(200, ENCODED[encoding], bytes, head);
    return;
  }
  if (part === 'unsatisfiable')
    throw new SvcError('RANGE_NOT_SATISFIABLE', `The file has ${bytes.length} bytes; the range lies outside it.`, {
      headers: { 'content-range': `bytes */${bytes.length}` },
    });
  const headers = { 'content-range': `bytes ${part.first}-${part.last}/${bytes.length}` };
  exchange.send(206, headers, bytes.subarray(part.first, part.last + 1), head);
}

/** The encoding to answer with, of `available` (in order of preference) and identity, which always is. */
export function preferredEncoding(accept: string | undefined, available: readonly Encoding[]): Encoding {
  if (accept === undefined || accept === '' || available.length === 0) return 'identity';
  const weights = new Map<string, number>();
  for (const item of accept.toLowerCase().split(',')) {
    const [name = '', ...parameters] = item.split(';');
    const q = parameters
      .map((parameter) => /^\s*q\s*=\s*(\d(?:\.\d*)?)\s*$/.exec(parameter)?.[1])
      .find((value) => value !== undefined);
    weights.set(name.trim(), q === undefined ? 1 : Number(q));
  }
  const others = weights.get('*') ?? 0;
  let best: Encoding = 'identity';
  let bestWeight = weights.get('identity') ?? 0;
  for (const encoding of available) {
    const weight = weights.get(encoding) ?? others;
    if (weight > 0 && (weight > bestWeight || (weight === bestWeight && best === 'identity'))) {
      best = encoding;
      bestWeight = weight;
    }
  }
  return best;
}

/** The ETag of a representation: each encoding has different bytes, so it has a separate tag. */
export function encodedTag(etag: string, encoding: Encoding): string {
  return encoding === 'identity' ? etag : `${etag.slice(0, -1)}-${encoding}"`;
}

/** Whether `If-None-Match` names the tag; compared weakly. */
export function noneMatch(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false;
  if (header.trim() === '*') return true;
  return header.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag);
}

/** Whether a `Range` is to be looked at: `If-Range` is absent or names exactly this tag. Dates never match. */
export function rangeApplies(ifRange: string | undefined, etag: string): boolean {
  return ifRange === undefined || ifRange.trim() === etag;
}

const SINGLE_RANGE = /^bytes=\s*(?=[\d-]*\d)(\d*)-(\d*)\s*$/i;

/** Whether a `Range` header is one range of bytes; what else there is is answered with the whole. */
export function isSingleRange(header: string): boolean {
  return SINGLE_RANGE.test(header);
}

/**
 * The bytes that a `Range` header asks for, of `length`; both ends are included. Undefined when it is no single range or
 * ends before it starts; `unsatisfiable` when none of it is there.
 */
export function parseRange(
  header: string,
  length: number,
): { first: number; last: number } | 'unsatisfiable' | undefined {
  const match = SINGLE_RANGE.exec(header);
  if (!match) return undefined;
  const [, from = '', to = ''] = match;
  if (from === '') {
    const count = Math.min(Number(to), length);
    return count === 0 ? 'unsatisfiable' : { first: length - count, last: length - 1 };
  }
  const first = Number(from);
  const last = to === '' ? length - 1 : Math.min(Number(to), length - 1);
  if (to !== '' && Number(to) < first) return undefined;
  return first >= length ? 'unsatisfiable' : { first, last };
}
