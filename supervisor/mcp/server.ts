/**
 * Speaks the Model Context Protocol over HTTP for clients of 2026-07-28 and of 2025 (decisions, section 12). The official library
 * serves every request but plain tool calls, which are answered here, because it spends ten times as long on each, and streams of
 * changes, because it knows neither limits nor callers.
 */
import type { McpHttpHandler, McpServerFactory, Server } from '@modelcontextprotocol/server';
import type { Logger } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Exchange, ResponseHeaders } from '../edge/edge.ts';
import { JSON_HEADERS, toSvcError } from '../http/answers.ts';
import { traceOf } from '../tree/actor/call.ts';
import { listen, listenedTo, RefusedResource } from './listen.ts';
import type { ListSource } from './lists.ts';
import { endedSession, type McpSession, type McpSessions, type SessionOwner } from './sessions.ts';
import type { FollowedResource } from './subscriptions.ts';
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

type McpServerOptions = { version: string; log: Logger; mcpSessions: McpSessions };

/** The rights of a request. */
type Extra = { tools: McpTools; traceId: string; session: McpSession | undefined };

export class McpServer {
  readonly #options: McpServerOptions;
  /** The library is loaded by the first client that needs it. */
  #library: Promise<McpHttpHandler> | null = null;

  constructor(options: McpServerOptions) {
    this.#options = options;
  }

  /**
   * Answers one POST, whose parsed body is `message`. Throws `NOT_FOUND` for a session that has ended, and for what needs a session
   * where the one that is named is not known.
   */
  async serve(exchange: Exchange, message: unknown, lists: ListSource, owner: SessionOwner): Promise<void> {
    const tools = await lists.tools();
    const named = exchange.header(SESSION);
    const session = this.#options.mcpSessions.find(named, owner);
    const method = isObject(message) ? message.method : undefined;
    if (named !== undefined && session === undefined && OF_SESSION.includes(method)) throw endedSession();
    if (isObject(message) && lacksUri(message)) {
      const error = { code: INVALID_PARAMS, message: '"uri" is missing, or no text.' };
      exchange.send(200, {}, JSON.stringify({ jsonrpc: '2.0', id: message.id, error }), JSON_HEADERS);
      return;
    }
    if (method === 'subscriptions/listen' && (await this.#listens(exchange, message as Message, tools, lists))) return;
    const left = new AbortController();
    exchange.onAbort(() => left.abort());
    const call = plainCall(exchange, message);
    if (call === null) {
      await this.#serveByLibrary(exchange, message, { tools, session }, left.signal, () =>
        method === 'initialize' ? this.#options.mcpSessions.begin(owner, lists) : undefined,
      );
      return;
    }
    const { id, name, args, isModern } = call;
    const traceId = traceOf(exchange);
    let reply: string;
    try {
      const answer = await tools.call({ name, args, traceId, signal: left.signal });
      reply = `"result":${this.#resultOf(answer, isModern, tools.title)}`;
    } catch (error) {
      reply = `"error":${JSON.stringify(protocolError(error, this.#options.log))}`;
    }
    exchange.send(200, {}, `{"jsonrpc":"2.0","id":${JSON.stringify(id)},${reply}}`, JSON_HEADERS);
  }

  /** Opens a GET: the stream of a session. Throws `METHOD_NOT_ALLOWED` without one, `NOT_FOUND`, and `OVERLOADED`. */
  open(exchange: Exchange, lists: ListSource, owner: SessionOwner): void {
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
    if (jsonrpc !== '2.0' || !isRequestId(id) || !isObject(params)) return false;
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
      const told = JSON.stringify(isResource ? resourceError(error.cause, error.uri, log) : protocolError(error, log));
      exchange.send(200, {}, `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"error":${told}}`, JSON_HEADERS);
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
      const { tools, traceId, session } = (authInfo as { extra: unknown }).extra as Extra;
      const server = new Server(
        { name: 'svc', title: tools.title, version },
        {
          capabilities: { tools: { listChanged: true }, resources: { subscribe: true, listChanged: true } },
          instructions: tools.instructions,
        },
      );
      server.setRequestHandler('tools/list', async () => {
        const shown = await tools.list().catch(rethrow(failure));
        return { tools: shown.map((tool) => ({ ...tool, _meta: TOOL_META })) };
      });
      server.setRequestHandler('tools/call', async ({ params }, { mcpReq: { signal } }) => {
        const { name, arguments: args = {} } = params;
        const answer = await tools.call({ name, args, traceId, signal }).catch(rethrow(failure));
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
        const text = await readOf(tools, uri, signal).catch(rethrow(refusal(uri)));
        return { contents: [{ uri, mimeType: 'application/json', text }] };
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

function rethrow(made: (error: unknown) => Error): (error: unknown) => never {
  return (error) => {
    throw made(error);
  };
}

async function readOf(tools: McpTools, uri: string, signal: AbortSignal): Promise<string> {
  const text = await tools.read(uri, signal);
  if (text === null) throw new SvcError('NOT_FOUND', `There is no resource "${uri.slice(0, 200)}".`);
  return text;
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

/** For this the library has an error with its own checks as text. */
function lacksUri({ id, method, params }: Message): boolean {
  if (method !== 'resources/read' && !OF_SESSION.includes(method)) return false;
  return isRequestId(id) && !(isObject(params) && typeof params.uri === 'string');
}

/** A plain tool call; null for every other message, which the library handles or refuses. */
function plainCall(
  exchange: Exchange,
  message: unknown,
): { id: RequestId; name: string; args: Record<string, unknown>; isModern: boolean } | null {
  if (!isObject(message) || message.jsonrpc !== '2.0' || message.method !== 'tools/call') return null;
  const { id, params } = message;
  if (!isRequestId(id)) return null;
  if (!isObject(params) || typeof params.name !== 'string') return null;
  const { name, arguments: args = {}, _meta: meta } = params;
  if (!isObject(args) || Object.keys(params).some((key) => !['name', 'arguments', '_meta'].includes(key))) return null;
  if (exchange.header('content-type')?.startsWith('application/json') === false) return null;
  const version = exchange.header('mcp-protocol-version') ?? '';
  const isModern = version === MODERN;
  if (isModern ? !isWholeModern(exchange, 'tools/call', name, meta) : !isWholeLegacy(exchange, version, meta))
    return null;
  return { id, name, args, isModern };
}

/** Since 2026 each request says which version it speaks and who sends it, and its headers repeat what it asks for. */
function isWholeModern(exchange: Exchange, method: string, name: string | undefined, meta: unknown): boolean {
  if (!isObject(meta) || exchange.header('mcp-protocol-version') !== MODERN) return false;
  const info = meta[`${META}clientInfo`];
  return (
    meta[`${META}protocolVersion`] === MODERN &&
    isObject(info) &&
    typeof info.name === 'string' &&
    typeof info.version === 'string' &&
    isObject(meta[`${META}clientCapabilities`]) &&
    exchange.header('mcp-method') === method &&
    exchange.header('mcp-name') === name
  );
}

function isWholeLegacy(exchange: Exchange, version: string, meta: unknown): boolean {
  const accept = exchange.header('accept') ?? '';
  const claims = isObject(meta) && Object.keys(meta).some((key) => key.startsWith(META));
  return LEGACY.has(version) && !claims && accept.includes('application/json') && accept.includes('text/event-stream');
}

function isRequestId(id: unknown): id is RequestId {
  return typeof id === 'string' || Number.isSafeInteger(id);
}

function isObject(value: unknown): value is Message {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
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
