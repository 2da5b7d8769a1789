/** Finds out an app's tool from the name that an agent shows, in which each agent adds the name of the MCP server differently. */

/** What the gateway's MCP server is called in the configuration of an agent. */
export const GATEWAY_SERVER = 'gateway';

/** `mcp__gateway__add`, `gateway_add`, `gateway/add`, `gateway.add`, `gateway: add` and `add (gateway MCP Server)`. */
const PREFIXED = /^(?:mcp__)?gateway(?:__|_|\/|\.|: ?)([\w.-]+)$/;
const FOLLOWED = /^([\w.-]+) \(gateway MCP Server\)$/;

/** The tool's name in the app's manifest, or null for what is no tool of the app. */
export function ownToolName(name: string): string | null {
  const [, own] = PREFIXED.exec(name) ?? FOLLOWED.exec(name) ?? [];
  return own ?? null;
}

/** The `sql` of an event for one of the tools for SQL. */
export function sqlOf(toolName: string, args: unknown): { sql: string } | undefined {
  if (!toolName.startsWith('svc_sql_')) return undefined;
  const sql = (args as { sql?: unknown } | null | undefined)?.sql;
  return typeof sql === 'string' ? { sql } : undefined;
}
