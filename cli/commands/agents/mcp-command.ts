/** `svc mcp`: speaks MCP over standard input and output, for clients that start a program, and passes each message to the gateway. */
import { createInterface } from 'node:readline';
import { SvcError } from '../../../protocol/errors.ts';
import { addressOf } from '../../../protocol/http/client.ts';
import { GatewayError } from '../../../protocol/http/gateway-error.ts';
import type { CommandContext } from '../../command.ts';
import { CommandError, sqlOutcomeUnknown, UnreachableError, UsageError } from '../../failure.ts';
import { type McpFetch, type McpMessage, McpSubscriptions, messagesOf } from '../../gateway/mcp-subscriptions.ts';
import { unreachable } from '../../gateway/node-transport.ts';

type Message = McpMessage & {
  params?: { name?: string; requestId?: string | number; _meta?: Record<string, unknown> };
  result?: { protocolVersion?: string };
};

const VERSION = 'io.modelcontextprotocol/protocolVersion';
const PARSE_ERROR = -32_700;
const INVALID_REQUEST = -32_600;
const NOT_ANSWERED = -32_000;
const LISTEN = 'subscriptions/listen';
/** Methods of clients of 2025; newer clients use `LISTEN`. */
const OF_SESSION: unknown[] = ['resources/subscribe', 'resources/unsubscribe'];

/** Codes of `fetch` for a connection that ended after it had taken the request. */
const TAKEN = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

export async function mcp({ args, terminal, connect, subject }: CommandContext): Promise<void> {
  if (terminal.stdin.isTTY)
    throw new UsageError('svc mcp is started by an MCP client, which writes to its standard input.');
  const app = args.optionalAt(0);
  const path = app === undefined ? addressOf('GET /svc/_mcp') : addressOf('GET /svc/:id/_mcp', { params: { id: app } });
  const running = new Map<string | number, AbortController>();
  /** Requests that last until one side ends them. */
  const listening = new Set<AbortController>();
  const underWay = new Set<Promise<void>>();
  /** The protocol version agreed on with a client of 2025; later clients name it in each message. */
  let agreed: string | undefined;

  const tell = (message: Message): void => {
    agreed = message.result?.protocolVersion ?? agreed;
    terminal.event(message);
  };

  const send: McpFetch = async (method, message, { headers, signal, text } = {}) => {
    // After a restart, the gateway may be at another address.
    const { connection } = connect(true);
    const { url, token } = connection;
    const sent = fetch(url + path, {
      method,
      headers: {
        ...headersOf(message ?? {}, agreed),
        ...headers,
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      },
      ...(message !== null && { body: text ?? JSON.stringify(message) }),
      ...(signal && { signal }),
    });
    return await sent.catch((error: Error) => {
      if (signal?.aborted) throw error;
      const cause = (error.cause ?? error) as NodeJS.ErrnoException;
      throw unreachable(connection, cause, TAKEN.has(cause.code ?? ''));
    });
  };
  const subscriptions = new McpSubscriptions(send, tell);

  const answer = async (message: Message, text: string, signal: AbortSignal): Promise<void> => {
    if (OF_SESSION.includes(message.method) && message.params?._meta?.[VERSION] === undefined) {
      tell(await subscriptions.answer(message));
      return;
    }
    const response = await send('POST', message, { signal, text, headers: subscriptions.headers });
    if (message.method === 'initialize') subscriptions.begun(message, response);
    // What has no method answers a question of the gateway.
    let isAnswered = message.id === undefined || message.method === undefined;
    for await (const part of messagesOf(response)) {
      isAnswered ||= part.id === message.id;
      tell(part);
    }
    if (!isAnswered) throw new Error('The gateway ended this without an answer.');
  };

  /** What happened and what to do next: a client shows its user nothing else. */
  const explained = async (error: unknown): Promise<string> => {
    const { explain } = await import('../../explain.ts');
    const client = error instanceof GatewayError ? connect() : undefined;
    const { title, lines } = await explain(error, client, subject);
    return [title, ...lines].join('\n');
  };

  const pass = async (message: Message, text: string): Promise<void> => {
    const leaving = new AbortController();
    if (message.id !== undefined) running.set(message.id, leaving);
    if (message.method === LISTEN) listening.add(leaving);
    try {
      await answer(message, text, leaving.signal);
    } catch (error) {
      if (message.id === undefined || leaving.signal.aborted) return;
      const isUnknown = message.params?.name === 'svc_sql_write' && mayBeDone(error);
      const known = isUnknown ? sqlOutcomeUnknown() : error;
      const data = known instanceof SvcError ? { data: known.toBody() } : {};
      const rpcError = { code: NOT_ANSWERED, message: await explained(known), ...data };
      terminal.event({ jsonrpc: '2.0', id: message.id, error: rpcError });
    } finally {
      if (message.id !== undefined) running.delete(message.id);
      listening.delete(leaving);
    }
  };

  for await (const line of createInterface({ input: terminal.stdin })) {
    if (line.trim() === '') continue;
    let message: Message;
    try {
      message = JSON.parse(line) as Message;
    } catch (error) {
      terminal.event({ jsonrpc: '2.0', id: null, error: { code: PARSE_ERROR, message: (error as Error).message } });
      continue;
    }
    if (typeof message !== 'object' || message === null) {
      const error = { code: INVALID_REQUEST, message: 'A message is an object.' };
      terminal.event({ jsonrpc: '2.0', id: null, error });
      continue;
    }
    if (message.method === 'notifications/cancelled' && message.params?.requestId !== undefined) {
      running.get(message.params.requestId)?.abort();
      continue;
    }
    const passing: Promise<void> = pass(message, line).finally(() => underWay.delete(passing));
    underWay.add(passing);
    // Other messages are not valid before both sides agree on a version.
    if (message.method === 'initialize') await passing;
  }
  for (const leaving of listening) leaving.abort();
  await Promise.all(underWay);
  await subscriptions.close();
}

/** The gateway took the message, and it is not known what became of it. */
function mayBeDone(error: unknown): boolean {
  if (error instanceof UnreachableError) return error.sent;
  return !(error instanceof CommandError) && !(error instanceof GatewayError);
}

/** Members of the body repeated as headers, as MCP over HTTP requires. */
function headersOf({ method, params }: Message, agreed: string | undefined): Record<string, string> {
  const named = params?._meta?.[VERSION];
  const version = typeof named === 'string' ? named : agreed;
  const subject = params?.name ?? params?.uri;
  return {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...(version !== undefined && { 'mcp-protocol-version': version }),
    ...(typeof named === 'string' && method !== undefined && { 'mcp-method': method }),
    ...(typeof named === 'string' && subject !== undefined && { 'mcp-name': headerOf(subject) }),
  };
}

/** A URI may have characters that a header cannot. */
function headerOf(value: string): string {
  const isPlain = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(value) && !value.startsWith('=?base64?');
  return isPlain ? value : `=?base64?${Buffer.from(value).toString('base64')}?=`;
}
