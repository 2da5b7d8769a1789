/** Makes the tools of a model for one turn: those of the app over MCP and, in mode `full`, those for the files of its draft. */
import { type CallToolResult, Client, ProtocolError } from '@modelcontextprotocol/client';
import type { ToolSet } from 'ai';
import type { TurnOrder } from '../../../protocol/agents/agents.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { cutText } from '../bounded-event.ts';
import { HttpTransport } from '../mcp/http.ts';
import { DraftFiles } from './draft-files.ts';
import { FILE_TOOLS } from './file-tools.ts';

type ModelTools = { tools: ToolSet; close(): Promise<void> };

/** Rejects with `AGENT_FAILED` when the gateway does not list its tools. */
export async function modelTools({ gateway, mode, folder }: TurnOrder, signal: AbortSignal): Promise<ModelTools> {
  const { dynamicTool, jsonSchema } = await import('ai');
  const headers = { authorization: `Bearer ${gateway.token}` };
  const transport = new HttpTransport({ url: gateway.url, headers }, LIMITS.toolServerAnswerBytes);
  const client = new Client({ name: 'svc', version: '1' }, { capabilities: {} });
  const options = { timeout: LIMITS.toolTimeoutMs, signal };
  const tools: ToolSet = {};
  try {
    await client.connect(transport, options);
    const { tools: listed } = await client.listTools(undefined, options);
    for (const { name, description = '', inputSchema } of listed) {
      tools[name] = dynamicTool({
        description,
        inputSchema: jsonSchema(inputSchema),
        execute: async (args, { abortSignal = signal }) => {
          const call = { name, arguments: args as Record<string, unknown> };
          return shown(await client.callTool(call, { timeout: LIMITS.toolTimeoutMs, signal: abortSignal }));
        },
      });
    }
  } catch (error) {
    await client.close();
    throw new SvcError('AGENT_FAILED', `The tools of the app cannot be reached: ${(error as Error).message}`, {
      cause: error,
    });
  }
  const running = new Set<Promise<string>>();
  if (mode === 'full') {
    const files = new DraftFiles(folder);
    for (const { name, description, input, run } of FILE_TOOLS) {
      // If an app has tools with these names, the app's keep their names.
      tools[Object.hasOwn(tools, name) ? `file_${name}` : name] = dynamicTool({
        description,
        inputSchema: jsonSchema(input),
        execute: async (args) => {
          const ended = (async () => run(args, files))();
          running.add(ended);
          return cut(await ended.finally(() => running.delete(ended)));
        },
      });
    }
  }
  const close = async () => {
    // An abort does not wait for a file that is being written.
    await Promise.allSettled(running);
    await client.close();
  };
  return { tools, close };
}

/** The text of a result. Throws it when it reports a failure: the model gets that and may go on. */
function shown({ content, structuredContent, isError }: CallToolResult): string {
  const texts = content.map((part) => (part.type === 'text' ? part.text : `[${part.type}]`));
  const text =
    texts.length > 0 || structuredContent === undefined ? texts.join('\n') : JSON.stringify(structuredContent);
  if (isError) throw new Error(cut(text));
  return cut(text);
}

function cut(text: string): string {
  const short = cutText(text, LIMITS.agentToolBytes);
  return short.length === text.length ? text : `${short}\n[${text.length - short.length} more characters were cut]`;
}

/** The error of a tool, for the event. */
export function toolErrorText(error: unknown): string {
  if (error instanceof ProtocolError || error instanceof Error) return error.message;
  return String(error);
}
