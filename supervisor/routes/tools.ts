/** The dispatcher over HTTP: `svc_describe`, `svc_read`, `svc_write` (specification, "Three-tool dispatcher"; decisions, section 3). */
import { SvcError } from '../../protocol/errors.ts';
import { ToolKind } from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { ActionSummary, QuerySummary } from '../../protocol/manifest.ts';
import type { App } from '../dispatch/apps.ts';
import { type Describing, describe, describeAll } from '../dispatch/describe.ts';
import { announce, appOf, type Dispatching, findAction, findQuery, newCall, toolOf } from '../dispatch/dispatcher.ts';
import type { Exchange } from '../edge/edge.ts';
import { type Caller, demand } from '../http/access/caller.ts';
import { answerError, JSON_HEADERS } from '../http/answers.ts';
import type { Route } from '../http/router.ts';
import { newTraceId } from '../http/trace-id.ts';
import type { Services } from '../services.ts';
import type { Call, CallReply, CallTiming } from '../tree/actor/call.ts';
import { type Body, parseCall } from './requests.ts';

/** What the tools work on: the live apps, or the drafts of one session. */
export type ToolServices = Dispatching &
  Describing &
  Pick<Services, 'idempotency' | 'log'> & {
    /** What an app is kept under, see `App`. */
    keyOf(id: string): string;
    /** The apps whose tools the pages of an app may call; none for a draft. */
    uses(id: string): readonly string[] | Promise<readonly string[]>;
  };

const TOOLS = '/svc/_tool/';
const EMPTY = Buffer.alloc(0);
const READ_PREFIX = Buffer.from('{"isError":false,"data":');
const READ_SUFFIX = Buffer.from('}');
const WRITE_SUFFIX = Buffer.from('}}');
/** Of an answer for which no handler ran. */
const NO_TIME: CallTiming = { queueMs: 0, handlerMs: 0, started: false };
/** Codes after which a key may be used again: the handler did not run, or the disk had no room for what it wrote. */
const NOT_RUN = new Set(['UNKNOWN_ACTION', 'INVALID_INPUT', 'STORAGE_FULL']);

export function toolRoutes(services: Services): Route[] {
  const live: ToolServices = { ...services, keyOf: (id) => id, uses: (id) => services.apps.uses(id) };
  const route = (path: string, summary: string): Route => ({
    method: 'POST',
    path,
    needs: 'route',
    summary,
    handle: (exchange, { tool = path.slice(TOOLS.length) }, caller) => answerTool(live, exchange, tool, caller),
  });
  return [
    route(`${TOOLS}svc_describe`, 'What apps there are, or what one of them can do.'),
    route(`${TOOLS}svc_read`, 'Run a query.'),
    route(`${TOOLS}svc_write`, 'Run an action.'),
    route(`${TOOLS}:tool`, 'Any other tool: `UNKNOWN_TOOL`.'),
  ];
}

/** Reads a call and answers it. Must be called in the turn in which the exchange was handed over. */
export function answerTool(services: ToolServices, exchange: Exchange, tool: string, caller: Caller): void {
  exchange.readBody(
    LIMITS.requestBodyBytes,
    (bytes) => {
      try {
        dispatch(services, exchange, tool, bytes, caller);
      } catch (error) {
        fail(services, exchange, error);
      }
    },
    (error) => fail(services, exchange, error),
  );
}

function dispatch(services: ToolServices, exchange: Exchange, tool: string, bytes: Buffer, caller: Caller): void {
  const body = parseCall(bytes);
  if (tool === 'svc_read') {
    withApp(services, exchange, caller, body, 'query', (app, name) => read(services, exchange, app, name, bytes));
  } else if (tool === 'svc_write') {
    withApp(services, exchange, caller, body, 'action', (app, name) =>
      write(services, exchange, app, name, body, bytes),
    );
  } else if (tool === 'svc_describe') {
    const isOfAll = body.app === undefined && body.query === undefined && body.action === undefined;
    const answer =
      isOfAll && caller.may('admin', null)
        ? describeAll(services)
        : permittedApps(services, body, caller)
            .then((among) => describe(services, body, among))
            .then((data) => JSON.stringify({ isError: false, data }));
    answer.then(
      (text) => exchange.send(200, { 'server-timing': serverTiming(NO_TIME) }, text, JSON_HEADERS),
      (error: unknown) => fail(services, exchange, error),
    );
  } else {
    throw new SvcError(
      'UNKNOWN_TOOL',
      `There is no tool "${tool.slice(0, 80)}"; the tools are svc_describe, svc_read and svc_write.`,
    );
  }
}

