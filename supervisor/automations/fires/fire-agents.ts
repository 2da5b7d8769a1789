/** Runs `ctx.agent`: one turn of the conversation runner, read to its end (specification, "Context of a fire"). */

import type { RunnerEvent } from '../../../protocol/agents/agents.ts';
import { AnswerText } from '../../../protocol/agents/answer-text.ts';
import type { Usage } from '../../../protocol/automations/runs.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { isTooDeep } from '../../../protocol/rules/json-text.ts';
import { usageOf } from '../../agents/turns/sound-event.ts';
import type { ConversationRunner } from '../../extension-points.ts';

type AgentTurn = {
  app: string;
  automationRef: string;
  runId: string;
  /** Which call of the run it is: each gets its own window. */
  ordinal: number;
  prompt: string;
  /** The answer is the value of the text, which must be JSON. */
  json: boolean;
  model: string | undefined;
  /** `requires.tools` of the automation: the tools that it may use; absent: only its app's tools. */
  tools: string[] | undefined;
  signal: AbortSignal;
  onDelta(delta: string): void;
  /** Called for each report: usage also counts when the turn fails. */
  onUsage(usage: Partial<Usage>, model: string | null): void;
  /** Called once for each permission that the agent asked for, when it is decided and before the agent continues. */
  onPermission(decision: PermissionDecision): void;
};

export type PermissionDecision = { toolName: string; detail: string; optionId: string | null; ok: boolean };

type AgentEvent = { type: string; [member: string]: unknown };

/** Our own runner's errors, in whole sentences. */
const OWN_CODES = ['AGENT_FAILED', 'NO_RUNNER'] as const;
/** Characters of a model's name that are recorded. */
const MODEL_CHARS = 200;
/** Fences that models put around JSON, the first one often with `json` after it. */
const FENCE = '```';

/** The agent's answer. Rejects with `NO_RUNNER`, `AGENT_FAILED`, or at once with the signal's reason when it aborts. */
export async function askAgent(runner: ConversationRunner, turn: AgentTurn): Promise<unknown> {
  turn.signal.throwIfAborted();
  const text = await textOf(runner, turn);
  return turn.json ? parsedAnswer(text) : text;
}

async function textOf(runner: ConversationRunner, turn: AgentTurn): Promise<string> {
  const { app, automationRef, runId, ordinal, prompt, model, tools, signal } = turn;
  const aborted = new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
  // If the runner throws at once, nothing awaits this promise.
  aborted.catch(() => {});
  const permissions = new Permissions(tools ?? [], (decision) => turn.onPermission(decision));
  let iterator: AsyncIterator<AgentEvent> | null = null;
  const answer = new AnswerText();
  let chars = 0;
  let final: string | null = null;
  try {
    iterator = runner({
      app,
      windowId: `${runId}-${ordinal}`,
      message: prompt,
      run: { runId, automationRef, ...(tools === undefined ? {} : { tools }) },
      ...(model === undefined ? {} : { model }),
      answer: (requestId) => permissions.answer(requestId),
      signal,
    })[Symbol.asyncIterator]();
    for (;;) {
      // A runner that does not react to the signal is not waited for.
      const { done, value: event } = await Promise.race([iterator.next(), aborted]);
      if (done || event.type === 'end') return final ?? answer.text;
      if (event.type === 'assistant.delta' && typeof event.delta === 'string') {
        chars += event.delta.length;
        if (chars > LIMITS.agentTextChars) throw tooLong();
        answer.add(event.delta);
        turn.onDelta(event.delta);
      } else if (event.type === 'final' && typeof event.text === 'string') final ??= bounded(event.text);
      else if (event.type === 'usage') {
        const { model, provider: _provider, ...used } = usageOf(event);
        turn.onUsage(used, model?.slice(0, MODEL_CHARS) ?? null);
      } else if (event.type === 'phase' || event.type === 'tool.start' || event.type === 'tool.result')
        answer.take(event as RunnerEvent);
      else if (event.type === 'permission') permissions.asked(event);
      else if (event.type === 'error' || event.type === 'aborted') throw failure(event);
    }
  } catch (error) {
    if (error instanceof SvcError || signal.aborted) throw error;
    throw failure({ message: (error as Error | null)?.message }, error);
  } finally {
    // Some iterators answer this only once they have ended, and some fail.
    void leave(iterator);
  }
}

