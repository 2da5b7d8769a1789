/** Reads the requests of `vectors.json`, which two readers of one connection may read differently (request smuggling). */
import { readFileSync } from 'node:fs';

/** Ways to the gateway: `direct`, or through a proxy as installed or made as lenient as it can be. */
export const WAYS = ['direct', 'nginx', 'nginx lenient', 'haproxy', 'haproxy lenient'] as const;
export type Way = (typeof WAYS)[number];

/**
 * Ways on which the first reader itself parses two requests and sends two answers. Then neither it nor another client
 * is fooled.
 */
type ReadAsTwoBy = readonly (Way | 'uws, in pieces')[];

export type Vector = {
  readonly kind: string;
  readonly name: string;
  readonly readAsTwoBy?: ReadAsTwoBy;
  /** The bytes, as Latin-1, around the request that must not run. `auth` is a whole header line without its end. */
  bytes(inner: string, auth: string): string;
};

/**
 * By kind and name the bytes, with a second request, `{inner}`, at a place where the right reading finds none: in a
 * body, in a chunk, or after something malformed. A server that runs it was fooled. `{length}` is its length, `{hex}`
 * the same in hexadecimal, `{digits + 2}` as many as those digits and a line end; `{60*X#: a}` is a text 60 times,
 * numbered from 0.
 */
type Table = Record<string, Record<string, string | { bytes: string; readAsTwoBy: ReadAsTwoBy; why: string }>>;

const TABLE = JSON.parse(readFileSync(new URL('vectors.json', import.meta.url), 'utf8')) as Table;

export const VECTORS: readonly Vector[] = Object.entries(TABLE).flatMap(([kind, vectors]) =>
  Object.entries(vectors).map(([name, vector]) => {
    const { bytes, ...rest } = typeof vector === 'string' ? { bytes: vector } : vector;
    return { kind, name, ...rest, bytes: (inner, auth) => fill(bytes, inner, auth) };
  }),
);

function fill(template: string, inner: string, auth: string): string {
  const hex = (more = 0) => (inner.length + more).toString(16);
  const values: Record<string, string> = {
    '{head}': `POST /svc/_tool/svc_describe HTTP/1.1\r\nHost: localhost\r\n${auth}\r\n`,
    '{auth}': auth,
    '{inner}': inner,
    '{length}': String(inner.length),
    '{length + 5}': String(inner.length + 5),
    '{hex}': hex(),
    '{hex + 5}': hex(5),
    '{hex of 8 digits}': hex().padStart(8, '0'),
    '{hex of 16 digits}': hex().padStart(16, '0'),
    '{digits + 2}': String(hex().length + 2),
  };
  return repeated(repeated(template)).replace(/\{[a-z0-9 +]+\}/g, (place) => values[place] ?? place);
}

/** The innermost repetitions written out. */
function repeated(template: string): string {
  return template.replace(/\{(\d+)\*([^{}]*)\}/g, (_, count: string, text: string) =>
    Array.from({ length: Number(count) }, (_, at) => text.replace('#', String(at))).join(''),
  );
}
