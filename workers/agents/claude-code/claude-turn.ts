/** Translates the messages of one turn of Claude Code into events. */
import type { RunnerEvent, TurnUsage } from '../../../protocol/agents/agents.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { isRecord } from '../../../protocol/shapes/shape.ts';
import { sqlOf, TOOL_SERVER, textResult } from '../own-tools.ts';
import type { ClaudeMessage } from './claude-process.ts';

/** Its prefix of the app's tool names. */
const OWN_TOOL = `mcp__${TOOL_SERVER}__`;

const SIGN_IN =
  'Run `claude` in a terminal as the user of the gateway and enter /login, or give the runner a key: "apiKeyEnv" names the variable that holds it.';

type ClaudeTurnOptions = {
  emit(event: RunnerEvent): Promise<void>;
  /** Whether it uses the model server at `baseUrl`. */
  hasOwnServer: boolean;
};

/** The state of the turn. `take` gets every message after the request. */
export class ClaudeTurn {
  /** Resolves when the turn is over; rejects with why it failed. */
  readonly ended: Promise<void>;
  /** It failed because it was interrupted. */
  isStopped = false;

  readonly #options: ClaudeTurnOptions;
  /** The names of tools that have no result yet, by the numbers of their calls. */
  readonly #tools = new Map<string, string>();
  #model: string | undefined;
  /** The message whose text came in pieces. */
  #streamed: unknown = null;
  #isSignedOut = false;
  #resolve: () => void = () => {};
  #reject: (error: SvcError) => void = () => {};

  constructor(options: ClaudeTurnOptions) {
    this.#options = options;
    this.ended = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.ended.catch(() => {});
  }

  /** Ends the turn: with an error, or as requested. */
  end(error?: SvcError): void {
    if (error && !this.isStopped) this.#reject(error);
    else this.#resolve();
  }

  /** The name of the tool as the app has it. */
  toolName(name: string, callId?: unknown): string {
    return this.#tools.get(String(callId)) ?? ownName(name);
  }

  async take(message: ClaudeMessage): Promise<void> {
    // Skips messages of subagents, for which it has no tool.
    if (typeof message.parent_tool_use_id === 'string') return;
    switch (message.type) {
      case 'system':
        return await this.#system(message);
      case 'stream_event':
        return await this.#piece(message.event);
      case 'assistant':
        return await this.#message(message);
      case 'user':
        return await this.#results(message);
      case 'result':
        return await this.#result(message);
    }
  }

