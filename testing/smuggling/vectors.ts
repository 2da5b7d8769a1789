/**
 * Requests that two readers of one connection may read differently (request smuggling), as data. Each carries a second
 * request at a place where the right reading finds none: in a body, in a chunk, or behind something malformed. Whoever
 * runs that second request was fooled.
 */

/** Ways to the gateway: `direct`, or through a proxy as installed or made as lenient as it can be. */
export const WAYS = ['direct', 'nginx', 'nginx lenient', 'haproxy', 'haproxy lenient'] as const;
export type Way = (typeof WAYS)[number];

type Shape = {
  readonly name: string;
  /**
   * Ways on which the first reader itself takes this for two requests and says so with two answers. It is not fooled by
   * whoever is behind it, and neither is another client.
   */
  readonly readAsTwoBy?: readonly (Way | 'uws, in pieces')[];
  /** The bytes, as Latin-1, around the request that must not run. `auth` is a whole header line without its end. */
  bytes(inner: string, auth: string): string;
};

const TARGET = '/svc/_tool/svc_describe';

function chunk(data: string): string {
  return `${data.length.toString(16)}\r\n${data}\r\n`;
}

const LAST_CHUNK = '0\r\n\r\n';

/** What stands behind the head, and header lines whose text depends on it. */
type Build = (inner: string) => { lines: string[]; body: string };

/** A POST that is well-formed but for `lines` and `body`. */
function post(name: string, build: Build, requestLine = `POST ${TARGET} HTTP/1.1`): Shape {
  return {
    name,
    bytes: (inner, auth) => {
      const { lines, body } = build(inner);
      return `${[requestLine, 'Host: localhost', auth, ...lines].join('\r\n')}\r\n\r\n${body}`;
    },
  };
}

/** The second request is the whole body, which has the right length; `lines` are what is odd. */
function inBody(name: string, lines: string[], requestLine?: string): Shape {
  const build: Build = (inner) => ({ lines: [...lines, `Content-Length: ${inner.length}`], body: inner });
  return post(name, build, requestLine);
}

/** As `inBody`, with the whole head given; `LENGTH` stands for the body's length. */
function headed(name: string, head: (auth: string) => string): Shape {
  return { name, bytes: (inner, auth) => head(auth).replaceAll('LENGTH', String(inner.length)) + inner };
}

/** The one length header is malformed, or the last of several; the second request is what it counts, or what follows. */
function length(name: string, lines: (length: number) => string[]): Shape {
  return post(name, (inner) => ({ lines: lines(inner.length), body: inner }));
}

/** By its length the body holds the second request; by its encoding, if that is taken for chunked, it ends before. */
function obscured(name: string, ...lines: string[]): Shape {
  return post(name, (inner) => {
    const body = `${LAST_CHUNK}${inner}`;
    return { lines: [`Content-Length: ${body.length}`, ...lines], body };
  });
}

/** The second request is a chunk's data; who does not decode chunks takes it for the next request. */
function inChunk(name: string, lines: string[], requestLine?: string): Shape {
  return post(name, (inner) => ({ lines, body: chunk(inner) + LAST_CHUNK }), requestLine);
}

/** The chunks as given. */
function chunks(name: string, body: (inner: string) => string): Shape {
  return post(name, (inner) => ({ lines: ['Transfer-Encoding: chunked'], body: body(inner) }));
}

