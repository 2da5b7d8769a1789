/**
 * Calls the tools of one MCP server over one shared connection, made on the first call and again after a loss, with back-off.
 *
 *   idle ─call→ connecting ─ready→ connected ─lost→ failed ─call, once the wait is over→ connecting
 *                    └──── failure ──────────────────↑
 */
import {
  type CallToolResult,
  Client,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
} from '@modelcontextprotocol/client';
import {
  isStdio,
  type ToolServerEntry,
  type ToolServerLimits,
  type ToolServerState,
} from '../../../protocol/agents/tool-server-entries.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { HttpTransport } from './http.ts';
import { StdioTransport } from './stdio.ts';

/** Gets the connection's state, with the end of a failed server's standard error, and its processes. */
type Listener = {
  state(state: ToolServerState, detail: string, said: string): void;
  process(pid: number, alive: boolean): void;
};

/** The most tools that the error for an unknown tool lists. */
const NAMED_TOOLS = 20;
/** An answer is part of a message, where its text is escaped again. */
const MESSAGE_OVERHEAD = 3;

type Session = {
  client: Client;
  transport: StdioTransport | HttpTransport;
  tools: Set<string>;
  down: boolean;
};

export class ToolServer {
  readonly name: string;
  readonly #entry: ToolServerEntry;
  readonly #limits: ToolServerLimits;
  readonly #tell: Listener;
  #session: Promise<Session> | null = null;
  /** Every transport that has not ended yet. */
  readonly #open = new Set<Session['transport']>();
  #failures = 0;
  #retryAt = 0;
  #lastError = '';
  #closing = false;

  constructor(name: string, entry: ToolServerEntry, limits: ToolServerLimits, tell: Listener) {
    this.name = name;
    this.#entry = entry;
    this.#limits = limits;
    this.#tell = tell;
  }

  /**
   * The tool's answer as JSON text. Rejects with `TOOL_SERVER_FAILED` when the server is down, has no such tool, reports an
   * error, does not answer in `timeoutMs`, answers too much, or `signal` aborts, which the server is notified of.
   */
  async call(tool: string, args: Record<string, unknown>, signal: AbortSignal, timeoutMs: number): Promise<Buffer> {
    const deadline = performance.now() + timeoutMs;
    for (let isFirst = true; ; isFirst = false) {
      const session = await this.#connected(signal);
      try {
        return await this.#callOn(session, tool, args, signal, deadline);
      } catch (error) {
        // A restarted server does not know the session, and rejects it before it runs the call.
        if (!isFirst || !isForgotten(error)) throw this.#explain(tool, error, session, signal);
        this.#failed(session, 'it has forgotten the session');
        this.#retryAt = 0;
      }
    }
  }

