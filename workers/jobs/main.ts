/**
 * The jobs process: what costs CPU or disk, or reads what strangers sent, done by threads at the supervisor's order. Entry of
 * dist/jobs.js. It runs under Node's permission model, holds no thread while there is nothing to do, and ends with its parent.
 */
import { createInterface } from 'node:readline';
import { type Frame, Kind } from '../../protocol/frames.ts';
import type { JobsBootstrap } from '../../protocol/jobs.ts';
import { PRIVATE_UMASK } from '../../storage/private-tree.ts';
import { openLink, pong } from '../link.ts';
import { Runner } from './runner.ts';

function run({ supervisorSocket, ticket, ...settings }: JobsBootstrap): void {
  const runner = new Runner({
    ...settings,
    rss: () => process.memoryUsage.rss(),
    onDone: (id, answer) => {
      try {
        link.send([Kind.jobDone, id, answer]);
      } catch (error) {
        link.send([Kind.jobDone, id, { failed: 'fault', detail: `its answer: ${(error as Error).message}` }]);
      }
    },
    onMemory: () => {
      // As V8 says it of its own heap: the supervisor looks for these words.
      process.stderr.write(`FATAL ERROR: out of memory: it used more than ${settings.memoryMb} MiB\n`);
      end();
    },
  });
  const link = openLink(supervisorSocket, ticket, {
    onFrame: (frame: Frame) => {
      if (frame[0] === Kind.job) void runner.run(frame);
      else if (frame[0] === Kind.cancel) runner.cancel(frame[1]);
      else if (frame[0] === Kind.ping) link.send(pong(frame[1], { threads: runner.threads, jobs: runner.jobs }));
    },
    onClose: end,
  });
  process.stdin.on('close', end);
  link.send([Kind.ready, { pid: process.pid }]);
}

/** At once: an orderly end would wait for threads that are inside native code. */
function end(): void {
  process.kill(process.pid, 'SIGKILL');
}

process.umask(PRIVATE_UMASK);
const lines = createInterface({ input: process.stdin });
lines.once('line', (line) => run(JSON.parse(line) as JobsBootstrap));
