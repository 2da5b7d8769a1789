// Mounts a gateway in a Fastify server and keeps the Bearer check: node examples/embedding/fastify.js <dataDir> [port]
import Fastify from 'fastify';
import { buildGateway } from 'svc-gateway';

const [dataDir = '.svc', port = '3000'] = process.argv.slice(2);

const gateway = buildGateway({ dataDir });
await gateway.start();

const fastify = Fastify();
fastify.get('/', async () => ({ apps: '/svc/' }));
// Before Fastify reads the body: the gateway answers on the raw response, and Fastify leaves it alone.
fastify.addHook('onRequest', (request, reply, done) => {
  if (gateway.handle(request.raw, reply.raw)) reply.hijack();
  else done();
});

try {
  console.log(await fastify.listen({ host: '127.0.0.1', port: Number(port) }));
} catch (error) {
  console.error(error.code === 'EADDRINUSE' ? `Port ${port} is taken: name another one.` : error.message);
  process.exitCode = 1;
  await gateway.stop();
}

async function stop() {
  await gateway.stop();
  fastify.server.closeAllConnections();
  await fastify.close();
}
process.once('SIGTERM', stop).once('SIGINT', stop);
