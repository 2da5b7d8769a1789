/** The SQLite writer: the one process that writes databases (architecture, "SQLite writer"). Entry of dist/writer.js. */
import { chmodSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { type Frame, Kind, type SessionBegun } from '../../protocol/frames.ts';
import { PRIVATE_UMASK } from '../../storage/private-tree.ts';
import { openLink, pong } from '../link.ts';
import { Begun } from './begun.ts';
import { systemClock } from './clock.ts';
import { Connection } from './connection.ts';
import { Database, type Durability } from './database.ts';
import { Lanes } from './lanes.ts';
import { Pulse } from './pulse.ts';
import { Threads } from './threads.ts';

/** One line of JSON on stdin. When stdin ends, the parent is gone and so is the writer. */
export type WriterBootstrap = {
  supervisorSocket: string;
  /** Where clients connect; made here, for this user only. */
  writerSocket: string;
  /** Role `writer`, and role `writer-watch` for the watch thread. */
  ticket: string;
  watchTicket: string;
  /** Hex; what the tickets of clients are signed with. */
  key: string;
  durability: Durability;
  /** The one database that it writes; null for all but those in `elsewhere`, which other writers write. */
  only: string | null;
  elsewhere: string[];
  /** How far the clients of the writers before it had come; null when that is not known of all. */
  begun: SessionBegun[] | null;
};

function start(bootstrap: WriterBootstrap): void {
  const { supervisorSocket, writerSocket, durability } = bootstrap;
  const key = Buffer.from(bootstrap.key, 'hex');
  const pulse = new Pulse();
  const begun = new Begun(systemClock);
  const elsewhere = new Set(bootstrap.elsewhere);
  const before = bootstrap.begun === null ? null : new Map(bootstrap.begun);
  const threads = new Threads(new URL('./writer-thread.js', import.meta.url));
  const lanes = new Lanes({
    clock: systemClock,
    pulse,
    open: (file) => Database.open(file, durability),
    migrate: (file, files, backupTo) => threads.migrate(file, files, backupTo),
    checkpoint: (file) => threads.checkpoint(file),
  });
  let stopping = false;

  const server = createServer((socket) => {
    new Connection(socket, {
      lanes,
      key,
      begun,
      writes: (file) => (bootstrap.only === null ? !elsewhere.has(file) : file === bootstrap.only),
      left: (session) => (before === null ? -1 : (before.get(session) ?? 0)),
      isStopping: () => stopping,
      log,
    });
  });
  // The socket of a writer that was killed is still there.
  rmSync(writerSocket, { force: true });
  server.listen(writerSocket, () => {
    chmodSync(writerSocket, 0o600);
    const link = openLink(supervisorSocket, bootstrap.ticket, {
      onFrame: (frame: Frame) => {
        if (frame[0] === Kind.ping) link.send(pong(frame[1], { ...lanes.counters, open: lanes.open }));
        else if (frame[0] === Kind.stop && !stopping) {
          stopping = true;
          void lanes.drain().then(() => process.exit(0));
        }
      },
      onClose: () => process.exit(0),
    });
    link.send([Kind.ready, { pid: process.pid }]);
    setImmediate(() =>
      threads.watch({ pulse: pulse.memory, begun: begun.memory }, supervisorSocket, bootstrap.watchTicket),
    );
  });
}

function log(message: string): void {
  process.stderr.write(`${message}\n`);
}

process.umask(PRIVATE_UMASK);
let input = '';
let started = false;
process.stdin.setEncoding('utf8');
process.stdin.on('data', (chunk: string) => {
  if (started) return;
  input += chunk;
  const end = input.indexOf('\n');
  if (end < 0) return;
  started = true;
  start(JSON.parse(input.slice(0, end)) as WriterBootstrap);
});
process.stdin.on('end', () => process.exit(0));
