/** Finds an app's tool from the name that an agent shows: each agent adds the name of the gateway's MCP server differently. */

/** Name of the gateway's MCP server in the configuration of every agent. */
export const TOOL_SERVER = 'svc';

/** `mcp__svc__add`, `svc_add`, `svc/add`, `svc.add`, `svc: add` and `add (svc MCP Server)`. */
const PREFIXED = /^(?:mcp__)?svc(?:__|_|\/|\.|: ?)([\w.-]+)$/;
const FOLLOWED = /^([\w.-]+) \(svc MCP Server\)$/;
/** Their own names begin as those of agents do that put the server's name before a tool's. */
const GATEWAY_TOOL = /^svc_(?:sql_(?:describe|read|write)|draft_check)$/;

/** The tool's name in the app's manifest, or null if it is not the app's. */
export function ownToolName(name: string): string | null {
  if (GATEWAY_TOOL.test(name)) return name;
  const [, own] = PREFIXED.exec(name) ?? FOLLOWED.exec(name) ?? [];
  return own ?? null;
}

/** What a tool answered, as the text that all runners give. */
export function textResult(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

/** The `sql` of an event for one of the tools for SQL. */
export function sqlOf(toolName: string, args: unknown): { sql: string } | undefined {
  if (!toolName.startsWith('svc_sql_')) return undefined;
  const sql = (args as { sql?: unknown } | null | undefined)?.sql;
  return typeof sql === 'string' ? { sql } : undefined;
}