const LENGTHS: Shape[] = [
  length('two, the first 0', (n) => ['Content-Length: 0', `Content-Length: ${n}`]),
  length('two, the last 0', (n) => [`Content-Length: ${n}`, 'Content-Length: 0']),
  length('two, equal', (n) => [`Content-Length: ${n}`, `Content-Length: ${n}`]),
  length('a list that ends in 0', (n) => [`Content-Length: ${n}, 0`]),
  length('a list that starts with 0', (n) => [`Content-Length: 0, ${n}`]),
  length('plus sign', (n) => [`Content-Length: +${n}`]),
  length('minus sign', (n) => [`Content-Length: -${n}`]),
  length('hexadecimal', (n) => [`Content-Length: 0x${n.toString(16)}`]),
  length('exponent', () => ['Content-Length: 1e3']),
  length('fraction', (n) => [`Content-Length: ${n}.0`]),
  length('in quotes', (n) => [`Content-Length: "${n}"`]),
  length('followed by text', (n) => [`Content-Length: ${n} bytes`]),
  length('a space inside', (n) => [`Content-Length: 0 ${n}`]),
  length('empty', () => ['Content-Length:']),
  // HAProxy 2.6 counts modulo 2^64.
  { ...length('2^64', () => [`Content-Length: ${2n ** 64n}`]), readAsTwoBy: ['haproxy', 'haproxy lenient'] },
  length('2^32', () => [`Content-Length: ${2 ** 32}`]),
  length('60 digits', () => [`Content-Length: ${'9'.repeat(60)}`]),
  length('leading zeros', (n) => [`Content-Length: 000000${n}`]),
  length('on a name in capitals', (n) => [`CONTENT-LENGTH: ${n}`, 'Content-length: 0']),
  inBody('of a GET', [], `GET ${TARGET} HTTP/1.1`),
  inBody('of a DELETE', [], 'DELETE /svc/_apps/nobody HTTP/1.1'),
  inBody('of a HEAD', [], 'HEAD /svc/_health HTTP/1.1'),
  inBody('of an OPTIONS', [], `OPTIONS ${TARGET} HTTP/1.1`),
];

const CODINGS: Shape[] = [
  ...['xchunked', 'chunked, identity', 'identity, chunked', 'chunked, chunked', 'gzip, chunked', 'identity'].map(
    (value) => inChunk(value, [`Transfer-Encoding: ${value}`]),
  ),
  ...['"chunked"', 'chunked;q=1', 'chunke', 'chunked ,', ', chunked', ''].map((value) =>
    inChunk(value === '' ? 'empty' : value, [`Transfer-Encoding: ${value}`]),
  ),
  inChunk('twice', ['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked']),
  inChunk('twice, the last identity', ['Transfer-Encoding: chunked', 'Transfer-Encoding: identity']),
  inChunk('in capitals', ['Transfer-Encoding: CHUNKED']),
  inChunk('after a tab', ['Transfer-Encoding:\tchunked']),
  inChunk('of a GET', ['Transfer-Encoding: chunked'], `GET ${TARGET} HTTP/1.1`),
  inChunk('in HTTP/1.0', ['Transfer-Encoding: chunked'], `POST ${TARGET} HTTP/1.0`),
];

const BOTH: Shape[] = [
  post('a chunk with the request, a length that ends before it', (inner) => ({
    lines: [`Content-Length: ${inner.length.toString(16).length + 2}`, 'Transfer-Encoding: chunked'],
    body: chunk(inner) + LAST_CHUNK,
  })),
  post('the same, the encoding first', (inner) => ({
    lines: ['Transfer-Encoding: chunked', `Content-Length: ${inner.length.toString(16).length + 2}`],
    body: chunk(inner) + LAST_CHUNK,
  })),
  ...['xchunked', 'chunked, identity', 'identity', '"chunked"', 'chunked;q=1', ''].map((value) =>
    obscured(`a length and "${value}"`, `Transfer-Encoding: ${value}`),
  ),
];

