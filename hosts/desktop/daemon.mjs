// Runs the gateway of the desktop program, on a real Node and beside it. Its standard input says where, in one JSON text; what it says
// itself is what `svc serve --json` says.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { serve } from 'svc-gateway';

const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
// Its reader is interested in the first line only.
process.stdout.on('error', () => {});
process.umask(0o077);
let code = 1;
try {
  const { dataDir, port, token } = JSON.parse(await text(process.stdin));
  const file = join(dataDir, 'config.json');
  const config = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
  const host = { dataDir, port, token, kind: 'desktop', edge: 'node', appsStoreRoot: 'code-store' };
  const gateway = await serve({ logFile: { path: 'gateway.log' }, ...config, ...host });
  const { url, pid } = gateway;
  say({ event: 'ready', url, pid, dataDir });
  code = await gateway.exited;
} catch (error) {
  say({ isError: true, error: { code: error.code ?? 'FAILED', message: error.message } });
}
// A gateway that has stopped must not keep running, whatever is still open.
process.stdout.write('', () => process.exit(code));
