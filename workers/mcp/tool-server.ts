/**
 * One MCP server: a connection that all calls share, made on the first call and again after it was lost, with back-off.
 *
 *   idle ─call→ connecting ─ready→ connected ─lost→ failed ─call, once the wait is over→ connecting
 *                    └──── failure ──────────────────↑
 */
import { Client, ProtocolError, SdkError, SdkErrorCode, SdkHttpError } from '@modelcontextprotocol/client';
import { SvcError } from '../../protocol/errors.ts';
import {
  isStdio,
  type ToolServerEntry,
  type ToolServerLimits,
  type ToolServerState,
} from '../../protocol/tool-servers.ts';
import { answerOf, failure } from './answer.ts';
import { HttpTransport } from './http.ts';
import { StdioTransport } from './stdio.ts';

export type ToolServerOptions = {
  limits: ToolServerLimits;
  now(): number;
  random(): number;
  onState(state: ToolServerState, detail: string, said: string): void;
  onProcess(pid: number, alive: boolean): void;
};

/** Names listed to a caller who asked for a tool that is not there. */
const NAMED_TOOLS = 20;
/** An answer travels inside a message, and text in it is escaped once more. */
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
  readonly #options: ToolServerOptions;
  #session: Promise<Session> | null = null;
  /** Every transport that has not ended, those that are about to included. */
  readonly #open = new Set<Session['transport']>();
  #failures = 0;
  #retryAt = 0;
  #lastError = '';
  #closing = false;

  constructor(name: string, entry: ToolServerEntry, options: ToolServerOptions) {
    this.name = name;
    this.#entry = entry;
    this.#options = options;
  }

  /**
   * JSON text of what the tool answers. Rejects with `TOOL_SERVER_FAILED` when the server is down, has no such tool, reports
   * an error, does not answer in `timeoutMs`, answers too much, or `signal` aborts, on which the server is told.
   */
  async call(tool: string, args: Record<string, unknown>, signal: AbortSignal, timeoutMs: number): Promise<Buffer> {
    const deadline = this.#options.now() + timeoutMs;
    const first = await this.#connected(signal);
    try {
      return await this.#callOn(first, tool, args, signal, deadline);
    } catch (error) {
      // A server that was started again knows nothing of the session, and has not looked at the call.
      if (!isForgotten(error)) throw this.#explain(tool, error, first, signal);
      this.#failed(first, 'it has forgotten the session');
      this.#retryAt = 0;
    }
    const second = await this.#connected(signal);
    try {
      return await this.#callOn(second, tool, args, signal, deadline);
    } catch (error) {
      throw this.#explain(tool, error, second, signal);
    }
  }

  /** Ends the connection, and the server where it is a process of ours. */
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
      const wait = this.#retryAt - this.#options.now();
      if (wait > 0)
        throw failure(
          `The MCP server ${this.name} is down: ${this.#lastError}. It is tried again in ${Math.ceil(wait)} ms.`,
        );
      this.#session = this.#connect();
    }
    return await unlessAborted(this.#session, signal, () => this.#cancelled());
  }

  async #connect(): Promise<Session> {
    const { startMs, answerBytes } = this.#options.limits;
    const maxMessageBytes = MESSAGE_OVERHEAD * answerBytes;
    const transport = isStdio(this.#entry)
      ? new StdioTransport(this.#entry, { maxMessageBytes, onProcess: this.#options.onProcess })
      : new HttpTransport(this.#entry, maxMessageBytes);
    // `version` is of this client, which has none of its own.
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
    this.#options.onState('connected', '', '');
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
    const timeout = Math.max(1, deadline - this.#options.now());
    if (!session.tools.has(tool)) await this.#list(session, { timeout, signal });
    if (!session.tools.has(tool)) throw failure(this.#unknown(tool, [...session.tools]));
    // The second signal ends the stream on which the answer would come.
    const options = { timeout, signal, requestSignal: signal };
    const result = await session.client.callTool({ name: tool, arguments: args }, options);
    this.#failures = 0;
    return answerOf(`${this.name}.${tool}`, result, this.#options.limits.answerBytes);
  }

  #unknown(tool: string, tools: string[]): string {
    const names = tools.slice(0, NAMED_TOOLS).join(', ');
    const rest = tools.length > NAMED_TOOLS ? ` and ${tools.length - NAMED_TOOLS} more` : '';
    const has = tools.length === 0 ? 'It has no tools.' : `It has ${names}${rest}.`;
    return `The MCP server ${this.name} has no tool ${tool}. ${has}`;
  }

  /** What a failed call comes to. A connection that cannot be used any more is given up. */
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
      return `it did not answer within ${this.#options.limits.startMs} ms`;
    if (error instanceof SdkHttpError) return `it answered HTTP ${error.status}`;
    if (isUnreachable(error)) return unreachable(error);
    return (error as Error).message.replace(/\.$/, '');
  }

  /** From here on the server is down; calls that are still under way on its connection fail. */
  #failed(session: Session, why: string): void {
    if (session.down) return;
    session.down = true;
    const { transport } = session;
    const { backoffMs, backoffMaxMs } = this.#options.limits;
    // With jitter, so that servers which one fault took down do not all start at once.
    const wait = Math.min(backoffMaxMs, backoffMs * 2 ** this.#failures++) * (0.75 + this.#options.random() / 2);
    this.#retryAt = this.#options.now() + wait;
    this.#lastError = why;
    this.#session = null;
    const gone = () => this.#open.delete(transport);
    transport.close().then(gone, gone);
    if (!this.#closing) this.#options.onState('failed', why, transport instanceof StdioTransport ? transport.said : '');
  }
}

/** Settles as `work` does, or rejects with what `why` makes once `signal` aborts. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal, why: () => Error): Promise<T> {
  return await new Promise<T>((resolve, reject) => {
    const abort = () => reject(why());
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

/** The server does not know the session (any more), which it says before it looks at the call. */
function isForgotten(error: unknown): boolean {
  return error instanceof SdkHttpError && error.status === 404;
}

const CONNECTION_LOST: string[] = [SdkErrorCode.ConnectionClosed, SdkErrorCode.NotConnected, SdkErrorCode.SendFailed];

function isUnreachable(error: unknown): boolean {
  // What `fetch` rejects with when there is no answer at all.
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