const CHUNKS: Shape[] = [
  chunks('well-formed', (inner) => chunk(inner) + LAST_CHUNK),
  chunks('no CRLF after the data', (inner) => `5\r\nhello${chunk(inner)}${LAST_CHUNK}`),
  chunks('two other bytes after the data', (inner) => `5\r\nhelloXX${chunk(inner)}${LAST_CHUNK}`),
  chunks('size ended by LF', (inner) => `5\nhello\r\n${chunk(inner)}${LAST_CHUNK}`),
  chunks('size ended by CR', (inner) => `5\rhello\r\n${chunk(inner)}${LAST_CHUNK}`),
  chunks('data ended by LF', (inner) => `5\r\nhello\n${chunk(inner)}${LAST_CHUNK}`),
  chunks(
    'size of more than 64 bits',
    (inner) => `1${inner.length.toString(16).padStart(16, '0')}\r\n${inner}\r\n${LAST_CHUNK}`,
  ),
  chunks(
    'size of more than 32 bits',
    (inner) => `1${inner.length.toString(16).padStart(8, '0')}\r\n${inner}\r\n${LAST_CHUNK}`,
  ),
  chunks('negative size', (inner) => `-1\r\n${inner}\r\n${LAST_CHUNK}`),
  chunks('size with a sign', (inner) => `+${chunk(inner)}${LAST_CHUNK}`),
  chunks('size with 0x', (inner) => `0x${chunk(inner)}${LAST_CHUNK}`),
  chunks('size with an underscore', (inner) => `0_${chunk(inner)}${LAST_CHUNK}`),
  chunks('size behind a space', (inner) => ` ${chunk(inner)}${LAST_CHUNK}`),
  chunks('no size', (inner) => `\r\n${inner}\r\n${LAST_CHUNK}`),
  chunks('size of garbage', (inner) => `zz\r\n${inner}\r\n${LAST_CHUNK}`),
  chunks('an extension', (inner) => `${inner.length.toString(16)};a=b\r\n${inner}\r\n${LAST_CHUNK}`),
  chunks('an extension with LF', (inner) => `2;\nxx\r\n${chunk(LAST_CHUNK + inner)}${LAST_CHUNK}`),
  chunks('an extension with CR', (inner) => `2;\rxx\r\n${chunk(LAST_CHUNK + inner)}${LAST_CHUNK}`),
  chunks('an extension with NUL', (inner) => `${inner.length.toString(16)};\0\r\n${inner}\r\n${LAST_CHUNK}`),
  chunks(
    'an extension of 64 KiB',
    (inner) => `${inner.length.toString(16)};${'a'.repeat(65_536)}\r\n${inner}\r\n${LAST_CHUNK}`,
  ),
  chunks('a length in the trailer', (inner) => `${chunk(inner)}0\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\n\r\n`),
  chunks('the request as the trailer', (inner) => `${chunk('hello')}0\r\n${inner}`),
  chunks('the last size ended by LF, the request as a trailer', (inner) => `${chunk('hello')}0\n${inner}`),
];

const FOLDS: Shape[] = [
  obscured('the encoding folded', 'Transfer-Encoding:\r\n chunked'),
  obscured('the encoding as a fold of another header', 'X: a\r\n Transfer-Encoding: chunked'),
  obscured('with a tab', 'X: a\r\n\tTransfer-Encoding: chunked'),
  post('the length folded', (inner) => ({ lines: [`Content-Length:\r\n ${inner.length}`], body: inner })),
  headed(
    'the first header line',
    (auth) =>
      `POST ${TARGET} HTTP/1.1\r\n Content-Length: 0\r\nHost: localhost\r\n${auth}\r\nContent-Length: LENGTH\r\n\r\n`,
  ),
  headed(
    'an empty line with a space',
    (auth) => `POST ${TARGET} HTTP/1.1\r\nHost: localhost\r\n${auth}\r\n \r\nContent-Length: LENGTH\r\n\r\n`,
  ),
];

const LINE_ENDS: Shape[] = [
  obscured('LF in a value', 'X: a\nTransfer-Encoding: chunked'),
  obscured('CR in a value', 'X: a\rTransfer-Encoding: chunked'),
  obscured('CR before the CRLF', 'X: a\r\r', 'Transfer-Encoding: identity'),
  obscured('LF and CR, swapped', 'X: a\n\rTransfer-Encoding: chunked'),
  inBody('an empty line of LF in the head', ['X: a\n']),
  inBody('an empty line of CR in the head', ['X: a\r\r']),
  headed(
    'every line ended by LF',
    (auth) => `POST ${TARGET} HTTP/1.1\nHost: localhost\n${auth}\nContent-Length: LENGTH\n\n`,
  ),
  headed(
    'every line ended by CR',
    (auth) => `POST ${TARGET} HTTP/1.1\rHost: localhost\r${auth}\rContent-Length: LENGTH\r\r`,
  ),
  headed(
    'the head ended by CRLF LF',
    (auth) => `POST ${TARGET} HTTP/1.1\r\nHost: localhost\r\n${auth}\r\nContent-Length: LENGTH\r\n\n`,
  ),
];

