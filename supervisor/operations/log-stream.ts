/** Writes the gateway's own log to standard error, or to a file. It never waits for its reader and never throws; it counts the lines it drops. */
import { constants, openSync, writeSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isatty } from 'node:tty';
import { type Logger, pino, symbols } from 'pino';
import { isDiskFull } from '../../protocol/errors.ts';
import { DEFAULTS, LIMITS } from '../../protocol/limits.ts';
import { printable } from '../../protocol/text/printable.ts';
import { type Config, ConfigError } from '../config.ts';
import { LogFile } from './log-file.ts';

const WARN = 40;

type LogStreamOptions = {
  /** The output for a line of JSON, with newlines. */
  draw?: (line: string) => string;
  /** Writes at once what it can without waiting, and answers how many bytes; throws when that is none. */
  output?: (bytes: Buffer) => number;
  /** The name of the output, for people. */
  name?: string;
  /** Throws a `ConfigError` for an output that cannot be written to, whatever the disk has room for. */
  open?: () => void;
  /** Called once all is written, at the end. */
  close?: () => void;
};

export class LogStream {
  readonly #draw: (line: string) => string;
  readonly #output: (bytes: Buffer) => number;
  readonly #name: string;
  readonly #open: () => void;
  readonly #close: () => void;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #retry: NodeJS.Timeout | undefined;
  #droppedLines = 0;
  /** The part of these that the log has not reported yet. */
  #unsaid = 0;
  /** Why the last write failed. */
  #reason = '';

  constructor({
    draw = drawJsonLine,
    output = writeStandardError,
    name = 'Standard error',
    open = () => {},
    close = () => {},
  }: LogStreamOptions = {}) {
    this.#draw = draw;
    this.#output = output;
    this.#name = name;
    this.#open = open;
    this.#close = close;
  }

  /** Lines that were left out because the output did not take them. */
  get droppedLines(): number {
    return this.#droppedLines;
  }

  /** Throws a `ConfigError` where the log has a file that cannot be opened: who starts a gateway hears of it, nobody would later. */
  open(): void {
    this.#open();
  }

  /** Takes one line of pino's: it is written now or, where that fails, as soon as it can be. */
  write(line: string): void {
    const bytes = Buffer.from(this.#draw(line));
    if (this.#waitingBytes + bytes.length > LIMITS.logBacklogBytes) {
      this.#droppedLines++;
      this.#unsaid++;
      return;
    }
    this.#add(bytes);
    if (this.#retry === undefined) this.#writeWaiting();
  }

  /** Lets a slow reader take what waits, for a moment. Resolves when all is written, when it cannot be, or after `LIMITS.logDrainMs`; a file is closed then. */
  async drain(): Promise<void> {
    const until = performance.now() + LIMITS.logDrainMs;
    while (this.#waitingBytes > 0 && this.#reason === 'EAGAIN' && performance.now() < until) {
      await sleep(LIMITS.logFlushMs);
      this.#writeWaiting();
    }
    this.#close();
  }

  #add(bytes: Buffer): void {
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
  }

  #writeWaiting(): void {
    clearTimeout(this.#retry);
    this.#retry = undefined;
    try {
      while (this.#waitingBytes > 0) {
        const all = this.#waiting.length === 1 ? (this.#waiting[0] as Buffer) : Buffer.concat(this.#waiting);
        const written = this.#output(all);
        this.#waitingBytes -= written;
        this.#waiting = this.#waitingBytes === 0 ? [] : [all.subarray(written)];
        if (this.#waitingBytes === 0) this.#sayDropped();
      }
    } catch (error) {
      this.#reason = (error as NodeJS.ErrnoException).code ?? String(error);
      // The timer does not keep an ending process alive.
      this.#retry = setTimeout(() => this.#writeWaiting(), LIMITS.logRetryMs).unref();
    }
  }

  #sayDropped(): void {
    if (this.#unsaid === 0) return;
    const msg = `Log lines dropped here: ${this.#unsaid}. ${this.#name} did not take them (${this.#reason}).`;
    this.#unsaid = 0;
    this.#add(Buffer.from(this.#draw(JSON.stringify({ level: WARN, time: Date.now(), msg }))));
  }
}

/** The log of the configuration, on standard error or in a file: JSON lines, unless they are drawn. */
export function createLog(
  { log, logFile, dataDir }: Pick<Config, 'log' | 'logFile' | 'dataDir'>,
  draw?: (line: string) => string,
): Logger {
  const drawn = draw === undefined ? {} : { draw };
  if (logFile === null) return pino({ level: log, base: null }, new LogStream(drawn));
  const path = resolve(dataDir, logFile.path);
  const file = new LogFile({ ...DEFAULTS.logFile, ...logFile, path });
  const open = (): void => {
    try {
      file.open();
    } catch (error) {
      if (!isDiskFull(error))
        throw new ConfigError(`"logFile" cannot be opened at ${path}: ${stepFor(error)}`, 'logFile');
    }
  };
  const output = { name: path, open, output: (bytes: Buffer) => file.write(bytes), close: () => file.close() };
  return pino({ level: log, base: null }, new LogStream({ ...drawn, ...output }));
}

function stepFor(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS')
    return `the gateway may not write there (${code}). Give the folder to its user (chown), or name another path.`;
  if (code === 'EISDIR') return 'that is a folder. Name a file.';
  if (code === 'ENOTDIR' || code === 'EEXIST') return 'a part of the path is a file. Name another path.';
  return `${message}. Name another path.`;
}

/** Null for a logger that the host made. */
export function streamOf(log: Logger): LogStream | null {
  const stream = (log as unknown as Record<symbol, unknown>)[symbols.streamSym];
  return stream instanceof LogStream ? stream : null;
}

function drawJsonLine(line: string): string {
  return `${printable(line.trimEnd())}\n`;
}

let standardError: number | undefined;

function writeStandardError(bytes: Buffer): number {
  standardError ??= openStandardError();
  return writeSync(standardError, bytes);
}

/** Standard error as something that refuses (`EAGAIN`) instead of waiting for a reader. A file or a device never waits for one. */
function openStandardError(): number {
  // Node opens pipes and sockets so; what it writes there itself may be lost, too.
  process.stderr.on('error', () => {});
  if (!isatty(2)) return 2;
  try {
    // A terminal paused with Ctrl-S takes nothing.
    return openSync('/dev/fd/2', constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    return 2;
  }
}
