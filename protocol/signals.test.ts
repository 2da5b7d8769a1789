import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { joinSignals } from './signals.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** A server whose answer never ends: one byte at a time. */
async function dripping(t: TestContext): Promise<string> {
  const server = createServer((_, response) => {
    const drip = setInterval(() => response.write('x'), 5);
    response.on('close', () => clearInterval(drip));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Reads until the signal ends it, with garbage collected all the time; gives up after 2000 bytes. */
async function readAll(url: string, signal: AbortSignal): Promise<number> {
  const { body } = await fetch(url, { signal });
  let bytes = 0;
  for await (const chunk of body as unknown as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    collectGarbage();
    if (bytes > 2000) return bytes;
  }
  return bytes;
}

test('its time ends a fetch whose bytes drip', async (t) => {
  const url = await dripping(t);
  await assert.rejects(readAll(url, joinSignals([new AbortController().signal], 100).signal), { name: 'TimeoutError' });
});

test('so does a signal of the host with its own timeout', async (t) => {
  const url = await dripping(t);
  const read = readAll(url, joinSignals([AbortSignal.timeout(100), new AbortController().signal]).signal);
  await assert.rejects(read, { name: 'TimeoutError' });
});

test('each of the others ends it, with its reason', () => {
  const controllers = [new AbortController(), new AbortController()] as const;
  const { signal } = joinSignals([controllers[0].signal, controllers[1].signal], 60_000);
  assert.equal(signal.aborted, false);
  const reason = new Error('enough');
  controllers[1].abort(reason);
  assert.equal(signal.reason, reason);
  controllers[0].abort(new Error('later'));
  assert.equal(signal.reason, reason);
});

test('one that has aborted already has ended it', () => {
  const reason = new Error('before');
  assert.equal(joinSignals([new AbortController().signal, AbortSignal.abort(reason)]).signal.reason, reason);
});

test('a released signal is never aborted', async () => {
  const controller = new AbortController();
  const { signal, release } = joinSignals([controller.signal], 1);
  release();
  controller.abort();
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(signal.aborted, false);
});

test('no other file joins signals in another way', () => {
  const root = fileURLToPath(new URL('..', import.meta.url));
  for (const folder of ['protocol', 'storage', 'workers', 'supervisor', 'cli', 'templates', 'examples']) {
    for (const name of readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })) {
      if (!/\.[jt]s$/.test(name) || name.endsWith('.test.ts') || join(folder, name) === 'protocol/signals.ts') continue;
      assert.ok(!readFileSync(join(root, folder, name), 'utf8').includes('AbortSignal.any'), join(folder, name));
    }
  }
});
