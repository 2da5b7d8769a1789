/** Readers that take nothing for the limit are cut off, and no others. One table for both edges, over real sockets. */
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { pino } from 'pino';
import { LIMITS } from '../../protocol/limits.ts';
import { EDGES } from '../../testing/edges.ts';
import { serveExchanges } from '../../testing/exchange-server.ts';
import { LONG_MS } from '../../testing/waiting.ts';
import { sendStream } from '../http/send-stream.ts';
import type { Exchange } from './edge.ts';
import type { EdgeKind } from './open-edge.ts';

const MiB = 1024 * 1024;
/** A size over that of the system's buffers of a connection. Who took so much took some of what waits in the gateway. */
const PART_BYTES = 16 * MiB;
const PARTS = 4;
const BODY = Buffer.alloc(PARTS * PART_BYTES, 'x');
const LIMIT_MS = LIMITS.stalledReaderMs;
const LOOKS = 6;
const STEP_MS = 100;
const QUIET = pino({ enabled: false });

const ANSWERS: Record<string, (exchange: Exchange) => unknown> = {
  'a whole answer': (exchange) => exchange.send(200, {}, BODY),
  'a stream': (exchange) => exchange.stream(200, {}).write(BODY),
  'a stream that has ended': (exchange) => {
    const stream = exchange.stream(200, {});
    stream.write(BODY);
    stream.end();
  },
  'a stream with a length': (exchange) => exchange.stream(200, {}, BODY.length).write(BODY),
  'a file': (exchange) => sendStream(exchange, partsOf(BODY), {}, QUIET, undefined, { length: BODY.length }),
  'a file in one piece': (exchange) => sendStream(exchange, partsOf(BODY, BODY.length), {}, QUIET),
};

async function* partsOf(bytes: Buffer, size = 64 * 1024): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

/** A client that reads as much as it is told. */
class Reader {
  readonly socket: Socket;
  taken = 0;
  #wanted = 0;
  #enough: () => void = () => {};

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1').on('error', () => {});
    this.socket.on('data', (bytes: Buffer) => {
      this.taken += bytes.length;
      if (this.taken < this.#wanted) return;
      this.socket.pause();
      this.#enough();
    });
    this.socket.on('close', () => this.#enough());
    this.socket.write('GET / HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n');
  }

  /** Reads, and resolves when it has so many bytes in all, or the connection has ended. */
  async take(bytes: number): Promise<void> {
    if (this.socket.closed) return;
    this.#wanted = bytes;
    const enough = new Promise<void>((resolve) => {
      this.#enough = resolve;
    });
    this.socket.resume();
    await enough;
    // What that made room for is sent by the end of the turn after the next.
    await nextTurn();
    await nextTurn();
  }
}

/** A reader that has the beginning of an answer, and the clock that stands still until it is moved. */
async function begun(t: TestContext, kind: EdgeKind, answer: (exchange: Exchange) => unknown) {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  let asked: (exchange: Exchange) => void = () => {};
  const arrived = new Promise<Exchange>((resolve) => {
    asked = resolve;
  });
  const port = await serveExchanges(
    t,
    (exchange) => {
      asked(exchange);
      void answer(exchange);
    },
    kind,
  );
  const reader = new Reader(port);
  t.after(() => reader.socket.destroy());
  await reader.take(1);
  // The time passes in steps, because the mock starts a timer that another one sets when all of the time has passed.
  const pass = (ms: number): void => {
    for (let left = ms; left > 0; left -= STEP_MS) t.mock.timers.tick(Math.min(STEP_MS, left));
  };
  return { reader, exchange: await arrived, pass };
}

/** The time after which nobody is spared. What the system took after the last look counts as taken by the reader. */
async function cutOffBy(pass: (ms: number) => void): Promise<void> {
  for (let looks = 0; looks < 3 * LOOKS; looks++) {
    await nextTurn();
    pass(LIMIT_MS / LOOKS);
  }
  await nextTurn();
}

for (const kind of EDGES) {
  describe(`${kind} edge`, { timeout: LONG_MS }, () => {
    for (const [name, answer] of Object.entries(ANSWERS)) {
      test(`${name} that is taken in parts, each within the limit, arrives whole`, async (t) => {
        const { reader, exchange, pass } = await begun(t, kind, answer);
        for (let part = 1; part < PARTS; part++) {
          pass(LIMIT_MS - 1);
          await reader.take(part * PART_BYTES);
          assert.equal(exchange.aborted, false, `cut off before it had ${part} of ${PARTS} parts`);
        }
        await reader.take(BODY.length);
        assert.ok(reader.taken >= BODY.length);
      });

      test(`the reader of ${name} that takes nothing is cut off, after the limit`, async (t) => {
        const { reader, exchange, pass } = await begun(t, kind, answer);
        pass(LIMIT_MS - 1);
        assert.equal(exchange.aborted, false);
        await cutOffBy(pass);
        await reader.take(Number.POSITIVE_INFINITY);
        assert.ok(reader.taken < BODY.length);
      });
    }

    test('a reader of events that takes nothing is cut off, however many are sent meanwhile', async (t) => {
      const event = Buffer.alloc(1024, 'x');
      const { exchange, pass } = await begun(t, kind, (asking) => {
        const stream = asking.stream(200, {});
        stream.write(BODY);
        const more = setInterval(() => stream.write(event), LIMIT_MS / 100);
        asking.onAbort(() => clearInterval(more));
      });
      await cutOffBy(pass);
      assert.equal(exchange.aborted, true);
    });
  });
}