const CONTROLS: Shape[] = [
  obscured('NUL in the name of the encoding', 'Transfer-Encoding\0: chunked'),
  obscured('NUL in the encoding', 'Transfer-Encoding: chun\0ked'),
  obscured('a vertical tab before the encoding', 'Transfer-Encoding: \x0bchunked'),
  obscured('a byte over 127 after the encoding', 'Transfer-Encoding: chunked\xa0'),
  length('NUL behind the length', (n) => [`Content-Length: ${n}\0`]),
  length('a form feed before the length', (n) => [`Content-Length: \x0c${n}`]),
  inBody('NUL in a value', ['X: a\0b']),
  inBody('NUL in the target', [], `POST ${TARGET}\0 HTTP/1.1`),
  inBody('DEL in a value', ['X: a\x7fb']),
];

const NAMES: Shape[] = [
  obscured('a space before the colon', 'Transfer-Encoding : chunked'),
  obscured('a tab before the colon', 'Transfer-Encoding\t: chunked'),
  obscured('a space inside', 'Transfer Encoding: chunked'),
  obscured('an underscore', 'Transfer_Encoding: chunked'),
  obscured('no colon', 'Transfer-Encoding chunked'),
  // As lenient as it can be, HAProxy hands the line on as another header.
  {
    ...length('a space before the colon of the length', (n) => [`Content-Length : ${n}`]),
    readAsTwoBy: ['haproxy lenient'],
  },
  inBody('a length with an underscore', ['Content_Length: 0']),
  inBody('none, before the length', [': a']),
  inBody('none and no value, before the length', [':']),
  // Nothing tells the edge of the length, and a GET without one has no body: it is answered before the rest arrives.
  {
    ...inBody('none, before the length of a GET', [': a'], 'GET /svc/_apps HTTP/1.1'),
    readAsTwoBy: ['uws, in pieces'],
  },
  inBody('a byte over 127', ['X\xe9: a']),
  inBody('a line without a colon', ['garbage']),
];

