/**
 * A handler host (`dist/host.js`): a process that holds app actors, each in a thread. This thread only starts, stops and
 * reports them; calls go past it, over each actor's own connection.
 */
import process from 'node:process';
import { createInterface } from 'node:readline';
import { setFlagsFromString } from 'node:v8';
import { type Frame, type HostBootstrap, Kind } from '../../protocol/frames.ts';
import type { Link } from '../../protocol/wire/link.ts';
import { PRIVATE_UMASK } from '../../storage/private-tree.ts';
import { openLink, pong } from '../link.ts';
import { Threads } from './threads.ts';

function run({ supervisorSocket, ticket, actorMemoryMb, spare = true }: HostBootstrap): void {
  // For the threads' own measurements; app code does not get at it.
  setFlagsFromString('--expose-gc');
  let threads: Threads | null = null;
  const link: Link = openLink(supervisorSocket, ticket, { onFrame: receive, onClose: () => end(threads) });
  link.send([Kind.ready, { pid: process.pid }]);
  threads = new Threads({
    file: new URL('./actor.js', import.meta.url),
    memoryMb: actorMemoryMb,
    spare,
    onExited: (actorId, reason, detail) => link.send([Kind.exited, actorId, reason, detail]),
  });
  process.stdin.on('close', () => end(threads));

  function receive(frame: Frame): void {
    switch (frame[0]) {
      case Kind.start:
        threads?.start(frame[1]);
        break;
      case Kind.stop:
        threads?.stop(frame[1], frame[2]);
        break;
      case Kind.ping:
        link.send(pong(frame[1], { actors: threads?.count ?? 0 }));
        break;
      default:
        link.close(new Error('The supervisor sent a frame that a handler host does not take.'));
    }
  }
}

/** Ends at once. An exit waits for the threads, and one in a native loop would keep it waiting for ever. */
function end(threads: Threads | null): never {
  if (threads !== null && threads.count > 0) process.kill(process.pid, 'SIGKILL');
  process.exit(0);
}

// SQLite creates the index of a log here, where the last one to close the database removed it.
process.umask(PRIVATE_UMASK);
const lines = createInterface({ input: process.stdin });
lines.once('line', (line) => run(JSON.parse(line) as HostBootstrap));
