/** Holds the browser windows of a data directory: starts the browser, and ends with it. Arguments: program, profile, data directory. */
import { rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { makeFolder } from '../../storage/files/make-folder.ts';
import { PRIVATE_UMASK } from '../../storage/files/private-tree.ts';
import { Layout } from '../../storage/layout.ts';
import { acquireDataLock } from '../../storage/processes/data-lock.ts';
import { makeSocketFolder } from '../../storage/processes/socket-folder.ts';
import { type Answer, type Request, SOCKET } from './messages.ts';
import { Windows } from './windows.ts';

/** Nobody who starts this takes longer to ask for a window. */
const IDLE_MS = 60_000;

const [program = '', profile = '', dataDir = ''] = process.argv.slice(2);
process.umask(PRIVATE_UMASK);
const layout = new Layout(dataDir);
// Another one runs when this throws; whoever started this asks that one.
const lock = acquireDataLock(layout.windowLock);
makeFolder(profile);
const folder = makeSocketFolder(layout.window);
const windows = new Windows(program, profile, () => server.close(end));
const idle = setTimeout(() => server.close(end), IDLE_MS);

const server = createServer({ allowHalfOpen: true }, (socket) => {
  let asked = '';
  socket.on('error', () => {});
  socket.setEncoding('utf8').on('data', (chunk) => {
    asked += chunk;
  });
  socket.on('end', () => {
    answerTo(asked).then(
      (answer) => socket.end(JSON.stringify(answer)),
      ({ message }: Error) => socket.end(JSON.stringify({ error: message })),
    );
  });
});

async function answerTo(asked: string): Promise<Answer> {
  clearTimeout(idle);
  const request = JSON.parse(asked) as Request;
  if ('show' in request) return { shown: await windows.show(request.show) };
  await windows.close();
  return { closed: true };
}

function end(): void {
  rmSync(folder, { recursive: true, force: true });
  rmSync(layout.window, { force: true });
  lock.release();
  process.exit(0);
}

for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => void windows.close());
server.listen(join(folder, SOCKET), () => process.send?.('listening', () => process.disconnect?.()));
