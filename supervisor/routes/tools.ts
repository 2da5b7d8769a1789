/** The dispatcher over HTTP: `svc_describe`, `svc_read`, `svc_write` (specification, "Three-tool dispatcher"; decisions, section 3). */
import type { Logger } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { appOf, type Dispatcher, type RecordedSink, type Sink, type Target, toolOf } from '../dispatch/dispatcher.ts';
import type { RecordedAnswer } from '../dispatch/idempotency.ts';
import type { Exchange } from '../edge/edge.ts';
import { type Caller, demand } from '../http/access/caller.ts';
import { answerError, JSON_HEADERS } from '../http/answers.ts';
import type { Route } from '../http/router.ts';
import { newTraceId } from '../http/trace-id.ts';
import type { Services } from '../services.ts';
import type { CallTiming } from '../tree/actor/call.ts';
import { type Body, parseCall } from './requests.ts';

const TOOLS = '/svc/_tool/';
const EMPTY = Buffer.alloc(0);
const READ_PREFIX = Buffer.from('{"isError":false,"data":');
const READ_SUFFIX = Buffer.from('}');
const WRITE_SUFFIX = Buffer.from('}}');
/** Of an answer for which no handler ran. */
const NO_TIME: CallTiming = { queueMs: 0, handlerMs: 0, started: false };

export function toolRoutes({ dispatcher, log }: Services): Route[] {
  const route = (path: string, summary: string): Route => ({
    method: 'POST',
    path,
    needs: 'route',
    summary,
    handle: (exchange, { tool = path.slice(TOOLS.length) }, caller) =>
      answerTool(dispatcher, exchange, tool, caller, log),
  });
  return [
    route(`${TOOLS}svc_describe`, 'What apps there are, or what one of them can do.'),
    route(`${TOOLS}svc_read`, 'Run a query.'),
    route(`${TOOLS}svc_write`, 'Run an action.'),
    route(`${TOOLS}:tool`, 'Any other tool: `UNKNOWN_TOOL`.'),
  ];
}

/** Reads a call and answers it. Must be called in the turn in which the exchange was handed over. */
export function answerTool(
  dispatcher: Dispatcher,
  exchange: Exchange,
  tool: string,
  caller: Caller,
  log: Logger,
): void {
  const fail = (error: unknown) => answerFailure(exchange, error, log);
  exchange.readBody(
    LIMITS.requestBodyBytes,
    (bytes) => {
      try {
        const body = parseCall(bytes);
        if (tool === 'svc_read') callTool(dispatcher, exchange, caller, 'query', body, bytes, log);
        else if (tool === 'svc_write') callTool(dispatcher, exchange, caller, 'action', body, bytes, log);
        else if (tool === 'svc_describe') {
          describe(dispatcher, caller, body).then(
            (text) => exchange.send(200, { 'server-timing': serverTiming(NO_TIME) }, text, JSON_HEADERS),
            fail,
          );
        } else throw unknownTool(tool);
      } catch (error) {
        fail(error);
      }
    },
    fail,
  );
}

function callTool(
  dispatcher: Dispatcher,
  exchange: Exchange,
  caller: Caller,
  kind: Target['kind'],
  body: Body,
  bytes: Buffer,
  log: Logger,
): void {
  const id = appOf(body);
  const name = toolOf(body, kind);
  const permitted = permit(dispatcher, caller, kind === 'query' ? 'read' : 'write', id);
  const target =
    permitted instanceof Promise
      ? permitted.then(() => dispatcher.resolve(id, kind, name))
      : dispatcher.resolve(id, kind, name);
  if (target instanceof Promise) {
    target
      .then((found) => run(dispatcher, exchange, found, body, bytes, log))
      .catch((error: unknown) => answerFailure(exchange, error, log));
  } else run(dispatcher, exchange, target, body, bytes, log);
}

function run(dispatcher: Dispatcher, exchange: Exchange, target: Target, body: Body, bytes: Buffer, log: Logger): void {
  const traceId = newTraceId(exchange.header('traceparent'));
  const request = { body: bytes.length === 0 ? EMPTY : bytes, traceId, source: 'handler' } as const;
  const sink = new HttpSink(exchange, target.kind, log);
  const key = target.kind === 'action' ? exchange.header('idempotency-key') : undefined;
  if (key === undefined) {
    exchange.onAbort(dispatcher.submit(target, request, sink));
    return;
  }
  if (key === '' || Buffer.byteLength(key) > LIMITS.idempotencyKeyBytes)
    throw new SvcError('BAD_REQUEST', `An idempotency key has 1 to ${LIMITS.idempotencyKeyBytes} bytes.`);
  dispatcher.remember(target, key, body.input ?? {}, request, sink).catch((error: unknown) => sink.faulted(error));
}

