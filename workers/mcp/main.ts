/**
 * Talks to MCP servers in a separate process, so that their data cannot block or crash others. Entry of dist/mcp.js. When it
 * loses its supervisor it ends its servers, then itself.
 */
import { createInterface } from 'node:readline';
import type { ToolServersBootstrap } from '../../protocol/agents/tool-servers.ts';
import { SvcError } from '../../protocol/errors.ts';
import { type FrameOf, Kind } from '../../protocol/wire/frames.ts';
import { openLink, pong } from '../../protocol/wire/link.ts';
import { failure, ToolServer } from './tool-server.ts';

function run({ supervisorSocket, ticket, servers: entries, limits }: ToolServersBootstrap): void {
  const running = new Map<number, AbortController>();
  const servers = new Map<string, ToolServer>();
  for (const [name, entry] of Object.entries(entries)) {
    const server = new ToolServer(name, entry, limits, {
      state: (state, detail, said) => link.send([Kind.toolServer, name, state, detail, said]),
      process: (pid, alive) => link.send([Kind.toolProcess, pid, alive]),
    });
    servers.set(name, server);
  }

  async function call(tool: string, body: Uint8Array, signal: AbortSignal, remainingMs: number): Promise<Buffer> {
    // The name of a server has no dot; that of a tool may.
    const dot = tool.indexOf('.');
    const server = servers.get(tool.slice(0, dot));
    if (!server) throw failure(`No MCP server is configured as ${tool.slice(0, dot)}.`);
    const args = JSON.parse(Buffer.from(body).toString()) as Record<string, unknown>;
    return await server.call(tool.slice(dot + 1), args, signal, remainingMs);
  }

  async function dispatch([, callId, remainingMs, , tool, body]: FrameOf<'dispatch'>): Promise<void> {
    const began = performance.now();
    const controller = new AbortController();
    running.set(callId, controller);
    try {
      const answer = await call(tool, body, controller.signal, remainingMs);
      link.send([Kind.result, callId, 200, answer, performance.now() - began]);
    } catch (error) {
      const failed = error instanceof SvcError ? error : failure((error as Error).message);
      link.send([Kind.error, callId, failed.toBody(), performance.now() - began]);
    } finally {
      running.delete(callId);
    }
  }

  let ending = false;
  const end = () => {
    if (ending) return;
    ending = true;
    void Promise.all([...servers.values()].map((server) => server.close())).then(() => process.exit(0));
  };
  const link = openLink(supervisorSocket, ticket, {
    onFrame: (frame) => {
      if (frame[0] === Kind.dispatch) void dispatch(frame);
      else if (frame[0] === Kind.cancel) running.get(frame[1])?.abort();
      else if (frame[0] === Kind.ping) link.send(pong(frame[1], { calls: running.size }));
    },
    onClose: end,
  });
  // However this process ends, its servers end too.
  process.on('exit', () => {
    for (const server of servers.values()) server.kill();
  });
  process.stdin.on('close', end);
  link.send([Kind.ready, { pid: process.pid }]);
}

const lines = createInterface({ input: process.stdin });
lines.once('line', (line) => run(JSON.parse(line) as ToolServersBootstrap));
