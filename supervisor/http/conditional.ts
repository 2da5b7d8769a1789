/** What a request for a file asks for beyond its name: encoding, validators and ranges (RFC 9110). Pure. */

export type Encoding = 'br' | 'gzip' | 'identity';

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

/** The ETag of a representation: each encoding has bytes of its own, so it has a tag of its own. */
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
