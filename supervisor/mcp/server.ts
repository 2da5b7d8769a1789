/**
 * Speaks the Model Context Protocol over HTTP for clients of 2026-07-28 and of 2025 (specification, "MCP server"). The official
 * library serves every request but plain tool calls, which are answered here, because it spends ten times as long on each, and
 * streams of changes, because it knows neither limits nor callers.
 */
import type { McpHttpHandler, McpServerFactory, Server } from '@modelcontextprotocol/server';
import type { Logger } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import { eventText } from '../../protocol/http/event-stream.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { isRecord } from '../../protocol/shapes/shape.ts';
import { notConfirmed } from '../dispatch/confirmation.ts';
import type { Confirm } from '../dispatch/request.ts';
import type { Exchange, ResponseHeaders } from '../edge/edge.ts';
import { JSON_HEADERS, toSvcError } from '../http/answers.ts';
import type { EventReader, EventReaders } from '../http/event-streams.ts';
import { traceOf } from '../tree/actor/call.ts';
import { showsPages } from './app-page.ts';
import { type Asker, asksByForm, Confirmations, InputRequired } from './confirmations.ts';
import { listen, listenedTo, RefusedResource } from './listen.ts';
import type { ListSource } from './lists.ts';
import type { McpContent } from './mcp-resources.ts';
import {
  endedSession,
  type McpSession,
  type McpSessions,
  type SessionOwner,
  sessionAsks,
  sessionShowsPages,
} from './mcp-sessions.ts';
import { type FollowedResource, messageEvent } from './subscriptions.ts';
import type { McpAnswer, McpTools } from './tools.ts';

type Message = Record<string, unknown>;
type RequestId = string | number;

const INVALID_REQUEST = -32_600;
const INVALID_PARAMS = -32_602;
const INTERNAL_ERROR = -32_603;
/** Codes, beside those with status 404, that mean "no such resource". */
const NO_RESOURCE: string[] = ['WRONG_KIND', 'INVALID_ID', 'RESERVED_ID'];
const NO_SESSION = 'A subscription belongs to a session: send the Mcp-Session-Id that "initialize" answered with.';

const MODERN = '2026-07-28';
const LEGACY = new Set(['2025-11-25', '2025-06-18', '2025-03-26']);
const META = 'io.modelcontextprotocol/';
/** Headers of a request that the protocol has a use for. */
const HEADERS = ['content-type', 'accept', 'mcp-protocol-version', 'mcp-method', 'mcp-name', 'mcp-session-id'];

/** Claude Code writes results that are longer to a file, which an agent without file tools cannot read; its own limit is 50,000. */
const TOOL_META = { 'anthropic/maxResultSizeChars': LIMITS.agentToolBytes };

/** Requests that are about what a session keeps. */
const OF_SESSION: unknown[] = ['resources/subscribe', 'resources/unsubscribe'];
const SESSION = 'mcp-session-id';
/** Of plain calls; the last two come with the answer to a question. */
const CALL_PARAMS = ['name', 'arguments', '_meta', 'inputResponses', 'requestState'];
const ASKING = Buffer.from(': a person is asked\n\n');

type McpServerOptions = { version: string; log: Logger; mcpSessions: McpSessions };

/** The rights of a request. */
type Extra = {
  tools: McpTools;
  traceId: string;
  session: McpSession | undefined;
  confirm: Confirm | undefined;
};

/** The lists at the address of a request, for a client that shows pages or one that does not. */
export type ListsOf = (pages: boolean) => ListSource;

type PlainCall = {
  id: RequestId;
  name: string;
  args: Record<string, unknown>;
  isModern: boolean;
};

export class McpServer {
  readonly #options: McpServerOptions;
  readonly #confirmations = new Confirmations();
  /** The library is loaded by the first client that needs it. */
  #library: Promise<McpHttpHandler> | null = null;

  constructor(options: McpServerOptions) {
    this.#options = options;
  }

