/**
 * Finds faults in a request's target and headers before any other code uses them. Pure. The native parser of the uws edge is
 * lenient where two readers of one connection may disagree about where a request ends (request smuggling), so both edges check
 * here. The rules are those of RFC 9112, sections 3.2, 5 and 6. The sizes are in `LIMITS`.
 */
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';

/** Headers as they came: names in lower case and values, alternating: `[name, value, name, value, …]`. */
export type HeaderList = readonly string[];

/** Rules that depend on the parser and the version of HTTP. */
export type FramingRules = {
  /** Whether a body may come in chunks. Where it may not, the answer is `LENGTH_REQUIRED`. */
  readonly chunked: boolean;
  /** Whether a Host header is required. HTTP/1.0 knows none. */
  readonly hostRequired: boolean;
};

// These match a wrong character. To look for one is twice as fast as to match a whole name.
const NOT_TOKEN = /[^!#$%&'*+\-.^_`|~0-9A-Za-z]/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it finds
const CONTROL = /[\x00-\x08\x0a-\x1f\x7f]/;
const NOT_PRINTABLE = /[^\x21-\x7e]/;
const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9\-._~%!$&'()*+,;=]+)(?::[0-9]{0,5})?$/;
/** A length of up to fifteen digits, which is more than any limit and still exact as a number. */
const LENGTH = /^[0-9]{1,15}$/;

/**
 * The reason to refuse a request, or null. After a refusal the connection must be closed, and nothing that follows on it may be
 * read: where the request ends is not known.
 */
export function checkFraming(path: string, query: string, headers: HeaderList, rules: FramingRules): SvcError | null {
  if (path.length + query.length > LIMITS.urlBytes) return bad(`The URL is over ${LIMITS.urlBytes} bytes.`);
  if (path.charCodeAt(0) !== 0x2f) return bad('The request target must be a path that starts with "/".');
  if (NOT_PRINTABLE.test(path) || NOT_PRINTABLE.test(query)) {
    return bad('The URL holds a character that is not printable ASCII; percent-encode it.');
  }
  if (headers.length / 2 > LIMITS.headerCount) {
    return new SvcError('HEADERS_TOO_LARGE', `The request has more than ${LIMITS.headerCount} headers.`);
  }

  let bytes = 0;
  let host: string | undefined;
  let length: string | undefined;
  let coding: string | undefined;
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] as string;
    const value = headers[at + 1] as string;
    bytes += name.length + value.length;
    if (name === '' || NOT_TOKEN.test(name)) return bad('A header has a name that is not a token.');
    if (CONTROL.test(value)) return bad('A header has a value with a control character or a line fold.');
    switch (name) {
      case 'host':
        if (host !== undefined) return bad('The request has more than one Host header.');
        host = value;
        break;
      case 'content-length':
        if (length !== undefined) return bad('The request has more than one Content-Length header.');
        length = value;
        break;
      case 'transfer-encoding':
        if (coding !== undefined) return bad('The request has more than one Transfer-Encoding header.');
        coding = value;
        break;
    }
  }
  if (bytes > LIMITS.headerBytes) {
    return new SvcError('HEADERS_TOO_LARGE', `The headers are over ${LIMITS.headerBytes} bytes.`);
  }
  if (host === undefined ? rules.hostRequired : !HOST.test(host))
    return bad('The Host header is missing or malformed.');
  if (length !== undefined && !LENGTH.test(length)) return bad('The Content-Length header is not a number.');
  if (coding === undefined) return null;
  if (length !== undefined) return bad('A request has Content-Length or Transfer-Encoding, not both.');
  if (coding.toLowerCase() !== 'chunked') return bad('The only Transfer-Encoding that is taken is "chunked".');
  if (rules.chunked) return null;
  return new SvcError('LENGTH_REQUIRED', 'Send the body with a Content-Length; chunked bodies are not supported here.');
}

/** A header by its name in lower case. Repeated ones are joined as RFC 9110 (5.3) and RFC 6265 (5.4, cookies) say. */
export function findHeader(headers: HeaderList, name: string): string | undefined {
  let found: string | undefined;
  for (let at = 0; at < headers.length; at += 2) {
    const one = headers[at] as string;
    // Most differ in their length, which is sooner seen.
    if (one.length !== name.length || one !== name) continue;
    const value = headers[at + 1] as string;
    found = found === undefined ? value : `${found}${name === 'cookie' ? '; ' : ', '}${value}`;
  }
  return found;
}

/** The declared length of the body in bytes. It is 0 without one. Only for headers that passed `checkFraming`. */
export function declaredLength(headers: HeaderList): number {
  return Number(findHeader(headers, 'content-length') ?? 0);
}

function bad(message: string): SvcError {
  return new SvcError('BAD_REQUEST', message);
}
