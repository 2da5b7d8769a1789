/**
 * Runs inside the process that is measured (`node --expose-gc --import heap-probe.mjs?<socket> …`) and tells what its heap holds after a
 * collection, so that the gateway itself needs no such code. Each line on the socket is a request: `collect`, or the path of
 * a heap snapshot to write.
 */
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { writeHeapSnapshot } from 'node:v8';
import { isMainThread } from 'node:worker_threads';

// Threads of the process get its flags, too.
if (isMainThread) {
  createServer((socket) => {
    socket.on('error', () => {});
    createInterface(socket).on('line', async (line) => {
      if (line !== 'collect') writeHeapSnapshot(line);
      socket.write(`${JSON.stringify(await collect())}\n`);
    });
  })
    .listen(decodeURIComponent(new URL(import.meta.url).search.slice(1)))
    .unref();
}

async function collect() {
  globalThis.gc();
  // What finalizers let go of is collected by the second one.
  await nextTurn();
  globalThis.gc();
  const { heapUsed, external, arrayBuffers } = process.memoryUsage();
  return { heapUsed, external, arrayBuffers };
}
