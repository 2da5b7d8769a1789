/** Calls a tool of an app, and writes the same call for other programs. */
import { gateway } from '../../gateway.ts';
import { quoted } from '../../words.ts';

export type Kind = 'query' | 'action';
export type ToolCall = { app: string; kind: Kind; tool: string; input: unknown };

type Issue = { path: string; message: string; keyword?: string };

/** `status` is 0 when no answer came. */
export type Outcome = {
  status: number;
  /** Of all, as the browser saw it; of the handler, as the gateway says. */
  ms: number;
  handlerMs?: number;
  isKept: boolean;
  data?: unknown;
  error?: { code: string; message: string; path?: string; issues?: Issue[] };
};

export async function callTool({ app, kind, tool, input }: ToolCall): Promise<Outcome> {
  const from = performance.now();
  const address = `/svc/_tool/svc_${kind === 'query' ? 'read' : 'write'}`;
  let response: Response;
  let answer: { isError?: boolean; data?: unknown; error?: Outcome['error'] };
  try {
    response = await gateway.send({ method: 'POST', path: address, json: { app, [kind]: tool, input } });
    answer = await response.json();
  } catch {
    const message = 'The gateway gave no answer. An action may have been done: check before you run it again.';
    return { status: 0, ms: performance.now() - from, isKept: false, error: { code: 'UNREACHABLE', message } };
  }
  const ms = performance.now() - from;
  const timing = response.headers.get('server-timing') ?? '';
  const handler = /handler;dur=([\d.]+)/.exec(timing)?.[1];
  const { data, error } = answer;
  return {
    status: response.status,
    ms,
    ...(handler !== undefined && { handlerMs: Number(handler) }),
    isKept: /cache;desc="?hit/.test(timing),
    ...(answer.isError ? error && { error } : { data }),
  };
}

/** What is wrong, by the JSON Pointer of the value; a member that is missing is at its own place, not at that of its parent. */
export function issuesOf({ error }: Pick<Outcome, 'error'>): Map<string, string> {
  const issues = new Map<string, string>();
  if (error?.code !== 'INVALID_INPUT') return issues;
  const all = error.issues ?? [{ path: error.path ?? '', message: error.message }];
  for (const { path, message, keyword } of all) {
    const missing = keyword === 'required' ? /'(.+)'/.exec(message)?.[1] : undefined;
    if (missing === undefined) issues.set(path, message);
    else issues.set(`${path}/${missing.replaceAll('~', '~0').replaceAll('/', '~1')}`, 'This is required.');
  }
  return issues;
}

/** The token is never in it: the shell asks for it. */
export function asCurl({ app, kind, tool, input }: ToolCall, origin: string): string {
  const body = JSON.stringify({ app, [kind]: tool, input });
  const address = `${origin}/svc/_tool/svc_${kind === 'query' ? 'read' : 'write'}`;
  return `curl -sS -H "authorization: Bearer $(svc token)" ${quoted(address)} \\\n  -d ${quoted(body)}`;
}

export function asCommand({ app, kind, tool, input }: ToolCall): string {
  const isEmpty = typeof input === 'object' && input !== null && Object.keys(input).length === 0;
  const verb = kind === 'query' ? 'read' : 'write';
  return `svc ${verb} ${app} ${tool}${isEmpty ? '' : ` ${quoted(JSON.stringify(input))}`}`;
}

/** `isTwice`: both a query and an action have this name. The message goes to `/svc/<app>/_mcp`. */
export function asMcp({ kind, tool, input }: ToolCall, isTwice: boolean): string {
  const params = { name: isTwice ? `${kind}.${tool}` : tool, arguments: input };
  return JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }, null, 2);
}
