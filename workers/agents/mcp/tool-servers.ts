/** Calls tools of MCP servers for the supervisor, each server over one connection. */
import type { ToolServerSettings } from '../../../protocol/agents/tool-server-entries.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { type Frame, type FrameOf, Kind } from '../../../protocol/wire/frames.ts';
import type { ToolServer } from './tool-server.ts';

export class ToolServers {
  readonly #send: (frame: Frame) => void;
  readonly #settings: ToolServerSettings;
  readonly #servers = new Map<string, ToolServer>();
  readonly #running = new Map<number, AbortController>();

  constructor(settings: ToolServerSettings, send: (frame: Frame) => void) {
    this.#settings = settings;
    this.#send = send;
  }

  get calls(): number {
    return this.#running.size;
  }

  /** Answers with the frame `result` or `error`. */
  async dispatch([, callId, remainingMs, , tool, body]: FrameOf<'dispatch'>): Promise<void> {
    const began = performance.now();
    const controller = new AbortController();
    this.#running.set(callId, controller);
    try {
      const answer = await this.#call(tool, body, controller.signal, remainingMs);
      this.#send([Kind.result, callId, 200, answer, performance.now() - began]);
    } catch (error) {
      const message = (error as Error).message.slice(0, LIMITS.errorMessageChars);
      const failed = error instanceof SvcError ? error : new SvcError('TOOL_SERVER_FAILED', message);
      this.#send([Kind.error, callId, failed.toBody(), performance.now() - began]);
    } finally {
      this.#running.delete(callId);
    }
  }

  /** Does nothing for a call that has ended. */
  cancel(callId: number): void {
    this.#running.get(callId)?.abort();
  }

  /** Ends the connections, and the servers that are our processes. */
  async close(): Promise<void> {
    await Promise.all([...this.#servers.values()].map((server) => server.close()));
  }

  /** Kills the servers without waiting: this process ends. */
  kill(): void {
    for (const server of this.#servers.values()) server.kill();
  }

  async #call(tool: string, body: Uint8Array, signal: AbortSignal, remainingMs: number): Promise<Buffer> {
    // The name of a server has no dot; that of a tool may.
    const dot = tool.indexOf('.');
    const server = await this.#server(tool.slice(0, dot));
    const args = JSON.parse(Buffer.from(body).toString()) as Record<string, unknown>;
    return await server.call(tool.slice(dot + 1), args, signal, remainingMs);
  }

  /** Its client is loaded when it is first needed: a process that only runs agents does without. */
  async #server(name: string): Promise<ToolServer> {
    const { ToolServer } = await import('./tool-server.ts');
    const known = this.#servers.get(name);
    if (known) return known;
    const { servers, limits } = this.#settings;
    const entry = servers[name];
    if (!entry) throw new SvcError('TOOL_SERVER_FAILED', `No MCP server is configured as ${name}.`);
    const server = new ToolServer(name, entry, limits, {
      state: (state, detail, said) => this.#send([Kind.toolServer, name, state, detail, said]),
      process: (pid, alive) => this.#send([Kind.toolProcess, pid, alive, 'mcp-server']),
    });
    this.#servers.set(name, server);
    return server;
  }
}
