/** The MCP servers of a gateway without the gateway: a separate supervision tree and real processes. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  TOOL_SERVER_LIMITS,
  type ToolServerEntry,
  type ToolServerLimits,
} from '../protocol/agents/tool-server-entries.ts';
import { tagOf } from '../storage/processes/tagged.ts';
import { AgentProcess } from '../supervisor/agents/runners/agent-process.ts';
import { McpToolServers } from '../supervisor/automations/mcp-tool-servers.ts';
import type { Tree } from '../supervisor/tree/tree.ts';
import { treeIn } from './tree.ts';

export const STDIO_SERVER = new URL('./mcp-stdio.mjs', import.meta.url).pathname;

/** A stdio server of the tests, with its fault. */
export function stdioServer(flaw = 'none', env: Record<string, string> = {}): ToolServerEntry {
  return { command: process.execPath, args: [STDIO_SERVER, flaw], env };
}

export type RunningServers = {
  servers: McpToolServers;
  tree: Tree;
  log: string[];
  /** The processes in the record of children now, by pid, with their roles. */
  recorded: Map<number, string>;
  call(name: string, args?: unknown, signal?: AbortSignal): Promise<unknown>;
  stop(): Promise<void>;
};

export async function startServers(
  servers: Record<string, ToolServerEntry>,
  options: { limits?: Partial<ToolServerLimits>; callMs?: number } = {},
): Promise<RunningServers> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-mcp-'));
  const log: string[] = [];
  const recorded = new Map<number, string>();
  const onProcess = (pid: number, role: string, alive: boolean) => {
    if (alive) recorded.set(pid, role);
    else recorded.delete(pid);
  };
  const note = (level: string, message: string) => log.push(`${level} ${message}`);
  const tree = treeIn(folder, { log: note, callbacks: { onProcess } });
  await tree.start();
  const agents = new AgentProcess({
    tag: tagOf(folder),
    maxAgents: 1,
    toolServers: {
      servers,
      limits: { ...TOOL_SERVER_LIMITS, startMs: 15_000, backoffMs: 100, backoffMaxMs: 1000, ...options.limits },
    },
    createChild: (settings, events) => tree.agentsChild(settings, events),
    onProcess,
    log: note,
  });
  const tools = new McpToolServers({ agents, callMs: options.callMs ?? 60_000, log: note });
  return {
    servers: tools,
    tree,
    log,
    recorded,
    call: async (name, args = {}, signal = new AbortController().signal) => {
      const [server = '', tool = ''] = name.split('.');
      const answer = await tools.callForJson(server, tool, Buffer.from(JSON.stringify(args)), signal);
      return JSON.parse(Buffer.from(answer).toString()) as unknown;
    },
    stop: async () => {
      await agents.stop();
      await tree.stop(0);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
