/**
 * Makes any runner's events keep the contract of turns (specification, "Events of turns"): each `tool.start` gets its `tool.result`,
 * `final` comes at most once. Pure.
 */
import type { RunnerEvent, TurnEvent } from '../../../protocol/agents/agents.ts';
import { AnswerText } from '../../../protocol/agents/answer-text.ts';
import type { TurnEnd } from '../../../protocol/agents/stored-turns.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { SoundEvent } from './sound-event.ts';

const FAILED = 'The turn failed before the tool had a result.';
const ENDED = 'The turn ended before the tool did.';

export class TurnContract {
  readonly #answer = new AnswerText();
  #chars = 0;
  #final: string | null = null;
  readonly #tools = new OpenTools();

  /** What was said so far. */
  get text(): string {
    return this.#answer.text;
  }

  /** The answer of a turn that went well: as its runner gives it, or all that was said. */
  get answer(): string {
    return this.#final ?? this.text;
  }

  /** The events for those who follow. Throws `AGENT_FAILED` when the answer is too long. */
  take(event: SoundEvent): TurnEvent[] {
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

  /** The last events: failed results for open tools, and when it went well then the whole text. */
  rest(end: TurnEnd): TurnEvent[] {
    const results = this.#tools.missing(end === 'error' ? FAILED : ENDED);
    return end === 'ok' ? [...results, { type: 'final', text: this.answer }] : results;
  }
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

function tooLong(): SvcError {
  return new SvcError('AGENT_FAILED', `The agent's answer is longer than ${LIMITS.agentTextChars} characters.`);
}
