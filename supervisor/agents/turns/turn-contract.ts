/**
 * Makes any runner's events keep the contract of turns (decisions, sections 8 and 12): drops invalid and unknown members, each
 * `tool.start` gets its `tool.result`, `final` comes at most once. Pure.
 */
import { OpenTools } from '../../../protocol/agents/agent-events.ts';
import {
  PERMISSION_OPTION_KINDS,
  type PermissionOption,
  type RunnerEvent,
  type TurnEvent,
  type TurnUsage,
} from '../../../protocol/agents/agents.ts';
import { AnswerText } from '../../../protocol/agents/answer-text.ts';
import { USAGE_MEMBERS } from '../../../protocol/automations/runs.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { isTooDeep } from '../../../protocol/rules/json-text.ts';

type Yielded = { type: string; [member: string]: unknown };
/** A runner's events, sound. */
type Sound = RunnerEvent | { type: 'aborted' };

const CUT = 'The turn ended before this tool had answered.';

export class TurnContract {
  readonly #answer = new AnswerText();
  #chars = 0;
  #final: string | null = null;
  readonly #tools = new OpenTools();

  /** The answer so far. */
  get text(): string {
    return this.#answer.text;
  }

  /** The events for those who follow. Throws `AGENT_FAILED` when the answer is too long. */
  take(event: Sound): TurnEvent[] {
    if (event.type !== 'aborted') this.#answer.take(event);
    if (event.type === 'assistant.delta') {
      this.#chars += event.delta.length;
      if (this.#chars > LIMITS.agentTextChars) throw tooLong();
      return [event];
    }
    if (event.type === 'tool.start' || event.type === 'tool.result') return this.#tools.admit(event);
    if (event.type === 'final') {
      // `rest` sends it, just before `end`.
      this.#final ??= event.text;
      return [];
    }
    // These are not for clients as they are: `TurnWork` handles them.
    return event.type === 'error' || event.type === 'aborted' || event.type === 'session' ? [] : [event];
  }

  /** The last events: failed results for open tools, and with `ok` then the whole text. */
  rest(ok: boolean): TurnEvent[] {
    const results = this.#tools.missing(CUT);
    return ok ? [...results, { type: 'final', text: this.#final ?? this.text }] : results;
  }
}

/** The event that a runner yielded, with its valid members; null if it is none. Texts that are too long are cut. */
export function soundEvent(yielded: unknown): Sound | null {
  if (typeof yielded !== 'object' || yielded === null) return null;
  const event = yielded as Yielded;
  const { type } = event;
  if (type === 'assistant.delta' || type === 'reasoning.delta') {
    return typeof event.delta === 'string' && event.delta !== '' ? { type, delta: event.delta } : null;
  }
  if (type === 'session') return named(event.id) ? { type, id: event.id } : null;
  if (type === 'tool.start') return toolStart(event);
  if (type === 'tool.result') return toolResult(event);
  if (type === 'permission') return permission(event);
  if (type === 'phase') {
    const detail = text(event.detail, LIMITS.errorMessageChars);
    return named(event.phase) ? { type, phase: event.phase, ...(detail === undefined ? {} : { detail }) } : null;
  }
  if (type === 'usage') return { type, ...usageOf(event) };
  return soundEnd(event);
}

function soundEnd(event: Yielded): Sound | null {
  const { type } = event;
  if (type === 'final') {
    return typeof event.text === 'string' ? { type, text: event.text.slice(0, LIMITS.agentTextChars) } : null;
  }
  if (type === 'error') {
    const message = text(event.message, LIMITS.errorMessageChars) ?? 'The agent failed and gave no reason.';
    return { type, code: text(event.code, LIMITS.textChars) ?? 'AGENT_FAILED', message };
  }
  return type === 'aborted' ? { type } : null;
}

function toolStart(event: Yielded): Sound | null {
  const { toolCallId, toolName } = event;
  if (!named(toolCallId) || !named(toolName)) return null;
  const args = value(event.args);
  const sql = text(event.sql, LIMITS.agentTextChars);
  return {
    type: 'tool.start',
    toolCallId,
    toolName,
    ...(args === undefined ? {} : { args }),
    ...(sql === undefined ? {} : { sql }),
  };
}

function toolResult(event: Yielded): Sound | null {
  const { toolCallId, toolName, ok } = event;
  if (!named(toolCallId) || !named(toolName)) return null;
  const result = value(event.result);
  const errorText = text(event.errorText, LIMITS.errorMessageChars);
  return {
    type: 'tool.result',
    toolCallId,
    toolName,
    ok: ok === true,
    ...(result === undefined ? {} : { result }),
    ...(errorText === undefined ? {} : { errorText }),
  };
}

function permission(event: Yielded): Sound | null {
  const { requestId, toolName, options } = event;
  if (!named(requestId) || !named(toolName) || !Array.isArray(options)) return null;
  const sound = options.slice(0, LIMITS.permissionOptions).flatMap((option: unknown): PermissionOption[] => {
    const { optionId, kind, label } = (option ?? {}) as Yielded;
    const known = PERMISSION_OPTION_KINDS.find((one) => one === kind);
    return named(optionId) && known ? [{ optionId, kind: known, label: text(label, LIMITS.textChars) ?? known }] : [];
  });
  const detail = text(event.detail, LIMITS.errorMessageChars) ?? '';
  const answer = event.optionId === undefined ? {} : { optionId: named(event.optionId) ? event.optionId : null };
  return { type: 'permission', requestId, toolName, detail, options: sound, ...answer };
}

export function usageOf(event: Yielded): TurnUsage {
  const usage: TurnUsage = {};
  for (const member of USAGE_MEMBERS) {
    const amount = event[member];
    if (typeof amount === 'number' && Number.isFinite(amount) && amount >= 0) usage[member] = amount;
  }
  for (const member of ['model', 'provider'] as const) {
    if (named(event[member])) usage[member] = event[member];
  }
  return usage;
}

function named(name: unknown): name is string {
  return typeof name === 'string' && name !== '' && name.length <= LIMITS.textChars;
}

function text(value: unknown, most: number): string | undefined {
  return typeof value === 'string' && value !== '' ? value.slice(0, most) : undefined;
}

/** A JSON value; of one that is too large or too deep, the beginning of its text. Undefined for what is none. */
function value(given: unknown): unknown {
  if (given === undefined) return undefined;
  try {
    const json = JSON.stringify(given) as string | undefined;
    if (json === undefined) return undefined;
    if (json.length > LIMITS.agentAnswerBytes || isTooDeep(json)) return `${json.slice(0, LIMITS.runValueBytes)}…`;
    // A copy: the runner may change its value later.
    return JSON.parse(json) as unknown;
  } catch {
    return undefined;
  }
}

function tooLong(): SvcError {
  return new SvcError('AGENT_FAILED', `The agent's answer is longer than ${LIMITS.agentTextChars} characters.`);
}
