/** Calls tools of MCP servers through the agents process, which has their clients (workers/agents/mcp). */
import {
  isStdio,
  TOOL_SERVER_STATES,
  type ToolServerSettings,
  type ToolServerState,
} from '../../protocol/agents/tool-server-entries.ts';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { object, text } from '../../protocol/shapes/schema.ts';
import { shape } from '../../protocol/shapes/shape.ts';
import { Kind, ToolKind } from '../../protocol/wire/frames.ts';
import type { ChildClient, Failure } from '../tree/child-client.ts';

const FAILURE = shape(object({ code: text, message: { ...text, maxLength: 2 * LIMITS.errorMessageChars } }));

/** The public state of a server: its environment, arguments, address and headers may be secret. */
type ToolServerStatus = {
  name: string;
  kind: 'stdio' | 'http';
  state: ToolServerState;
  lastError: string | null;
};

type ToolServersOptions = {
  /** The longest time of a call, with any signal: `automationTimeoutMs`. */
  callMs: number;
  /** `AgentProcess`, which was given `mcpServers` of the configuration. */
  agents: { client: ChildClient; toolServers: ToolServerSettings };
  log(level: 'info' | 'warn', message: string): void;
};

export class McpToolServers {
  readonly #options: ToolServersOptions;
  readonly #servers: Map<string, ToolServerStatus>;
  #underWay = 0;

  constructor(options: ToolServersOptions) {
    this.#options = options;
    const { toolServers, client } = options.agents;
    this.#servers = new Map(
      Object.entries(toolServers.servers).map(([name, entry]) => [
        name,
        { name, kind: isStdio(entry) ? 'stdio' : 'http', state: 'idle', lastError: null },
      ]),
    );
    client.on('result', ([, id, , body]) => {
      if (!(body instanceof Uint8Array) || body.length > toolServers.limits.answerBytes) throw malformed('result');
      client.answer(id, body);
    });
    client.on('error', ([, id, error]) => {
      if (!FAILURE.holds(error)) throw malformed('error');
      client.answer(id, failed(error.message));
    });
    client.on('toolServer', ([, ...change]) => this.#changed(...change));
    client.onExit(() => {
      for (const server of this.#servers.values()) if (server.state === 'connected') server.state = 'idle';
    });
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
    if (!this.#servers.has(server)) {
      const configured = [...this.#servers.keys()].join(', ');
      throw failed(`No MCP server is configured as ${server.slice(0, 80)}. Configured are ${configured}.`);
    }
    if (this.#underWay >= LIMITS.toolServerCalls)
      throw new SvcError('OVERLOADED', 'Too many calls to MCP servers are running. Try again later.');
    const { agents, callMs } = this.#options;
    const name = `${server}.${tool}`;
    const deadline = performance.now() + callMs;
    this.#underWay++;
    try {
      const asked = agents.client.ask<Uint8Array>({
        pool: 'agents',
        party: null,
        frame: (id) => {
          const remainingMs = Math.max(1, deadline - performance.now());
          return [Kind.dispatch, id, remainingMs, ToolKind.server, name, args, '', 0];
        },
        failed: (why, reason) =>
          why === 'cancelled' ? cancelled(server, signal) : failed(this.#explain(name, why, reason)),
        waitMs: callMs,
        answerMs: callMs,
        signal,
        leaves: true,
      });
      return await asked.answer;
    } finally {
      this.#underWay--;
    }
  }

  #explain(name: string, why: Failure, reason: string): string {
    if (why === 'stopping') return 'The gateway stops.';
    if (why === 'waited' || why === 'late') return `${name} did not answer in time.`;
    if (why === 'too-large') return `The arguments for ${name} are too large.`;
    if (why === 'down' || this.#options.agents.client.isDown)
      return `The process that talks to MCP servers does not stay up: ${reason}.`;
    return `${name} failed: the process that talks to MCP servers ended (${reason}). Whether the tool did its work is not known.`;
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
  return new Error(`The process of the agents sent a malformed ${what}.`);
}
