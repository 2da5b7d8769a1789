/** Runs turns of chats and of `ctx.agent` with the host's embedded agent (specification, "Extension points"). */
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { EmbeddedResult, PluginApi } from './host-api.ts';
import type { TurnOrder } from './process/exchanged.ts';
import { hostKey } from './session.ts';

type Event = { type: string; [member: string]: unknown };
type TurnHost = {
  api: PluginApi;
  agentId: string;
  /** Every tool of the plugin. */
  tools: readonly string[];
  emit(event: Event): void;
};

/** What the host's agent may use beside the tools of svc, to edit the files of a draft. */
const FILE_TOOLS = ['read', 'write', 'edit', 'apply_patch', 'ls', 'find', 'grep'];
/** Characters of a text attachment that are put before the message. */
const TEXT_CHARS = 100_000;
const TOOLS_NOTE =
  'Here the tools of the app are called by name: its queries with `svc_read`, its actions with `svc_write`; `svc_describe` shows their input.';

/** Resolves at the end of the turn. Rejects with `AGENT_FAILED` where the agent fails. */
export async function runTurn(order: TurnOrder, host: TurnHost, signal: AbortSignal): Promise<void> {
  const { api, agentId, tools, emit } = host;
  const { conversation, folder, instructions, mode = 'data', run, resume, limited, history = [] } = order;
  const sessionId = resume ?? randomUUID();
  // A run's turn is the only one of its conversation.
  if (run === undefined) emit({ type: 'session', id: sessionId });
  const editsFiles = mode === 'full' && limited !== true;
  const [provider, ...model] = (order.model ?? '').split('/');
  const { images, texts } = await attachmentsOf(order);
  const said = resume == null ? history.map(({ role, text }) => `${role}: ${text}`).join('\n\n') : '';
  const config = api.runtime.config.current();
  const results = new Results();
  const result = await api.runtime.agent.runEmbeddedAgent({
    sessionId,
    sessionKey: hostKey(agentId, conversation),
    agentId,
    runId: randomUUID(),
    workspaceDir: folder,
    prompt: [...(said === '' ? [] : [`What was said before:\n\n${said}`]), ...texts, order.message].join('\n\n'),
    timeoutMs: api.runtime.agent.resolveAgentTimeoutMs({ cfg: config }),
    config,
    // It has few tools, so the model sees them as they are.
    disableToolSearch: true,
    codeModeOverride: false,
    extraSystemPrompt: `${instructions}\n\n${TOOLS_NOTE}`,
    ...(provider && model.length > 0 && { provider, model: model.join('/') }),
    ...(order.thinking !== undefined && { thinkLevel: order.thinking }),
    ...(images.length > 0 && { images }),
    toolsAllow: [...tools, ...(editsFiles ? FILE_TOOLS : [])],
    requireWorkspaceOnly: true,
    disableMessageTool: true,
    ...(run !== undefined && { sessionPersistence: 'detached' }),
    abortSignal: signal,
    onAgentToolResult: ({ toolName, result }) => results.add(toolName, result),
    onAgentEvent: ({ stream, data }) => {
      const event = eventOf(stream, data, results);
      if (event !== null) emit(event);
    },
  });
  signal.throwIfAborted();
  finish(result, emit);
}

/** Results of tools until their events come, which have none. */
export class Results {
  readonly #texts = new Map<string, string[]>();

  add(toolName: string, result: unknown): void {
    const texts = this.#texts.get(toolName) ?? [];
    texts.push(textOf(result));
    this.#texts.set(toolName, texts);
  }

  take(toolName: string): string {
    return this.#texts.get(toolName)?.shift() ?? '';
  }
}

/** The event of a turn that an event of the host's agent is; null for others. */
export function eventOf(stream: string, data: Record<string, unknown>, results: Results): Event | null {
  const { phase, name, toolCallId, args, isError, delta } = data;
  if (stream === 'assistant' || stream === 'thinking') {
    const type = stream === 'assistant' ? 'assistant.delta' : 'reasoning.delta';
    return typeof delta === 'string' && delta !== '' ? { type, delta } : null;
  }
  if (stream !== 'tool') return null;
  if (phase === 'start') return { type: 'tool.start', toolCallId, toolName: name, args, ...sqlOf(args) };
  if (phase !== 'result') return null;
  const text = results.take(String(name));
  const outcome = isError === true ? { errorText: text } : { result: text };
  return { type: 'tool.result', toolCallId, toolName: name, ok: isError !== true, ...outcome };
}

/** The statement, which clients show as such. */
function sqlOf(args: unknown): { sql?: string } {
  const { sql } = Object(args) as { sql?: unknown };
  return typeof sql === 'string' ? { sql } : {};
}

function textOf(result: unknown): string {
  const { content } = Object(result) as { content?: unknown };
  const parts = (Array.isArray(content) ? content : []) as { text?: unknown }[];
  const text = parts.map((part) => part.text).filter((one) => typeof one === 'string');
  return text.length > 0 ? text.join('\n') : (JSON.stringify(result) ?? '');
}

/** Throws `AGENT_FAILED`. */
function finish({ payloads = [], meta }: EmbeddedResult, emit: (event: Event) => void): void {
  const { provider, model, usage = {} } = meta.agentMeta ?? {};
  emit({
    type: 'usage',
    ...(provider && model && { provider, model: `${provider}/${model}` }),
    ...(usage.input !== undefined && { inputTokens: usage.input + (usage.cacheRead ?? 0) }),
    ...(usage.output !== undefined && { outputTokens: usage.output }),
    ...(usage.cacheRead !== undefined && { cacheReadTokens: usage.cacheRead }),
    ...(usage.cacheWrite !== undefined && { cacheWriteTokens: usage.cacheWrite }),
  });
  const failed = meta.error ?? payloads.find((one) => one.isError);
  if (failed !== undefined) {
    const { message, text } = failed as { message?: string; text?: string };
    throw Object.assign(new Error(message ?? text ?? "OpenClaw's agent failed and gave no reason."), {
      code: 'AGENT_FAILED',
    });
  }
  const texts = payloads.filter((one) => !one.isReasoning && !one.isCommentary).map((one) => one.text);
  emit({ type: 'final', text: texts.filter((text) => text !== undefined && text !== '').join('\n\n') });
}

async function attachmentsOf({ attachments = [] }: TurnOrder) {
  const images: { type: 'image'; data: string; mimeType: string }[] = [];
  const texts: string[] = [];
  for (const { name, type, path } of attachments) {
    const bytes = await readFile(path);
    if (type.startsWith('image/')) images.push({ type: 'image', data: bytes.toString('base64'), mimeType: type });
    else if (/^text\/|json|xml|csv/.test(type))
      texts.push(`The file ${name}:\n\n${bytes.toString().slice(0, TEXT_CHARS)}`);
    else texts.push(`The file ${name} (${type}) is attached, and cannot be read here.`);
  }
  return { images, texts };
}
