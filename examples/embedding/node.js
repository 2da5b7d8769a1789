// Mounts a gateway in a plain server of node:http, for this machine alone: node examples/embedding/node.js <dataDir> [port]
import { createServer } from 'node:http';
import { buildGateway } from 'svc-gateway';

const [dataDir = '.svc', port = '3000'] = process.argv.slice(2);

// Everyone who reaches the server may do everything: see docs/embedding.md for `identify` and `authorize`.
const gateway = buildGateway({ dataDir, auth: false });
await gateway.start();

const server = createServer((req, res) => {
  if (gateway.handle(req, res)) return;
  if (req.url === '/') res.setHeader('content-type', 'text/html').end('<a href="/svc/">Apps</a>');
  else res.writeHead(404).end('This address belongs to the host.');
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
