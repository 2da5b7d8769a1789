/** Starts and ends the process of a gateway, and speaks with it. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import type { Started, StartOrder } from './exchanged.ts';
import { type Answers, Peer, type Port } from './peer.ts';

type ChildOptions = {
  /** The file of the process, and the Node that it runs on. */
  file: string;
  node: string;
  order: StartOrder;
  answers: Answers;
  /** One line of its log. */
  onLine(line: string): void;
  /** It ended without being asked. */
  onLost(): void;
};

/** How long a gateway may take to end when it was asked, beyond the time that it gives to calls. */
const END_MS = 20_000;

export class Child {
  readonly peer: Peer;
  readonly #process: ChildProcess;
  #ending: Promise<void> | null = null;

  private constructor({ file, node, answers, onLine, onLost }: ChildOptions) {
    const child = fork(file, {
      execPath: node,
      // Options of the host's own start are not for it.
      execArgv: [],
      serialization: 'advanced',
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    this.#process = child;
    this.peer = new Peer(child as Port, answers);
    for (const stream of [child.stdout, child.stderr]) stream && readLines(stream, onLine);
    child.once('exit', () => {
      this.peer.close("svc's gateway has ended.");
      if (this.#ending === null) onLost();
    });
    child.on('error', () => {});
  }

  /** Rejects with the reason, in words; nothing is left running then. */
  static async start(options: ChildOptions): Promise<{ child: Child; socket: string }> {
    const child = new Child(options);
    try {
      const { socket } = (await child.peer.call('start', options.order)) as Started;
      // The host may end although its gateway runs: that ends with it.
      child.#process.unref();
      child.#process.channel?.unref();
      return { child, socket };
    } catch (error) {
      child.#ending = Promise.resolve();
      child.#process.kill('SIGKILL');
      throw error;
    }
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** Lets calls end, then the process. */
  end(): Promise<void> {
    this.#ending ??= this.#end();
    return this.#ending;
  }

  async #end(): Promise<void> {
    const child = this.#process;
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.ref();
    const gone = once(child, 'exit');
    const asked = this.peer.call('stop', null).catch(() => {});
    await Promise.race([asked, gone, wait(END_MS, undefined, { ref: false })]);
    if (child.connected) child.disconnect();
    await Promise.race([gone, wait(END_MS / 4, undefined, { ref: false })]);
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await gone;
  }
}

function readLines(stream: NodeJS.ReadableStream, onLine: (line: string) => void): void {
  let rest = '';
  stream.setEncoding('utf8');
  stream.on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) onLine(line);
  });
}
