/** URLs and headers over raw sockets: both edges give one well-formed answer or end the connection, and agree. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { appOf } from '../../../testing/apps.ts';
import { usually } from '../arbitraries.ts';
import { type FuzzedGateway, startFuzzed } from '../gateway.ts';
import type { RawAnswer } from '../oracle.ts';
import { check, type Target } from '../target.ts';
import words from '../words.json' with { type: 'json' };

/** Some of these requests are not whole, and both edges would wait for the rest. */
const SILENCE_MS = 300;

const SITE = appOf('site', {
  queries: { echo: '({ input }) => input' },
  actions: { go: '() => null' },
  files: { 'index.html': '<!doctype html><p>Site', 'style.css': 'p { margin: 0 }'.repeat(200), 'a b+ü.json': '{}' },
});

const SEGMENTS = [
  ...words.segments,
  'a'.repeat(24),
  'x'.repeat(300),
  'x'.repeat(9000),
  '/'.repeat(3000),
  '%41'.repeat(2000),
];
const latin1 = fc
  .array(fc.integer({ min: 0x20, max: 0xff }), { maxLength: 8 })
  .map((codes) => String.fromCharCode(...codes));
const segment = usually(fc.constantFrom(...SEGMENTS), latin1, 8);
const target = fc
  .tuple(
    fc.constantFrom('/svc/', '/svc/site/', '/', '/_svc-user/', '/_svc-hook/', '/svc/_apps/', '', '//'),
    fc.array(segment, { maxLength: 5 }),
  )
  .map(([start, segments]) => start + segments.join('/'));

const VALUES = [...words.headerValues, 'x'.repeat(300), 'x'.repeat(17_000)];
const header = fc.tuple(
  usually(fc.constantFrom(...words.headerNames), latin1, 9),
  usually(fc.constantFrom(...VALUES), latin1, 4),
);
const manyHeaders = fc
  .nat(150)
  .map((count) => Array.from({ length: count }, (_, i): [string, string] => [`x-${i}`, 'y']));

type Shape = {
  method: string;
  target: string;
  version: string;
  headers: [string, string][];
  token: boolean;
  body: string | null;
};
const request: fc.Arbitrary<Shape> = fc.record({
  method: usually(
    fc.constantFrom('GET', 'POST', 'HEAD', 'OPTIONS', 'PUT'),
    fc.constantFrom('DELETE', 'PATCH', 'TRACE', 'get', 'G\u0000T', 'X'.repeat(100), ''),
  ),
  target: usually(target, fc.constantFrom('*', 'http://x/svc/', 'x:80', '/svc/_health'), 12),
  version: usually(fc.constant('HTTP/1.1'), fc.constantFrom('HTTP/1.0', 'HTTP/2.0', 'HTTP/9', 'http/1.1', ''), 20),
  headers: usually(fc.array(header, { maxLength: 5 }), manyHeaders, 9),
  token: fc.boolean(),
  body: fc.option(
    fc.constantFrom(
      '',
      '{}',
      '{"app":"site","query":"echo"}',
      '{"versionId":"v_1"}',
      '{"sql":"select 1"}',
      'x',
      '\u0000\u0001',
    ),
    { freq: 3 },
  ),
});

function bytesOf({ method, target: path, version, headers, token, body }: Shape, secret: string): Buffer {
  const lines = [
    `${method} ${path} ${version}`,
    'host: localhost',
    'connection: close',
    // What takes the app away would take it from the requests that follow.
    ...(token && method !== 'DELETE' ? [`authorization: Bearer ${secret}`] : []),
    ...(body === null ? [] : [`content-length: ${body.length}`]),
    ...headers.map(([name, value]) => `${name}: ${value}`),
  ];
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n${body ?? ''}`, 'latin1');
}

/** Where docs/http-api.md says that the edges differ. */
function mayDiffer({ target: path, version, headers, body }: Shape): boolean {
  const bytes = headers.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  return (
    version !== 'HTTP/1.1' ||
    !path.startsWith('/') ||
    headers.length + 5 > 48 ||
    bytes > 4096 ||
    headers.some(([name]) => name.trim() === '' || name.includes(':')) ||
    (body !== null && headers.some(([name]) => name.toLowerCase() === 'expect'))
  );
}

async function askBoth(edges: FuzzedGateway[], shape: Shape): Promise<void> {
  const head = shape.method === 'HEAD';
  const answers = await Promise.all(
    edges.map((edge) => edge.ask(bytesOf(shape, edge.gateway.token), head, SILENCE_MS)),
  );
  await Promise.all(edges.map((edge) => edge.assertSound()));
  const [one, other] = answers as [RawAnswer | null, RawAnswer | null];
  if (one === null || other === null || mayDiffer(shape)) return;
  assert.equal(one.status, other.status, 'the edges disagree (uws first)');
}

export const requests: Target = {
  name: 'requests',
  claim: 'On both edges a request gets one well-formed answer, or the connection ends; the daemon goes on.',
  open: async (stage) => {
    const edges = await Promise.all(
      (['uws', 'node'] as const).map((edge) => startFuzzed(stage, { site: SITE }, { edge })),
    );
    return [check('URLs and headers', 20_000, request, (shape) => askBoth(edges, shape))];
  },
};
