/**
 * Speaks the Model Context Protocol over HTTP, stateless, for clients of 2026-07-28 and of 2025 (decisions, section 12). The
 * official library serves every request but plain tool calls, which are answered here: it spends ten times as long on each.
 */
import type { McpHttpHandler, McpServerFactory, Server } from '@modelcontextprotocol/server';
import type { Logger } from 'pino';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Exchange, ResponseHeaders } from '../edge/edge.ts';
import { JSON_HEADERS, toSvcError } from '../http/answers.ts';
import { newTraceId } from '../tree/actor/call.ts';
import type { McpAnswer, McpTools } from './tools.ts';

type Message = Record<string, unknown>;
type RequestId = string | number;

const INVALID_PARAMS = -32_602;
const INTERNAL_ERROR = -32_603;
const RESOURCE_NOT_FOUND = -32_002;

const MODERN = '2026-07-28';
const LEGACY = new Set(['2025-11-25', '2025-06-18', '2025-03-26']);
const META = 'io.modelcontextprotocol/';
/** Headers of a request that the protocol has a use for. */
const HEADERS = ['content-type', 'accept', 'mcp-protocol-version', 'mcp-method', 'mcp-name', 'mcp-session-id'];

/** Claude Code writes results that are longer to a file, which an agent without file tools cannot read; its own limit is 50,000. */
const TOOL_META = { 'anthropic/maxResultSizeChars': LIMITS.agentToolBytes };

export type McpServerOptions = { version: string; log: Logger };

export class McpServer {
  readonly #options: McpServerOptions;
  /** The library is loaded by the first client that needs it. */
  #library: Promise<McpHttpHandler> | null = null;

  constructor(options: McpServerOptions) {
    this.#options = options;
  }

  /** Answers one POST, whose parsed body is `message`. */
  async serve(exchange: Exchange, message: unknown, tools: McpTools): Promise<void> {
    const left = new AbortController();
    exchange.onAbort(() => left.abort());
    const call = plainCall(exchange, message);
    if (call === null) {
      await this.#serveByLibrary(exchange, message, tools, left.signal);
      return;
    }
    const { id, name, args, isModern } = call;
    const traceId = newTraceId(exchange.header('traceparent'));
    let reply: string;
    try {
      const answer = await tools.call({ name, args, traceId, signal: left.signal });
      reply = `"result":${this.#resultOf(answer, isModern, tools.title)}`;
    } catch (error) {
      reply = `"error":${JSON.stringify(protocolError(error, this.#options.log))}`;
    }
    exchange.send(200, {}, `{"jsonrpc":"2.0","id":${JSON.stringify(id)},${reply}}`, JSON_HEADERS);
  }

