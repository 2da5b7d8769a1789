/** Translates the notifications of one codex turn into events, and answers its requests. */
import { relative } from 'node:path';
import type { PermissionOption, TurnUsage } from '../../../protocol/agents/agents.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { sqlOf, TOOL_SERVER, textResult } from '../own-tools.ts';
import type { Turn } from '../runner.ts';
import type { Params } from './json-rpc.ts';

/** Members that we use. Anything that differs from codex 0.169 fails the turn. */
type Item = {
  type: string;
  id: string;
  text?: string;
  server: string;
  tool: string;
  arguments: unknown;
  status: string;
  result: { content: { text?: string }[]; structuredContent: unknown } | null;
  error: { message: string } | null;
  command: string;
  aggregatedOutput: string | null;
  exitCode: number | null;
  changes: { path: string; kind: { type: string }; diff: string }[];
};
type TurnError = {
  message: string;
  codexErrorInfo: string | Record<string, { httpStatusCode?: number | null } | null> | null;
  additionalDetails: string | null;
};
export type TokenCounts = {
  inputTokens: number;
  cachedInputTokens: number;
  cacheWriteInputTokens: number;
  outputTokens: number;
};

const OPTIONS: PermissionOption[] = [
  { optionId: 'accept', kind: 'allow_once', label: 'Allow' },
  { optionId: 'decline', kind: 'reject_once', label: 'Do not allow' },
];

export class CodexTurn {
  /** Settles when codex has ended the turn, or is lost. */
  readonly completed: Promise<void>;
  readonly #turn: Turn;
  #resolve: () => void = () => {};
  #reject: (error: SvcError) => void = () => {};
  /** Messages and thoughts that came in deltas. */
  readonly #streamed = new Set<string>();
  /** The changes to files that codex may ask about. */
  readonly #changes = new Map<string, Item>();
  /** The next text needs a separator from the last one. */
  #hasText = false;
  #final = '';
  #usedBefore: TokenCounts | null;
  #used: TokenCounts | null = null;

  /** `used` is the conversation's usage before. */
  constructor(turn: Turn, used: TokenCounts | null) {
    this.#turn = turn;
    this.#usedBefore = used;
    this.completed = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.completed.catch(() => {});
  }

  /** The conversation's total usage; null when codex reports none. */
  get used(): TokenCounts | null {
    return this.#used ?? this.#usedBefore;
  }

  fail(error: SvcError): void {
    this.#reject(error);
  }

  /** The end of a turn that went well. */
  async finish(): Promise<void> {
    await this.#turn.emit({ type: 'final', text: this.#final });
  }

  /** Its usage so far; absent when codex reports none. */
  async account(asked: Pick<TurnUsage, 'model' | 'provider'>): Promise<void> {
    const used = this.#used;
    if (!used) return;
    const since = (name: keyof TokenCounts): number => used[name] - (this.#usedBefore?.[name] ?? 0);
    await this.#turn.emit({
      type: 'usage',
      ...asked,
      inputTokens: since('inputTokens'),
      outputTokens: since('outputTokens'),
      cacheReadTokens: since('cachedInputTokens'),
      cacheWriteTokens: since('cacheWriteInputTokens'),
    });
  }

  async onNotification(method: string, params: Params): Promise<void> {
    const itemId = String(params.itemId);
    switch (method) {
      case 'item/started':
        return await this.#started(params.item as Item);
      case 'item/completed':
        return await this.#completed(params.item as Item);
      case 'item/agentMessage/delta':
        this.#streamed.add(itemId);
        return await this.#text(String(params.delta));
      case 'item/reasoning/summaryTextDelta':
      case 'item/reasoning/textDelta':
        this.#streamed.add(itemId);
        return await this.#turn.emit({ type: 'reasoning.delta', delta: String(params.delta) });
      case 'item/reasoning/summaryPartAdded':
        if (params.summaryIndex === 0) return;
        return await this.#turn.emit({ type: 'reasoning.delta', delta: '\n\n' });
      case 'thread/tokenUsage/updated':
        return this.#count(params.tokenUsage as { total: TokenCounts; last: TokenCounts });
      case 'error': {
        const { message, additionalDetails } = params.error as TurnError;
        if (params.willRetry !== true) return;
        // What it said of this answer comes again.
        this.#hasText = false;
        return await this.#turn.emit({ type: 'phase', phase: 'retrying', detail: additionalDetails ?? message });
      }
      case 'turn/completed': {
        const { status, error } = params.turn as { status: string; error: TurnError | null };
        if (status === 'failed') this.#reject(turnFailure(error));
        else this.#resolve();
      }
    }
  }

  /** Answers a request of codex; null for an unknown one. */
  async onRequest(method: string, params: Params): Promise<Params | null> {
    switch (method) {
      case 'item/commandExecution/requestApproval': {
        const detail = [params.command, params.reason].filter(Boolean).join('\n');
        return { decision: await this.#ask('shell', detail) };
      }
      case 'item/fileChange/requestApproval': {
        const paths = this.#changes.get(String(params.itemId))?.changes.map(({ path }) => path) ?? [];
        return { decision: await this.#ask('apply_patch', [...paths, params.reason].filter(Boolean).join('\n')) };
      }
      case 'mcpServer/elicitation/request':
        return { action: 'decline', content: null, _meta: null };
      case 'item/tool/requestUserInput':
        return { answers: {} };
      default:
        return null;
    }
  }

  async #ask(toolName: string, detail: string): Promise<string> {
    return (await this.#turn.ask({ toolName, detail, options: OPTIONS })) ?? 'decline';
  }

  async #started(item: Item): Promise<void> {
    if (item.type === 'agentMessage' && this.#hasText) {
      this.#hasText = false;
      return await this.#turn.emit({ type: 'assistant.delta', delta: '\n\n' });
    }
    if (item.type === 'contextCompaction') return await this.#turn.emit({ type: 'phase', phase: 'compacting' });
    if (item.type === 'fileChange') this.#changes.set(item.id, item);
    const call = callOf(item, this.#turn.order.folder);
    if (!call) return;
    this.#hasText = false;
    const { toolName, args } = call;
    await this.#turn.emit({ type: 'tool.start', toolCallId: item.id, toolName, args, ...sqlOf(toolName, args) });
  }

  async #completed(item: Item): Promise<void> {
    if (item.type === 'agentMessage') {
      this.#final = item.text ?? '';
      if (!this.#streamed.has(item.id) && this.#final !== '') await this.#text(this.#final);
      return;
    }
    const call = callOf(item, this.#turn.order.folder);
    if (!call) return;
    const { toolName } = call;
    await this.#turn.emit({ type: 'tool.result', toolCallId: item.id, toolName, ...resultOf(item) });
  }

  async #text(delta: string): Promise<void> {
    this.#hasText = true;
    await this.#turn.emit({ type: 'assistant.delta', delta });
  }

  /** A resumed conversation does not report its earlier usage: the first answer of this turn counts from 0. */
  #count({ total, last }: { total: TokenCounts; last: TokenCounts }): void {
    this.#used = total;
    this.#usedBefore ??= {
      inputTokens: total.inputTokens - last.inputTokens,
      cachedInputTokens: total.cachedInputTokens - last.cachedInputTokens,
      cacheWriteInputTokens: total.cacheWriteInputTokens - last.cacheWriteInputTokens,
      outputTokens: total.outputTokens - last.outputTokens,
    };
  }
}