  /**
   * Answers one POST, whose parsed body is `message`. Throws `NOT_FOUND` for a session that has ended, and for what needs a session
   * where the one that is named is not known.
   */
  async serve(exchange: Exchange, message: unknown, of: ListsOf, owner: SessionOwner): Promise<void> {
    const named = exchange.header(SESSION);
    const lists = of(showsPagesTo(message, named));
    const tools = await lists.tools();
    const session = this.#options.mcpSessions.find(named, owner);
    const method = isRecord(message) ? message.method : undefined;
    if (named !== undefined && session === undefined && OF_SESSION.includes(method)) throw endedSession();
    if (isRecord(message) && lacksUri(message)) {
      const error = { code: INVALID_PARAMS, message: '"uri" is missing, or no text.' };
      exchange.send(200, {}, JSON.stringify({ jsonrpc: '2.0', id: message.id, error }), JSON_HEADERS);
      return;
    }
    if (method === 'subscriptions/listen' && (await this.#listens(exchange, message as Message, tools, lists))) return;
    const asker: Asker = { client: owner.client, path: owner.path, session: named };
    if (isRecord(message) && this.#confirmations.take(asker, message)) {
      exchange.send(202, {}, '');
      return;
    }
    const left = new AbortController();
    exchange.onAbort(() => left.abort());
    const call = plainCall(exchange, message);
    if (call === null) {
      const confirm = this.#confirmOf(asker, message, tools, null);
      await this.#serveByLibrary(exchange, message, { tools, session, confirm }, left.signal, () =>
        method === 'initialize'
          ? this.#options.mcpSessions.begin(owner, lists, {
              asks: asksByForm(paramsOf(message).capabilities),
              pages: showsPages(paramsOf(message).capabilities),
            })
          : undefined,
      );
      return;
    }
    const { id, name, args, isModern } = call;
    const traceId = traceOf(exchange);
    const answer = new CallAnswer(exchange, this.#options.mcpSessions.options.readers, () => left.abort());
    const asks = this.#confirmOf(asker, message, tools, answer);
    const confirm: Confirm | undefined =
      asks &&
      (async (asked, signal) => {
        const done = this.#confirmations.asking(asker, id, () => left.abort());
        try {
          await asks(asked, signal);
        } finally {
          done();
        }
      });
    let reply: string;
    try {
      const result = await tools.call({ name, args, traceId, signal: left.signal, confirm });
      reply = `"result":${this.#resultOf(result, isModern, tools.title)}`;
    } catch (error) {
      if (error instanceof InputRequired) reply = `"result":${JSON.stringify(error.result)}`;
      else reply = `"error":${JSON.stringify(protocolError(error, this.#options.log))}`;
    }
    answer.end(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},${reply}}`);
  }

  /**
   * How a person is asked before a call runs an action that wants it: the one whose agent this is, or the one at the client, if
   * the client can ask; undefined where nobody can be asked. `answer` is null where the call's answer has no stream.
   */
  #confirmOf(asker: Asker, message: unknown, { confirm }: McpTools, answer: CallAnswer | null): Confirm | undefined {
    const begun = (ask: Confirm): Confirm => {
      // Clients wait longer for the end of an answer than for its beginning.
      return async (...asked) => {
        answer?.begin();
        await ask(...asked);
      };
    };
    if (confirm !== undefined) return begun(confirm);
    const { name, arguments: args, _meta: meta, inputResponses: responses, requestState: state } = paramsOf(message);
    if (isRecord(meta) && asksByForm(meta[`${META}clientCapabilities`]))
      return this.#confirmations.byResult(asker, { name: String(name), args, responses, state });
    if (!sessionAsks(asker.session)) return undefined;
    if (answer !== null) return begun(this.#confirmations.byRequest(asker, (question) => answer.tell(question)));
    return async (asked) => {
      throw notConfirmed(asked, 'unanswered');
    };
  }

  /** Opens a GET: the stream of a session. Throws `METHOD_NOT_ALLOWED` without one, `NOT_FOUND`, and `OVERLOADED`. */
  open(exchange: Exchange, of: ListsOf, owner: SessionOwner): void {
    const lists = of(sessionShowsPages(exchange.header(SESSION)));
    this.#sessionOf(exchange, owner).open(exchange, exchange.header('last-event-id'), lists);
  }

  /** Answers a DELETE: ends a session. Throws as `open` does. */
  end(exchange: Exchange, owner: SessionOwner): void {
    this.#sessionOf(exchange, owner).end();
    exchange.send(204, {}, '');
  }

  #sessionOf(exchange: Exchange, owner: SessionOwner): McpSession {
    const named = exchange.header(SESSION);
    if (named === undefined) {
      const message = 'Without an Mcp-Session-Id, which "initialize" answers with, this address takes POST only.';
      throw new SvcError('METHOD_NOT_ALLOWED', message, { headers: { allow: 'POST' } });
    }
    const session = this.#options.mcpSessions.find(named, owner);
    if (session === undefined) throw endedSession();
    return session;
  }

  /** Answers `subscriptions/listen`; false when there is something wrong with the request that the library tells. */
  async #listens(
    exchange: Exchange,
    { jsonrpc, id, params }: Message,
    tools: McpTools,
    source: ListSource,
  ): Promise<boolean> {
    if (jsonrpc !== '2.0' || !isRequestId(id) || !isRecord(params)) return false;
    if (!isWholeModern(exchange, 'subscriptions/listen', undefined, params._meta)) return false;
    const serverInfo = { name: 'svc', title: tools.title, version: this.#options.version };
    const done = { resultType: 'complete', _meta: { [`${META}serverInfo`]: serverInfo } };
    try {
      const to = listenedTo(params);
      const followed = (uri: string) => followedOf(tools, uri);
      await listen(exchange, { id, to, source, followed, done }, this.#options.mcpSessions);
    } catch (error) {
      const { log } = this.#options;
      const isResource = error instanceof RefusedResource;
      const errorText = JSON.stringify(
        isResource ? resourceError(error.cause, error.uri, log) : protocolError(error, log),
      );
      exchange.send(200, {}, `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"error":${errorText}}`, JSON_HEADERS);
    }
    return true;
  }

  /** The result of a call as JSON text, of which the answer's own text is a part as it stands. */
  #resultOf({ text, isError, structured }: McpAnswer, isModern: boolean, title: string): string {
    const content = `"content":[{"type":"text","text":${JSON.stringify(text)}}]`;
    const more = `${isError ? ',"isError":true' : ''}${structured ? `,"structuredContent":${text}` : ''}`;
    if (!isModern) return `{${content}${more}}`;
    const info = JSON.stringify({ name: 'svc', title, version: this.#options.version });
    return `{${content}${more},"resultType":"complete","_meta":{"${META}serverInfo":${info}}}`;
  }

  /** `begin` gives what was answered well the id of a session. */
  async #serveByLibrary(
    exchange: Exchange,
    message: unknown,
    given: Omit<Extra, 'traceId'>,
    signal: AbortSignal,
    begin: () => string | undefined,
  ): Promise<void> {
    const headers = new Headers({ 'content-type': 'application/json' });
    for (const name of HEADERS) {
      const value = exchange.header(name);
      if (value !== undefined) headers.set(name, value);
    }
    const traceId = traceOf(exchange);
    this.#library ??= this.#load();
    const library = await this.#library;
    const request = new Request(`http://gateway${exchange.path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(message),
      signal,
    });
    // The library passes the rights of a request to its server as the authenticated caller.
    const extra: Extra = { ...given, traceId };
    const authInfo = { token: '', clientId: '', scopes: [], extra };
    const response = await library.fetch(request, { authInfo, parsedBody: message });
    const answered: ResponseHeaders = {};
    for (const name of ['content-type', 'cache-control', 'x-accel-buffering', 'allow']) {
      const value = response.headers.get(name);
      if (value !== null) answered[name] = value;
    }
    // An event stream too: it has the one answer, and ends.
    const body = Buffer.from(await response.arrayBuffer());
    const session = response.status === 200 ? begin() : undefined;
    if (session !== undefined) answered[SESSION] = session;
    exchange.send(response.status, answered, body);
  }

  async #load(): Promise<McpHttpHandler> {
    const { createMcpHandler, ProtocolError, Server } = await import('@modelcontextprotocol/server');
    const { version, log } = this.#options;
    const failure = (error: unknown): Error => {
      const { code, message, data } = protocolError(error, log);
      return new ProtocolError(code, message, data);
    };
    const refusal = (uri: string) => (error: unknown) => {
      const { code, message, data } = resourceError(error, uri, log);
      return new ProtocolError(code, message, data);
    };
    const serverOf: McpServerFactory = ({ authInfo }): Server => {
      const { tools, traceId, session, confirm } = (authInfo as { extra: unknown }).extra as Extra;
      const server = new Server(
        { name: 'svc', title: tools.title, version },
        {
          capabilities: { tools: { listChanged: true }, resources: { subscribe: true, listChanged: true } },
          instructions: tools.instructions,
        },
      );
      server.setRequestHandler('tools/list', async () => {
        const shown = await tools.list().catch(rethrow(failure));
        return { tools: shown.map((tool) => ({ ...tool, _meta: { ...TOOL_META, ...tool._meta } })) };
      });
      server.setRequestHandler('tools/call', async ({ params }, { mcpReq: { signal } }) => {
        const { name, arguments: args = {} } = params;
        const answer = await tools.call({ name, args, traceId, signal, confirm }).catch((error: unknown) => {
          if (error instanceof InputRequired) return error.result;
          throw failure(error);
        });
        if ('resultType' in answer) return answer;
        return {
          content: [{ type: 'text' as const, text: answer.text }],
          ...(answer.isError && { isError: true }),
          ...(answer.structured && { structuredContent: JSON.parse(answer.text) as Record<string, unknown> }),
        };
      });
      server.setRequestHandler('resources/list', async () => ({
        resources: await tools.resources().catch(rethrow(failure)),
      }));
      server.setRequestHandler('resources/templates/list', async () => ({
        resourceTemplates: await tools.templates().catch(rethrow(failure)),
      }));
      server.setRequestHandler('resources/read', async ({ params: { uri } }, { mcpReq: { signal } }) => {
        const content = await readOf(tools, uri, signal).catch(rethrow(refusal(uri)));
        return { contents: [{ uri, ...content }] };
      });
      server.setRequestHandler('resources/subscribe', async ({ params: { uri } }) => {
        if (session === undefined) throw new ProtocolError(INVALID_REQUEST, NO_SESSION);
        await followedOf(tools, uri)
          .then((followed) => session.subscribe(uri, followed))
          .catch(rethrow(refusal(uri)));
        return {};
      });
      server.setRequestHandler('resources/unsubscribe', async ({ params: { uri } }) => {
        if (session === undefined) throw new ProtocolError(INVALID_REQUEST, NO_SESSION);
        session.unsubscribe(uri);
        return {};
      });
      return server;
    };
    // The library does not answer a valid `subscriptions/listen`.
    return createMcpHandler(serverOf, { maxSubscriptions: 0 });
  }
}

