/** One table of cases for both edges, over real sockets. Where the two differ, the case says so. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import type { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { EDGES, eventually } from '../../testing/edges.ts';
import { inTime, LONG_MS } from '../../testing/waiting.ts';
import { type Edge, type Exchange, type ExchangeHandler, type ResponseStream, sendError } from './edge.ts';
import { AnswerBudget, BodyBudget } from './exchange.ts';
import { type EdgeKind, openEdge } from './open-edge.ts';

const LIMIT = 1000;
const HOST = 'Host: gateway\r\n';
const OPEN_MS = 15_000;
const LARGE_BYTES = 8 * 1024 * 1024;
/** The time after which the native code of the uws edge would have ended a connection that takes nothing: 12 s at the latest. */
const NATIVE_STALL_MS = 13_000;
const X = 'x'.charCodeAt(0);
const Y = 'y'.charCodeAt(0);
const GET = `GET /next HTTP/1.1\r\n${HOST}\r\n`;

/** A handler that answers with what it was asked, once it has the body. */
const echo: ExchangeHandler = (exchange) => {
  const { method, path, query } = exchange;
  exchange.readBody(
    LIMIT,
    (body) => {
      const answer = JSON.stringify({ method, path, query, body: body.toString(), test: exchange.header('x-test') });
      exchange.send(200, { 'content-type': 'application/json' }, answer);
    },
    (error) => sendError(exchange, error),
  );
};

type Served = { edge: Edge; port: number; url: string; seen: Exchange[]; faults: unknown[] };

async function serving(
  kind: EdgeKind,
  handler: ExchangeHandler,
  run: (served: Served) => Promise<void>,
  bodies = new BodyBudget(LIMITS.bodiesBytes),
  answers = new AnswerBudget(LIMITS.answersBytes),
): Promise<void> {
  const seen: Exchange[] = [];
  const faults: unknown[] = [];
  const { edge } = openEdge(kind, {
    handler: (exchange) => {
      seen.push(exchange);
      handler(exchange);
    },
    onFault: (error) => faults.push(error),
    bodies,
    answers,
  });
  const port = await edge.listen('127.0.0.1', 0);
  try {
    await run({ edge, port, url: `http://127.0.0.1:${port}`, seen, faults });
  } finally {
    await edge.close();
  }
}

/** Sends bytes as they are, ends its side, and returns what came back until the connection was closed. */
function raw(port: number, bytes: string): Promise<string> {
  return exchanged(port, (socket) => socket.end(Buffer.from(bytes, 'latin1')));
}

/** Sends bytes as they are and leaves our side open, so that only the edge can end the connection. */
function rawOpen(port: number, bytes: string): Promise<string> {
  return exchanged(port, (socket) => socket.write(Buffer.from(bytes, 'latin1')));
}

async function exchanged(port: number, send: (socket: Socket) => void): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  const received: Buffer[] = [];
  socket.on('data', (chunk) => received.push(chunk));
  socket.on('error', () => {});
  // An edge that leaves it open fails the test, and does not keep it waiting.
  socket.setTimeout(OPEN_MS, () => socket.destroy(new Error('The edge left the connection open.')));
  send(socket);
  await once(socket, 'close');
  return Buffer.concat(received).toString('latin1');
}

/** A connection that has sent a request and does not read. */
async function silentClient(port: number, path: string): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  await once(socket, 'connect');
  socket.pause();
  socket.write(`GET ${path} HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`);
  return socket;
}

const NO_ANSWER = 0;

/** The status of an answer that is the only one, or `NO_ANSWER`. */
function statusOf(text: string): number {
  assert.ok(text === '' || text.match(/HTTP\/1\.1 \d/g)?.length === 1, `one answer at most: ${text}`);
  return Number(text.slice('HTTP/1.1 '.length, 'HTTP/1.1 200'.length));
}

/** A promise and the function that settles it. */
function signal<T = void>(): { promise: Promise<T>; fire: (value: T) => void } {
  let fire: (value: T) => void = () => {};
  const promise = new Promise<T>((resolve) => {
    fire = resolve;
  });
  return { promise, fire };
}