/** A tool's name and arguments; null for other items. */
function callOf(item: Item, folder: string): { toolName: string; args: unknown } | null {
  switch (item.type) {
    case 'mcpToolCall':
      return {
        toolName: item.server === TOOL_SERVER ? item.tool : `${item.server}.${item.tool}`,
        args: item.arguments,
      };
    case 'commandExecution':
      return { toolName: 'shell', args: { command: item.command } };
    case 'fileChange': {
      const changes = item.changes.map(({ path, kind, diff }) => ({
        path: relative(folder, path),
        kind: kind.type,
        diff,
      }));
      return { toolName: 'apply_patch', args: { changes } };
    }
    default:
      return null;
  }
}

function resultOf(item: Item): { ok: boolean; result?: string; errorText?: string } {
  const ok = item.status === 'completed';
  const declined = item.status === 'declined' ? 'It was not allowed.' : undefined;
  if (item.type === 'mcpToolCall') {
    const texts = item.result?.content.flatMap((part) => part.text ?? []) ?? [];
    const text = texts.length > 0 ? texts.join('\n') : textResult(item.result?.structuredContent ?? '');
    if (ok) return { ok, result: text };
    return { ok, errorText: item.error?.message ?? (text === '' ? 'The tool failed.' : text) };
  }
  const output = item.aggregatedOutput ?? '';
  if (ok) return { ok, result: output };
  const how = typeof item.exitCode === 'number' ? `It exited with code ${item.exitCode}.` : 'It failed.';
  return { ok, errorText: declined ?? `${how}\n${output}`.trim() };
}

const WHAT_TO_DO: Record<string, string> = {
  unauthorized: 'The model server refused the key. Check the key, or sign in with `codex login`.',
  rateLimited: 'The model server takes no more requests for now. Try again later.',
  usageLimitExceeded: 'What your plan allows is used up. Try again later.',
  contextWindowExceeded: 'The conversation is longer than the model can read. Begin another one.',
  unknownModel: 'The model server has no such model or address.',
};

/** Codex's error, with advice. */
function turnFailure(error: TurnError | null): SvcError {
  const info = error?.codexErrorInfo ?? null;
  const details = info !== null && typeof info === 'object' ? Object.values(info)[0] : null;
  const status = details?.httpStatusCode ?? null;
  const kinds: Record<number, string> = {
    401: 'unauthorized',
    403: 'unauthorized',
    404: 'unknownModel',
    429: 'rateLimited',
  };
  const names: Record<string, string> = { rateLimitExceeded: 'rateLimited', modelNotFound: 'unknownModel' };
  const kind = status !== null ? kinds[status] : typeof info === 'string' ? (names[info] ?? info) : undefined;
  const advice = kind === undefined ? undefined : WHAT_TO_DO[kind];
  const said = error?.message ?? 'It gave no reason.';
  return new SvcError('AGENT_FAILED', advice === undefined ? `Codex failed: ${said}` : `${advice} (${said})`);
}
