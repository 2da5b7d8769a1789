/** Checks entries of `mcpServers` in the configuration, and defines the settings that the process of the MCP servers gets. */
import {
  type EntryFault,
  entriesFault,
  environment,
  isObject,
  membersFault,
  strings,
  text,
  texts,
  webAddress,
} from '../entry-checks.ts';
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

/**
 * The one line of JSON that the process of the MCP servers reads from its standard input. The process ends when that input
 * ends.
 */
export type ToolServersBootstrap = ToolServerSettings & { supervisorSocket: string; ticket: string };

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** What a header may hold: no line breaks, no NUL. */
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

export function isStdio(entry: ToolServerEntry): entry is StdioServerEntry {
  return 'command' in entry;
}

/** The first fault of a value for `mcpServers`, or null. `at` is the path below that key, such as `git.args[0]`. */
export function toolServersFault(value: unknown): EntryFault | null {
  return entriesFault(value, 'an object of MCP servers by name', (entry) => {
    if (!isObject(entry) || Object.hasOwn(entry, 'command') === Object.hasOwn(entry, 'url'))
      return { at: '', wanted: 'an object with either "command" (stdio) or "url" (streamable HTTP)' };
    return membersFault(entry, Object.hasOwn(entry, 'command') ? STDIO_MEMBERS : HTTP_MEMBERS);
  });
}

const headers = strings(HEADER_NAME, HEADER_VALUE, 'a header name with a string of one line');

const STDIO_MEMBERS = { command: text, args: texts, env: environment, cwd: text };
const HTTP_MEMBERS = { url: webAddress('give those in "headers"'), headers };

/** Variables that programs need to be found and to find their user's files; a server inherits those that the SDK deems safe. */
const INHERITED = ['HOME', 'LOGNAME', 'PATH', 'SHELL', 'TERM', 'USER'];
/** Which certificates our own requests trust; servers do not get these. */
const CERTIFICATES = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_DIR', 'SSL_CERT_FILE'];

/** The environment of the process of the MCP servers, taken from the gateway's: nothing that may hold a secret. */
export function toolServerEnvironment(from: Record<string, string | undefined>): Record<string, string> {
  const kept = [...INHERITED, ...CERTIFICATES].filter((name) => from[name] !== undefined);
  return Object.fromEntries(kept.map((name) => [name, from[name] as string]));
}
