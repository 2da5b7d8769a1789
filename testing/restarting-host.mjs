// Starts and stops a gateway again and again in one process, and says what is left after each time: a line of JSON with numbers of
// resources, listeners and descriptors, and how many gateways are still in memory. Arguments: a data directory, how often.
// Runs with --expose-gc.
import { readdirSync } from 'node:fs';
import { createServer, get } from 'node:http';
import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises';
import { buildGateway } from 'svc-gateway';

const [dataDir, times] = process.argv.slice(2);
/** Built gateways, for as long as anything else keeps them. */
const built = [];

let handle = () => false;
const server = createServer((req, res) => handle(req, res) || res.writeHead(404).end());
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const { port } = server.address();

/** Opens a stream; it resolves with the end of that. */
const follow = () =>
  new Promise((resolve, reject) => {
    const request = get({ port, path: '/svc/_runs/_events', agent: false }, (response) => {
      const ended = new Promise((end) => response.once('close', end));
      response.once('error', () => {}).resume();
      resolve({ ended });
    });
    request.once('error', reject);
  });

/** A function of its own, so that no variable of it keeps the gateway. */
async function once() {
  const gateway = buildGateway({ dataDir, auth: false, log: 'silent', handlerHosts: 1 });
  built.push(new WeakRef(gateway));
  await gateway.start();
  handle = (req, res) => gateway.handle(req, res);
  const { ended } = await follow();
  await gateway.stop(0);
  handle = () => false;
  await ended;
}

const left = () => {
  const names = process.getActiveResourcesInfo();
  const count = (name) => names.filter((one) => one === name).length;
  return {
    resources: Object.fromEntries([...new Set(names)].sort().map((name) => [name, count(name)])),
    listeners: process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0),
    descriptors: readdirSync('/proc/self/fd').length,
    gateways: built.filter((one) => one.deref() !== undefined).length,
  };
};

/** Handles of processes that have just ended, and of their pipes, close when the system has told of it. */
const handles = () => process.getActiveResourcesInfo().filter((name) => name !== 'IntervalHistogram').length;
const closed = async (before) => {
  for (const end = performance.now() + 10_000; handles() > before && performance.now() < end; ) await pause(5);
};

// So that the pipe that it is counts from the beginning.
process.stdout.write('');
const before = handles();
for (let time = 0; time < Number(times); time++) {
  await once();
  await closed(before);
  // What can be collected goes in some turns. The engine itself may hold a few a while longer.
  for (let turn = 0; turn < 20; turn++) {
    globalThis.gc();
    await nextTurn();
    if (left().gateways <= 2) break;
  }
  console.log(JSON.stringify({ ...left(), heapBytes: process.memoryUsage().heapUsed }));
}
server.close();
