/** The MCP servers of a gateway's configuration: what an entry of `mcpServers` may hold, and what their process is told. */
import { LIMITS } from './limits.ts';

/** A server that is started as a process and spoken to over its standard input and output. */
export type StdioServerEntry = { command: string; args?: string[]; env?: Record<string, string>; cwd?: string };
/** A server that is reached over streamable HTTP. */
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

/** The one line of JSON that the process of the MCP servers reads from its standard input. When that ends, so does it. */
export type ToolServersBootstrap = ToolServerSettings & { supervisorSocket: string; ticket: string };

/** A fault of the configuration: where in `mcpServers`, and what must stand there. */
export type EntryFault = { at: string; wanted: string };

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** What a header may hold, and a text for another program: no line breaks, no NUL. */
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

export function isStdio(entry: ToolServerEntry): entry is StdioServerEntry {
  return 'command' in entry;
}

/** The first fault of a value for `mcpServers`, or null. `at` is the path below that key, such as `git.args[0]`. */
export function toolServersFault(value: unknown): EntryFault | null {
  if (!isRecord(value)) return { at: '', wanted: 'an object of MCP servers by name' };
  for (const [name, entry] of Object.entries(value)) {
    if (!NAME.test(name))
      return { at: name, wanted: 'named with 1 to 64 letters, digits, "_" and "-", the first a letter or digit' };
    const fault = entryFault(entry);
    if (fault) return { at: fault.at === '' ? name : `${name}.${fault.at}`, wanted: fault.wanted };
  }
  return null;
}

function entryFault(entry: unknown): EntryFault | null {
  if (!isRecord(entry) || Object.hasOwn(entry, 'command') === Object.hasOwn(entry, 'url'))
    return { at: '', wanted: 'an object with either "command" (stdio) or "url" (streamable HTTP)' };
  const members = Object.hasOwn(entry, 'command') ? STDIO_MEMBERS : HTTP_MEMBERS;
  for (const [member, value] of Object.entries(entry)) {
    const check = Object.hasOwn(members, member) ? members[member] : undefined;
    if (!check) return { at: member, wanted: `one of ${Object.keys(members).join(', ')}` };
    const fault = check(value);
    if (fault) return { at: `${member}${fault.at}`, wanted: fault.wanted };
  }
  return null;
}

type MemberCheck = (value: unknown) => EntryFault | null;

const text: MemberCheck = (value) =>
  isText(value) && value !== '' ? null : { at: '', wanted: 'a non-empty string without NUL' };

const texts: MemberCheck = (value) => {
  if (!Array.isArray(value)) return { at: '', wanted: 'a list of strings' };
  const wrong = value.findIndex((item) => !isText(item));
  return wrong < 0 ? null : { at: `[${wrong}]`, wanted: 'a string without NUL' };
};

/** An object whose names and texts match. */
const strings =
  (name: RegExp, text: RegExp, wanted: string): MemberCheck =>
  (value) => {
    if (!isRecord(value)) return { at: '', wanted: 'an object of strings' };
    const isWrong = ([key, item]: [string, unknown]) => !name.test(key) || typeof item !== 'string' || !text.test(item);
    const wrong = Object.entries(value).find(isWrong);
    return wrong === undefined ? null : { at: `.${wrong[0]}`, wanted };
  };

const environment = strings(/^[^=\0]+$/, /^[^\0]*$/, 'a variable name with a string without NUL');
const headers = strings(HEADER_NAME, HEADER_VALUE, 'a header name with a string of one line');

const url: MemberCheck = (value) => {
  const parsed = typeof value === 'string' && URL.canParse(value) ? new URL(value) : null;
  const plain = parsed?.username === '' && parsed.password === '';
  return plain && (parsed?.protocol === 'http:' || parsed?.protocol === 'https:')
    ? null
    : { at: '', wanted: 'an http or https address without user and password; give those in "headers"' };
};

const STDIO_MEMBERS: Record<string, MemberCheck> = { command: text, args: texts, env: environment, cwd: text };
const HTTP_MEMBERS: Record<string, MemberCheck> = { url, headers };

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && !value.includes('\0');
}

/** What programs need to be found and to find their user's things; of these a server inherits what the SDK deems safe. */
const INHERITED = ['HOME', 'LOGNAME', 'PATH', 'SHELL', 'TERM', 'USER'];
/** Which certificates our own requests trust; servers do not get these. */
const CERTIFICATES = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_DIR', 'SSL_CERT_FILE'];

/** The environment of the process of the MCP servers, taken from the gateway's: nothing that may hold a secret. */
export function toolServerEnvironment(from: Record<string, string | undefined>): Record<string, string> {
  const kept = [...INHERITED, ...CERTIFICATES].filter((name) => from[name] !== undefined);
  return Object.fromEntries(kept.map((name) => [name, from[name] as string]));
}