function withApp(
  services: ToolServices,
  exchange: Exchange,
  caller: Caller,
  body: Body,
  member: 'query' | 'action',
  next: (app: App, name: string) => void,
): void {
  const id = appOf(body);
  const name = toolOf(body, member);
  const permitted = permit(services, caller, member === 'query' ? 'read' : 'write', id);
  const app = permitted instanceof Promise ? permitted.then(() => services.apps.get(id)) : services.apps.get(id);
  if (!(app instanceof Promise)) {
    next(app, name);
    return;
  }
  app.then((found) => next(found, name)).catch((error: unknown) => fail(services, exchange, error));
}

/** Throws or rejects with `FORBIDDEN`. Before it is known whether there is such an app: who may not call it does not learn that. */
function permit(
  services: ToolServices,
  caller: Caller,
  capability: 'read' | 'write',
  id: string,
): undefined | Promise<void> {
  const key = services.keyOf(id);
  if (caller.may(capability, key)) return;
  const own = caller.owner;
  if (own === null || own.session !== undefined || key !== id) {
    demand(caller, capability, key);
    return;
  }
  return Promise.resolve(services.uses(own.app)).then((uses) => {
    if (!uses.includes(id)) demand(caller, capability, key);
  });
}

/** The apps that a caller who may not see all of them may describe; undefined for all. Rejects with `FORBIDDEN`. */
async function permittedApps(
  services: ToolServices,
  { app }: Body,
  caller: Caller,
): Promise<readonly string[] | undefined> {
  if (typeof app === 'string') {
    await permit(services, caller, 'read', app);
    return undefined;
  }
  if (caller.may('admin', null)) return undefined;
  const ids = await services.registry.ids();
  const isLive = caller.owner !== null && caller.owner.session === undefined;
  const uses = isLive ? await services.uses(caller.owner.app) : [];
  return ids.filter((id) => caller.may('read', services.keyOf(id)) || uses.includes(id));
}

function read(services: ToolServices, exchange: Exchange, app: App, name: string, bytes: Buffer): void {
  const query = findQuery(services, app, name);
  submit(services, exchange, app, query, ToolKind.query, bytes, new ReadReply(services, exchange));
}

function write(services: ToolServices, exchange: Exchange, app: App, name: string, body: Body, bytes: Buffer): void {
  const action = findAction(services, app, name);
  const key = exchange.header('idempotency-key');
  if (key === undefined) {
    submit(services, exchange, app, action, ToolKind.action, bytes, new WriteReply(services, exchange, app, action));
    return;
  }
  if (key === '' || Buffer.byteLength(key) > LIMITS.idempotencyKeyBytes) {
    throw new SvcError('BAD_REQUEST', `An idempotency key has 1 to ${LIMITS.idempotencyKeyBytes} bytes.`);
  }
  const reply = new RecordedReply(services, exchange, app, action, key);
  const call = callFrom(services, exchange, action, ToolKind.action, bytes, reply);
  services.idempotency
    .claim(app.key, key, name, body.input ?? {})
    .then((recorded) => {
      if (recorded) {
        exchange.send(
          recorded.status,
          { 'server-timing': serverTiming(NO_TIME), 'idempotency-replayed': 'true' },
          recorded.body,
          JSON_HEADERS,
        );
        return;
      }
      // Whoever asks again with this key wants the answer, so the call runs though this client may go away.
      try {
        services.apps.actor(app).submit(call);
      } catch (error) {
        call.fail(error as SvcError);
      }
    })
    .catch((error: unknown) => fail(services, exchange, error));
}

