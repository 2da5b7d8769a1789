/**
 * Every raw request of the smuggling table on both edges, with and without a token: one answer at most, in the one error shape,
 * nothing behind it is read as another request, and nothing is left. test/smuggling.e2e.test.ts sends them to the daemon.
 */
import assert from 'node:assert/strict';
import { readdirSync, readlinkSync } from 'node:fs';
import { connect } from 'node:net';
import { describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ERROR_CODES, type ErrorCode, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { EDGES, eventually } from '../../testing/edges.ts';
import { inPieces } from '../../testing/smuggling/run-vector.ts';
import { VECTORS, type Vector } from '../../testing/smuggling/vectors.ts';
import { type ExchangeHandler, sendError } from './edge.ts';
import { AnswerBudget, BodyBudget } from './exchange.ts';
import { openEdge } from './open-edge.ts';

const AUTH = 'Authorization: Bearer secret';
const OPEN_PATH = '/svc/_health';
/** The time without an answer after which a connection counts as waiting for more of the request. */
const SILENT_MS = 400;
const AT_ONCE = 16;
const PROBE = `GET ${OPEN_PATH} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n`;
const PROBED = 'probed';

type Answer = { status: number; head: string; body: string };

/** Refuses whoever has no token before a body is read, as the gateway does. */
const handler =
  (ran: Set<string>): ExchangeHandler =>
  (exchange) => {
    if (exchange.path === OPEN_PATH && exchange.method === 'GET') {
      exchange.send(200, {}, PROBED);
      return;
    }
    if (exchange.header('authorization') !== 'Bearer secret') {
      sendError(exchange, new SvcError('UNAUTHORIZED', 'Send the token.'));
      return;
    }
    if (exchange.path.startsWith('/inner')) ran.add(exchange.path);
    exchange.readBody(
      LIMITS.requestBodyBytes,
      () => exchange.send(200, {}, 'done'),
      (error) => sendError(exchange, error),
    );
  };

/** What came back. It is `silent` when the connection waits for more. */
async function exchange(port: number, pieces: Buffer[]): Promise<{ text: string; silent: boolean }> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  let text = '';
  let isSent = false;
  let isProbed = false;
  // Where the edge goes on with the connection, it is at the end of the request that it answered.
  const probe = () => {
    if (isProbed || !isSent || text === '' || !socket.writable) return;
    isProbed = true;
    socket.write(PROBE);
  };
  const done = new Promise<boolean>((resolve) => {
    let timer = setTimeout(resolve, SILENT_MS, true);
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      clearTimeout(timer);
      timer = setTimeout(resolve, SILENT_MS, true);
      probe();
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      clearTimeout(timer);
      resolve(false);
    });
  });
  for (const piece of pieces) {
    if (socket.writable) await new Promise<void>((written) => socket.write(piece, () => written()));
    await nextTurn();
  }
  isSent = true;
  probe();
  const silent = await done;
  socket.destroy();
  return { text, silent };
}

/** The answers in what came back, which must be framed to the last byte. */
function answersIn(text: string, isHead: boolean): Answer[] {
  const answers: Answer[] = [];
  let rest = text;
  while (rest !== '') {
    const end = rest.indexOf('\r\n\r\n');
    assert.ok(end > 0, `an answer: ${rest.slice(0, 100)}`);
    const head = rest.slice(0, end);
    if (head.startsWith('HTTP/1.1 100 ')) {
      rest = rest.slice(end + 4);
      continue;
    }
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1]);
    assert.ok(length >= 0, head);
    const bytes = isHead && answers.length === 0 ? 0 : length;
    answers.push({ status: Number(head.slice(9, 12)), head, body: rest.slice(end + 4, end + 4 + bytes) });
    assert.ok(rest.length >= end + 4 + bytes, 'a whole body');
    rest = rest.slice(end + 4 + bytes);
  }
  return answers;
}

function checkAnswer({ status, head, body }: Answer, mayPass: boolean, isHead: boolean): void {
  if (status < 400) {
    assert.ok(mayPass, `a stranger was answered ${status}`);
    return;
  }
  assert.match(head, /\r\ncontent-type: application\/json; charset=utf-8/i);
  assert.match(head, /\r\nx-content-type-options: nosniff/i);
  if (isHead) return;
  const { isError, error } = JSON.parse(body) as { isError: true; error: { code: ErrorCode; message: string } };
  assert.deepEqual([isError, ERROR_CODES[error.code].status, typeof error.message], [true, status, 'string']);
}

/** The open sockets of this process, which has no others that come and go. The number is 0 where the system does not tell. */
function openSockets(): number {
  if (process.platform !== 'linux') return 0;
  return readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith('socket:');
    } catch {
      return false;
    }
  }).length;
}

for (const kind of EDGES) {
  for (const auth of [AUTH, 'X-Stranger: yes']) {
    describe(`${kind}, ${auth === AUTH ? 'with' : 'without'} a token`, () => {
      for (const how of ['at once', 'in pieces'] as const) {
        test(`${VECTORS.length} vectors, sent ${how}`, { concurrency: AT_ONCE }, async (t) => {
          const ran = new Set<string>();
          const faults: unknown[] = [];
          const bodies = new BodyBudget(LIMITS.bodiesBytes);
          const answers = new AnswerBudget(LIMITS.answersBytes);
          const options = { handler: handler(ran), onFault: (error: unknown) => faults.push(error), bodies, answers };
          const { edge } = openEdge(kind, options);
          const port = await edge.listen('127.0.0.1', 0);
          const sockets = openSockets();
          try {
            const check = async (vector: Vector, at: number): Promise<void> => {
              // Whoever smuggles would have it run with a token.
              const inner = `POST /inner/${at} HTTP/1.1\r\nHost: gateway\r\n${AUTH}\r\nContent-Length: 2\r\n\r\n{}`;
              const bytes = Buffer.from(vector.bytes(inner, auth), 'latin1');
              const { text } = await exchange(port, how === 'at once' ? [bytes] : inPieces(bytes));
              const isHead = bytes.subarray(0, 5).toString() === 'HEAD ';
              const [first, ...others] = answersIn(text, isHead);
              const isOpen = bytes.includes(OPEN_PATH);
              if (first !== undefined) checkAnswer(first, auth === AUTH || isOpen, isHead);
              const isSplit = kind === 'uws' && how === 'in pieces' && vector.readAsTwoBy?.includes('uws, in pieces');
              if (isSplit) return;
              const unasked = others.filter(({ body }) => body !== PROBED);
              assert.deepEqual(unasked, [], 'one answer at most, and one to the next request');
              assert.ok(others.length <= 1);
              assert.ok(!ran.has(`/inner/${at}`), 'the request inside did not run');
            };
            await Promise.all(
              VECTORS.map((vector, at) => t.test(`${vector.kind}, ${vector.name}`, () => check(vector, at))),
            );
            await eventually(() => bodies.held === 0 && answers.held === 0);
            await eventually(() => openSockets() <= sockets);
            assert.deepEqual(faults, []);
          } finally {
            await edge.close();
          }
        });
      }
    });
  }
}