  /** The result of a call as JSON text, of which the answer's own text is a part as it stands. */
  #resultOf({ text, isError, structured }: McpAnswer, isModern: boolean, title: string): string {
    const content = `"content":[{"type":"text","text":${JSON.stringify(text)}}]`;
    const more = `${isError ? ',"isError":true' : ''}${structured ? `,"structuredContent":${text}` : ''}`;
    if (!isModern) return `{${content}${more}}`;
    const info = JSON.stringify({ name: 'svc', title, version: this.#options.version });
    return `{${content}${more},"resultType":"complete","_meta":{"${META}serverInfo":${info}}}`;
  }

  async #serveByLibrary(exchange: Exchange, message: unknown, tools: McpTools, signal: AbortSignal): Promise<void> {
    const headers = new Headers({ 'content-type': 'application/json' });
    for (const name of HEADERS) {
      const value = exchange.header(name);
      if (value !== undefined) headers.set(name, value);
    }
    const traceId = newTraceId(exchange.header('traceparent'));
    this.#library ??= this.#load();
    const library = await this.#library;
    const request = new Request(`http://gateway${exchange.path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(message),
      signal,
    });
    // What a request may use goes to its server as the library passes on who called.
    const authInfo = { token: '', clientId: '', scopes: [], extra: { tools, traceId } };
    const response = await library.fetch(request, { authInfo, parsedBody: message });
    const answered: ResponseHeaders = {};
    for (const name of ['content-type', 'cache-control', 'x-accel-buffering', 'allow']) {
      const value = response.headers.get(name);
      if (value !== null) answered[name] = value;
    }
    // An event stream too: it has the one answer, and ends.
    exchange.send(response.status, answered, Buffer.from(await response.arrayBuffer()));
  }

  async #load(): Promise<McpHttpHandler> {
    const { createMcpHandler, ProtocolError, Server } = await import('@modelcontextprotocol/server');
    const { version, log } = this.#options;
    const failure = (error: unknown): Error => {
      const { code, message, data } = protocolError(error, log);
      return new ProtocolError(code, message, data);
    };
    const serverOf: McpServerFactory = ({ authInfo }): Server => {
      const { tools, traceId } = (authInfo as { extra: unknown }).extra as { tools: McpTools; traceId: string };
      const server = new Server(
        { name: 'svc', title: tools.title, version },
        { capabilities: { tools: {}, resources: {} }, instructions: tools.instructions },
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
      server.setRequestHandler('resources/list', async () => ({ resources: tools.resources() }));
      server.setRequestHandler('resources/templates/list', async () => ({ resourceTemplates: [] }));
      server.setRequestHandler('resources/read', async ({ params: { uri } }) => {
        const text = await tools.read(uri).catch(rethrow(failure));
        if (text === null) throw new ProtocolError(RESOURCE_NOT_FOUND, `There is no resource "${uri.slice(0, 200)}".`);
        return { contents: [{ uri, mimeType: 'application/json', text }] };
      });
      return server;
    };
    // Nothing is announced, so that a stream of announcements would only outlive its token.
    return createMcpHandler(serverOf, { maxSubscriptions: 0 });
  }
}

function rethrow(made: (error: unknown) => Error): (error: unknown) => never {
  return (error) => {
    throw made(error);
  };
}

/** What a client is told that asked for something that is not there, or wrongly. */
function protocolError(error: unknown, log: Logger): { code: number; message: string; data?: unknown } {
  const known = toSvcError(error, log);
  const isParams = known.code === 'UNKNOWN_TOOL' || known.code === 'INVALID_INPUT';
  return { code: isParams ? INVALID_PARAMS : INTERNAL_ERROR, message: known.message, data: known.toBody() };
}

/** A call of a tool with nothing else in it; null for every other message, which the library reads and, if need be, refuses. */
function plainCall(
  exchange: Exchange,
  message: unknown,
): { id: RequestId; name: string; args: Record<string, unknown>; isModern: boolean } | null {
  if (!isObject(message) || message.jsonrpc !== '2.0' || message.method !== 'tools/call') return null;
  const { id, params } = message;
  if (typeof id !== 'string' && !Number.isSafeInteger(id)) return null;
  if (!isObject(params) || typeof params.name !== 'string') return null;
  const { name, arguments: args = {}, _meta: meta } = params;
  if (!isObject(args) || Object.keys(params).some((key) => !['name', 'arguments', '_meta'].includes(key))) return null;
  if (exchange.header('content-type')?.startsWith('application/json') === false) return null;
  const version = exchange.header('mcp-protocol-version') ?? '';
  const isModern = version === MODERN;
  if (isModern ? !isWholeModern(exchange, name, meta) : !isWholeLegacy(exchange, version, meta)) return null;
  return { id: id as RequestId, name, args, isModern };
}

/** Since 2026 each request says which version it speaks and who sends it, and its headers repeat what it asks for. */
function isWholeModern(exchange: Exchange, name: string, meta: unknown): boolean {
  if (!isObject(meta)) return false;
  const info = meta[`${META}clientInfo`];
  return (
    meta[`${META}protocolVersion`] === MODERN &&
    isObject(info) &&
    typeof info.name === 'string' &&
    typeof info.version === 'string' &&
    isObject(meta[`${META}clientCapabilities`]) &&
    exchange.header('mcp-method') === 'tools/call' &&
    exchange.header('mcp-name') === name
  );
}

function isWholeLegacy(exchange: Exchange, version: string, meta: unknown): boolean {
  const accept = exchange.header('accept') ?? '';
  const claims = isObject(meta) && Object.keys(meta).some((key) => key.startsWith(META));
  return LEGACY.has(version) && !claims && accept.includes('application/json') && accept.includes('text/event-stream');
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
