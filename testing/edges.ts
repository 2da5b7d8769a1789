/** Suites that run against the real daemon on both edges, so that one table of cases holds for each. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { connect } from 'node:net';
import { basename } from 'node:path';
import { after, before, describe } from 'node:test';
import { loadUws } from '../supervisor/edge/uws-binding.ts';
import { type EdgeKind, makeGateway, type StartOptions, type StoreKind, type TestGateway } from './gateway.ts';
import { inTime, LIMIT_MS, pause } from './waiting.ts';

/** Both, or the one that this Node supports (`supervisor/edge/uws-binding.ts`). */
export const EDGES: readonly EdgeKind[] = hasUws() ? ['uws', 'node'] : ['node'];
/** The one that `auto` chooses. */
export const BEST_EDGE: EdgeKind = EDGES[0] ?? 'node';

/**
 * Both edges and both backends for code, in two runs: edge and backend do not depend on each other. Of half of the files CI leaves
 * out the second run, of the other half for the next commit (scripts/parts.mjs).
 */
const RUNS: readonly { edge: EdgeKind; store: StoreKind }[] = [
  { edge: BEST_EDGE, store: 'tarball' },
  ...(leavesOutSecond() ? [] : [{ edge: 'node', store: 'git' } as const]),
];

function leavesOutSecond(): boolean {
  const leftOut = (process.env.SVC_TEST_LEAVE_OUT ?? '').split(',');
  const name = basename(process.argv[1] ?? '').split('.', 1)[0] ?? '';
  const half = 1 + (createHash('sha256').update(name).digest()[0]! % 2);
  return leftOut.includes(`second-${half}`);
}

function hasUws(): boolean {
  try {
    loadUws();
    return true;
  } catch {
    return false;
  }
}

/**
 * Runs the suite once for each edge and each store, with a separate gateway that starts before it and ends after it.
 */
export function onEachEdge(
  options: StartOptions,
  suite: (gateway: TestGateway, edge: EdgeKind, store: StoreKind) => void,
): void {
  for (const { edge, store } of RUNS) {
    describe(`${edge}, ${store}`, () => suite(gatewayOfSuite({ ...options, edge, store }), edge, store));
  }
}

/** Runs the suite once for each store. */
export function onEachStore(options: StartOptions, suite: (gateway: TestGateway, store: StoreKind) => void): void {
  for (const { store } of RUNS) describe(store, () => suite(gatewayOfSuite({ ...options, store }), store));
}

/** The gateway of the suite being defined. */
export function gatewayOfSuite(options: StartOptions): TestGateway {
  const { gateway, remove } = makeGateway(options);
  before(() => gateway.start());
  after(remove);
  return gateway;
}

/** Checks again until the condition holds; for changes on disk or in another process that cannot be awaited. */
export async function eventually(condition: () => unknown): Promise<void> {
  const end = performance.now() + LIMIT_MS;
  while (!(await condition())) {
    assert.ok(performance.now() < end, `It did not come true within ${LIMIT_MS / 1000} s: ${condition}`);
    await pause(10);
  }
}

export type RawAnswer = { status: number; head: string; body: string };

/** Sends raw bytes, and reads until the gateway ends the connection, which the request must ask for. */
export function sendRaw(gateway: TestGateway, bytes: string | Buffer): Promise<RawAnswer> {
  const { hostname, port } = new URL(gateway.url);
  const answered = new Promise<RawAnswer>((resolve, reject) => {
    const socket = connect(Number(port), hostname);
    const chunks: Buffer[] = [];
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.on('error', reject);
    socket.on('close', () => {
      const text = Buffer.concat(chunks).toString('latin1');
      const end = text.indexOf('\r\n\r\n');
      resolve({ status: Number(text.slice(9, 12)), head: text.slice(0, end), body: text.slice(end + 4) });
    });
    socket.write(bytes);
  });
  return inTime(answered, `the end of the connection after ${bytes.toString('latin1').split('\r\n', 1)}`);
}

/** A request as its bytes, with the token; `lines` are more headers. */
export function rawRequest(
  gateway: TestGateway,
  method: string,
  target: string,
  lines: string[] = [],
  body = '',
): string {
  const own = ['host: localhost', `authorization: Bearer ${gateway.token}`, 'connection: close'];
  return `${[`${method} ${target} HTTP/1.1`, ...own, ...lines].join('\r\n')}\r\n\r\n${body}`;
}
