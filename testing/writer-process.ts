/** The built writer as a process: started as the supervisor starts it, and killed too if a statement never ends. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { type Frame, Kind, type ProcessStats } from '../protocol/wire/frames.ts';
import { Link } from '../protocol/wire/link.ts';
import { signTicket } from '../protocol/wire/ticket.ts';
import { root } from './gateway.ts';

export class WriterProcess {
  readonly folder: string;
  readonly socket: string;
  /** The databases whose commits it told of, in order. */
  readonly committed: string[] = [];
  readonly #key = randomBytes(32);
  readonly #supervisorSocket: string;
  readonly #pageLog: { urls: string[]; node: string } | undefined;
  readonly #links: Link[] = [];
  readonly #server = createServer((socket) => {
    const onFrame = (frame: unknown[]): void => {
      if (frame[0] === Kind.ready) this.#ready();
      if (frame[0] === Kind.stuck) void this.kill();
      if (frame[0] === Kind.committed) this.committed.push(frame[1] as string);
      if (frame[0] === Kind.pong) this.#answered(frame[2] as ProcessStats);
      if (frame[0] === Kind.released) this.#released(frame[1] as number);
    };
    this.#links.push(new Link(socket, { onFrame, onClose: () => {} }));
  });
  #ready = (): void => {};
  #answered: (stats: ProcessStats) => void = () => {};
  #released: (turn: number) => void = () => {};
  #turn = 0;
  #child: ChildProcess | null = null;

  /** `folder` is for its sockets. With `pageLog` it keeps its databases in the log of a cluster. */
  constructor(folder: string, pageLog?: { urls: string[]; node: string }) {
    this.folder = folder;
    this.#pageLog = pageLog;
    this.socket = join(folder, 'writer.sock');
    this.#supervisorSocket = join(folder, 'supervisor.sock');
    this.#server.listen(this.#supervisorSocket);
  }

  /** Resolves when it is ready; starts another one after `kill`. */
  async start(): Promise<this> {
    const isReady = new Promise<void>((resolve) => {
      this.#ready = resolve;
    });
    const entry = join(root, 'dist/writer.cjs');
    this.#child = spawn(process.execPath, [entry], { stdio: ['pipe', 'ignore', 'ignore'], env: {} });
    const bootstrap = {
      supervisorSocket: this.#supervisorSocket,
      writerSocket: this.socket,
      ticket: signTicket({ role: 'writer', name: 'writer' }, this.#key),
      watchTicket: signTicket({ role: 'writer-watch', name: 'writer' }, this.#key),
      key: this.#key.toString('hex'),
      durability: 'normal',
      only: null,
      elsewhere: {},
      before: { progress: [], isPartial: true },
      pageLog: this.#pageLog && { ...this.#pageLog, owned: [] },
    };
    this.#child.stdin?.write(`${JSON.stringify(bootstrap)}\n`);
    await isReady;
    return this;
  }

  /** Tells it which buckets its node owns. */
  own(buckets: [bucket: number, epoch: number][]): void {
    this.#send([Kind.owned, ++this.#turn, buckets]);
  }

  /** What it says of itself in a heartbeat. */
  stats(): Promise<ProcessStats> {
    return new Promise((resolve) => {
      this.#answered = resolve;
      this.#send([Kind.ping, 1]);
    });
  }

  #send(frame: Frame): void {
    // The thread that watches it connects later.
    this.#links.find((link) => !link.closed)?.send(frame);
  }

  /** Resolves with the turn when it next has nothing of buckets that it was told to leave. */
  released(): Promise<number> {
    return new Promise((resolve) => {
      this.#released = resolve;
    });
  }

  get isRunning(): boolean {
    return this.#child !== null && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** For a client of the database `<folder>/<name>.sqlite`. */
  ticketFor(name: string, folder = this.folder, maintain = false): string {
    return signTicket({ role: 'database', name, file: join(folder, `${name}.sqlite`), maintain }, this.#key);
  }

  async kill(): Promise<void> {
    if (this.#child === null || !this.isRunning) return;
    const exit = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await exit;
  }

  async end(): Promise<void> {
    await this.kill();
    for (const link of this.#links) link.close();
    this.#server.close();
  }
}
