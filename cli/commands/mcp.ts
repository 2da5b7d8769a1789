/** `svc mcp`: speaks MCP over standard input and output, for clients that start a program, and passes each message to the gateway. */
import { createInterface } from 'node:readline';
import type { CommandContext } from '../command.ts';
import { UsageError } from '../failure.ts';
import { route } from '../gateway/api.ts';
import { EventStreamParser } from '../gateway/client.ts';

type Message = {
  id?: string | number;
  method?: string;
  params?: { name?: string; uri?: string; requestId?: string | number; _meta?: Record<string, unknown> };
  result?: { protocolVersion?: string };
};

const VERSION = 'io.modelcontextprotocol/protocolVersion';
const PARSE_ERROR = -32_700;
const NOT_ANSWERED = -32_000;

export async function mcp({ args, terminal, connect }: CommandContext): Promise<void> {
  if (terminal.stdin.isTTY)
    throw new UsageError('svc mcp is started by an MCP client, which writes to its standard input.');
  const app = args.optionalAt(0);
  const path = app === undefined ? '/svc/_mcp' : route`/svc/${app}/_mcp`;
  const running = new Map<string | number, AbortController>();
  const underWay = new Set<Promise<void>>();
  /** Agreed on with a client of 2025; later ones name it in each message. */
  let agreed: string | undefined;

  const tell = (message: Message): void => {
    agreed = message.result?.protocolVersion ?? agreed;
    terminal.event(message);
  };

  const pass = async (message: Message, text: string): Promise<void> => {
    const leaving = new AbortController();
    if (message.id !== undefined) running.set(message.id, leaving);
    try {
      // A gateway that was started again may be at another address.
      const { url, token } = connect(true).connection;
      const headers = {
        ...headersOf(message, agreed),
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      };
      const response = await fetch(url + path, { method: 'POST', headers, body: text, signal: leaving.signal });
      for await (const answer of messagesOf(response)) tell(answer);
    } catch (error) {
      if (message.id === undefined || leaving.signal.aborted) return;
      terminal.event({
        jsonrpc: '2.0',
        id: message.id,
        error: { code: NOT_ANSWERED, message: (error as Error).message },
      });
    } finally {
      if (message.id !== undefined) running.delete(message.id);
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
    if (message.method === 'notifications/cancelled' && message.params?.requestId !== undefined) {
      running.get(message.params.requestId)?.abort();
      continue;
    }
    const passing: Promise<void> = pass(message, line).finally(() => underWay.delete(passing));
    underWay.add(passing);
    // Until both sides agree on a version, nothing else makes sense.
    if (message.method === 'initialize') await passing;
  }
  await Promise.all(underWay);
}

/** What the body says, once more as headers, as MCP over HTTP wants it. */
function headersOf({ method, params }: Message, agreed: string | undefined): Record<string, string> {
  const named = params?._meta?.[VERSION];
  const version = typeof named === 'string' ? named : agreed;
  const subject = params?.name ?? params?.uri;
  return {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...(version !== undefined && { 'mcp-protocol-version': version }),
    ...(typeof named === 'string' && method !== undefined && { 'mcp-method': method }),
    ...(typeof named === 'string' && subject !== undefined && { 'mcp-name': subject }),
  };
}

/** The messages of an answer. Throws for one that the gateway refused before it read the message. */
async function* messagesOf(response: Response): AsyncGenerator<Message> {
  if (response.headers.get('content-type')?.startsWith('text/event-stream') && response.body) {
    const parser = new EventStreamParser();
    const decoder = new TextDecoder();
    for await (const chunk of response.body)
      for (const { data } of parser.push(decoder.decode(chunk, { stream: true })))
        if (data !== '') yield JSON.parse(data) as Message;
    return;
  }
  const text = await response.text();
  if (text === '') return;
  const answer = JSON.parse(text) as Message & { isError?: boolean; error?: { message: string } };
  if (answer.isError) throw new Error(answer.error?.message);
  yield answer;
}
