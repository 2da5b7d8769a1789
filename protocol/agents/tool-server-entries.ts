/** Types of the entries of `mcpServers` in the configuration, and of what the agents process is told of MCP servers. */
import { LIMITS } from '../limits.ts';

/** A server that runs as a process and talks over its standard input and output. */
export type StdioServerEntry = { command: string; args?: string[]; env?: Record<string, string>; cwd?: string };
/** A server at a URL, over streamable HTTP. */
export type HttpServerEntry = { url: string; headers?: Record<string, string> };
export type ToolServerEntry = StdioServerEntry | HttpServerEntry;

/** `idle`: not asked yet; `failed`: down, and tried again once its wait is over. */
export const TOOL_SERVER_STATES = ['idle', 'connected', 'failed'] as const;
export type ToolServerState = (typeof TOOL_SERVER_STATES)[number];

/** Times in milliseconds, sizes in bytes. */
export const TOOL_SERVER_LIMITS = {
  startMs: LIMITS.toolServerStartMs as number,
  backoffMs: LIMITS.toolServerBackoffMs as number,
  backoffMaxMs: LIMITS.toolServerBackoffMaxMs as number,
  answerBytes: LIMITS.toolServerAnswerBytes as number,
};
export type ToolServerLimits = typeof TOOL_SERVER_LIMITS;

export type ToolServerSettings = { servers: Record<string, ToolServerEntry>; limits: ToolServerLimits };

export function isStdio(entry: ToolServerEntry): entry is StdioServerEntry {
  return 'command' in entry;
}

/** Variables that programs need to be found and to find their user's files; a server inherits those that the SDK deems safe. */
const INHERITED = ['HOME', 'LOGNAME', 'PATH', 'SHELL', 'TERM', 'USER'];
/** Which certificates our own requests trust; servers do not get these. */
const CERTIFICATES = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_DIR', 'SSL_CERT_FILE'];

/** The environment of the agents process, taken from the gateway's: nothing that may hold a secret. */
export function agentsEnvironment(from: Record<string, string | undefined>): Record<string, string> {
  const kept = [...INHERITED, ...CERTIFICATES].filter((name) => from[name] !== undefined);
  return Object.fromEntries(kept.map((name) => [name, from[name] as string]));
}
