import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { encodeFrame, FrameDecoder } from '../../protocol/wire/codec.ts';
import { type Frame, Kind } from '../../protocol/wire/frames.ts';
import { signTicket, type Ticket } from '../../protocol/wire/ticket.ts';
import { LinkServer } from './links.ts';

const key = randomBytes(32);
const expected: Ticket = { role: 'host', host: 'host-1' };

type Served = { path: string; closed: string[]; lost: Promise<Error | null> };

/**
 * A server that expects `host-1` and answers its pings; `closed` collects the faults of peers, `lost` resolves when the owner
 * is told that a connection ended.
 */
async function startServer(t: TestContext): Promise<Served> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-links-'));
  const path = join(folder, 'socket');
  const closed: string[] = [];
  let tellLost: (error: Error | null) => void = () => {};
  const lost = new Promise<Error | null>((resolve) => {
    tellLost = resolve;
  });
  const server = new LinkServer(
    key,
    (ticket, link) => {
      if (ticket.role !== 'host' || ticket.host !== 'host-1') return null;
      return {
        onFrame: (frame) => {
          if (frame[0] !== Kind.ping) throw new Error('not a ping');
          link.send([Kind.pong, frame[1], { heapUsed: 1 }]);
        },
        onClose: tellLost,
      };
    },
    (why) => closed.push(why),
  );
  await server.listen(path);
  t.after(() => {
    server.close();
    rmSync(folder, { recursive: true });
  });
  return { path, closed, lost };
}

async function open(path: string, ...bytes: Buffer[]): Promise<Socket> {
  const socket = connect(path).pause();
  socket.on('error', () => {});
  await once(socket, 'connect');
  for (const chunk of bytes) socket.write(chunk);
  return socket;
}

async function answer(socket: Socket): Promise<Frame> {
  const decoder = new FrameDecoder();
  for await (const chunk of socket) {
    let frame: Frame | null = null;
    decoder.push(chunk as Buffer, (received) => {
      frame = received;
    });
    if (frame) return frame;
  }
  throw new Error('The connection ended without an answer.');
}

const hello = encodeFrame([Kind.hello, signTicket(expected, key)]);
const ping = encodeFrame([Kind.ping, 7]);

test('a peer with a ticket is handed to its owner; only this user may connect', async (t) => {
  const { path } = await startServer(t);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.deepEqual(await answer(await open(path, hello, ping)), [Kind.pong, 7, { heapUsed: 1 }]);
});

for (const [name, bytes] of [
  ['bytes that mean nothing', Buffer.alloc(64, 0xee)],
  ['another protocol', Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n')],
  ['a frame before hello', ping],
  ['a forged ticket', encodeFrame([Kind.hello, signTicket(expected, randomBytes(32))])],
  ['a ticket that is no text', encodeFrame([Kind.hello, 7] as unknown as Frame)],
  [
    'a ticket for somebody who is not expected',
    encodeFrame([Kind.hello, signTicket({ role: 'host', host: 'host-2' }, key)]),
  ],
  ['a frame that is too large', Buffer.from([0xff, 0xff, 0xff, 0xff])],
  ['a frame that the owner does not take', Buffer.concat([hello, encodeFrame([Kind.log, 'x'])])],
  ['garbage after hello', Buffer.concat([hello, Buffer.alloc(200, 0xee)])],
] as const) {
  test(`${name} ends that connection and no other`, async (t) => {
    const { path, closed } = await startServer(t);
    const good = await open(path, hello);
    const bad = await open(path, bytes);
    bad.resume();
    await once(bad, 'close');
    assert.equal(closed.length, 1, closed.join('; '));
    good.write(ping);
    assert.deepEqual(await answer(good), [Kind.pong, 7, { heapUsed: 1 }]);
  });
}

test('a process that ends with unread data is not reported as a fault of a peer', async (t) => {
  const { path, closed, lost } = await startServer(t);
  const [ending, good] = [await open(path, hello, ping), await open(path, hello, ping)];
  // The answer to the first is on its way since the second has one.
  await answer(good);
  ending.destroy();
  assert.equal(((await lost) as NodeJS.ErrnoException | null)?.code, 'ECONNRESET');
  assert.deepEqual(closed, []);
});
