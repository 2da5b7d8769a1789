/**
 * Runs a program of an agent: starts it without a shell in its own process group, reads it line by line, and ends it with all
 * that it started.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { identityOf, type ProcessIdentity } from '../../storage/processes/process-identity.ts';
import {
  descendantsOf,
  killAll,
  startedBy,
  sweepStarted,
  sweepTagged,
  TAG_VARIABLE,
  taggedWith,
} from '../../storage/processes/tagged.ts';

export type ProgramOptions = {
  command: string;
  args: string[];
  cwd: string;
  /** Its whole environment except the tag. */
  env: Record<string, string>;
};

/** A program that speaks JSON in lines over its standard input and output. */
export interface AgentProgram {
  readonly pid: number;
  /** How it ended, for people; null while it runs. */
  readonly ended: string | null;
  /** The end of its standard error. */
  readonly errorOutput: string;
  /** Resolves when the pipe has room for more. Rejects with `failure()` when it has ended. */
  write(line: string): Promise<void>;
  /** Its lines, at the pace of the reader; ends with the program. Rejects for a line over `LIMITS.agentLineBytes`. */
  lines(): AsyncIterable<string>;
  /** Closes its input so that it ends, then ends it and everything that it started after the waits of the limits. */
  end(): Promise<void>;
  /** How it ended, as the error of its turn. */
  failure(): SvcError;
}

/** Characters of its standard error that its failure repeats. */
const FAILURE_CHARS = 1000;
/** How long to wait for the last output of a program that has ended, in case its child holds the pipe open. */
const LAST_OUTPUT_MS = 500;

type Process = ChildProcessByStdio<Writable, Readable, Readable>;

/**
 * Starts a program. `tag` is unique to it; `onProcess` is called when its group starts and when it has ended. Rejects with
 * `NO_RUNNER` when there is no such program, else with `AGENT_FAILED`.
 */
export async function startProgram(
  options: ProgramOptions,
  tag: string,
  onProcess: (pid: number, alive: boolean) => void,
): Promise<Program> {
  const { command, args, cwd, env } = options;
  try {
    const started = spawn(command, args, {
      cwd,
      env: { ...env, [TAG_VARIABLE]: tag },
      stdio: ['pipe', 'pipe', 'pipe'],
      detached: true,
    });
    // A program that no longer reads breaks the pipe; we act on its end.
    started.stdin.on('error', () => {});
    if (started.pid === undefined) await once(started, 'spawn');
    return new Program(started, command, tag, onProcess);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (!existsSync(cwd)) throw new SvcError('AGENT_FAILED', `The folder of the agent is gone: ${cwd}.`);
    if (code === 'ENOENT') throw new SvcError('NO_RUNNER', `The program ${command} is not installed, or not on PATH.`);
    throw new SvcError('AGENT_FAILED', `The program ${command} could not be started (${code ?? message}).`);
  }
}

export class Program implements AgentProgram {
  readonly pid: number;
  ended: string | null = null;

  readonly #process: Process;
  readonly #command: string;
  readonly #tag: string;
  /** It leads a group and a session. */
  readonly #leader: ProcessIdentity;
  readonly #buffer = new LineBuffer(LIMITS.agentLineBytes);
  readonly #exited: Promise<unknown>;
  /** Resolves when its whole group has ended, for any reason. */
  readonly gone: Promise<void>;
  #stderr: Buffer = Buffer.alloc(0);
  #ending: Promise<void> | null = null;