  /** Ends the connection, and the server when it is our process. */
  async close(): Promise<void> {
    this.#closing = true;
    await Promise.all([...this.#open].map((transport) => transport.close()));
  }

  /** Kills the server's process at once. */
  kill(): void {
    for (const transport of this.#open) if (transport instanceof StdioTransport) transport.kill();
  }

  async #connected(signal: AbortSignal): Promise<Session> {
    if (!this.#session) {
      const wait = this.#retryAt - performance.now();
      if (wait > 0)
        throw failure(
          `The MCP server ${this.name} is down: ${this.#lastError}. It is tried again in ${Math.ceil(wait)} ms.`,
        );
      this.#session = this.#connect();
    }
    return await unlessAborted(this.#session, signal, () => this.#cancelled());
  }

  async #connect(): Promise<Session> {
    const { startMs, answerBytes } = this.#limits;
    const maxMessageBytes = MESSAGE_OVERHEAD * answerBytes;
    const transport = isStdio(this.#entry)
      ? new StdioTransport(this.#entry, maxMessageBytes, this.#tell.process)
      : new HttpTransport(this.#entry, maxMessageBytes);
    const client = new Client({ name: 'svc-gateway', version: '1' }, { capabilities: {} });
    const session: Session = { client, transport, tools: new Set(), down: false };
    this.#open.add(transport);
    const time = AbortSignal.timeout(startMs);
    try {
      if (this.#closing) throw new Error('The gateway stops.');
      await unlessAborted(
        (async () => {
          await client.connect(transport, { timeout: startMs, signal: time });
          await this.#list(session, { timeout: startMs, signal: time });
        })(),
        time,
        () => new Error(`it did not answer within ${startMs} ms`),
      );
    } catch (error) {
      const why = this.#whyNot(error, session, time);
      this.#failed(session, why);
      throw failure(`The MCP server ${this.name} is down: ${why}.`);
    }
    client.onclose = () => this.#failed(session, endOf(transport) ?? 'the connection ended');
    this.#tell.state('connected', '', '');
    return session;
  }

  async #list({ client, tools }: Session, options: { timeout: number; signal: AbortSignal }): Promise<void> {
    const listed = await client.listTools(undefined, { ...options, cacheMode: 'refresh' });
    tools.clear();
    for (const { name } of listed.tools) tools.add(name);
  }

  async #callOn(
    session: Session,
    tool: string,
    args: Record<string, unknown>,
    signal: AbortSignal,
    deadline: number,
  ): Promise<Buffer> {
    const timeout = Math.max(1, deadline - performance.now());
    if (!session.tools.has(tool)) await this.#list(session, { timeout, signal });
    if (!session.tools.has(tool)) throw failure(this.#unknown(tool, [...session.tools]));
    // `requestSignal` ends the stream of the answer.
    const options = { timeout, signal, requestSignal: signal };
    const result = await session.client.callTool({ name: tool, arguments: args }, options);
    this.#failures = 0;
    return answerOf(`${this.name}.${tool}`, result, this.#limits.answerBytes);
  }

  #unknown(tool: string, tools: string[]): string {
    const names = tools.slice(0, NAMED_TOOLS).join(', ');
    const rest = tools.length > NAMED_TOOLS ? ` and ${tools.length - NAMED_TOOLS} more` : '';
    const has = tools.length === 0 ? 'It has no tools.' : `It has ${names}${rest}.`;
    return `The MCP server ${this.name} has no tool ${tool}. ${has}`;
  }

  /** The error for the caller. Gives up a connection that can no longer be used. */
  #explain(tool: string, error: unknown, session: Session, signal: AbortSignal): SvcError {
    const name = `${this.name}.${tool}`;
    if (signal.aborted) return this.#cancelled();
    if (error instanceof SvcError) return error;
    if (error instanceof ProtocolError) return failure(`${name} failed: ${error.message}`);
    if (error instanceof SdkHttpError) return failure(`${name} failed: the server answered HTTP ${error.status}.`);
    if (error instanceof SdkError && error.code === SdkErrorCode.RequestTimeout)
      return failure(`${name} did not answer in time.`);
    const ended = endOf(session.transport);
    if (ended !== null || isUnreachable(error)) {
      const why = ended ?? unreachable(error);
      this.#failed(session, why);
      return failure(`${name} failed: the MCP server ${this.name} ${why}. Whether the tool did its work is not known.`);
    }
    return failure(`${name} failed: ${(error as Error).message}`);
  }

  #cancelled(): SvcError {
    return failure(`The call to the MCP server ${this.name} was cancelled.`);
  }

  #whyNot(error: unknown, { transport }: Session, time: AbortSignal): string {
    const ended = endOf(transport);
    if (ended !== null) return ended;
    if (transport instanceof StdioTransport && transport.garbled)
      return 'what it writes to its standard output is not MCP; messages for people belong on standard error';
    if (time.aborted || (error instanceof SdkError && error.code === SdkErrorCode.RequestTimeout))
      return `it did not answer within ${this.#limits.startMs} ms`;
    if (error instanceof SdkHttpError) return `it answered HTTP ${error.status}`;
    if (isUnreachable(error)) return unreachable(error);
    return (error as Error).message.replace(/\.$/, '');
  }

  /** The server is down from now on; calls on its connection fail. */
  #failed(session: Session, why: string): void {
    if (session.down) return;
    session.down = true;
    const { transport } = session;
    const { backoffMs, backoffMaxMs } = this.#limits;
    // With jitter, so that servers do not all start at once after one fault took them down.
    const wait = Math.min(backoffMaxMs, backoffMs * 2 ** this.#failures++) * (0.75 + Math.random() / 2);
    this.#retryAt = performance.now() + wait;
    this.#lastError = why;
    this.#session = null;
    const gone = () => this.#open.delete(transport);
    transport.close().then(gone, gone);
    if (!this.#closing)
      this.#tell.state('failed', why, transport instanceof StdioTransport ? transport.errorOutput : '');
  }
}

/** Settles as `work` does, or rejects with the error from `why` once `signal` aborts. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal, why: () => Error): Promise<T> {
  return await new Promise<T>((resolve, reject) => {
    const abort = () => reject(why());
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

function isForgotten(error: unknown): boolean {
  return error instanceof SdkHttpError && error.status === 404;
}

const CONNECTION_LOST: string[] = [SdkErrorCode.ConnectionClosed, SdkErrorCode.NotConnected, SdkErrorCode.SendFailed];

function isUnreachable(error: unknown): boolean {
  // `fetch` rejects with a `TypeError` when there is no answer at all.
  return error instanceof TypeError || (error instanceof SdkError && CONNECTION_LOST.includes(error.code));
}

function unreachable(error: unknown): string {
  if (error instanceof SdkError) return 'closed the connection';
  const { cause } = error as { cause?: { code?: string; message?: string } };
  return `cannot be reached (${cause?.code ?? cause?.message ?? 'no reason given'})`;
}

function endOf(transport: Session['transport']): string | null {
  return transport instanceof StdioTransport ? transport.ended : null;
}

/** A failed call. `message` is for the automation's author and holds no path of the gateway. */
export function failure(message: string): SvcError {
  const text = message.length > LIMITS.errorMessageChars ? `${message.slice(0, LIMITS.errorMessageChars)}…` : message;
  return new SvcError('TOOL_SERVER_FAILED', text);
}

/**
 * JSON text of the structured result where there is one; else of the one text part, read as JSON where it is JSON; else of
 * all parts. Throws `TOOL_SERVER_FAILED` for a result that reports an error, with its text, and for one over `maxBytes`.
 */
function answerOf(name: string, result: CallToolResult, maxBytes: number): Buffer {
  if (result.isError) throw failure(`${name} failed: ${textOf(result) || 'it gives no reason'}`);
  const body = Buffer.from(jsonOf(result));
  if (body.length > maxBytes)
    throw failure(`${name} answered ${body.length} bytes; at most ${maxBytes} are taken. Ask it for less.`);
  return body;
}

function jsonOf({ structuredContent, content }: CallToolResult): string {
  if (structuredContent !== undefined) return JSON.stringify(structuredContent);
  const [part] = content;
  if (content.length !== 1 || part?.type !== 'text') return JSON.stringify(content);
  return isJson(part.text) ? part.text : JSON.stringify(part.text);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function textOf({ content }: CallToolResult): string {
  return content
    .flatMap((part) => (part.type === 'text' ? [part.text] : []))
    .join('\n')
    .trim();
}
