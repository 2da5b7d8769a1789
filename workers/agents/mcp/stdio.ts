/**
 * Runs an MCP server as a child process: JSON lines over its standard input and output. The SDK's transport starts a server in
 * our process group and ends only that process; here each server leads a group, so that its children end with it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { type JSONRPCMessage, ReadBuffer, serializeMessage, type Transport } from '@modelcontextprotocol/client';
import { getDefaultEnvironment } from '@modelcontextprotocol/client/stdio';
import type { StdioServerEntry } from '../../../protocol/agents/tool-server-entries.ts';
import { LIMITS } from '../../../protocol/limits.ts';

const OPEN_BRACE = 0x7b;

export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: Transport['onmessage'];
  /** How the process ended, or why it was ended; null while it runs. */
  ended: string | null = null;
  /** It wrote lines that are not messages. */
  garbled = false;

  readonly #entry: StdioServerEntry;
  readonly #onProcess: (pid: number, alive: boolean) => void;
  readonly #maxMessageBytes: number;
  readonly #buffer: ReadBuffer;
  readonly #gone: Promise<void>;
  #resolveGone: () => void = () => {};
  #process: ChildProcess | null = null;
  #heard = false;
  #stderr = '';

  constructor(entry: StdioServerEntry, maxMessageBytes: number, onProcess: (pid: number, alive: boolean) => void) {
    this.#entry = entry;
    this.#onProcess = onProcess;
    this.#maxMessageBytes = maxMessageBytes;
    this.#buffer = new ReadBuffer({ maxBufferSize: maxMessageBytes });
    this.#gone = new Promise((resolve) => {
      this.#resolveGone = resolve;
    });
  }

  /** The end of its standard error. */
  get errorOutput(): string {
    return this.#stderr.trim();
  }

  /** Starts the process. Rejects when that fails, with the system's code in `ended`. */
  start(): Promise<void> {
    return new Promise((resolve, reject) => {
      const { command, args = [], env = {}, cwd } = this.#entry;
      const server = spawn(command, args, {
        cwd,
        env: { ...getDefaultEnvironment(), ...env },
        stdio: ['pipe', 'pipe', 'pipe'],
        detached: true,
      });
      this.#process = server;
      server.once('spawn', () => {
        this.#onProcess(server.pid as number, true);
        resolve();
      });
      server.once('error', (error: NodeJS.ErrnoException) => {
        if (server.pid !== undefined) return;
        this.#finish(`could not be started (${error.code ?? error.message})`);
        reject(error);
      });
      server.once('exit', (code, signal) =>
        this.#exited(server, signal ? `ended by ${signal}` : `exited with code ${code}`),
      );
      // A server that no longer reads breaks the pipe; we act on its end.
      server.stdin.on('error', () => {});
      server.stdout.on('data', (chunk: Buffer) => this.#receive(chunk));
      server.stderr.on('data', (chunk: Buffer) => {
        this.#stderr = (this.#stderr + chunk.toString()).slice(-LIMITS.toolServerStderrBytes);
      });
    });
  }

  send(message: JSONRPCMessage): Promise<void> {
    const input = this.#process?.stdin;
    if (this.ended !== null || !input) return Promise.reject(new Error('The server has ended.'));
    return new Promise((resolve) => {
      if (input.write(serializeMessage(message))) resolve();
      else input.once('drain', resolve);
    });
  }

  /** Closes the server's input, then sends SIGTERM, then kills it with all its children. */
  async close(): Promise<void> {
    const server = this.#process;
    if (this.ended !== null || !server) return;
    server.stdin?.end();
    const terminating = setTimeout(() => this.#signal('SIGTERM'), LIMITS.toolServerEndMs);
    const killing = setTimeout(() => this.#signal('SIGKILL'), LIMITS.toolServerEndMs + LIMITS.terminateMs);
    await this.#gone;
    clearTimeout(terminating);
    clearTimeout(killing);
  }

  /** Kills the server at once, with all its children. */
  kill(): void {
    if (this.ended === null) this.#signal('SIGKILL');
  }

  #receive(chunk: Buffer): void {
    if (this.ended !== null) return;
    // The reader silently skips lines that are not JSON.
    this.garbled ||= !this.#heard && chunk[0] !== OPEN_BRACE;
    this.#heard = true;
    try {
      this.#buffer.append(chunk);
    } catch (error) {
      this.onerror?.(error as Error);
      this.kill();
      this.#finish(`was ended: it sent a message of more than ${this.#maxMessageBytes} bytes`);
      return;
    }
    for (;;) {
      try {
        const message = this.#buffer.readMessage();
        if (message === null) break;
        this.onmessage?.(message);
      } catch {
        this.garbled = true;
      }
    }
  }

  #exited(server: ChildProcess, how: string): void {
    // Its children would go on without it. The group keeps its number while it has members.
    this.#signal('SIGKILL');
    this.#onProcess(server.pid as number, false);
    // Its last output is still on the way, unless another process holds it open.
    const finish = () => {
      clearTimeout(timer);
      this.#finish(how);
    };
    const timer = setTimeout(finish, LIMITS.toolServerEndMs);
    server.once('close', finish);
  }

  #finish(how: string): void {
    if (this.ended !== null) return;
    this.ended = how;
    this.#buffer.clear();
    this.#resolveGone();
    this.onclose?.();
  }

  #signal(signal: NodeJS.Signals): void {
    const pid = this.#process?.pid;
    if (pid === undefined) return;
    try {
      process.kill(-pid, signal);
    } catch {
      // The group has ended.
    }
  }
}
