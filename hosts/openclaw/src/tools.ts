/**
 * The agent tools of the host: the dispatcher's three, and those for SQL (specification, "Dispatcher" and "SQL of callers").
 */
import { DISPATCHER_TOOLS, type McpTool, SQL_TOOLS } from '../../../supervisor/mcp/definitions.ts';
import type { HostTool, PluginApi } from './host-api.ts';
import type { ToolAnswer, ToolOrder } from './process/exchanged.ts';
import { refusal } from './session.ts';

export const TOOLS: { shown: McpTool; optional: boolean }[] = [
  ...DISPATCHER_TOOLS.map((shown) => ({ shown, optional: false })),
  ...SQL_TOOLS.map(({ shown }) => ({ shown, optional: true })),
];
export const TOOL_NAMES = TOOLS.map(({ shown }) => shown.name) as [string, ...string[]];

/** Calls a tool for the agent of a session of the host. */
export type CallTool = (call: ToolOrder, sessionKey: string | undefined, signal?: AbortSignal) => Promise<ToolAnswer>;

export function registerTools(api: PluginApi, call: CallTool): void {
  for (const { shown, optional } of TOOLS)
    api.registerTool(({ sessionKey }) => toolOf(shown, call, sessionKey), { name: shown.name, optional });
  // Asked before the tool runs, whoever calls it.
  api.on(
    'before_tool_call',
    ({ params }, { sessionKey }) => {
      const blockReason = refusal(sessionKey, params);
      return blockReason === null ? undefined : { block: true, blockReason };
    },
    { matcher: TOOL_NAMES },
  );
}

function toolOf(
  { name, description = '', inputSchema }: McpTool,
  call: CallTool,
  sessionKey: string | undefined,
): HostTool {
  return {
    name,
    label: name,
    description,
    parameters: inputSchema,
    execute: async (_id, params, signal) => {
      const args = (params ?? {}) as Record<string, unknown>;
      const { text, isError } = await call({ name, args }, sessionKey, signal);
      if (isError) throw new Error(text);
      return { content: [{ type: 'text', text }], details: {} };
    },
  };
}
