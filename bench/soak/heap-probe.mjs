/**
 * Runs inside the process that is measured (`node --expose-gc --import heap-probe.mjs?<socket> …`) and tells whoever connects what
 * its heap holds after a collection, as one line of JSON; the gateway itself needs no such code.
 */
import { createServer } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isMainThread } from 'node:worker_threads';

// Threads of the process get its flags, too.
if (isMainThread) {
  createServer(async (socket) => {
    socket.on('error', () => {});
    socket.end(`${JSON.stringify(await collect())}\n`);
  })
    .listen(decodeURIComponent(new URL(import.meta.url).search.slice(1)))
    .unref();
}

async function collect() {
  globalThis.gc();
  // What finalizers let go of is collected by the second one.
  await nextTurn();
  globalThis.gc();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return { heapUsed, arrayBuffers };
}