for (const kind of EDGES) {
  describe(`${kind} edge`, () => {
    test('hands over method, path, query, headers and body as sent', () =>
      serving(kind, echo, async ({ url }) => {
        const answer = await fetch(`${url}/a%20b//c?x=1?&y`, {
          method: 'POST',
          body: 'hällo',
          headers: { 'X-Test': 'yes' },
        });
        assert.equal(answer.status, 200);
        assert.equal(answer.headers.get('content-type'), 'application/json');
        assert.ok(answer.headers.get('date'));
        const expected = { method: 'POST', path: '/a%20b//c', query: 'x=1?&y', body: 'hällo', test: 'yes' };
        assert.deepEqual(await answer.json(), expected);
      }));

    test('paths that look odd reach the handler unchanged', () =>
      serving(kind, echo, async ({ port, seen }) => {
        for (const path of ['//', '/%', '/%zz%00', '/..%2f', '/*', '/a?']) {
          assert.equal(
            statusOf(await raw(port, `GET ${path} HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`)),
            200,
            path,
          );
        }
        assert.deepEqual(
          seen.map((exchange) => exchange.path),
          ['//', '/%', '/%zz%00', '/..%2f', '/*', '/a'],
        );
      }));

    test('HEAD has the headers and the length of GET, and no body', () =>
      serving(
        kind,
        (exchange) => exchange.send(200, { etag: '"x"' }, 'twelve bytes'),
        async ({ port }) => {
          const answer = await raw(port, `HEAD / HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`);
          assert.match(answer, /content-length: 12\r\n/i);
          assert.match(answer, /etag: "x"\r\n/i);
          assert.ok(answer.endsWith('\r\n\r\n'));
        },
      ));

    for (const lines of ['', 'Connection: close\r\n', 'Connection: keep-alive\r\n']) {
      test(`a HEAD that is refused has the answer's head, and ends the connection: ${lines.trim() || 'no more headers'}`, () =>
        serving(kind, echo, async ({ port, seen }) => {
          for (const method of ['HEAD', 'GET']) {
            const answer = await rawOpen(port, `${method} / HTTP/1.1\r\n${HOST}Host: another\r\n${lines}\r\n`);
            assert.equal(statusOf(answer), 400);
            assert.match(answer, /content-length: [1-9]\d*\r\n/i);
            assert.equal(answer.match(/content-length/gi)?.length, 1);
            assert.equal(answer.endsWith('\r\n\r\n'), method === 'HEAD');
          }
          assert.deepEqual(seen, []);
        }));
    }

    test('a HEAD whose head is too large has the answer’s head alone', () =>
      serving(kind, echo, async ({ port }) => {
        for (const method of ['HEAD', 'GET']) {
          const large = `X-Large: ${'x'.repeat(1.5 * LIMITS.headerBytes)}\r\n`;
          const answer = await rawOpen(port, `${method} / HTTP/1.1\r\n${HOST}${large}\r\n`);
          assert.equal(statusOf(answer), 431);
          assert.equal(answer.endsWith('\r\n\r\n'), method === 'HEAD');
        }
      }));

    for (const body of ['twelve bytes', '']) {
      test(`a HEAD while the edge stops accepting is answered, and ends the connection: "${body}"`, async () => {
        let stop = () => {};
        const handler: ExchangeHandler = (exchange) => {
          stop();
          exchange.send(200, {}, body);
        };
        await serving(kind, handler, async ({ edge, port }) => {
          stop = () => edge.stopAccepting();
          const answer = await rawOpen(port, `HEAD / HTTP/1.1\r\n${HOST}\r\n`);
          assert.equal(statusOf(answer), 200);
          assert.match(answer, new RegExp(`content-length: ${body.length}\\r\\n`, 'i'));
        });
      });
    }

    test('204 and 304 have no body and no length; headers given as a list are repeated', () =>
      serving(
        kind,
        (exchange) => exchange.send(Number(exchange.query), { 'set-cookie': ['a=1', 'b=2'] }, 'ignored'),
        async ({ port }) => {
          for (const status of [204, 304]) {
            const answer = await raw(port, `GET /?${status} HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`);
            assert.equal(statusOf(answer), status);
            assert.doesNotMatch(answer, /content-length|transfer-encoding|ignored/i);
            assert.match(answer, /set-cookie: a=1\r\n(.*\r\n)*set-cookie: b=2\r\n/i);
          }
        },
      ));

    for (const { name, bytes, status } of [
      { name: 'of the limit', bytes: LIMIT, status: 200 },
      { name: 'one byte over the limit', bytes: LIMIT + 1, status: 413 },
      { name: 'far over the limit', bytes: 5_000_000, status: 413 },
    ]) {
      test(`a body ${name}, with its length`, () =>
        serving(kind, echo, async ({ url }) => {
          const answer = await fetch(url, { method: 'POST', body: 'x'.repeat(bytes) });
          assert.equal(answer.status, status);
          await answer.text();
        }));

      // The uws edge cannot see how its parser reads chunks, so it takes none.
      test(`a body ${name}, in chunks`, () =>
        serving(kind, echo, async ({ url, seen }) => {
          const body = new Blob(['x'.repeat(bytes)]).stream();
          const answer = await fetch(url, { method: 'POST', body, duplex: 'half' } as RequestInit);
          assert.equal(answer.status, kind === 'uws' ? 411 : status);
          await answer.text();
          assert.equal(seen.length, kind === 'uws' ? 0 : 1);
        }));
    }

    test('bodies of requests that are not answered share a budget', async () => {
      const bodies = new BodyBudget(150);
      const arrived = signal<Exchange>();
      await serving(
        kind,
        (exchange) => {
          exchange.readBody(
            LIMIT,
            () => (exchange.path === '/first' ? arrived.fire(exchange) : exchange.send(200, {}, 'taken')),
            (error) => sendError(exchange, error),
          );
        },
        async ({ url, port }) => {
          const init = { method: 'POST', body: 'x'.repeat(100) };
          const first = fetch(`${url}/first`, init);
          const exchange = await arrived.promise;
          assert.equal(bodies.held, 100);
          const refused = await fetch(url, init);
          assert.equal(refused.status, 503);
          assert.equal(refused.headers.get('retry-after'), '1');
          assert.match(await refused.text(), /"code":"OVERLOADED"/);
          assert.equal(bodies.held, 100);
          exchange.send(200, {}, '');
          await (await first).text();
          const after = await fetch(url, init);
          assert.equal(await after.text(), 'taken');

          const socket = connect(port, '127.0.0.1');
          socket.write(`POST / HTTP/1.1\r\n${HOST}Content-Length: 100\r\n\r\npart`);
          await eventually(() => bodies.held === 4);
          socket.destroy();
          await eventually(() => bodies.held === 0);
        },
        bodies,
      );
    });

    test('large bodies leave room for small ones', async () => {
      const KiB = 1024;
      const bodies = new BodyBudget(64 * KiB);
      const arrived = signal<Exchange>();
      await serving(
        kind,
        (exchange) => {
          exchange.readBody(
            LIMITS.requestBodyBytes,
            () => (exchange.path === '/first' ? arrived.fire(exchange) : exchange.send(200, {}, 'taken')),
            (error) => sendError(exchange, error),
          );
        },
        async ({ url }) => {
          const send = (path: string, bytes: number) => fetch(url + path, { method: 'POST', body: 'x'.repeat(bytes) });
          const first = send('/first', 45 * KiB);
          const exchange = await arrived.promise;
          // Each of the two would fit beside the first, and the last 4 KiB are for small bodies.
          const answers = [await send('/', 17 * KiB), await send('/', LIMITS.smallBodyBytes)];
          assert.deepEqual(
            answers.map(({ status }) => status),
            [503, 200],
          );
          exchange.send(200, {}, '');
          assert.equal((await first).status, 200);
        },
        bodies,
      );
    });

    test('a refused body ends the connection, in the one error shape', () =>
      serving(kind, echo, async ({ port }) => {
        const socket = connect(port, '127.0.0.1');
        let answer = '';
        socket.on('data', (chunk) => {
          answer += chunk;
        });
        socket.write(`POST / HTTP/1.1\r\n${HOST}Content-Length: ${LIMIT + 1}\r\n\r\n${'x'.repeat(LIMIT + 1)}`);
        await once(socket, 'close');
        assert.equal(statusOf(answer), 413);
        assert.match(answer, /connection: close\r\n/i);
        assert.match(answer, /x-content-type-options: nosniff\r\n/i);
        assert.match(answer, /referrer-policy: no-referrer\r\n/i);
        assert.match(answer, /\r\n\r\n\{"isError":true,"error":\{"code":"PAYLOAD_TOO_LARGE","message":"[^"]+"\}\}$/);
      }));

    test('a body that comes in pieces is put together, and the connection is used again', () =>
      serving(kind, echo, async ({ port }) => {
        const socket = connect(port, '127.0.0.1');
        socket.setNoDelay(true);
        for (const word of ['first', 'second']) {
          socket.write(`POST / HTTP/1.1\r\n${HOST}Content-Length: ${word.length}\r\n\r\n`);
          for (const letter of word) {
            await nextTurn();
            socket.write(letter);
          }
          const [chunk] = await once(socket, 'data');
          assert.match(String(chunk), new RegExp(`"body":"${word}"`));
        }
        socket.destroy();
      }));

    test('a request without a body whose head comes in pieces is answered, and the connection is used again', () =>
      serving(kind, echo, async ({ port }) => {
        const socket = connect(port, '127.0.0.1');
        socket.setNoDelay(true);
        for (const name of ['first', 'second']) {
          const answered = once(socket, 'data');
          socket.write(`POST /${name} HTTP/1.1\r\n${HOST}Content-`);
          // The first piece has been read once another connection was served.
          await raw(port, `GET / HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`);
          socket.write('Length: 0\r\n\r\n');
          const [chunk] = await answered;
          assert.match(String(chunk), new RegExp(`"path":"/${name}"`));
        }
        socket.destroy();
      }));

    test('a chunk extension is refused or read at once, and its connection ends after a refusal', (t) => {
      // The native parser never finds the end of such a body: the answer does not wait until it is given up.
      t.mock.timers.enable({ apis: ['setTimeout'] });
      return serving(kind, echo, async ({ port }) => {
        for (const chunks of ['5;a=b\r\nhello\r\n0\r\n\r\n', '5\r\nhello\r\n0;a=b\r\n\r\n']) {
          const socket = connect(port, '127.0.0.1');
          socket.setTimeout(OPEN_MS, () => socket.destroy());
          const unanswered = once(socket, 'close').then(() => ['']);
          socket.write(post('Transfer-Encoding: chunked\r\n', chunks));
          const [answer] = await Promise.race([once(socket, 'data'), unanswered]);
          assert.equal(statusOf(String(answer)), kind === 'uws' ? 411 : 200);
          if (kind === 'uws') {
            const closed = once(
              socket.on('error', () => {}),
              'close',
            );
            t.mock.timers.tick(LIMITS.lingerMs);
            await closed;
          } else socket.destroy();
        }
      });
    });

    test('an answer says how long its connection is kept, where it is', () =>
      serving(kind, echo, async ({ port }) => {
        const kept = /\r\nkeep-alive: timeout=(\d+)\r\n/i;
        const answer = async (method: string, lines: string) => {
          const socket = connect(port, '127.0.0.1').on('error', () => {});
          socket.write(`${method} / HTTP/1.1\r\n${HOST}${lines}\r\n`);
          const [chunk] = await once(socket, 'data');
          socket.destroy();
          return String(chunk);
        };
        const ms = kind === 'uws' ? LIMITS.uwsKeepAliveMs : LIMITS.keepAliveMs;
        for (const method of ['GET', 'HEAD']) {
          assert.equal(Number(kept.exec(await answer(method, ''))?.[1]) * 1000, ms, method);
          assert.doesNotMatch(await answer(method, 'Connection: close\r\n'), kept);
        }
        assert.doesNotMatch(await answer('GET', 'Host: another\r\n'), kept);
      }));

    // The native parser ends a connection with a second request before the first was answered.
    for (const { when, run } of [
      { when: 'at once', run: (answer: () => void) => answer() },
      { when: 'in a microtask', run: (answer: () => void) => queueMicrotask(answer) },
      { when: 'later', run: (answer: () => void) => setImmediate(answer) },
    ]) {
      test(`pipelined requests that are answered ${when}`, () =>
        serving(
          kind,
          (exchange) => run(() => exchange.send(200, {}, exchange.path)),
          async ({ port, seen }) => {
            const answer = await raw(port, `${GET}${GET}`);
            assert.equal(seen.length, kind === 'uws' ? 1 : 2);
            assert.equal(answer.match(/HTTP\/1\.1 200 OK/g)?.length ?? 0, kind === 'uws' ? 0 : 2);
          },
        ));
    }

    if (kind === 'node') {
      test('a connection with too many waiting requests gets an error, in order, and is ended', () =>
        serving(
          kind,
          (exchange) => {
            setImmediate(() => exchange.send(200, {}, exchange.path));
          },
          async ({ port, seen }) => {
            const answer = await raw(port, GET.repeat(LIMITS.pipelinedRequests + 10));
            const statuses = [...answer.matchAll(/HTTP\/1\.1 (\d{3})/g)].map((match) => Number(match[1]));
            assert.deepEqual(statuses, [...Array(LIMITS.pipelinedRequests).fill(200), 503]);
            assert.equal(seen.length, LIMITS.pipelinedRequests);
          },
        ));
    }

    test('a HEAD of a stream and another request behind it', () =>
      serving(
        kind,
        (exchange) => exchange.stream(200, {}).end(),
        async ({ port, seen }) => {
          await raw(port, `HEAD / HTTP/1.1\r\n${HOST}\r\n${GET}`);
          assert.equal(seen.length, kind === 'uws' ? 1 : 2);
        },
      ));

    test('a request that should have a body and shows no length ends its connection', () =>
      serving(kind, echo, async ({ port, seen }) => {
        const socket = connect(port, '127.0.0.1');
        // The native parser does not show what stands behind a header without a name.
        socket.write(`POST /first HTTP/1.1\r\n${HOST}: a\r\nContent-Length: ${GET.length}\r\n\r\n`);
        const [chunk] = await once(socket, 'data');
        assert.match(String(chunk), /connection: close\r\n/i);
        socket.on('error', () => {});
        socket.write(GET);
        await once(socket, 'close');
        assert.ok(!seen.some((exchange) => exchange.path === '/next'), 'the body was not read as a request');
      }));

    test('a client that goes away is noticed, and answering it afterwards does nothing', async () => {
      const arrived = signal<Exchange>();
      const gone = signal();
      const order: string[] = [];
      await serving(
        kind,
        (exchange) => {
          exchange.onAbort(() => order.push('first'));
          exchange.onAbort(() => gone.fire());
          arrived.fire(exchange);
        },
        async ({ port, faults }) => {
          const socket = await silentClient(port, '/');
          const exchange = await arrived.promise;
          assert.equal(exchange.aborted, false);
          socket.destroy();
          await gone.promise;
          assert.deepEqual(order, ['first'], 'all are told, in their order');
          assert.equal(exchange.aborted, true);
          exchange.send(200, {}, 'too late');
          const stream = exchange.stream(200, {});
          stream.write('too late');
          stream.end();
          let late = 0;
          exchange.onAbort(() => {
            late += 1;
          });
          assert.equal(late, 1);
          assert.deepEqual(faults, []);
        },
      );
    });

    test('a complete answer is no abort', async () => {
      let aborts = 0;
      await serving(
        kind,
        (exchange) => {
          exchange.onAbort(() => {
            aborts += 1;
          });
          exchange.send(200, {}, 'done');
        },
        async ({ url, seen }) => {
          await (await fetch(url, { headers: { connection: 'close' } })).text();
          assert.equal(aborts, 0);
          assert.equal(seen[0]?.aborted, false);
        },
      );
    });

    for (const size of [16, 64 * 1024]) {
      test(`a stream of ${size}-byte writes waits for a reader that does not read, and loses nothing`, async () => {
        const started = signal<ResponseStream>();
        const drained = signal();
        await serving(
          kind,
          (exchange) => started.fire(exchange.stream(200, {})),
          async ({ port }) => {
            const socket = await silentClient(port, '/');
            const stream = await started.promise;
            stream.onDrain(() => drained.fire());
            const chunk = 'x'.repeat(size);
            let sent = 0;
            do {
              for (let i = 0; i < 100; i++) stream.write(chunk);
              sent += 100 * size;
              await nextTurn();
            } while (stream.buffered === 0);
            const before = stream.buffered;
            assert.equal(stream.write('y'.repeat(100_000)), false);
            assert.ok(stream.buffered >= before + 100_000);

            let received = 0;
            const whole = signal();
            socket.on('data', (bytes: Buffer) => {
              for (const byte of bytes) if (byte === X || byte === Y) received += 1;
              if (received >= sent + 100_000) whole.fire();
            });
            socket.resume();
            await Promise.all([drained.promise, whole.promise]);
            stream.end();
            await once(socket, 'close');
            assert.equal(received, sent + 100_000);
          },
        );
      });
    }

    test('bytes that only the socket keeps arrive without another write', async () => {
      const started = signal<ResponseStream>();
      await serving(
        kind,
        (exchange) => started.fire(exchange.stream(200, {})),
        async ({ port }) => {
          const socket = await silentClient(port, '/');
          const stream = await started.promise;
          const chunk = 'x'.repeat(64 * 1024);
          let sent = 0;
          do {
            stream.write(chunk);
            sent += chunk.length;
            await nextTurn();
          } while (stream.buffered === 0);
          let received = 0;
          const whole = signal();
          socket.on('data', (bytes: Buffer) => {
            for (const byte of bytes) if (byte === X) received += 1;
            if (received === sent) whole.fire();
          });
          socket.resume();
          await whole.promise;
          socket.destroy();
        },
      );
    });

    test('a stream that ends while bytes wait still delivers them', () =>
      serving(
        kind,
        (exchange) => {
          const stream = exchange.stream(200, {});
          stream.write(Buffer.alloc(8 * 1024 * 1024, 'x'));
          stream.end();
        },
        async ({ url }) => {
          assert.equal((await (await fetch(url)).arrayBuffer()).byteLength, 8 * 1024 * 1024);
        },
      ));

    test('a stream with a length says it and arrives whole, and the connection is used again', async () => {
      const body = Buffer.alloc(8 * 1024 * 1024 + 1, 'abcdefg');
      await serving(
        kind,
        async (exchange) => {
          const stream = exchange.stream(206, {}, body.length);
          for (let at = 0; at < body.length; at += 300_000) {
            const drained = signal();
            stream.onDrain(() => drained.fire());
            if (!stream.write(body.subarray(at, at + 300_000))) await drained.promise;
          }
          stream.end();
        },
        async ({ url, port }) => {
          for (let i = 0; i < 2; i++) {
            const answer = await fetch(url);
            assert.equal(answer.status, 206);
            assert.equal(answer.headers.get('content-length'), String(body.length));
            assert.ok(body.equals(Buffer.from(await answer.arrayBuffer())));
          }
          const head = await fetch(url, { method: 'HEAD' });
          assert.equal(head.headers.get('content-length'), String(body.length));
          // This reader takes nothing for a while.
          const socket = await silentClient(port, '/');
          await nextTurn();
          let received = 0;
          const whole = signal();
          socket.on('data', (bytes: Buffer) => {
            received += bytes.length;
            if (received > body.length) whole.fire();
          });
          socket.resume();
          await whole.promise;
          socket.destroy();
        },
      );
    });

    test('a stream that ends before its length is cut off', () =>
      serving(
        kind,
        (exchange) => {
          const stream = exchange.stream(200, {}, 100);
          stream.write('only some of it');
          stream.end();
        },
        async ({ url }) => {
          await assert.rejects(fetch(url).then((answer) => answer.arrayBuffer()));
        },
      ));

    for (const type of ['buffer', 'text'] as const) {
      test(`an answer of 8 MiB arrives whole (${type})`, () => {
        const body = Buffer.alloc(8 * 1024 * 1024, 'abcdefg');
        return serving(
          kind,
          (exchange) => exchange.send(200, {}, type === 'buffer' ? body : body.toString()),
          async ({ url }) => {
            for (let i = 0; i < 2; i++) {
              const answer = await fetch(url);
              assert.equal(answer.headers.get('content-length'), String(body.length));
              assert.ok(body.equals(Buffer.from(await answer.arrayBuffer())));
            }
          },
        );
      });
    }

    test('a stream that is cut off has no end that its reader could take for one', () =>
      serving(
        kind,
        (exchange) => {
          const stream = exchange.stream(200, {});
          stream.write('begun');
          exchange.onAbort(() => {});
          setImmediate(() => {
            stream.cutOff();
            stream.end();
          });
        },
        async ({ url, faults }) => {
          const answer = await fetch(url);
          assert.equal(answer.status, 200);
          await assert.rejects(answer.text());
          assert.deepEqual(faults, []);
        },
      ));

    test('a body that was read is given again, at the cost of the budget that is named then', async () => {
      const bodies = new BodyBudget(LIMIT);
      const other = new BodyBudget(LIMIT);
      const held: number[][] = [];
      await serving(
        kind,
        (exchange) => {
          const refused = (error: SvcError) => sendError(exchange, error);
          exchange.readBody(
            LIMIT,
            (first) => {
              held.push([bodies.held, other.held]);
              const again = (second: Buffer) => {
                held.push([bodies.held, other.held]);
                exchange.send(200, {}, `${first} ${second}`);
              };
              setImmediate(() => exchange.readBody(exchange.path === '/small' ? 3 : LIMIT, again, refused, other));
            },
            refused,
          );
        },
        async ({ url }) => {
          const post = (path: string) => fetch(url + path, { method: 'POST', body: 'hello' });
          assert.equal(await (await post('/')).text(), 'hello hello');
          assert.deepEqual(held, [
            [5, 0],
            [0, 5],
          ]);
          assert.equal((await post('/small')).status, 413);
        },
        bodies,
      );
      assert.deepEqual([bodies.held, other.held], [0, 0]);
    });

    test('a body that was read is given again as a stream, up to the limit that is named then', async () => {
      await serving(
        kind,
        (exchange) => {
          const refused = (error: SvcError) => sendError(exchange, error);
          const streamed = async () => {
            const parts: Buffer[] = [];
            for await (const part of exchange.streamBody(exchange.path === '/small' ? 3 : LIMIT, 1000))
              parts.push(part);
            exchange.send(200, {}, Buffer.concat(parts));
          };
          exchange.readBody(LIMIT, () => setImmediate(() => streamed().catch(refused)), refused);
        },
        async ({ url }) => {
          const post = (path: string, body: string) => fetch(url + path, { method: 'POST', body });
          assert.equal(await (await post('/', 'hello')).text(), 'hello');
          assert.equal(await (await post('/', '')).text(), '');
          assert.equal((await post('/small', 'hello')).status, 413);
        },
      );
    });

    test('answers that are not read share a budget: the longest idle reader is cut off', async () => {
      const answers = new AnswerBudget(2 * LARGE_BYTES);
      const aborted: string[] = [];
      const cutOff = signal();
      await serving(
        kind,
        (exchange) => {
          exchange.onAbort(() => {
            aborted.push(exchange.path);
            cutOff.fire();
          });
          exchange.send(200, {}, Buffer.alloc(LARGE_BYTES, 'x'));
        },
        async ({ port }) => {
          const clients: Socket[] = [];
          for (const path of ['/first', '/second', '/third']) {
            const client = await silentClient(port, path);
            client.resume();
            await once(client, 'data');
            client.pause();
            clients.push(client);
          }
          await cutOff.promise;
          assert.deepEqual(aborted, ['/first']);
          assert.equal(answers.held, 2 * LARGE_BYTES);

          for (const client of clients) client.resume();
          await eventually(() => answers.held === 0);
          assert.deepEqual(aborted, ['/first']);
          for (const client of clients) client.destroy();
        },
        undefined,
        answers,
      );
    });

    // The node edge has no limits but ours.
    if (kind === 'uws')
      describe('the time limits of the native code', { concurrency: true }, () => {
        test('a connection is kept for the announced time, whenever it became idle', () => {
          const idleSince = new Map<string, number>();
          const answer: ExchangeHandler = (exchange) => {
            exchange.send(200, {}, '');
            idleSince.set(exchange.path, performance.now());
          };
          return serving(kind, answer, async ({ port }) => {
            const keptMs = async (path: string): Promise<number> => {
              const socket = connect(port, '127.0.0.1').resume();
              socket.on('error', () => {});
              socket.write(`GET ${path} HTTP/1.1\r\n${HOST}\r\n`);
              await inTime(once(socket, 'close'), `the end of ${path}`, LONG_MS);
              return performance.now() - (idleSince.get(path) ?? Number.POSITIVE_INFINITY);
            };
            // The native code looks at its connections every 4 s.
            const clients: Promise<number>[] = [];
            for (let i = 0; i < 40; i++) {
              clients.push(keptMs(`/${i}`));
              await pause(100);
            }
            const shortest = Math.min(...(await Promise.all(clients)));
            assert.ok(shortest >= LIMITS.uwsKeepAliveMs, `one was kept for ${shortest} ms`);
          });
        });

        for (const how of ['answer', 'stream'] as const) {
          test(`the reader of a large ${how} may stand still for longer than the native time limit`, () => {
            const body = Buffer.alloc(LARGE_BYTES, 'x');
            return serving(
              kind,
              (exchange) => {
                if (how === 'answer') {
                  exchange.send(200, {}, body);
                  return;
                }
                const stream = exchange.stream(200, {});
                stream.write(body);
                stream.end();
              },
              async ({ port }) => {
                const client = await silentClient(port, '/');
                await pause(NATIVE_STALL_MS);
                let received = 0;
                client.on('data', (bytes: Buffer) => {
                  for (const byte of bytes) if (byte === X) received += 1;
                });
                client.resume();
                await eventually(() => received === LARGE_BYTES || client.closed);
                assert.equal(received, LARGE_BYTES);
                client.destroy();
              },
            );
          });
        }
      });

    test('an upload is read as fast as its consumer reads it', async () => {
      const size = 8 * 1024 * 1024;
      await serving(
        kind,
        async (exchange) => {
          let received = 0;
          for await (const chunk of exchange.streamBody(size, LIMITS.uploadTimeoutMs)) {
            received += chunk.length;
            await nextTurn();
          }
          exchange.send(200, {}, String(received));
        },
        async ({ url }) => {
          const answer = await fetch(url, { method: 'POST', body: Buffer.alloc(size) });
          assert.equal(await answer.text(), String(size));
        },
      );
    });

    for (const { name, limit, timeoutMs, code } of [
      { name: 'over its limit', limit: 9, timeoutMs: LIMITS.uploadTimeoutMs, code: 'PAYLOAD_TOO_LARGE' },
      { name: 'over its time', limit: 10, timeoutMs: 1, code: 'BAD_REQUEST' },
    ]) {
      test(`an upload ${name} errors, and the answer still goes out`, () =>
        serving(
          kind,
          (exchange) => {
            const upload = exchange.streamBody(limit, timeoutMs);
            upload.on('error', (error) => sendError(exchange, error as SvcError));
            upload.resume();
          },
          async ({ port }) => {
            const socket = connect(port, '127.0.0.1');
            let answer = '';
            socket.on('data', (chunk) => {
              answer += chunk;
            });
            const body = name === 'over its limit' ? 'x'.repeat(10) : 'x';
            socket.write(`POST / HTTP/1.1\r\n${HOST}Content-Length: 10\r\n\r\n${body}`);
            await once(socket, 'close');
            assert.match(answer, new RegExp(`"code":"${code}"`));
          },
        ));
    }

    test('an upload whose sender goes away errors', async () => {
      const failed = signal<SvcError>();
      await serving(
        kind,
        (exchange) => {
          const upload = exchange.streamBody(100, LIMITS.uploadTimeoutMs);
          upload.on('error', (error) => failed.fire(error as SvcError));
          upload.once('data', () => exchange.onAbort(() => {}));
          upload.resume();
        },
        async ({ port }) => {
          const socket = connect(port, '127.0.0.1');
          socket.write(`POST / HTTP/1.1\r\n${HOST}Content-Length: 100\r\n\r\npart`, () => socket.destroy());
          assert.equal((await failed.promise).code, 'BAD_REQUEST');
        },
      );
    });

    test('a handler that throws is answered INTERNAL, reported, and ends nothing else', () =>
      serving(
        kind,
        (exchange) => {
          if (exchange.path === '/now') throw new Error('secret');
          if (exchange.path === '/header') exchange.send(200, { 'x-evil': 'a\r\nb: c' }, '');
          exchange.readBody(
            LIMIT,
            () => {
              throw new Error('secret');
            },
            () => {},
          );
        },
        async ({ url, faults }) => {
          for (const path of ['/now', '/header', '/later']) {
            const answer = await fetch(url + path);
            assert.equal(answer.status, 500);
            const text = await answer.text();
            assert.match(text, /"code":"INTERNAL"/);
            assert.doesNotMatch(text, /secret|evil/);
          }
          assert.equal(faults.length, 3);
        },
      ));

    test('after stopAccepting open connections are served and asked to close; new ones are refused', async () => {
      const arrived = signal<Exchange>();
      await serving(
        kind,
        (exchange) => arrived.fire(exchange),
        async ({ edge, port }) => {
          const socket = connect(port, '127.0.0.1');
          socket.write(GET);
          const exchange = await arrived.promise;
          edge.stopAccepting();
          const [error] = await once(connect(port, '127.0.0.1'), 'error');
          assert.equal((error as NodeJS.ErrnoException).code, 'ECONNREFUSED');
          exchange.send(200, {}, 'last words');
          const [chunk] = await once(socket, 'data');
          assert.match(String(chunk), /^HTTP\/1\.1 200 OK\r\n(.*\r\n)*connection: close\r\n(.*\r\n)*\r\nlast words$/i);
          assert.doesNotMatch(String(chunk), /\r\nkeep-alive:/i);
          await once(socket, 'close');
        },
      );
    });

    test('close ends open streams and idle connections, and aborts their exchanges', async () => {
      const gone = signal();
      await serving(
        kind,
        (exchange) => {
          exchange.onAbort(() => gone.fire());
          exchange.stream(200, {}).write('open');
        },
        async ({ edge, port }) => {
          const reader = await silentClient(port, '/');
          const idle = connect(port, '127.0.0.1');
          await Promise.all([once(idle, 'connect'), once(reader, 'readable')]);
          const closed = Promise.all([once(idle, 'close'), once(reader.resume(), 'close')]);
          await edge.close();
          await Promise.all([closed, gone.promise]);
        },
      );
    });

    test('a port in use is reported as such', () =>
      serving(kind, echo, async ({ port }) => {
        const { edge } = openEdge(kind, { handler: echo, onFault: () => {} });
        await assert.rejects(edge.listen('127.0.0.1', port), { code: 'EADDRINUSE' });
      }));

    // The native parser takes such a header for the end of the headers, and does not show it.
    test('a header without a name', () =>
      serving(kind, echo, async ({ port }) => {
        assert.equal(statusOf(await raw(port, get(`${HOST}: a\r\n`))), kind === 'uws' ? 200 : 400);
      }));

    test('malformed requests', async (t) => {
      await serving(kind, echo, async ({ port, seen, faults }) => {
        for (const { name, bytes, answer, inBody } of MALFORMED) {
          await t.test(name, async () => {
            const before = seen.length;
            const expected = (typeof answer === 'number' ? answer : answer[kind]) ?? NO_ANSWER;
            assert.equal(statusOf(await raw(port, bytes)), expected);
            // Whatever a lenient parser takes for the end of the malformed request, another one stands right there.
            const followed = await raw(port, bytes + GET);
            assert.ok([expected, NO_ANSWER].includes(statusOf(followed)));
            const paths = new Set(seen.slice(before).map((exchange) => exchange.path));
            assert.deepEqual([...paths], inBody && kind === 'node' ? ['/first'] : []);

            const next = await raw(port, `GET /well-formed HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`);
            assert.equal(statusOf(next), 200);
          });
        }
        assert.deepEqual(faults, []);
      });
    });
  });
}

/** What is answered. It is null where the connection ends without an answer. */
type Answered = number | { uws: number | null; node: number | null };

function post(headers: string, body: string): string {
  return `POST /first HTTP/1.1\r\n${HOST}${headers}\r\n${body}`;
}

function get(headers: string, target = '/first', version = 'HTTP/1.1'): string {
  return `GET ${target} ${version}\r\n${headers}\r\n`;
}

const CHUNKED_HELLO = '5\r\nhello\r\n0\r\n\r\n';

/** What the native parser refuses by itself, without an answer. */
const NATIVE: Answered = { uws: null, node: 400 };

/** What the native parser takes, and the edge refuses because it is chunked. */
const BROKEN_CHUNK: Answered = { uws: 411, node: 400 };

/** A malformed request. With `inBody` its headers are well-formed, so node:http has handed it over when it meets the fault. */
const MALFORMED: { name: string; bytes: string; answer: Answered; inBody?: true }[] = [
  { name: 'equal Content-Lengths', bytes: post('Content-Length: 5\r\nContent-Length: 5\r\n', 'hello'), answer: 400 },
  {
    name: 'different Content-Lengths',
    bytes: post('Content-Length: 5\r\nContent-Length: 0\r\n', 'hello'),
    answer: 400,
  },
  { name: 'a list of Content-Lengths', bytes: post('Content-Length: 5, 5\r\n', 'hello'), answer: NATIVE },
  { name: 'Content-Length with a sign', bytes: post('Content-Length: +5\r\n', 'hello'), answer: NATIVE },
  { name: 'Content-Length in hex', bytes: post('Content-Length: 0x5\r\n', 'hello'), answer: NATIVE },
  { name: 'negative Content-Length', bytes: post('Content-Length: -1\r\n', 'hello'), answer: NATIVE },
  { name: 'endless Content-Length', bytes: post(`Content-Length: ${'9'.repeat(20)}\r\n`, 'hello'), answer: NATIVE },
  { name: 'empty Content-Length', bytes: post('Content-Length:\r\n', ''), answer: 400 },
  {
    name: 'Content-Length and Transfer-Encoding',
    bytes: post('Content-Length: 5\r\nTransfer-Encoding: chunked\r\n', CHUNKED_HELLO),
    answer: NATIVE,
  },
  ...['xchunked', 'chunked, identity', 'identity', 'gzip, chunked', 'chunked, chunked', '"chunked"', ''].map(
    (coding) => ({
      name: `Transfer-Encoding: ${coding}`,
      bytes: post(`Transfer-Encoding: ${coding}\r\n`, CHUNKED_HELLO),
      answer: 400,
    }),
  ),
  {
    name: 'Transfer-Encoding twice',
    bytes: post('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n', CHUNKED_HELLO),
    answer: 400,
  },
  {
    name: 'a chunk without CRLF',
    bytes: post('Transfer-Encoding: chunked\r\n', '5\r\nhello0\r\n\r\n'),
    answer: BROKEN_CHUNK,
    inBody: true,
  },
  {
    name: 'a chunk size of garbage',
    bytes: post('Transfer-Encoding: chunked\r\n', 'zz\r\nhello\r\n'),
    answer: NATIVE,
    inBody: true,
  },
  { name: 'two Hosts', bytes: get('Host: a\r\nHost: b\r\n'), answer: 400 },
  { name: 'no Host', bytes: get(''), answer: NATIVE },
  { name: 'Host with a path', bytes: get('Host: a/b\r\n'), answer: 400 },
  { name: 'Host with a user', bytes: get('Host: a@b\r\n'), answer: 400 },
  { name: 'NUL in the URL', bytes: get(HOST, '/a\0b'), answer: NATIVE },
  { name: 'a byte over 127 in the URL', bytes: get(HOST, '/\xe9'), answer: 400 },
  { name: 'a space in the URL', bytes: get(HOST, '/a b'), answer: NATIVE },
  { name: 'a long URL', bytes: get(HOST, `/${'a'.repeat(LIMITS.urlBytes)}`), answer: 400 },
  { name: 'an absolute URL', bytes: get(HOST, 'http://gateway/first'), answer: NATIVE },
  { name: 'a target without a slash', bytes: get(HOST, 'first'), answer: NATIVE },
  { name: 'OPTIONS *', bytes: `OPTIONS * HTTP/1.1\r\n${HOST}\r\n`, answer: NATIVE },
  { name: 'a header of 64 KiB', bytes: get(`${HOST}X: ${'a'.repeat(65_536)}\r\n`), answer: 431 },
  { name: '2,000 headers', bytes: get(HOST + 'A: b\r\n'.repeat(2000)), answer: { uws: null, node: 431 } },
  { name: 'line ends without CR', bytes: 'GET /first HTTP/1.1\nHost: a\n\n', answer: NATIVE },
  { name: 'one line end without CR', bytes: get('Host: a\nX: b\r\n'), answer: NATIVE },
  { name: 'a folded header', bytes: get(`${HOST}X: a\r\n b\r\n`), answer: NATIVE },
  { name: 'a space before the colon', bytes: get(`${HOST}X : a\r\n`), answer: NATIVE },
  { name: 'a header without a colon', bytes: get(`${HOST}garbage\r\n`), answer: NATIVE },
  { name: 'NUL in a header', bytes: get(`${HOST}X: a\0b\r\n`), answer: NATIVE },
  { name: 'CR in a header', bytes: get(`${HOST}X: a\rb\r\n`), answer: NATIVE },
  { name: 'HTTP/2.0', bytes: get(HOST, '/first', 'HTTP/2.0'), answer: NATIVE },
  { name: 'the preface of HTTP/2', bytes: 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', answer: NATIVE },
  { name: 'HTTP/1.1 in lower case', bytes: get(HOST, '/first', 'http/1.1'), answer: NATIVE },
  { name: 'a method in lower case', bytes: `get /first HTTP/1.1\r\n${HOST}\r\n`, answer: NATIVE },
  { name: 'a TLS greeting', bytes: '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', answer: NATIVE },
  { name: 'garbage', bytes: 'sdf lkj\r\n\r\n', answer: NATIVE },
];