/** There is no one to ask: an automation's file lists what its agent may use. */
class Permissions {
  readonly #allowed: readonly string[];
  readonly #onDecision: AgentTurn['onPermission'];
  /** Requests whose event came. */
  readonly #asked = new Set<string>();
  /** By request, of which the event and the question for its answer come in any order. */
  readonly #decided = new Map<string, { option: Promise<string | null>; decide(option: string | null): void }>();

  constructor(allowed: readonly string[], onDecision: AgentTurn['onPermission']) {
    this.#allowed = allowed;
    this.#onDecision = onDecision;
  }

  answer(requestId: string): Promise<string | null> {
    return this.#of(requestId).option;
  }

  asked({ requestId, toolName, detail, options, optionId: answered }: AgentEvent): void {
    if (typeof requestId !== 'string' || this.#asked.has(requestId)) return;
    this.#asked.add(requestId);
    const isAllowed = typeof toolName === 'string' && this.#allowed.includes(toolName);
    const kind = isAllowed ? 'allow_once' : 'reject_once';
    const offered = (Array.isArray(options) ? options : []) as ({ kind?: unknown; optionId?: unknown } | null)[];
    // The runner's policy has decided already.
    const option = offered.find((one) => (answered === undefined ? one?.kind === kind : one?.optionId === answered));
    const optionId = typeof option?.optionId === 'string' ? option.optionId : null;
    this.#onDecision({
      toolName: typeof toolName === 'string' ? toolName : 'tool',
      detail: typeof detail === 'string' ? detail.slice(0, LIMITS.errorMessageChars) : '',
      optionId,
      ok: optionId !== null && (option?.kind === 'allow_once' || option?.kind === 'allow_always'),
    });
    this.#of(requestId).decide(optionId);
  }

  #of(requestId: string) {
    const known = this.#decided.get(requestId);
    if (known) return known;
    let decide: (option: string | null) => void = () => {};
    const option = new Promise<string | null>((resolve) => {
      decide = resolve;
    });
    const made = { option, decide };
    this.#decided.set(requestId, made);
    return made;
  }
}

async function leave(iterator: AsyncIterator<AgentEvent> | null): Promise<void> {
  try {
    await iterator?.return?.();
  } catch {
    // Its turn is over for us either way.
  }
}

function bounded(text: string): string {
  if (text.length <= LIMITS.agentTextChars) return text;
  throw tooLong();
}

function tooLong(): SvcError {
  return new SvcError('AGENT_FAILED', `The agent's answer is longer than ${LIMITS.agentTextChars} characters.`);
}

function failure(event: { type?: string; code?: unknown; message?: unknown }, cause?: unknown): SvcError {
  const own = OWN_CODES.find((code) => code === event.code);
  if (own !== undefined && typeof event.message === 'string') return new SvcError(own, event.message);
  const given = typeof event.message === 'string' && event.message !== '' ? event.message : 'it gave no reason';
  const why = event.type === 'aborted' ? 'it was aborted' : given.slice(0, LIMITS.errorMessageChars);
  return new SvcError('AGENT_FAILED', `The agent failed: ${why.replace(/\.$/, '')}.`, { cause });
}

function parsedAnswer(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(unfenced(text));
  } catch (error) {
    throw new SvcError('AGENT_FAILED', `The agent did not answer with JSON: ${(error as Error).message}.`);
  }
  if (isTooDeep(text)) {
    throw new SvcError('AGENT_FAILED', `The agent's answer nests deeper than ${LIMITS.jsonDepth} levels.`);
  }
  return value;
}

/** Without fences. They are looked for in one pass: an answer may be large. */
function unfenced(text: string): string {
  const trimmed = text.trim();
  const start = trimmed.indexOf('\n');
  if (start < 0 || !trimmed.endsWith(FENCE)) return text;
  const opening = trimmed.slice(0, start).trimEnd();
  return opening === FENCE || opening === `${FENCE}json` ? trimmed.slice(start, -FENCE.length) : text;
}
