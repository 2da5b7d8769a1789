/** Reads what a handler is given, what it asks of its `ctx`, and what it returns: JSON text, none of which is believed. */
import { parseRef } from '../../../protocol/automations/automation.ts';
import { RUN_STATES } from '../../../protocol/automations/run-states.ts';
import type { RunTrigger } from '../../../protocol/automations/runs.ts';
import {
  type WebhookRequest,
  type WebhookResponse,
  webhookResponse,
} from '../../../protocol/automations/webhook-messages.ts';
import { type ErrorBody, SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { isTooDeep } from '../../../protocol/rules/json-text.ts';
import { integer, object, oneOf, text } from '../../../protocol/shapes/schema.ts';
import { isRecord, shape } from '../../../protocol/shapes/shape.ts';
import type { SqlStatement } from '../../../protocol/wire/frames.ts';
import type { NamedPerson } from '../../../protocol/wire/handler-caller.ts';
import { type RunFilter, recordedValue } from '../../../storage/automations/run-rows.ts';
import { parseEntry } from '../../../storage/logs/log-pages.ts';
import type { Outcome } from '../../runs/run.ts';
import type { Span } from '../../tracing/span.ts';
import type { LiveAutomation } from '../catalog.ts';

/**
 * `at` is the time of the fire, milliseconds since the epoch: the handler's `ctx.now`. `input` is a JSON value, undefined for
 * none. `extra` gives the statements that are stored together with the run's row, all or none.
 */
export type FireRequest = {
  automation: LiveAutomation;
  trigger: RunTrigger;
  at: number;
  input: unknown;
  /** The request that fired it, for the handler; it is not recorded. */
  request?: WebhookRequest;
  parentRunId?: string | null;
  /** The person who fired it by hand. */
  by?: NamedPerson;
  /** The span that fires it, where traces are recorded. */
  span?: Span | null;
  /** How many `onFailure` fires led to this one. */
  depth?: number;
  extra?: (runId: string) => SqlStatement[];
};

export type Arguments = Record<string, unknown>;

const RUNS = shape(
  object({ filter: object({}, { ref: text, state: oneOf(...RUN_STATES), limit: integer(1, LIMITS.listRowsMax) }) }),
);

export const EMPTY = new Uint8Array(0);
const TOO_DEEP = `nests deeper than ${LIMITS.jsonDepth} levels`;

export function failure(error: ErrorBody): Outcome {
  return { state: 'error', summary: null, output: null, error };
}

/** The input as JSON text; undefined without input. Throws `BAD_REQUEST` for a value that JSON cannot hold. */
export function inputText(input: unknown): string | undefined {
  try {
    return JSON.stringify(input);
  } catch (error) {
    throw new SvcError('BAD_REQUEST', `The input is not a JSON value: ${(error as Error).message}.`, { path: 'input' });
  }
}

/** As the log's readers get it: `ts` in milliseconds since the epoch. */
export function parsedLine(line: string): unknown {
  return isTooDeep(line) ? line : (parseEntry(line) ?? line);
}

type Result = { outcome: Outcome; response: WebhookResponse | null };

/** `body` is what the handler returned, `{ summary?, output?, response? }` as JSON text. */
export function resultOf(body: Uint8Array): Result {
  const refuse = (error: ErrorBody): Result => ({ outcome: failure(error), response: null });
  if (body.length > LIMITS.fireResultBytes) {
    const message = `The handler returned ${body.length} bytes, and may return ${LIMITS.fireResultBytes}. Store large results through ctx.tool.`;
    return refuse({ code: 'HANDLER_ERROR', message });
  }
  if (isTooDeep(body))
    return refuse({ code: 'HANDLER_ERROR', message: `The handler returned a value that ${TOO_DEEP}.` });
  const { summary, output, response } = JSON.parse(textOf(body)) as Arguments;
  let answer: WebhookResponse | null;
  try {
    answer = webhookResponse(response);
  } catch (error) {
    return refuse((error as SvcError).toBody());
  }
  const outcome: Outcome = {
    state: 'ok',
    summary: typeof summary === 'string' ? summary.slice(0, LIMITS.errorMessageChars) : null,
    output: recordedValue(json(output)),
    error: null,
  };
  return { outcome, response: answer };
}

/** Throws `BAD_REQUEST`: what a fire asks is not believed. */
export function argumentsOf(payload: Uint8Array): Arguments {
  if (payload.length > LIMITS.askBytes) {
    throw new SvcError('BAD_REQUEST', `A call of ctx may send at most ${LIMITS.askBytes} bytes of arguments as JSON.`);
  }
  if (isTooDeep(payload)) throw new SvcError('BAD_REQUEST', `What ctx was given ${TOO_DEEP}.`);
  let value: unknown;
  try {
    value = JSON.parse(textOf(payload));
  } catch {
    throw new SvcError('BAD_REQUEST', 'The arguments are not JSON.');
  }
  if (isRecord(value)) return value;
  throw new SvcError('BAD_REQUEST', 'The arguments must be an object.');
}

/** JSON text of a value, empty for undefined. */
export function json(value: unknown): Uint8Array {
  const text = JSON.stringify(value);
  return text === undefined ? EMPTY : Buffer.from(text);
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
}

/**
 * `filter.ref` may name another automation of the same app or of an app in `apps`. Throws `BAD_REQUEST` or `TOOL_REFUSED`.
 */
export function wantedRuns(automation: LiveAutomation, filter: unknown): { filter: RunFilter; limit: number } {
  const {
    ref = automation.ref,
    state,
    limit = LIMITS.listRows,
  } = RUNS.checked({ filter }, 'BAD_REQUEST', 'What is given').filter;
  const named = parseRef(ref);
  if (!named) throw bad('filter.ref', '"ref" must be "<app>/<automation>".');
  if (named.app !== automation.app && !automation.manifest.apps?.includes(named.app)) {
    const message = `"${automation.ref}" may not see runs of "${named.app}".`;
    throw new SvcError('TOOL_REFUSED', message, { path: 'filter.ref' });
  }
  return { filter: { ref: named, ...(state && { state }) }, limit };
}

export function bad(path: string, message: string): SvcError {
  return new SvcError('BAD_REQUEST', message, { path });
}