const HOPS: Shape[] = [
  inBody('Connection: Content-Length', ['Connection: Content-Length']),
  inBody('Connection: close, Content-Length', ['Connection: close, Content-Length']),
  inChunk('Connection: Transfer-Encoding', ['Connection: Transfer-Encoding', 'Transfer-Encoding: chunked']),
  inBody('Expect: 100-continue', ['Expect: 100-continue']),
  inBody('Expect: 100-continue of a GET', ['Expect: 100-continue'], 'GET /svc/_apps HTTP/1.1'),
  inBody('another Expect', ['Expect: 200-ok']),
  inBody('Upgrade: h2c', ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__']),
  inBody('Upgrade: websocket', [
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  ]),
  // A CONNECT has no content (RFC 9110, 9.3.6), so HAProxy does not look at its length.
  { ...inBody('CONNECT', [], 'CONNECT gateway:80 HTTP/1.1'), readAsTwoBy: ['haproxy', 'haproxy lenient'] },
];

const HOSTS: Shape[] = [
  inBody('two', ['Host: other']),
  inBody('two, equal', ['Host: localhost']),
  ...[
    ['none', ''],
    ['empty', 'Host:\r\n'],
    ['a list', 'Host: a, b\r\n'],
    ['with a user', 'Host: a@b\r\n'],
    ['with a path', 'Host: a/b\r\n'],
    ['with a port of letters', 'Host: a:b\r\n'],
    ['with a space', 'Host: a b\r\n'],
  ].map(([name, line]) =>
    headed(name as string, (auth) => `POST ${TARGET} HTTP/1.1\r\n${line}${auth}\r\nContent-Length: LENGTH\r\n\r\n`),
  ),
  inBody('another one in the target', [], `POST http://other${TARGET} HTTP/1.1`),
];

const LINES: Shape[] = [
  ...[
    ['two spaces', `POST  ${TARGET} HTTP/1.1`],
    ['a tab', `POST\t${TARGET} HTTP/1.1`],
    ['a space at the end', `POST ${TARGET} HTTP/1.1 `],
    ['a space at the start', ` POST ${TARGET} HTTP/1.1`],
    ['an empty line before', `\r\nPOST ${TARGET} HTTP/1.1`],
    ['an empty line of LF before', `\nPOST ${TARGET} HTTP/1.1`],
    ['a method in lower case', `post ${TARGET} HTTP/1.1`],
    ['an unknown method', `SMUGGLE ${TARGET} HTTP/1.1`],
    ['no version', `POST ${TARGET}`],
    ['version 0.9', `POST ${TARGET} HTTP/0.9`],
    ['version 1.0', `POST ${TARGET} HTTP/1.0`],
    ['version 1.2', `POST ${TARGET} HTTP/1.2`],
    ['version 2.0', `POST ${TARGET} HTTP/2.0`],
    ['version 1.1 and a digit', `POST ${TARGET} HTTP/1.11`],
    ['version in lower case', `POST ${TARGET} http/1.1`],
    ['another protocol', `POST ${TARGET} HTTQ/1.1`],
    ['a space in the target', `POST ${TARGET} HTTP/1.1 HTTP/1.1`],
    ['a fragment', `POST ${TARGET}#a HTTP/1.1`],
    ['a byte over 127', `POST ${TARGET}\xe9 HTTP/1.1`],
    ['no target', 'POST HTTP/1.1'],
    ['a target of *', 'OPTIONS * HTTP/1.1'],
    ['a target without a slash', 'POST svc HTTP/1.1'],
    ['two slashes', 'POST // HTTP/1.1'],
    ['line ends encoded in the target', `POST ${TARGET}%0d%0a%0d%0a HTTP/1.1`],
  ].map(([name, line]) => inBody(name as string, [], line)),
  headed('the greeting of HTTP/2', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  headed('a greeting of TLS', () => '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n'),
];

const SIZES: Shape[] = [
  inBody('a header of 64 KiB before the length', [`X: ${'a'.repeat(65_536)}`]),
  inBody(
    'headers of 15 KiB before the length',
    Array.from({ length: 15 }, (_, i) => `X${i}: ${'a'.repeat(1000)}`),
  ),
  inBody(
    '60 headers before the length',
    Array.from({ length: 60 }, (_, i) => `X${i}: a`),
  ),
  inBody(
    '2,000 headers before the length',
    Array.from({ length: 2000 }, (_, i) => `X${i}: a`),
  ),
  inBody('a header name of 8 KiB', [`${'X'.repeat(8192)}: a`]),
  inBody('a target of 9,000 bytes', [], `POST /${'a'.repeat(9000)} HTTP/1.1`),
  inBody('a method of 9,000 bytes', [], `${'A'.repeat(9000)} ${TARGET} HTTP/1.1`),
  length('a body over its limit', () => [`Content-Length: ${1024 * 1024 + 1}`]),
];

const TABLE = {
  lengths: LENGTHS,
  'transfer encodings': CODINGS,
  'length and encoding': BOTH,
  'chunk framing': CHUNKS,
  'line folds': FOLDS,
  'bare LF and CR': LINE_ENDS,
  'NUL and controls': CONTROLS,
  'header names': NAMES,
  'hop-by-hop and upgrades': HOPS,
  Host: HOSTS,
  'request lines': LINES,
  limits: SIZES,
} satisfies Record<string, Shape[]>;

export type Kind = keyof typeof TABLE;
export type Vector = Shape & { readonly kind: Kind };

export const VECTORS: readonly Vector[] = Object.entries(TABLE).flatMap(([kind, shapes]) =>
  shapes.map((shape) => ({ ...shape, kind: kind as Kind })),
);
