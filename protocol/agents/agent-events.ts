/** Checks the events of a runner: known types with valid members, and one result for each tool that started. */
import { PERMISSION_OPTION_KINDS, type RunnerEvent } from './agents.ts';

type Member = 'text' | 'optional text' | 'text, null or none' | 'number' | 'boolean' | 'options';

const TEXT = 'text';
const OPTIONAL = 'optional text';
const TOOL = { toolCallId: TEXT, toolName: TEXT } as const;
const NUMBER = 'number';

/** The members that are checked. Others are allowed. */
const MEMBERS: { [Type in RunnerEvent['type']]: Record<string, Member> } = {
  session: { id: TEXT },
  'assistant.delta': { delta: TEXT },
  'reasoning.delta': { delta: TEXT },
  'tool.start': { ...TOOL, sql: OPTIONAL },
  'tool.result': { ...TOOL, ok: 'boolean', errorText: OPTIONAL },
  permission: { requestId: TEXT, toolName: TEXT, detail: TEXT, options: 'options', optionId: 'text, null or none' },
  phase: { phase: TEXT, detail: OPTIONAL },
  usage: {
    model: OPTIONAL,
    provider: OPTIONAL,
    inputTokens: NUMBER,
    outputTokens: NUMBER,
    cacheReadTokens: NUMBER,
    cacheWriteTokens: NUMBER,
    costUsd: NUMBER,
  },
  final: { text: TEXT },
  error: { code: TEXT, message: TEXT },
};

const CHECKS: Record<Member, (value: unknown) => boolean> = {
  text: (value) => typeof value === 'string',
  'optional text': (value) => value === undefined || typeof value === 'string',
  'text, null or none': (value) => value === undefined || value === null || typeof value === 'string',
  number: (value) => value === undefined || (typeof value === 'number' && Number.isFinite(value) && value >= 0),
  boolean: (value) => typeof value === 'boolean',
  options: (value) => Array.isArray(value) && value.every(isOption),
};

/** Whether a received value is an event of a runner: a known type, with members of the right kinds. */
export function isRunnerEvent(value: unknown): value is RunnerEvent {
  if (typeof value !== 'object' || value === null) return false;
  const { type } = value as { type?: unknown };
  if (typeof type !== 'string' || !Object.hasOwn(MEMBERS, type)) return false;
  const members = MEMBERS[type as RunnerEvent['type']];
  return Object.entries(members).every(([name, kind]) => CHECKS[kind]((value as Record<string, unknown>)[name]));
}

function isOption(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { optionId, kind, label } = value as Record<string, unknown>;
  return (
    typeof optionId === 'string' &&
    typeof label === 'string' &&
    (PERMISSION_OPTION_KINDS as readonly unknown[]).includes(kind)
  );
}

type ToolEvent = Extract<RunnerEvent, { type: 'tool.start' | 'tool.result' }>;

/** The tools of a turn that have started and have no result yet. */
export class OpenTools {
  readonly #open = new Map<string, string>();
  readonly #answered = new Set<string>();

  /**
   * Gives the events to send for this one, so that each start has one result: drops a second start or result, and adds the
   * missing start before a result. Some agents restart the numbering of their tools with each answer of their model, so the id
   * of a finished tool may start again.
   */
  admit<T extends RunnerEvent>(event: T): (T | ToolEvent)[] {
    if (event.type === 'tool.start') {
      if (this.#open.has(event.toolCallId)) return [];
      this.#open.set(event.toolCallId, event.toolName);
    } else if (event.type === 'tool.result') {
      const { toolCallId, toolName } = event;
      const isOpen = this.#open.delete(toolCallId);
      if (!isOpen && this.#answered.has(toolCallId)) return [];
      this.#answered.add(toolCallId);
      if (!isOpen) return [{ type: 'tool.start', toolCallId, toolName }, event];
    }
    return [event];
  }

  /** Failed results for the tools that are open when the turn ends. */
  missing(errorText: string): Extract<RunnerEvent, { type: 'tool.result' }>[] {
    return [...this.#open].map(([toolCallId, toolName]) => {
      return { type: 'tool.result', toolCallId, toolName, ok: false, errorText };
    });
  }
}
