/** Cuts the texts and values of a runner's event to the limits of a turn. */
import type { RunnerEvent } from '../../protocol/agents/agents.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { isTooDeep } from '../../protocol/rules/json-text.ts';

/** Limit of names, labels and the like. */
const NAME_CHARS = 500;
/** Size of an event without its texts. */
const EVENT_BYTES = 64;

/** The event, and the bytes that it counts for. `wholeBytes` are those that it had before it was cut. */
type BoundedEvent = { event: RunnerEvent; bytes: number; wholeBytes: number };

export function boundedEvent(event: RunnerEvent): BoundedEvent {
  switch (event.type) {
    case 'assistant.delta':
    case 'reasoning.delta': {
      const wholeBytes = Buffer.byteLength(event.delta) + EVENT_BYTES;
      const delta = cutText(event.delta, LIMITS.agentAnswerBytes);
      return { event: { ...event, delta }, bytes: Buffer.byteLength(delta) + EVENT_BYTES, wholeBytes };
    }
    case 'final': {
      const text = cutText(event.text, LIMITS.agentAnswerBytes);
      return sized({ type: 'final', text }, Buffer.byteLength(event.text));
    }
    case 'tool.start': {
      const { value: args, bytes } = boundedValue(event.args);
      return sized({ ...named(event), ...(args === undefined ? {} : { args }) }, bytes);
    }
    case 'tool.result': {
      const { value: result, bytes } = boundedValue(event.result);
      const { errorText } = event;
      const cut = errorText === undefined ? {} : { errorText: errorText.slice(0, LIMITS.errorMessageChars) };
      return sized({ ...named(event), ...(result === undefined ? {} : { result }), ...cut }, bytes);
    }
    case 'phase': {
      const detail = event.detail?.slice(0, LIMITS.errorMessageChars);
      return sized({ ...event, ...(detail === undefined ? {} : { detail }) }, 0);
    }
    case 'error':
      return sized({ ...event, message: event.message.slice(0, LIMITS.errorMessageChars) }, 0);
    default:
      return sized(event, 0);
  }
}

/** At most `maxBytes` of it, whole characters. */
export function cutText(text: string, maxBytes: number): string {
  if (text.length * 3 <= maxBytes || Buffer.byteLength(text) <= maxBytes) return text;
  const bytes = Buffer.from(text);
  let end = maxBytes;
  // Not through a character: its bytes after the first one begin with 10.
  while (end > 0 && ((bytes[end] as number) & 0xc0) === 0x80) end--;
  return bytes.toString('utf8', 0, end);
}

function sized(event: RunnerEvent, wholeBytes: number): BoundedEvent {
  const bytes = Buffer.byteLength(JSON.stringify(event));
  return { event, bytes, wholeBytes: Math.max(bytes, wholeBytes) };
}

function named<T extends { toolName: string; toolCallId: string }>(event: T): T {
  return { ...event, toolName: event.toolName.slice(0, NAME_CHARS), toolCallId: event.toolCallId.slice(0, NAME_CHARS) };
}

/** The value, if JSON can hold it within the limits of size and depth; else a marker with its beginning. */
function boundedValue(value: unknown): { value: unknown; bytes: number } {
  if (value === undefined) return { value, bytes: 0 };
  let json: string | undefined;
  try {
    json = JSON.stringify(value);
  } catch {
    // It is circular, or not valid JSON.
  }
  if (json === undefined) return { value: null, bytes: 0 };
  const bytes = Buffer.byteLength(json);
  if (bytes <= LIMITS.agentAnswerBytes && !isTooDeep(json)) return { value, bytes };
  return { value: { cut: true, bytes, head: cutText(json, LIMITS.runValueBytes) }, bytes };
}
