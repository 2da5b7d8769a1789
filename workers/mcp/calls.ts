/** The calls under way in the process of the MCP servers: dispatched, cancelled, answered. Frames in, frames out. */
import { type ErrorBody, SvcError } from '../../protocol/errors.ts';
import { type CancelFrame, type DispatchFrame, type Frame, Kind } from '../../protocol/frames.ts';
import { failure } from './answer.ts';
import type { ToolServer } from './tool-server.ts';

export class Calls {
  readonly #servers: Map<string, ToolServer>;
  readonly #send: (frame: Frame) => void;
  readonly #now: () => number;
  readonly #running = new Map<number, AbortController>();

  constructor(options: { servers: Map<string, ToolServer>; send(frame: Frame): void; now(): number }) {
    this.#servers = options.servers;
    this.#send = options.send;
    this.#now = options.now;
  }

  get running(): number {
    return this.#running.size;
  }

  async dispatch([, callId, remainingMs, , tool, body]: DispatchFrame): Promise<void> {
    const began = this.#now();
    const controller = new AbortController();
    this.#running.set(callId, controller);
    try {
      const answer = await this.#call(tool, body, controller.signal, remainingMs);
      this.#send([Kind.result, callId, 200, answer, this.#now() - began]);
    } catch (error) {
      this.#send([Kind.error, callId, bodyOf(error), this.#now() - began]);
    } finally {
      this.#running.delete(callId);
    }
  }

  cancel([, callId]: CancelFrame): void {
    this.#running.get(callId)?.abort();
  }

  async #call(name: string, body: Uint8Array, signal: AbortSignal, remainingMs: number): Promise<Buffer> {
    // The name of a server has no dot; that of a tool may.
    const dot = name.indexOf('.');
    const server = this.#servers.get(name.slice(0, dot));
    if (!server) throw failure(`No MCP server is configured as ${name.slice(0, dot)}.`);
    const args = JSON.parse(Buffer.from(body).toString()) as Record<string, unknown>;
    return await server.call(name.slice(dot + 1), args, signal, remainingMs);
  }
}

function bodyOf(error: unknown): ErrorBody {
  return (error instanceof SvcError ? error : failure((error as Error).message)).toBody();
}
