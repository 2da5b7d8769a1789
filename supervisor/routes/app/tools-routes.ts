/**
 * Serves the dispatcher over HTTP: `svc_describe`, `svc_read`, `svc_write` (specification, "Dispatcher").
 */
import type { Logger } from 'pino';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { describeTools, otherTool, readTool, writeTool } from '../../../protocol/routes/apps/tools-rows.ts';
import { describeAll, describeApps } from '../../dispatch/describe.ts';
import {
  appOf,
  type Dispatcher,
  type RecordedSink,
  type Request,
  type Sink,
  type Target,
  toolOf,
} from '../../dispatch/dispatcher.ts';
import type { RecordedAnswer } from '../../dispatch/idempotency.ts';
import type { Scope, Scopes } from '../../dispatch/scope.ts';
import type { Exchange, ResponseHeaders } from '../../edge/edge.ts';
import { AgentCaller } from '../../http/access/agent-tokens.ts';
import { type Caller, demand, may } from '../../http/access/grants.ts';
import { notPublic, shownToVisitors, Visitor } from '../../http/access/visitors.ts';
import { answerError, JSON_HEADERS, toSvcError } from '../../http/answers.ts';
import type { Route } from '../../http/router.ts';
import type { Services } from '../../services.ts';
import { type CallTiming, traceOf } from '../../tree/actor/call.ts';
import { type Body, parseCall } from '../requests.ts';
import { serveRaw } from '../serve-row.ts';

type CallParts = Pick<Services, 'dispatcher' | 'log'>;

const EMPTY = Buffer.alloc(0);
const READ_PREFIX = Buffer.from('{"isError":false,"data":');
const READ_SUFFIX = Buffer.from('}');
const WRITE_SUFFIX = Buffer.from('}}');
const HIT_TIMING = 'queue;dur=0.00, handler;dur=0.00, cache;desc=hit';
/** For an answer without a run of the handler. */
const NO_TIME: CallTiming = { queueMs: 0, handlerMs: 0, started: false };

export function toolRoutes(services: Services): Route[] {
  return [describeTools, readTool, writeTool, otherTool].flatMap((row) => {
    const named = row.path.slice('/svc/_tool/'.length);
    return serveRaw(row, (exchange, { tool = named, sid }, caller) =>
      answerTool(services, services.scopes(sid), exchange, tool, caller),
    );
  });
}

/** Reads a call and answers it. Must be called in the turn in which the exchange was handed over. */
export function answerTool(parts: CallParts, scopes: Scopes, exchange: Exchange, tool: string, caller: Caller): void {
  const call = new HttpCall(parts, scopes, exchange, tool, caller);
  exchange.readBody(
    LIMITS.requestBodyBytes,
    (bytes) => call.begin(bytes),
    (error) => call.faulted(error),
    caller instanceof Visitor ? caller.bodies : undefined,
  );
}

/** One call over HTTP: puts the tool's answer into the envelope without parsing it, and sends it. */
class HttpCall implements Sink, RecordedSink {
  readonly #dispatcher: Dispatcher;
  readonly #scopes: Scopes;
  readonly #exchange: Exchange;
  readonly #tool: string;
  readonly #kind: Target['kind'];
  readonly #caller: Caller;
  readonly #log: Logger;

  constructor({ dispatcher, log }: CallParts, scopes: Scopes, exchange: Exchange, tool: string, caller: Caller) {
    this.#dispatcher = dispatcher;
    this.#scopes = scopes;
    this.#exchange = exchange;
    this.#tool = tool;
    this.#kind = tool === 'svc_read' ? 'query' : 'action';
    this.#caller = caller;
    this.#log = log;
  }

