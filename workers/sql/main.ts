/**
 * Runs SQL of callers for the supervisor, one statement at a time, in a thread: this process can then end at any moment, with its
 * parent above all. Entry of dist/sql.cjs. It runs under Node's permission model, and reads databases only.
 */
import { createInterface } from 'node:readline';
import { Worker } from 'node:worker_threads';
import { LIMITS } from '../../protocol/limits.ts';
import { type Frame, Kind } from '../../protocol/wire/frames.ts';
import { openLink, pong } from '../../protocol/wire/link.ts';
import { PRIVATE_UMASK } from '../../storage/files/private-tree.ts';
import type { FromThread } from './sql-thread.ts';

/** One line of JSON on standard input. When that ends, the parent is gone and so is this process. */
type SqlBootstrap = { supervisorSocket: string; ticket: string };

const MiB = 1024 * 1024;
const MEMORY_LOOK_MS = 50;

function start({ supervisorSocket, ticket }: SqlBootstrap): void {
  const resourceLimits = { maxOldGenerationSizeMb: LIMITS.sqlHeapMb };
  const thread = new Worker(new URL('./sql-thread.cjs', import.meta.url), { resourceLimits });
  let looking: NodeJS.Timeout | undefined;
  let statements = 0;
  const link = openLink(supervisorSocket, ticket, {
    onFrame: (frame: Frame) => {
      if (frame[0] === Kind.sql) {
        statements++;
        looking ??= setInterval(endIfTooLarge, MEMORY_LOOK_MS);
        thread.postMessage(frame);
      } else if (frame[0] === Kind.ping) link.send(pong(frame[1], { statements }));
    },
    onClose: end,
  });
  thread.on('message', (message: FromThread) => {
    if (message === 'ready') {
      link.send([Kind.ready, { pid: process.pid }]);
      return;
    }
    clearInterval(looking);
    looking = undefined;
    link.send(message);
  });
  thread.on('error', (error: Error & { code?: unknown }) => {
    fatal(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'out of memory' : error.message);
  });
  process.stdin.on('close', end);
}

function endIfTooLarge(): void {
  if (process.memoryUsage.rss() > LIMITS.sqlMemoryMb * MiB)
    fatal(`out of memory: it used more than ${LIMITS.sqlMemoryMb} MiB`);
}

/** The supervisor takes the text after V8's words for the reason. */
function fatal(why: string): void {
  process.stderr.write(`FATAL ERROR: ${why}\n`);
  end();
}

/** At once: an orderly end would wait for a statement that has none. */
function end(): void {
  process.kill(process.pid, 'SIGKILL');
}

process.umask(PRIVATE_UMASK);
createInterface({ input: process.stdin }).once('line', (line) => start(JSON.parse(line) as SqlBootstrap));