  constructor(process: Process, command: string, tag: string, onProcess: (pid: number, alive: boolean) => void) {
    this.#process = process;
    this.#command = command;
    this.#tag = tag;
    this.pid = process.pid as number;
    this.#leader = identityOf(this.pid);
    process.stderr.on('data', (chunk: Buffer) => {
      const all = chunk.length < LIMITS.agentStderrBytes ? Buffer.concat([this.#stderr, chunk]) : chunk;
      this.#stderr = all.subarray(-LIMITS.agentStderrBytes);
    });
    this.#exited = new Promise<void>((resolve) => {
      process.once('exit', (code, signal) => {
        this.ended = signal ? `was ended by ${signal}` : `exited with code ${code}`;
        resolve();
      });
    });
    onProcess(this.pid, true);
    this.gone = this.#exited.then(async () => {
      // Its children would go on without it, some in other groups.
      this.#signal('SIGKILL');
      await (this.#ending ?? sweepTagged(tag, [this.#leader]));
      onProcess(this.pid, false);
    });
  }

  get errorOutput(): string {
    return this.#stderr.toString().trim();
  }

  async write(line: string): Promise<void> {
    const { stdin } = this.#process;
    if (this.ended !== null || stdin.destroyed) throw this.failure();
    if (stdin.write(`${line}\n`)) return;
    const room = new AbortController();
    try {
      await Promise.race([once(stdin, 'drain', room), once(stdin, 'close', room), this.#exited]);
    } catch {
      throw this.failure();
    } finally {
      room.abort();
    }
  }

  async *lines(): AsyncGenerator<string, void, undefined> {
    for (;;) {
      for (let line = this.#buffer.take(); line !== undefined; line = this.#buffer.take()) yield line;
      const chunk = await this.#read();
      if (chunk === null) break;
      try {
        this.#buffer.push(chunk);
      } catch {
        throw new SvcError('AGENT_FAILED', `The agent wrote a line of more than ${LIMITS.agentLineBytes} bytes.`);
      }
    }
    const rest = this.#buffer.rest();
    if (rest !== undefined) yield rest;
    // Its output ends a moment before the process does; readers then ask how it ended.
    await this.#exitedWithin(LAST_OUTPUT_MS);
  }

  /** `graceMs` bounds each of the two steps. */
  end(graceMs: number = LIMITS.agentEndMs): Promise<void> {
    this.#ending ??= this.#end(graceMs);
    return this.#ending;
  }

  /** The processes that it has started and that run. */
  get started(): ProcessIdentity[] {
    return this.ended === null ? startedBy(this.#leader, this.#tag) : [];
  }

  /** Kills what it has started since it had `before`. Resolves with whether all of that has ended. */
  async endSince(before: readonly ProcessIdentity[]): Promise<boolean> {
    if (this.ended !== null) return true;
    return (await sweepStarted(this.#leader, this.#tag, before)).length === 0;
  }

  /** Ends it and all of its processes that can be found, without waiting: this process ends. */
  kill(): void {
    const found = [...descendantsOf([this.pid]), ...taggedWith(this.#tag, [this.#leader])];
    this.#signal('SIGKILL');
    killAll(found);
  }

  failure(): SvcError {
    const errorOutput = this.errorOutput.slice(-FAILURE_CHARS);
    const how = this.ended ?? 'does not answer';
    return new SvcError(
      'AGENT_FAILED',
      `The agent's program ${this.#command} ${how}${errorOutput === '' ? '.' : `: ${errorOutput}`}`,
    );
  }

  async #end(graceMs: number): Promise<void> {
    // Listed before any of them ends: a process that lost its parent cannot be recognized as one of these.
    const started = this.ended === null ? descendantsOf([this.pid]) : [];
    this.#process.stdin.end();
    // A program that blocks on unread output could not end by itself.
    this.#process.stdout.resume();
    if (!(await this.#exitedWithin(graceMs))) {
      started.push(...descendantsOf([this.pid]));
      this.#signal('SIGTERM');
      await this.#exitedWithin(graceMs);
    }
    this.#signal('SIGKILL');
    killAll(started);
    await sweepTagged(this.#tag, [this.#leader]);
    await this.#exitedWithin(graceMs);
  }

  async #exitedWithin(ms: number): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, ms);
    });
    await Promise.race([this.#exited, late]);
    clearTimeout(timer);
    return this.ended !== null;
  }

  /** The next piece of its output; null at its end. Buffers nothing beyond Node and the pipe. */
  async #read(): Promise<Buffer | null> {
    const { stdout } = this.#process;
    for (;;) {
      const chunk = stdout.read() as Buffer | null;
      if (chunk !== null) return chunk;
      if (stdout.readableEnded || stdout.destroyed) return null;
      const { ended } = this;
      if (!(await this.#readable()) && ended !== null) return null;
    }
  }

  /** False when no output came although the program has ended. */
  async #readable(): Promise<boolean> {
    const { stdout } = this.#process;
    const waiting = new AbortController();
    const late = setTimeout(() => waiting.abort(), LAST_OUTPUT_MS);
    if (this.ended === null) clearTimeout(late);
    const events = ['readable', 'end', 'close'].map((event) => once(stdout, event, waiting));
    try {
      await Promise.race(this.ended === null ? [...events, this.#exited] : events);
      return true;
    } catch {
      return false;
    } finally {
      clearTimeout(late);
      waiting.abort();
    }
  }

  #signal(signal: NodeJS.Signals): void {
    try {
      process.kill(-this.pid, signal);
    } catch {
      // The group has ended.
    }
  }
}

/** Splits a program's output into lines of limited length. */
class LineBuffer {
  readonly #maxBytes: number;
  readonly #lines: string[] = [];
  /** The pieces of the incomplete line. */
  #pieces: Buffer[] = [];
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Throws `RangeError` for a line over the limit, complete or not; the lines before it can still be taken. */
  push(chunk: Buffer): void {
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      this.#keep(chunk.subarray(start, end));
      this.#lines.push(this.#whole());
      start = end + 1;
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start));
  }

  /** The next line that is whole, without its end. */
  take(): string | undefined {
    return this.#lines.shift();
  }

  /** The rest at the end, as the last line. */
  rest(): string | undefined {
    return this.#bytes === 0 ? undefined : this.#whole();
  }

  #keep(piece: Buffer): void {
    this.#bytes += piece.length;
    if (this.#bytes > this.#maxBytes) {
      this.#pieces = [];
      throw new RangeError(`A line is longer than ${this.#maxBytes} bytes.`);
    }
    this.#pieces.push(piece);
  }

  #whole(): string {
    const line = this.#pieces.length === 1 ? (this.#pieces[0] as Buffer) : Buffer.concat(this.#pieces, this.#bytes);
    this.#pieces = [];
    this.#bytes = 0;
    return line.toString();
  }
}