function submit(
  services: ToolServices,
  exchange: Exchange,
  app: App,
  tool: QuerySummary,
  kind: 0 | 1,
  bytes: Buffer,
  reply: CallReply,
): void {
  const call = callFrom(services, exchange, tool, kind, bytes, reply);
  const actor = services.apps.actor(app);
  exchange.onAbort(() => actor.abandon(call));
  actor.submit(call);
}

function callFrom(
  services: ToolServices,
  exchange: Exchange,
  tool: QuerySummary,
  kind: 0 | 1,
  bytes: Buffer,
  reply: CallReply,
): Call {
  const body = bytes.length === 0 ? EMPTY : bytes;
  return newCall(services, tool, kind, body, newTraceId(exchange.header('traceparent')), reply);
}

/** Answers a query. */
class ReadReply implements CallReply {
  protected readonly services: ToolServices;
  protected readonly exchange: Exchange;

  constructor(services: ToolServices, exchange: Exchange) {
    this.services = services;
    this.exchange = exchange;
  }

  result(_status: number, body: Uint8Array, timing: CallTiming): void {
    sendSpliced(this.exchange, 200, READ_PREFIX, body, READ_SUFFIX, timing);
  }

  failed(error: SvcError, timing: CallTiming): void {
    fail(this.services, this.exchange, error, timing);
  }

  outcomeUnknown(): void {}

  faulted(error: unknown): void {
    fail(this.services, this.exchange, error);
  }
}

/** Answers an action: change events first, as soon as its commit is known, then the envelope. */
class WriteReply extends ReadReply {
  protected readonly app: App;
  readonly #action: ActionSummary;

  constructor(services: ToolServices, exchange: Exchange, app: App, action: ActionSummary) {
    super(services, exchange);
    this.app = app;
    this.#action = action;
  }

  override result(status: number, body: Uint8Array, timing: CallTiming): void {
    this.announce(status);
    sendSpliced(this.exchange, httpStatus(status), writePrefix(status), body, WRITE_SUFFIX, timing);
  }

  override outcomeUnknown(): void {
    this.services.changes.reset(this.app.key);
  }

  protected announce(status: number): void {
    announce(this.services, this.app.key, this.#action, status, 'handler');
  }
}

/** The same, with the answer recorded under its idempotency key before it leaves. */
class RecordedReply extends WriteReply {
  readonly #key: string;

  constructor(services: ToolServices, exchange: Exchange, app: App, action: ActionSummary, key: string) {
    super(services, exchange, app, action);
    this.#key = key;
  }

  override result(status: number, body: Uint8Array, timing: CallTiming): void {
    this.announce(status);
    this.#finish(httpStatus(status), Buffer.concat([writePrefix(status), body, WRITE_SUFFIX]), timing);
  }

  override failed(error: SvcError, timing: CallTiming): void {
    if (timing.started && !NOT_RUN.has(error.code)) {
      this.#finish(error.status, Buffer.from(JSON.stringify({ isError: true, error: error.toBody() })), timing);
      return;
    }
    this.services.idempotency.release(this.app.key, this.#key).then(
      () => super.failed(error, timing),
      (cause: unknown) => this.faulted(cause),
    );
  }

  #finish(status: number, body: Buffer, timing: CallTiming): void {
    this.services.idempotency.record(this.app.key, this.#key, { status, body }).then(
      () => this.exchange.send(status, { 'server-timing': serverTiming(timing) }, body, JSON_HEADERS),
      (error: unknown) => this.faulted(error),
    );
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

/** Puts the handler's bytes into the envelope without looking at them. */
function sendSpliced(
  exchange: Exchange,
  status: number,
  prefix: Buffer,
  body: Uint8Array,
  suffix: Buffer,
  timing: CallTiming,
): void {
  const answer = Buffer.allocUnsafe(prefix.length + body.length + suffix.length);
  answer.set(prefix, 0);
  answer.set(body, prefix.length);
  answer.set(suffix, prefix.length + body.length);
  exchange.send(status, { 'server-timing': serverTiming(timing) }, answer, JSON_HEADERS);
}

function fail(services: ToolServices, exchange: Exchange, error: unknown, timing: CallTiming = NO_TIME): void {
  answerError(exchange, error, services.log, { 'server-timing': serverTiming(timing) });
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
