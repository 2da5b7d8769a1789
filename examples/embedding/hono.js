// Mounts a gateway beside a Hono app and keeps the Bearer check: node examples/embedding/hono.js <dataDir> [port]
import { createServer } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { Hono } from 'hono';
import { buildGateway } from 'svc-gateway';

const [dataDir = '.svc', port = '3000'] = process.argv.slice(2);

const gateway = buildGateway({ dataDir });
await gateway.start();

const app = new Hono();
app.get('/', (c) => c.json({ apps: '/svc/' }));

// First of all: at the origin of an app, every address is the gateway's. In front of Hono, which would answer HEAD itself.
const listener = getRequestListener(app.fetch);
const server = createServer((request, response) => {
  if (!gateway.handle(request, response)) void listener(request, response);
});
server.once('error', async (error) => {
  console.error(error.code === 'EADDRINUSE' ? `Port ${port} is taken: name another one.` : error.message);
  process.exitCode = 1;
  await gateway.stop();
});
server.listen(Number(port), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${server.address().port}`);
});

async function stop() {
  await gateway.stop();
  server.close();
  server.closeAllConnections();
}
process.once('SIGTERM', stop).once('SIGINT', stop);