  begin(bytes: Buffer): void {
    try {
      if (this.#caller instanceof Visitor) {
        this.#visit(this.#caller, bytes).catch((error: unknown) => this.faulted(error));
        return;
      }
      const body = parseCall(bytes);
      if (this.#tool === 'svc_read' || this.#tool === 'svc_write') this.#call(body, bytes);
      else if (this.#tool === 'svc_describe') {
        describeText(this.#scopes, this.#caller, body)
          .then((text) => this.#exchange.send(200, { 'server-timing': serverTiming(NO_TIME) }, text, JSON_HEADERS))
          .catch((error: unknown) => this.faulted(error));
      } else throw unknownTool(this.#tool);
    } catch (error) {
      this.faulted(error);
    }
  }

  /** All faults before a public tool is found get the same answer, so that visitors learn nothing about the rest. */
  async #visit(visitor: Visitor, bytes: Buffer): Promise<void> {
    let found: { body: Body; target: Target };
    try {
      const body = parseCall(bytes);
      const scope = this.#scopes.of(appOf(body));
      const target = await this.#dispatcher.resolve(scope, this.#kind, toolOf(body, this.#kind));
      found = { body, target };
    } catch (error) {
      if (error instanceof SvcError && error.code === 'OVERLOADED') throw error;
      throw notPublic();
    }
    if (found.target.tool.public !== true) throw notPublic();
    visitor.enter(this.#kind === 'query' ? 'reads' : 'writes');
    this.#run(found.target, found.body, bytes);
  }

  #call(body: Body, bytes: Buffer): void {
    const dispatcher = this.#dispatcher;
    const kind = this.#kind;
    const scope = this.#scopes.of(appOf(body));
    const name = toolOf(body, kind);
    const caller = this.#caller;
    const capability = kind === 'query' ? 'read' : 'write';
    // What is answered once needs nothing to rely on.
    const permitted = may(caller, capability, scope.key) ? undefined : permit(this.#scopes, caller, capability, scope);
    const target =
      permitted instanceof Promise
        ? permitted.then(() => dispatcher.resolve(scope, kind, name))
        : dispatcher.resolve(scope, kind, name);
    if (target instanceof Promise) {
      target.then((found) => this.#run(found, body, bytes)).catch((error: unknown) => this.faulted(error));
    } else this.#run(target, body, bytes);
  }

  #run(target: Target, body: Body, bytes: Buffer): void {
    const exchange = this.#exchange;
    exchange.span?.set('svc.app', target.app.id);
    exchange.span?.set('svc.tool', target.tool.name);
    const agent = this.#caller instanceof AgentCaller ? this.#caller : null;
    const caller = this.#caller.shown(target.app.key);
    const request: Request = {
      body: bytes.length === 0 ? EMPTY : bytes,
      traceId: () => traceOf(exchange),
      source: agent === null ? 'handler' : 'agent',
      caller,
      confirm: agent?.confirm,
    };
    const key = this.#kind === 'action' ? exchange.header('idempotency-key') : undefined;
    if (key === undefined) {
      exchange.onAbort(this.#dispatcher.submit(target, request, this));
      return;
    }
    if (key === '' || Buffer.byteLength(key) > LIMITS.idempotencyKeyBytes)
      throw new SvcError('BAD_REQUEST', `An idempotency key has 1 to ${LIMITS.idempotencyKeyBytes} bytes.`);
    this.#dispatcher
      .remember(target, { caller: this.#caller.identity, key }, body.input ?? {}, request, this)
      .catch((error: unknown) => this.faulted(error));
  }

  answered(status: number, body: Uint8Array, timing: CallTiming): void {
    if (timing.cache !== undefined) this.#exchange.span?.set('svc.cache', timing.cache);
    this.#exchange.send(httpStatus(status), this.#timing(timing), envelope(this.#kind, status, body), JSON_HEADERS);
  }

  failed(error: SvcError, timing: CallTiming): void {
    this.#fail(error, timing);
  }

  faulted(error: unknown): void {
    this.#fail(error, NO_TIME);
  }

  answerOf(status: number, body: Uint8Array): RecordedAnswer {
    return { status: httpStatus(status), body: envelope(this.#kind, status, body) };
  }

  errorOf(error: SvcError): RecordedAnswer {
    const shown = this.#caller instanceof Visitor ? shownToVisitors(error) : error;
    return { status: error.status, body: Buffer.from(JSON.stringify({ isError: true, error: shown.toBody() })) };
  }

  recorded({ status, body }: RecordedAnswer, timing: CallTiming | null): void {
    const headers = {
      ...this.#timing(timing ?? NO_TIME),
      ...(timing === null && { 'idempotency-replayed': 'true' }),
    };
    this.#exchange.send(status, headers, body, JSON_HEADERS);
  }

  #fail(error: unknown, timing: CallTiming): void {
    const known = toSvcError(error, this.#log);
    const shown = this.#caller instanceof Visitor ? shownToVisitors(known) : known;
    answerError(this.#exchange, shown, this.#log, this.#timing(timing));
  }

  #timing(timing: CallTiming): ResponseHeaders {
    return this.#caller instanceof Visitor ? {} : { 'server-timing': serverTiming(timing) };
  }
}

/** Throws or rejects with `FORBIDDEN`. Before it is known whether there is such an app: who may not call it does not learn that. */
export function permit(
  scopes: Scopes,
  caller: Caller,
  capability: 'read' | 'write',
  { app, workspace, key }: Scope,
): undefined | Promise<void> {
  if (may(caller, capability, key)) {
    caller.relies?.(() => may(caller, capability, key));
    return;
  }
  const own = caller.owner;
  if (own === null || own.workspace !== undefined || workspace !== undefined) {
    demand(caller, capability, key);
    return;
  }
  return Promise.resolve(scopes.of(own.app).uses()).then((uses) => {
    if (!uses.includes(app) || !isTheirs(caller, capability, key)) demand(caller, capability, key);
    caller.relies?.(() => isTheirs(caller, capability, key));
  });
}

/** Whether a page may call another app for this caller: people and guests need a right of their own, wherever they are. */
function isTheirs(caller: Caller, capability: 'read' | 'write', key: string): boolean {
  return (caller.kind !== 'person' && caller.kind !== 'guest') || may({ grants: caller.grants }, capability, key);
}

async function describeText(scopes: Scopes, caller: Caller, body: Body): Promise<string | Buffer> {
  const isOfAll = body.app === undefined && body.query === undefined && body.action === undefined;
  if (isOfAll && may(caller, 'admin', null)) return await describeAll(scopes);
  return JSON.stringify({ isError: false, data: await describe(scopes, caller, body) });
}

/** The description of the apps that this caller may see. Rejects with the error to answer. */
export async function describe(scopes: Scopes, caller: Caller, body: Body): Promise<unknown> {
  return await describeApps(scopes, body, await permittedApps(scopes, body, caller));
}

/** The apps that a caller who may not see all of them may describe; undefined for all. Rejects with `FORBIDDEN`. */
async function permittedApps(scopes: Scopes, { app }: Body, caller: Caller): Promise<readonly string[] | undefined> {
  if (typeof app === 'string') {
    await permit(scopes, caller, 'read', scopes.of(app));
    return undefined;
  }
  if (may(caller, 'admin', null)) return undefined;
  const isLive = caller.owner !== null && caller.owner.workspace === undefined;
  const uses = isLive ? await scopes.of(caller.owner.app).uses() : [];
  const ids = await scopes.ids();
  return ids.filter((id) => {
    const { key } = scopes.of(id);
    return may(caller, 'read', key) || (uses.includes(id) && isTheirs(caller, 'read', key));
  });
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

function serverTiming({ queueMs, handlerMs, cache }: CallTiming): string {
  if (cache === 'hit') return HIT_TIMING;
  const times = `queue;dur=${hundredths(queueMs)}, handler;dur=${hundredths(handlerMs)}`;
  return cache === undefined ? times : `${times}, cache;desc=${cache}`;
}

/** Milliseconds with at most two digits after the point; `toFixed` costs ten times as much. */
function hundredths(ms: number): string {
  const all = Math.round(ms * 100);
  const rest = all % 100;
  return `${(all - rest) / 100}.${rest < 10 ? '0' : ''}${rest}`;
}
