/**
 * Writes an app's log: `log` and `console` of its handlers become JSON lines for the supervisor. Never blocks, never throws.
 */
import { format } from 'node:util';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Redactor } from '../../../protocol/text/redactor.ts';
import { ownFrames, safely } from '../handler-errors.ts';
import type { SourcePositions } from '../source-positions.ts';

type Level = 'debug' | 'info' | 'warn' | 'error';

/** `log` as handlers see it: a text and fields in any order, `log.info('saved', { id })`. */
type Logger = Record<Level, (...args: unknown[]) => void>;

/**
 * What a line says of its writer; `runId` only for runs of automations. Where a person called, or their agent, lines have a `personId`,
 * which is looked for with the first of them.
 */
export type LogOrigin = {
  tool: string | null;
  traceId: string | null;
  runId?: string;
  readonly call: { readonly personId: string | undefined } | null;
};

type LogSink = {
  app: string;
  versionId: string;
  /** Takes one line of JSON, without the newline. `callId` is the call whose followers get it too. */
  write(line: string, callId: number | undefined): void;
  /** Milliseconds since the epoch. */
  now(): number;
  /** Takes secrets out of the lines. */
  redactor: Redactor;
  /** Maps positions to sources. */
  positions: SourcePositions;
};

const WINDOW_MS = LIMITS.heartbeatMs;
const GATEWAY: LogOrigin = { tool: null, traceId: null, call: null };

const { stringify } = JSON;
const { hasOwn } = Object;
const startTimer = setTimeout;

export class AppLog {
  readonly #sink: LogSink;
  #windowStart = 0;
  #windowBytes = 0;
  #dropped = 0;

  constructor(sink: LogSink) {
    this.#sink = sink;
  }

  logger(origin: LogOrigin, callId?: number): Logger {
    return {
      debug: (...args) => this.#log('debug', origin, args, callId),
      info: (...args) => this.#log('info', origin, args, callId),
      warn: (...args) => this.#log('warn', origin, args, callId),
      error: (...args) => this.#log('error', origin, args, callId),
    };
  }

  /** An error line of the actor itself about the app's code, such as the stack of an error. */
  report(msg: string, fields: Record<string, unknown>, origin: LogOrigin = GATEWAY, callId?: number): void {
    this.#log('error', origin, [msg, fields], callId);
  }

  /** `console` for app code: one object for all calls, so its lines name no call. */
  console(): Record<string, (...args: unknown[]) => void> {
    const write =
      (level: Level) =>
      (...args: unknown[]): void =>
        this.#log(level, GATEWAY, [safely(() => format(...args), 'a value that cannot be shown')]);
    const [debug, info, warn, error] = [write('debug'), write('info'), write('warn'), write('error')];
    const assert = (condition: unknown, ...args: unknown[]): void => {
      if (!condition) error('Assertion failed', ...args);
    };
    const ignored = 'clear count countReset group groupCollapsed groupEnd time timeEnd timeLog timeStamp'.split(' ');
    return {
      ...Object.fromEntries(ignored.map((name) => [name, () => {}])),
      ...{ log: info, info, dir: info, dirxml: info, table: info, debug, trace: debug, warn, error, assert },
    };
  }

  #log(level: Level, origin: LogOrigin, args: unknown[], callId?: number): void {
    const now = this.#sink.now();
    if (now - this.#windowStart >= WINDOW_MS) this.#startWindow(now);
    // Nor is anything formatted over the limit, so that a loop that logs costs little.
    if (this.#windowBytes >= LIMITS.logBacklogBytes) {
      if (this.#dropped++ === 0) startTimer(() => this.#startWindow(this.#sink.now()), WINDOW_MS).unref();
      return;
    }
    this.#write(now, level, origin, args, callId);
  }

  #startWindow(now: number): void {
    const dropped = this.#dropped;
    this.#dropped = 0;
    this.#windowStart = now;
    this.#windowBytes = 0;
    if (dropped > 0) this.#write(now, 'warn', GATEWAY, [`${dropped} log lines were dropped: too many at once.`]);
  }

  #write(now: number, level: Level, origin: LogOrigin, args: unknown[], callId?: number): void {
    const { app, versionId } = this.#sink;
    const { call, ...named } = origin;
    const personId = call?.personId;
    const who = personId === undefined ? named : { ...named, personId };
    const head = { ts: new Date(now).toISOString(), level, app, versionId, ...who };
    const line = safely(
      () => toLine(head, args, this.#sink),
      stringify({ ...head, msg: 'A log line could not be written as JSON.' }),
    );
    this.#windowBytes += line.length;
    this.#sink.write(line, callId);
  }
}

function toLine(head: object, args: unknown[], { redactor, positions }: LogSink): string {
  const { msg, fields } = readArguments(head, args);
  let line = safely(() => stringify({ ...head, msg, ...fields }), '');
  if (line === '') line = stringify({ ...head, msg, fields: 'not serializable' });
  line = redactor.jsonText(positions.text(line));
  if (Buffer.byteLength(line) <= LIMITS.logLineBytes) return line;
  // A character takes up to six bytes in JSON.
  return stringify({ ...head, msg: redactor.text(msg).slice(0, LIMITS.logLineBytes / 8), truncated: true });
}

/** Texts become the message, objects fields, an error both. A field that `head` has gets an underscore. */
function readArguments(head: object, args: unknown[]): { msg: string; fields: Record<string, unknown> } {
  const texts: string[] = [];
  const fields: Record<string, unknown> = {};
  for (const arg of args) {
    if (arg instanceof Error) {
      texts.push(String(arg.message));
      fields.err = { name: arg.name, message: arg.message, stack: ownFrames(String(arg.stack)), ...codeOf(arg) };
    } else if (typeof arg === 'object' && arg !== null && !Array.isArray(arg)) {
      for (const [key, value] of Object.entries(arg)) {
        if (key === 'msg' && typeof value === 'string') texts.push(value);
        else fields[key === 'msg' || hasOwn(head, key) ? `_${key}` : key] = value;
      }
    } else {
      texts.push(typeof arg === 'string' ? arg : (safely(() => stringify(arg), '') ?? String(arg)));
    }
  }
  return { msg: texts.join(' '), fields };
}

function codeOf(error: Error): { code?: unknown } {
  const { code } = error as { code?: unknown };
  return code === undefined ? {} : { code };
}
