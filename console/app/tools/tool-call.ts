/** Calls a tool of an app, and writes the same call for other programs. */
import type { ErrorBody } from '../../../protocol/errors.ts';
import { type Request, requestOf } from '../../../protocol/http/client.ts';
import type { Received } from '../../../protocol/routes/api.ts';
import { gateway } from '../../gateway.ts';
import { quoted } from '../../words.ts';

export type Kind = 'query' | 'action';
export type ToolCall = { app: string; kind: Kind; tool: string; input: unknown };

type Answer = Received<'POST /svc/_tool/svc_read' | 'POST /svc/_tool/svc_write'> | { isError: true; error: ErrorBody };

/** `status` is 0 when no answer came. */
export type Outcome = {
  status: number;
  /** Of all, as the browser saw it; of the handler, as the gateway says. */
  ms: number;
  handlerMs?: number;
  isKept: boolean;
  data?: unknown;
  error?: ErrorBody;
};

const requestFor = ({ app, kind, tool, input }: ToolCall): Request =>
  kind === 'query'
    ? requestOf('POST /svc/_tool/svc_read', { body: { app, query: tool, input } })
    : requestOf('POST /svc/_tool/svc_write', { body: { app, action: tool, input } });

export async function callTool(call: ToolCall): Promise<Outcome> {
  const from = performance.now();
  let response: Response;
  let answer: Answer;
  try {
    response = await gateway.send(requestFor(call));
    answer = await response.json();
  } catch {
    const message = 'The gateway gave no answer. An action may have been done: check before you run it again.';
    return { status: 0, ms: performance.now() - from, isKept: false, error: { code: 'UNREACHABLE', message } };
  }
  const ms = performance.now() - from;
  const timing = response.headers.get('server-timing') ?? '';
  const handler = /handler;dur=([\d.]+)/.exec(timing)?.[1];
  return {
    status: response.status,
    ms,
    ...(handler !== undefined && { handlerMs: Number(handler) }),
    isKept: /cache;desc="?hit/.test(timing),
    ...('error' in answer ? { error: answer.error } : { data: answer.data }),
  };
}

/** What is wrong, by the JSON Pointer of the value; a member that is missing is at its own place, not at that of its parent. */
export function issuesOf({ error }: Pick<Outcome, 'error'>): Map<string, string> {
  const issues = new Map<string, string>();
  if (error?.code !== 'INVALID_INPUT') return issues;
  const all = error.issues ?? [{ path: error.path ?? '', message: error.message, keyword: '' }];
  for (const { path, message, keyword } of all) {
    const missing = keyword === 'required' ? /'(.+)'/.exec(message)?.[1] : undefined;
    if (missing === undefined) issues.set(path, message);
    else issues.set(`${path}/${missing.replaceAll('~', '~0').replaceAll('/', '~1')}`, 'This is required.');
  }
  return issues;
}

/** The token is never in it: the shell asks for it. */
export function asCurl(call: ToolCall, origin: string): string {
  const { path, json } = requestFor(call);
  const address = quoted(origin + path);
  return `curl -sS -H "authorization: Bearer $(svc token)" ${address} \\\n  -d ${quoted(JSON.stringify(json))}`;
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
