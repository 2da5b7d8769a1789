/** Checks the events of a runner: known types with valid members. */
import { flag, listOf, object, oneOf, text, textOrNull } from '../shapes/schema.ts';
import { shape } from '../shapes/shape.ts';
import { PERMISSION_OPTION_KINDS, type RunnerEvent } from './agents.ts';

const tool = { toolCallId: text, toolName: text };
const option = object({ optionId: text, kind: oneOf(...PERMISSION_OPTION_KINDS), label: text });
const amount = { type: 'number', minimum: 0 } as const;

/** Other members are allowed. */
const EVENT = shape({
  anyOf: [
    object({ type: { const: 'session' }, id: text }),
    object({ type: oneOf('assistant.delta', 'reasoning.delta'), delta: text }),
    object({ type: { const: 'tool.start' }, ...tool }, { sql: text }),
    object({ type: { const: 'tool.result' }, ...tool, ok: flag }, { errorText: text }),
    object(
      { type: { const: 'permission' }, requestId: text, toolName: text, detail: text, options: listOf(option) },
      { optionId: textOrNull },
    ),
    object({ type: { const: 'phase' }, phase: text }, { detail: text }),
    object(
      { type: { const: 'usage' } },
      {
        model: text,
        provider: text,
        inputTokens: amount,
        outputTokens: amount,
        cacheReadTokens: amount,
        cacheWriteTokens: amount,
        costUsd: amount,
      },
    ),
    object({ type: { const: 'final' }, text }),
    object({ type: { const: 'error' }, code: text, message: text }),
  ],
});

/** Whether a received value is an event of a runner: a known type, with members of the right kinds. */
export function isRunnerEvent(value: unknown): value is RunnerEvent {
  return EVENT.holds(value);
}