  async #system(message: ClaudeMessage): Promise<void> {
    if (message.subtype === 'init') {
      this.#model = text(message.model);
      if (typeof message.session_id === 'string') await this.#emit({ type: 'session', id: message.session_id });
    } else if (message.subtype === 'api_retry') {
      const { attempt, max_retries: most, error_status: status } = message;
      const why = typeof status === 'number' ? `answered ${status}` : 'could not be reached';
      await this.#emit({ type: 'phase', phase: 'retrying', detail: `The model server ${why}: ${attempt} of ${most}.` });
    }
  }

  async #piece(event: unknown): Promise<void> {
    if (!isRecord(event)) return;
    if (event.type === 'message_start' && isRecord(event.message)) this.#streamed = event.message.id;
    if (event.type !== 'content_block_delta' || !isRecord(event.delta)) return;
    const { text: delta, thinking } = event.delta;
    if (typeof delta === 'string') await this.#emit({ type: 'assistant.delta', delta });
    if (typeof thinking === 'string') await this.#emit({ type: 'reasoning.delta', delta: thinking });
  }

  async #message(message: ClaudeMessage): Promise<void> {
    if (message.error === 'authentication_failed') this.#isSignedOut = true;
    const said = isRecord(message.message) ? message.message : {};
    // An error text of the program itself, which the result repeats.
    if (message.error !== undefined || said.model === '<synthetic>') return;
    const names = new Map(objects(message.tool_use_meta).map(({ id, tool_name: name }) => [id, name]));
    for (const block of objects(said.content)) {
      if (block.type === 'text' && said.id !== this.#streamed && typeof block.text === 'string') {
        await this.#emit({ type: 'assistant.delta', delta: block.text });
      }
      if (block.type === 'tool_use') await this.#toolStart(block, names.get(block.id));
    }
  }

  async #toolStart({ id, name, input: args }: ClaudeMessage, named: unknown): Promise<void> {
    const toolCallId = String(id);
    // Its own form of a name has `_` for what models do not take, such as a dot.
    const toolName = String(name).startsWith(OWN_TOOL) && typeof named === 'string' ? named : ownName(String(name));
    this.#tools.set(toolCallId, toolName);
    await this.#emit({ type: 'tool.start', toolCallId, toolName, args, ...sqlOf(toolName, args) });
  }

  async #results(message: ClaudeMessage): Promise<void> {
    const { content } = isRecord(message.message) ? message.message : {};
    for (const block of objects(content)) {
      const toolCallId = String(block.tool_use_id);
      const toolName = this.#tools.get(toolCallId);
      if (block.type !== 'tool_result' || toolName === undefined) continue;
      this.#tools.delete(toolCallId);
      const ok = block.is_error !== true;
      const outcome = ok
        ? { result: resultOf(block.content, message.tool_use_result) }
        : { errorText: textOf(block.content) };
      await this.#emit({ type: 'tool.result', toolCallId, toolName, ok, ...outcome });
    }
  }

  async #result(message: ClaudeMessage): Promise<void> {
    const usage = usageOf(message, this.#model, this.#options.hasOwnServer);
    if (usage) await this.#emit({ type: 'usage', ...usage });
    // Some errors have the subtype `success`.
    if (message.is_error === true || message.subtype !== 'success') return this.end(this.#failure(message));
    if (typeof message.result === 'string') await this.#emit({ type: 'final', text: message.result });
    this.end();
  }

  #failure({ result, errors, subtype, api_error_status: status }: ClaudeMessage): SvcError {
    const said = text(result) ?? (Array.isArray(errors) ? errors.join('; ') : '');
    const words = said === '' ? String(subtype) : said;
    if (status === 401) {
      return new SvcError(
        'AGENT_FAILED',
        `The model server refused Claude Code's sign-in or key. ${SIGN_IN} (${words})`,
      );
    }
    if (this.#isSignedOut) return new SvcError('AGENT_FAILED', `Claude Code is not signed in. ${SIGN_IN}`);
    return new SvcError('AGENT_FAILED', `Claude Code failed: ${words}`);
  }

  async #emit(event: RunnerEvent): Promise<void> {
    await this.#options.emit(event);
  }
}

/** The turn's usage from its result; null when the model was not reached. */
function usageOf(message: ClaudeMessage, model: string | undefined, hasOwnServer: boolean): TurnUsage | null {
  const usage = isRecord(message.usage) ? message.usage : {};
  const models = isRecord(message.model_usage_since_last_result) ? message.model_usage_since_last_result : {};
  const parts = objects(Object.values(models));
  if (parts.length === 0) return null;
  // For a model of unknown price it uses another model's price.
  const isPriced = parts.every(({ costUSD, costBasis }) => typeof costUSD === 'number' && costBasis !== 'unknown');
  const { input_tokens: fresh, cache_read_input_tokens: read, cache_creation_input_tokens: written } = usage;
  const counts = {
    // Its input tokens exclude cached ones.
    inputTokens: [fresh, read, written].reduce<number>(
      (sum, count) => sum + (typeof count === 'number' ? count : 0),
      0,
    ),
    outputTokens: usage.output_tokens,
    cacheReadTokens: read,
    cacheWriteTokens: written,
    ...(isPriced ? { costUsd: parts.reduce((sum, { costUSD }) => sum + (costUSD as number), 0) } : {}),
  };
  return {
    ...(model === undefined ? {} : { model }),
    ...(hasOwnServer ? {} : { provider: 'anthropic' }),
    ...Object.fromEntries(Object.entries(counts).filter(([, count]) => typeof count === 'number')),
  };
}

/** The text of a tool's result. `shown` is what the model gets: the beginning of a long one, and the structured one without text. */
function resultOf(shown: unknown, whole: unknown): string {
  const parts = isRecord(whole) ? whole.content : whole;
  if (Array.isArray(parts)) return textOf(parts);
  const structured = isRecord(whole) ? whole.structuredContent : undefined;
  return structured === undefined ? textOf(shown) : textResult(structured);
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  return objects(content)
    .map((part) => text(part.text) ?? `[${String(part.type)}]`)
    .join('\n');
}

function ownName(name: string): string {
  return name.startsWith(OWN_TOOL) ? name.slice(OWN_TOOL.length) : name;
}

function objects(value: unknown): ClaudeMessage[] {
  return Array.isArray(value) ? value.filter(isRecord) : [];
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
