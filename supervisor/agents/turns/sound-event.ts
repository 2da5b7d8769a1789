/** Takes of what any runner yields the events of the contract, with their valid members (specification, "Events of turns"). Pure. */
import { PERMISSION_OPTION_KINDS, type RunnerEvent, type TurnUsage } from '../../../protocol/agents/agents.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { isTooDeep } from '../../../protocol/rules/json-text.ts';
import { listOf, object, oneOf } from '../../../protocol/shapes/schema.ts';
import { shape } from '../../../protocol/shapes/shape.ts';

/** A runner's events, sound. */
export type SoundEvent = RunnerEvent | { type: 'aborted' };

const name = { type: 'string', minLength: 1, maxLength: LIMITS.textChars } as const;
const upTo = (cut: number) => ({ type: 'string', minLength: 1, cut }) as const;
const detail = upTo(LIMITS.errorMessageChars);
const amount = { type: 'number', minimum: 0 } as const;
const option = object({ optionId: name, kind: oneOf(...PERMISSION_OPTION_KINDS) }, { label: upTo(LIMITS.textChars) });
const options = { ...listOf(option), maxItems: LIMITS.permissionOptions };
const usage = {
  inputTokens: amount,
  outputTokens: amount,
  cacheReadTokens: amount,
  cacheWriteTokens: amount,
  costUsd: amount,
  model: name,
  provider: name,
};
const USAGE = shape(object({}, usage));
const EVENT = shape({
  anyOf: [
    object({ type: oneOf('assistant.delta', 'reasoning.delta'), delta: { type: 'string', minLength: 1 } }),
    object({ type: { const: 'session' }, id: name }),
    object(
      { type: { const: 'tool.start' }, toolCallId: name, toolName: name },
      { args: {}, sql: upTo(LIMITS.agentTextChars) },
    ),
    object(
      { type: { const: 'tool.result' }, toolCallId: name, toolName: name },
      { ok: {}, result: {}, errorText: detail },
    ),
    object({ type: { const: 'permission' }, requestId: name, toolName: name, options }, { detail, optionId: {} }),
    object({ type: { const: 'phase' }, phase: name }, { detail }),
    object({ type: { const: 'usage' } }, usage),
    object({ type: { const: 'final' }, text: { type: 'string', cut: LIMITS.agentTextChars } }),
    object({ type: { const: 'error' } }, { code: upTo(LIMITS.textChars), message: detail }),
    object({ type: { const: 'aborted' } }),
  ],
});
const NAME = shape(name);

/** The event that a runner yielded; null if it is none. Texts that are too long are cut. */
export function soundEvent(yielded: unknown): SoundEvent | null {
  const event = EVENT.part(yielded);
  if (event?.type === 'tool.start') {
    const { args, ...rest } = event;
    return { ...rest, ...valued('args', args) };
  }
  if (event?.type === 'tool.result') {
    const { result, ...rest } = event;
    return { ...rest, ok: event.ok === true, ...valued('result', result) };
  }
  if (event?.type === 'permission') {
    const { optionId, ...rest } = event;
    const labelled = event.options.map((one) => ({ ...one, label: one.label ?? one.kind }));
    const answer = optionId === undefined ? {} : { optionId: NAME.part(optionId) };
    return { ...rest, detail: event.detail ?? '', options: labelled, ...answer };
  }
  if (event?.type !== 'error') return event;
  const { code = 'AGENT_FAILED', message = 'The agent failed and gave no reason.' } = event;
  return { type: 'error', code, message };
}

export function usageOf(event: unknown): TurnUsage {
  return USAGE.part(event) ?? {};
}

/** The member with a copy of its value as JSON, which the runner may change later; of one that is too large or too deep, the beginning of its text. None for what is no JSON. */
function valued(member: string, given: unknown): Record<string, unknown> {
  try {
    const json = JSON.stringify(given) as string | undefined;
    if (json === undefined) return {};
    if (json.length > LIMITS.agentAnswerBytes || isTooDeep(json))
      return { [member]: `${json.slice(0, LIMITS.runValueBytes)}…` };
    return { [member]: JSON.parse(json) };
  } catch {
    return {};
  }
}