/** The answer to a call: one JSON text, or from a question on the last event of a stream. */
class CallAnswer {
  readonly #exchange: Exchange;
  readonly #readers: EventReaders;
  readonly #left: () => void;
  #reader: EventReader | null = null;
  #gone = false;

  /** `left` is called when nobody reads the stream any more. */
  constructor(exchange: Exchange, readers: EventReaders, left: () => void) {
    this.#exchange = exchange;
    this.#readers = readers;
    this.#left = left;
  }

  /** Begins the stream, if the client takes one. Throws `OVERLOADED`. */
  begin(): void {
    if (this.#reader !== null || !this.#exchange.header('accept')?.includes('text/event-stream')) return;
    this.#reader = this.#readers.open(this.#exchange);
    this.#reader?.write(ASKING);
    this.#reader?.onEnd(() => {
      if (this.#gone) return;
      this.#gone = true;
      this.#left();
    });
  }

  tell(message: object): void {
    if (!this.#gone) this.#reader?.write(Buffer.from(messageEvent(message)));
  }

  /** `json` is the whole message. */
  end(json: string): void {
    if (this.#gone) return;
    if (this.#reader === null) {
      this.#exchange.send(200, {}, json, JSON_HEADERS);
      return;
    }
    // Between the members of a result there may be line breaks; in texts there are none.
    this.#reader.write(Buffer.from(eventText('message', json.replace(/[\r\n]+/g, ' '))));
    this.#gone = true;
    this.#reader.end();
  }
}

function rethrow(made: (error: unknown) => Error): (error: unknown) => never {
  return (error) => {
    throw made(error);
  };
}

async function readOf(tools: McpTools, uri: string, signal: AbortSignal): Promise<McpContent> {
  const content = await tools.read(uri, signal);
  if (content === null) throw new SvcError('NOT_FOUND', `There is no resource "${uri.slice(0, 200)}".`);
  return content;
}

async function followedOf(tools: McpTools, uri: string): Promise<FollowedResource> {
  const followed = await tools.follow(uri);
  if (followed !== null) return followed;
  const message = `There is no resource "${uri.slice(0, 200)}" to subscribe to; results of queries are.`;
  throw new SvcError('NOT_FOUND', message);
}

/** The error for a client whose request is invalid or names something unknown. */
function protocolError(error: unknown, log: Logger): { code: number; message: string; data?: unknown } {
  const known = toSvcError(error, log);
  const isParams = known.code === 'UNKNOWN_TOOL' || known.code === 'INVALID_INPUT';
  return { code: isParams ? INVALID_PARAMS : INTERNAL_ERROR, message: known.message, data: known.toBody() };
}

/** The same for a resource, with its own error for unknown ones. */
function resourceError(error: unknown, uri: string, log: Logger): ReturnType<typeof protocolError> {
  const known = toSvcError(error, log);
  const isThere = known.status !== 404 && !NO_RESOURCE.includes(known.code);
  return isThere ? protocolError(known, log) : { code: INVALID_PARAMS, message: known.message, data: { uri } };
}

/** For this the library has an error with its own checks as text. Clients of 2026 have no methods of sessions. */
function lacksUri(message: Message): boolean {
  const { id, method } = message;
  const { uri, _meta: meta } = paramsOf(message);
  const isKnown = method === 'resources/read' || (OF_SESSION.includes(method) && !claimsModern(meta));
  return isKnown && isRequestId(id) && typeof uri !== 'string';
}

/** A plain tool call; null for every other message, which the library handles or refuses. */
function plainCall(exchange: Exchange, message: unknown): PlainCall | null {
  if (!isRecord(message) || message.jsonrpc !== '2.0' || message.method !== 'tools/call') return null;
  const { id, params } = message;
  if (!isRequestId(id)) return null;
  if (!isRecord(params) || typeof params.name !== 'string') return null;
  const { name, arguments: args = {}, _meta: meta } = params;
  if (!isRecord(args) || Object.keys(params).some((key) => !CALL_PARAMS.includes(key))) return null;
  if (exchange.header('content-type')?.startsWith('application/json') === false) return null;
  const version = exchange.header('mcp-protocol-version') ?? '';
  const isModern = version === MODERN;
  if (isModern ? !isWholeModern(exchange, 'tools/call', name, meta) : !isWholeLegacy(exchange, version, meta))
    return null;
  return { id, name, args, isModern };
}

/** Since 2026 each request says which version it speaks and who sends it, and its headers repeat what it asks for. */
function isWholeModern(exchange: Exchange, method: string, name: string | undefined, meta: unknown): boolean {
  if (!isRecord(meta) || exchange.header('mcp-protocol-version') !== MODERN) return false;
  const info = meta[`${META}clientInfo`];
  return (
    meta[`${META}protocolVersion`] === MODERN &&
    isRecord(info) &&
    typeof info.name === 'string' &&
    typeof info.version === 'string' &&
    isRecord(meta[`${META}clientCapabilities`]) &&
    exchange.header('mcp-method') === method &&
    exchange.header('mcp-name') === name
  );
}

function isWholeLegacy(exchange: Exchange, version: string, meta: unknown): boolean {
  const accept = exchange.header('accept') ?? '';
  return (
    LEGACY.has(version) &&
    !claimsModern(meta) &&
    accept.includes('application/json') &&
    accept.includes('text/event-stream')
  );
}

function claimsModern(meta: unknown): boolean {
  return isRecord(meta) && Object.keys(meta).some((key) => key.startsWith(META));
}

/** Whether the client of a request shows pages of apps: clients since 2026 say so with each, those of 2025 when they begin. */
function showsPagesTo(message: unknown, session: string | undefined): boolean {
  const { capabilities, _meta: meta } = paramsOf(message);
  if (isRecord(message) && message.method === 'initialize') return showsPages(capabilities);
  return sessionShowsPages(session) || (isRecord(meta) && showsPages(meta[`${META}clientCapabilities`]));
}

function isRequestId(id: unknown): id is RequestId {
  return typeof id === 'string' || Number.isSafeInteger(id);
}

function paramsOf(message: unknown): Message {
  return isRecord(message) && isRecord(message.params) ? message.params : {};
}

/** A page of another site may not speak to the gateway, even if it knew a token. Throws `FORBIDDEN`. */
export function checkOrigin(exchange: Exchange, allowed: readonly string[]): void {
  const origin = exchange.header('origin');
  if (origin === undefined || allowed.includes(origin)) return;
  let host: string | null = null;
  try {
    host = new URL(origin).host;
  } catch {
    // "null" is the origin of pages without one.
  }
  if (host === null || host !== exchange.header('host')) {
    throw new SvcError(
      'FORBIDDEN',
      `Pages of ${origin.slice(0, 200)} may not use this address; add it to "corsOrigins".`,
    );
  }
}
