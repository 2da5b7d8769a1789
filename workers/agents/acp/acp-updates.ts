/** Translates the updates of an Agent Client Protocol session into events. Every member is checked before it is used. */
import {
  type AgentModel,
  type RunnerEvent,
  THINKING_LEVELS,
  type ThinkingLevel,
  type TurnUsage,
} from '../../../protocol/agents/agents.ts';
import { ownToolName, sqlOf, textResult } from '../own-tools.ts';

/** The member at this path, or undefined. */
export function at(value: unknown, ...path: (string | number)[]): unknown {
  let found = value;
  for (const name of path) {
    if (typeof found !== 'object' || found === null) return undefined;
    found = (found as Record<string | number, unknown>)[name];
  }
  return found;
}

export function textAt(value: unknown, ...path: (string | number)[]): string | undefined {
  const found = at(value, ...path);
  return typeof found === 'string' ? found : undefined;
}

export function listAt(value: unknown, ...path: (string | number)[]): unknown[] {
  const found = at(value, ...path);
  return Array.isArray(found) ? found : [];
}

function numberAt(value: unknown, ...path: (string | number)[]): number | undefined {
  const found = at(value, ...path);
  return typeof found === 'number' && Number.isFinite(found) && found >= 0 ? found : undefined;
}

/** Kinds of tools that change files. */
const CHANGES = ['edit', 'delete', 'move'];

type Call = { toolName: string; args: unknown; isStarted: boolean };

/** The updates of one turn. */
export class AcpUpdates {
  readonly #emit: (event: RunnerEvent) => void;
  /** The calls of tools that have no result yet. */
  readonly #calls = new Map<string, Call>();
  /** The text since the last tool. */
  text = '';
  #isAfterTool = false;
  /** The total cost of the session in US dollars, if the agent reports it. */
  costUsd: number | undefined;

  constructor(emit: (event: RunnerEvent) => void) {
    this.#emit = emit;
  }

  take(update: unknown): void {
    const text = textAt(update, 'content', 'text') ?? '';
    switch (at(update, 'sessionUpdate')) {
      case 'agent_message_chunk':
        if (text === '') break;
        if (this.#isAfterTool) this.text = '';
        this.#isAfterTool = false;
        this.text += text;
        this.#emit({ type: 'assistant.delta', delta: text });
        break;
      case 'agent_thought_chunk':
        if (text !== '') this.#emit({ type: 'reasoning.delta', delta: text });
        break;
      case 'tool_call':
      case 'tool_call_update':
        this.#call(update);
        break;
      case 'plan': {
        const steps = listAt(update, 'entries').map(
          (entry) => `${at(entry, 'status') === 'completed' ? '[x]' : '[ ]'} ${textAt(entry, 'content') ?? ''}`,
        );
        this.#emit({ type: 'phase', phase: 'plan', detail: steps.join('\n') });
        break;
      }
      case 'usage_update':
        if (at(update, 'cost', 'currency') === 'USD') this.costUsd = numberAt(update, 'cost', 'amount') ?? this.costUsd;
        break;
    }
  }

  /** Ends the turn: tools that were announced are shown, as such without a result. */
  finish(): void {
    for (const [toolCallId, call] of this.#calls) this.#start(toolCallId, call);
    this.#calls.clear();
  }

  /** Agents announce a call before they know its arguments, and send these in an update. */
  #call(update: unknown): void {
    const toolCallId = textAt(update, 'toolCallId');
    if (toolCallId === undefined) return;
    this.#isAfterTool = true;
    const call = this.#calls.get(toolCallId) ?? { toolName: 'tool', args: undefined, isStarted: false };
    this.#calls.set(toolCallId, call);
    if (!call.isStarted) {
      call.toolName = toolNameOf(update) ?? call.toolName;
      call.args = at(update, 'rawInput') ?? call.args;
    }
    const status = at(update, 'status');
    const isOver = status === 'completed' || status === 'failed';
    if (isOver || status === 'in_progress') this.#start(toolCallId, call);
    if (!isOver) return;
    this.#calls.delete(toolCallId);
    const { toolName } = call;
    const result = resultOf(update);
    if (status === 'completed') this.#emit({ type: 'tool.result', toolCallId, toolName, ok: true, result });
    else {
      const errorText = result === '' ? 'It gives no reason.' : result;
      this.#emit({ type: 'tool.result', toolCallId, toolName, ok: false, errorText });
    }
  }

  #start(toolCallId: string, call: Call): void {
    if (call.isStarted) return;
    call.isStarted = true;
    const { toolName, args } = call;
    this.#emit({
      type: 'tool.start',
      toolCallId,
      toolName,
      ...(args === undefined ? {} : { args }),
      ...sqlOf(toolName, args),
    });
  }
}

