// Mounts a gateway in an Express server that owns authentication: node examples/embedding/express.js <dataDir> [port]
import express from 'express';
import { buildGateway } from 'svc-gateway';

const [dataDir = '.svc', port = '3000'] = process.argv.slice(2);

const gateway = buildGateway({ dataDir, auth: false });
await gateway.start();

const app = express();
app.get('/', (_req, res) => {
  res.send('<a href="/svc/">Apps</a>');
});
// The host's own check of who calls would stand here, before the gateway.
app.use((req, res, next) => {
  if (!gateway.handle(req, res)) next();
});

const server = app.listen(Number(port), '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${server.address().port}`);
});

async function stop() {
  await gateway.stop();
  server.close();
  server.closeAllConnections();
}
process.once('SIGTERM', stop).once('SIGINT', stop);
