/** Calls tools of MCP servers through the process that talks to them (workers/mcp), and starts it on the first call. */

import {
  isStdio,
  TOOL_SERVER_LIMITS,
  TOOL_SERVER_STATES,
  type ToolServerEntry,
  type ToolServerLimits,
  type ToolServerSettings,
  type ToolServerState,
} from '../../protocol/agents/tool-servers.ts';
import { type ErrorBody, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { type Frame, Kind, ToolKind } from '../../protocol/wire/frames.ts';
import { GROUP_LEADER } from '../../storage/processes/children.ts';
import { killGroup } from '../../storage/processes/process-identity.ts';
import type { Child, ChildEvents } from '../tree/child.ts';
import { ReportedProcesses } from '../tree/reported-processes.ts';

/** The public state of a server: its environment, arguments, address and headers may be secret. */
type ToolServerStatus = {
  name: string;
  kind: 'stdio' | 'http';
  state: ToolServerState;
  lastError: string | null;
};

type ToolServersOptions = {
  /** `mcpServers` of the configuration. */
  servers: Record<string, ToolServerEntry>;
  /** The longest time of a call, with any signal: `automationTimeoutMs`. */
  callMs: number;
  /** `Tree.toolServerChild`. */
  createChild(settings: ToolServerSettings, events: ChildEvents): Child;
  /** A server's process came into being or is gone: the record of children on disk is due. */
  onProcess(pid: number, role: string, alive: boolean): void;
  log(level: 'info' | 'warn', message: string): void;
  now?(): number;
  limits?: Partial<ToolServerLimits>;
};

type Call = {
  id: number;
  name: string;
  body: Uint8Array;
  deadline: number;
  /** The process has it; otherwise it waits for the process. */
  sent: boolean;
  resolve(answer: Uint8Array): void;
  reject(error: SvcError): void;
};

export class McpToolServers {
  readonly #options: ToolServersOptions;
  readonly #now: () => number;
  readonly #child: Child;
  readonly #answerBytes: number;
  readonly #servers: Map<string, ToolServerStatus>;
  readonly #calls = new Map<number, Call>();
  /** The servers' processes. */
  readonly #processes: ReportedProcesses;
  #nextId = 0;
  #stopping = false;

  constructor(options: ToolServersOptions) {
    this.#options = options;
    this.#processes = new ReportedProcesses(GROUP_LEADER, options.onProcess);
    this.#now = options.now ?? (() => performance.now());
    this.#servers = new Map(
      Object.entries(options.servers).map(([name, entry]) => [
        name,
        { name, kind: isStdio(entry) ? 'stdio' : 'http', state: 'idle', lastError: null },
      ]),
    );
    const limits = { ...TOOL_SERVER_LIMITS, ...options.limits };
    this.#answerBytes = limits.answerBytes;
    this.#child = options.createChild(
      { servers: options.servers, limits },
      {
        onReady: () => this.#ready(),
        onFrame: (frame) => this.#onFrame(frame),
        onExit: (reason) => this.#onExit(reason),
      },
    );
  }

  /** State of each server, in the order of the configuration. */
  status(): ToolServerStatus[] {
    return [...this.#servers.values()].map((server) => ({ ...server }));
  }

  /**
   * The tool's answer to `args`, both unparsed JSON text, `args` an object. Rejects with `TOOL_SERVER_FAILED`, or `OVERLOADED`
   * when too many calls are under way; at once when `signal` aborts, of which the server is notified.
   */
  async callForJson(server: string, tool: string, args: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    const child = this.#child;
    if (!this.#servers.has(server)) {
      const configured = [...this.#servers.keys()].join(', ');
      throw failed(`No MCP server is configured as ${server.slice(0, 80)}. Configured are ${configured}.`);
    }
    if (this.#stopping) throw failed('The gateway stops.');
    if (this.#calls.size >= LIMITS.toolServerCalls)
      throw new SvcError('OVERLOADED', 'Too many calls to MCP servers are running. Try again later.');
    if (signal.aborted) throw cancelled(server, signal);
    if (!child.wake()) throw failed(`The process that talks to MCP servers does not stay up: ${child.lastExit}.`);
    const id = ++this.#nextId;
    let cleanUp = () => {};
    try {
      return await new Promise<Uint8Array>((resolve, reject) => {
        const deadline = this.#now() + this.#options.callMs;
        const call: Call = { id, name: `${server}.${tool}`, body: args, deadline, sent: false, resolve, reject };
        const giveUp = (reason: 'client-gone' | 'deadline', error: SvcError) => {
          if (call.sent) child.send([Kind.cancel, id, reason]);
          reject(error);
        };
        const abort = () => giveUp('client-gone', cancelled(server, signal));
        const late = () => giveUp('deadline', failed(`${call.name} did not answer in time.`));
        const timer = setTimeout(late, this.#options.callMs);
        signal.addEventListener('abort', abort, { once: true });
        cleanUp = () => {
          clearTimeout(timer);
          signal.removeEventListener('abort', abort);
        };
        this.#calls.set(id, call);
        if (child.state === 'running') this.#send(call);
      });
    } finally {
      this.#calls.delete(id);
      cleanUp();
    }
  }

  /** Ends the process and its servers, those that do not want to as well. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#rejectAll('The gateway stops.');
    await this.#child.stop(LIMITS.toolServerEndMs + LIMITS.terminateMs + LIMITS.cancelGraceMs);
    this.#killProcesses();
  }

  #ready(): void {
    for (const call of [...this.#calls.values()]) this.#send(call);
  }

  #send(call: Call): void {
    call.sent = true;
    const remainingMs = Math.max(1, call.deadline - this.#now());
    try {
      this.#child.send([Kind.dispatch, call.id, remainingMs, ToolKind.server, call.name, call.body, '', 0, '']);
    } catch {
      call.reject(failed(`The arguments for ${call.name} are too large.`));
    }
  }

  #onExit(reason: string): void {
    this.#killProcesses();
    for (const server of this.#servers.values()) if (server.state === 'connected') server.state = 'idle';
    if (this.#child.state === 'failed') {
      this.#rejectAll(`The process that talks to MCP servers does not stay up: ${reason}.`);
      return;
    }
    const why = `failed: the process that talks to MCP servers ended (${reason}). Whether the tool did its work is not known.`;
    // Those that it did not have yet wait for the next one.
    for (const call of [...this.#calls.values()]) if (call.sent) call.reject(failed(`${call.name} ${why}`));
  }

  /** A process that was killed could not end its servers. */
  #killProcesses(): void {
    const left = this.#processes.takeAll();
    for (const leader of left) killGroup(leader);
    this.#processes.ended(left);
  }

  #rejectAll(why: string): void {
    for (const call of [...this.#calls.values()]) call.reject(failed(why));
  }

  /** Throws for a frame that this process may not send, or not in this form; its connection is then closed. */
  #onFrame(frame: Frame): void {
    switch (frame[0]) {
      case Kind.result: {
        const [, callId, , body] = frame;
        if (!(body instanceof Uint8Array) || body.length > this.#answerBytes) throw malformed('result');
        this.#calls.get(callId)?.resolve(body);
        break;
      }
      case Kind.error: {
        const [, callId, error] = frame;
        if (!isErrorBody(error)) throw malformed('error');
        this.#calls.get(callId)?.reject(failed(error.message));
        break;
      }
      case Kind.toolServer:
        this.#changed(frame[1], frame[2], frame[3], frame[4]);
        break;
      case Kind.toolProcess:
        if (!this.#processes.report(frame[1], frame[2])) throw malformed('process');
        break;
      default:
        throw new Error(`The process of the MCP servers may not send frames of kind ${frame[0]}.`);
    }
  }

  #changed(name: unknown, state: unknown, detail: unknown, said: unknown): void {
    const server = typeof name === 'string' ? this.#servers.get(name) : undefined;
    const known = TOOL_SERVER_STATES.find((one) => one === state);
    if (!server || !known || typeof detail !== 'string' || typeof said !== 'string') throw malformed('state');
    server.state = known;
    if (known !== 'failed') return;
    server.lastError = detail.slice(0, LIMITS.errorMessageChars);
    const words = said.slice(-LIMITS.toolServerStderrBytes);
    this.#options.log('warn', `MCP server ${server.name}: ${server.lastError}${words === '' ? '' : `: ${words}`}`);
  }
}

function failed(message: string): SvcError {
  return new SvcError('TOOL_SERVER_FAILED', message);
}

function cancelled(server: string, signal: AbortSignal): SvcError {
  const message = `The call to the MCP server ${server} was cancelled.`;
  return new SvcError('TOOL_SERVER_FAILED', message, { cause: signal.reason });
}

function malformed(what: string): Error {
  return new Error(`The process of the MCP servers sent a malformed ${what}.`);
}

function isErrorBody(value: unknown): value is ErrorBody {
  if (typeof value !== 'object' || value === null) return false;
  const { code, message } = value as Record<string, unknown>;
  return typeof code === 'string' && typeof message === 'string' && message.length <= 2 * LIMITS.errorMessageChars;
}