/** The name of a tool of the app, as its manifest has it; null for other tools. */
export function ownNameOf(call: unknown): string | null {
  // The title of a change to a file may be a path, such as `svc/config`.
  const title = CHANGES.includes(textAt(call, 'kind') ?? '') ? undefined : textAt(call, 'title');
  return ownToolName(textAt(call, 'name') ?? title ?? '');
}

/** The name of a tool as the app's manifest has it; else the agent's own; else its kind, as titles of commands are whole commands. */
export function toolNameOf(call: unknown): string | undefined {
  const own = ownNameOf(call);
  if (own !== null) return own;
  const name = textAt(call, 'name');
  const title = textAt(call, 'title');
  const kind = textAt(call, 'kind');
  return name ?? (kind === undefined || kind === 'other' ? title : kind);
}

/** The text of a tool's result; else the agent's description of its output. */
function resultOf(update: unknown): string {
  const texts = listAt(update, 'content').flatMap((part) => textAt(part, 'content', 'text') ?? []);
  return texts.length > 0 ? texts.join('\n') : textResult(at(update, 'rawOutput') ?? '');
}

/** The tokens that the answer to a prompt reports. */
export function usageOf(answer: unknown): TurnUsage | null {
  const usage: TurnUsage = {};
  const names = {
    inputTokens: 'inputTokens',
    outputTokens: 'outputTokens',
    cacheReadTokens: 'cachedReadTokens',
    cacheWriteTokens: 'cachedWriteTokens',
  } as const;
  for (const name of Object.keys(names) as (keyof typeof names)[]) {
    const count = numberAt(answer, 'usage', names[name]);
    if (count !== undefined) usage[name] = count;
  }
  return Object.keys(usage).length > 0 ? usage : null;
}

/** Something that can be chosen in a session: its model, or how much it thinks. */
export type Choice = { current: string | undefined; configId: string | null; values: AgentModel[] };

/** The choices of a new session: an option of this category or, for models, the older member for them. */
export function choiceOf(session: unknown, category: 'model' | 'thought_level'): Choice | null {
  const option = listAt(session, 'configOptions').find(
    (each) => at(each, 'type') === 'select' && at(each, 'category') === category,
  );
  if (option !== undefined) {
    const options = listAt(option, 'options').flatMap((each) =>
      at(each, 'options') ? listAt(each, 'options') : [each],
    );
    const current = textAt(option, 'currentValue');
    return { current, configId: textAt(option, 'id') ?? null, values: valuesOf(options, 'value', current) };
  }
  if (category === 'model' && at(session, 'models') !== undefined) {
    const current = textAt(session, 'models', 'currentModelId');
    return {
      current,
      configId: null,
      values: valuesOf(listAt(session, 'models', 'availableModels'), 'modelId', current),
    };
  }
  return null;
}

/** The highest level that is offered and not above the wanted one. */
export function nearestLevel(offered: readonly string[], wanted: ThinkingLevel): string | undefined {
  return THINKING_LEVELS.slice(0, THINKING_LEVELS.indexOf(wanted) + 1).findLast((level) => offered.includes(level));
}

function valuesOf(values: unknown[], idMember: string, current: string | undefined): AgentModel[] {
  return values.flatMap((value) => {
    const id = textAt(value, idMember);
    if (id === undefined) return [];
    const name = textAt(value, 'name');
    const description = textAt(value, 'description');
    return [
      {
        id,
        ...(name === undefined ? {} : { name }),
        ...(description === undefined ? {} : { description }),
        ...(id === current ? { isDefault: true } : {}),
      },
    ];
  });
}