/** Throws or rejects with `FORBIDDEN`. Before it is known whether there is such an app: who may not call it does not learn that. */
function permit(
  dispatcher: Dispatcher,
  caller: Caller,
  capability: 'read' | 'write',
  id: string,
): undefined | Promise<void> {
  const key = dispatcher.keyOf(id);
  if (caller.may(capability, key)) return;
  const own = caller.owner;
  if (own === null || own.session !== undefined || key !== id) {
    demand(caller, capability, key);
    return;
  }
  return Promise.resolve(dispatcher.uses(own.app)).then((uses) => {
    if (!uses.includes(id)) demand(caller, capability, key);
  });
}

async function describe(dispatcher: Dispatcher, caller: Caller, body: Body): Promise<string | Buffer> {
  const isOfAll = body.app === undefined && body.query === undefined && body.action === undefined;
  if (isOfAll && caller.may('admin', null)) return await dispatcher.describeAll();
  const data = await dispatcher.describe(body, await permittedApps(dispatcher, body, caller));
  return JSON.stringify({ isError: false, data });
}

/** The apps that a caller who may not see all of them may describe; undefined for all. Rejects with `FORBIDDEN`. */
async function permittedApps(
  dispatcher: Dispatcher,
  { app }: Body,
  caller: Caller,
): Promise<readonly string[] | undefined> {
  if (typeof app === 'string') {
    await permit(dispatcher, caller, 'read', app);
    return undefined;
  }
  if (caller.may('admin', null)) return undefined;
  const isLive = caller.owner !== null && caller.owner.session === undefined;
  const uses = isLive ? await dispatcher.uses(caller.owner.app) : [];
  const ids = await dispatcher.ids();
  return ids.filter((id) => caller.may('read', dispatcher.keyOf(id)) || uses.includes(id));
}

/** Puts what a tool answered into the envelope without looking at it, and sends it. */
class HttpSink implements Sink, RecordedSink {
  readonly #exchange: Exchange;
  readonly #kind: Target['kind'];
  readonly #log: Logger;

  constructor(exchange: Exchange, kind: Target['kind'], log: Logger) {
    this.#exchange = exchange;
    this.#kind = kind;
    this.#log = log;
  }

  answered(status: number, body: Uint8Array, timing: CallTiming): void {
    const headers = { 'server-timing': serverTiming(timing) };
    this.#exchange.send(httpStatus(status), headers, envelope(this.#kind, status, body), JSON_HEADERS);
  }

  failed(error: SvcError, timing: CallTiming): void {
    answerFailure(this.#exchange, error, this.#log, timing);
  }

  faulted(error: unknown): void {
    answerFailure(this.#exchange, error, this.#log);
  }

  answerOf(status: number, body: Uint8Array): RecordedAnswer {
    return { status: httpStatus(status), body: envelope(this.#kind, status, body) };
  }

  errorOf(error: SvcError): RecordedAnswer {
    return { status: error.status, body: Buffer.from(JSON.stringify({ isError: true, error: error.toBody() })) };
  }

  recorded({ status, body }: RecordedAnswer, timing: CallTiming | null): void {
    const headers = {
      'server-timing': serverTiming(timing ?? NO_TIME),
      ...(timing === null && { 'idempotency-replayed': 'true' }),
    };
    this.#exchange.send(status, headers, body, JSON_HEADERS);
  }
}

/** A response of these has no body, and the envelope is one. */
function httpStatus(status: number): number {
  return status === 204 || status === 304 ? 200 : status;
}

const WRITE_PREFIXES = new Map<number, Buffer>();

/** Made once for each status: there are 400 that an action may answer. */
function writePrefix(status: number): Buffer {
  const known = WRITE_PREFIXES.get(status);
  if (known) return known;
  const prefix = Buffer.from(`{"isError":false,"data":{"status":${status},"body":`);
  WRITE_PREFIXES.set(status, prefix);
  return prefix;
}

function envelope(kind: Target['kind'], status: number, body: Uint8Array): Buffer {
  const [prefix, suffix] = kind === 'query' ? [READ_PREFIX, READ_SUFFIX] : [writePrefix(status), WRITE_SUFFIX];
  const answer = Buffer.allocUnsafe(prefix.length + body.length + suffix.length);
  answer.set(prefix, 0);
  answer.set(body, prefix.length);
  answer.set(suffix, prefix.length + body.length);
  return answer;
}

function unknownTool(tool: string): SvcError {
  return new SvcError(
    'UNKNOWN_TOOL',
    `There is no tool "${tool.slice(0, 80)}"; the tools are svc_describe, svc_read and svc_write.`,
  );
}

function answerFailure(exchange: Exchange, error: unknown, log: Logger, timing: CallTiming = NO_TIME): void {
  answerError(exchange, error, log, { 'server-timing': serverTiming(timing) });
}

function serverTiming({ queueMs, handlerMs }: CallTiming): string {
  return `queue;dur=${hundredths(queueMs)}, handler;dur=${hundredths(handlerMs)}`;
}

/** Milliseconds with two digits after the point: `toFixed` costs ten times as much, for digits that nobody asked for. */
function hundredths(ms: number): string {
  const all = Math.round(ms * 100);
  const rest = all % 100;
  return `${(all - rest) / 100}.${rest < 10 ? '0' : ''}${rest}`;
}
