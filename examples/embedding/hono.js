// Mounts a gateway in a Hono server and keeps the Bearer check: node examples/embedding/hono.js <dataDir> [port]
import { serve } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { Hono } from 'hono';
import { buildGateway } from 'svc-gateway';

const [dataDir = '.svc', port = '3000'] = process.argv.slice(2);

const gateway = buildGateway({ dataDir });
await gateway.start();

const app = new Hono();
// First of all: at the origin of an app, every address is the gateway's. It answers on Node's own response.
app.use(async (c, next) => {
  if (gateway.handle(c.env.incoming, c.env.outgoing)) return RESPONSE_ALREADY_SENT;
  await next();
});
app.get('/', (c) => c.json({ apps: '/svc/' }));

const server = serve({ fetch: app.fetch, hostname: '127.0.0.1', port: Number(port) }, (address) => {
  console.log(`http://127.0.0.1:${address.port}`);
});
server.once('error', async (error) => {
  console.error(error.code === 'EADDRINUSE' ? `Port ${port} is taken: name another one.` : error.message);
  process.exitCode = 1;
  await gateway.stop();
});

async function stop() {
  await gateway.stop();
  server.close();
  server.closeAllConnections();
}
process.once('SIGTERM', stop).once('SIGINT', stop);
