/**
 * One run while its handler is at work: takes what the handler asks for through `ctx`, and its result. It is over once,
 * by a result, a failure or an abort, whichever comes first; what comes later is ignored.
 */
import { setMaxListeners } from 'node:events';
import type { Logger } from 'pino';
import { type ErrorBody, SvcError } from '../../../protocol/errors.ts';
import type { AskVerb } from '../../../protocol/frames.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { isTooDeep } from '../../../protocol/rules/json-depth.ts';
import type { RunNode, RunRecord, Usage } from '../../../protocol/runs.ts';
import { parseEntry } from '../../../storage/app-log.ts';
import type { ConversationRunner } from '../../extension-points.ts';
import { toSvcError } from '../../http/answers.ts';
import { newTraceId } from '../../http/trace-id.ts';
import type { CallReply } from '../../tree/actor/call.ts';
import type { LiveAutomation } from '../catalog.ts';
import { recordedValue } from '../history/run-values.ts';
import { askAgent } from './agents.ts';
import type { Ledger, RunPublisher } from './fire-request.ts';
import type { FireTools } from './fire-tools.ts';
import { askRuns, askState } from './recall.ts';
import { type OpenNode, RunNodes } from './run-nodes.ts';

/** What became of a run. */
export type Outcome = Pick<RunRecord, 'summary' | 'output' | 'error'> & {
  state: 'ok' | 'error' | 'aborted' | 'interrupted';
};

export type FireOptions = {
  runId: string;
  automation: LiveAutomation;
  tools: Pick<FireTools, 'call'>;
  runner: ConversationRunner | null;
  ledger: Pick<Ledger, 'node' | 'state' | 'list'>;
  events: RunPublisher;
  now(): number;
  log: Logger;
};

type Arguments = Record<string, unknown>;

const EMPTY = new Uint8Array(0);
/** Why calls that were under way at the end of their run failed. */
const OVER = 'The run had ended before this call did; its outcome is unknown.';
const TOO_DEEP = `nests deeper than ${LIMITS.jsonDepth} levels`;

/** The reason of every signal, made once: an error takes longer to make than all else at the end of a run. */
const ENDED = new SvcError('RUN_ABORTED', 'The run has ended.');

export class Fire implements CallReply {
  readonly traceId = newTraceId(undefined);
  /** Resolves when the run is over; never rejects. */
  readonly outcome: Promise<Outcome>;
  readonly #options: FireOptions;
  readonly #nodes: RunNodes;
  #controller: AbortController | null = null;
  #over = false;
  #model: string | null = null;
  #resolve: (outcome: Outcome) => void = () => {};

  constructor(options: FireOptions) {
    this.#options = options;
    this.#nodes = new RunNodes(options);
    this.outcome = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  /** Aborts when the run is over, however it ended. Made when it is first asked for: many runs call nothing. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      // Every call under way listens to it.
      setMaxListeners(0, this.#controller.signal);
      if (this.#over) this.#controller.abort(ENDED);
    }
    return this.#controller.signal;
  }

  get over(): boolean {
    return this.#over;
  }

  get usage(): Usage {
    return { ...this.#nodes.usage };
  }

  /** The model of its agents, as far as it is known; the last that one of them named. */
  get model(): string | null {
    return this.#model;
  }

  result(_status: number, body: Uint8Array): void {
    if (!this.over) this.#settle(outcomeOf(body));
  }

  failed(error: SvcError): void {
    this.#settle(failure(error.toBody()));
  }

  /** What a fire writes goes through its tools, which tell of it themselves. */
  outcomeUnknown(): void {}

  faulted(error: unknown): void {
    this.failed(toSvcError(error, this.#options.log));
  }

  /** Ends the run from outside; its handler is told, and not waited for. */
  abort(state: 'aborted' | 'interrupted', error: SvcError): void {
    this.#settle({ state, summary: null, output: null, error: error.toBody() });
  }

  /** The handler asks for something; `answer` is called once. */
  asked(verb: AskVerb, payload: Uint8Array, answer: (ok: boolean, body: Uint8Array) => void): void {
    this.ask(verb, payload)
      .then(
        (body) => answer(true, body),
        (error: unknown) => answer(false, Buffer.from(JSON.stringify(this.#bodyOf(error)))),
      )
      .catch((error: unknown) => this.#options.log.error({ err: error }, 'A fire could not be answered.'));
  }

  /** A line of the app's log that this run wrote, as JSON text. */
  logged(line: string): void {
    if (this.over) return;
    this.#options.events.publish({ type: 'log', runId: this.#options.runId, line: parsedLine(line) });
  }

  /** What was asked for, as JSON text, empty for undefined. `payload` is JSON text, an object. */
  async ask(verb: AskVerb, payload: Uint8Array): Promise<Uint8Array> {
    if (this.over) throw new SvcError('RUN_ABORTED', 'The run has ended.');
    const args = argumentsOf(payload);
    if (verb === 'tool') return await this.#tool(args);
    if (verb === 'agent') return await this.#agent(args);
    return json(await this.#recall(verb, args));
  }

  async #recall(verb: Exclude<AskVerb, 'tool' | 'agent'>, args: Arguments): Promise<unknown> {
    const { automation, ledger, runId } = this.#options;
    if (verb === 'runs.list')
      return await askRuns((filter, limit) => ledger.list(filter, limit), automation, runId, args);
    if (verb === 'runs.last') {
      return (await askRuns((filter, limit) => ledger.list(filter, limit), automation, runId, args, 1))[0] ?? null;
    }
    return await askState(ledger.state, automation, verb, args);
  }

  async #tool({ name, args }: Arguments): Promise<Uint8Array> {
    if (typeof name !== 'string') {
      throw new SvcError('BAD_REQUEST', 'The name of the tool must be a string.', { path: 'name' });
    }
    const { tools, automation } = this.#options;
    return await this.#node('tool', name, args, async () => {
      return await tools.call({ automation, traceId: this.traceId, signal: this.signal }, name, args);
    });
  }

  async #agent({ prompt, json: asJson = false }: Arguments): Promise<Uint8Array> {
    if (typeof prompt !== 'string' || prompt === '') {
      throw new SvcError('BAD_REQUEST', '"prompt" must be a string.', { path: 'prompt' });
    }
    if (typeof asJson !== 'boolean') throw new SvcError('BAD_REQUEST', '"json" must be a boolean.', { path: 'json' });
    const { automation, runner, runId } = this.#options;
    const { model } = automation.manifest.requires;
    this.#model ??= model ?? null;
    return await this.#node('agent', model ?? 'agent', { prompt, json: asJson }, async (node) => {
      const answer = await askAgent(runner, {
        app: automation.app,
        automationRef: automation.ref,
        runId,
        ordinal: node.ordinal,
        prompt,
        json: asJson,
        model,
        signal: this.signal,
        onDelta: (delta) => node.delta(delta),
        onUsage: (usage, used) => {
          node.used(usage);
          if (!this.over) this.#model = used ?? this.#model;
        },
      });
      return { json: json(answer), ok: true };
    });
  }

  async #node(
    kind: RunNode['kind'],
    name: string,
    args: unknown,
    work: (node: OpenNode) => Promise<{ json: Uint8Array; ok: boolean }>,
  ): Promise<Uint8Array> {
    const node = this.#nodes.begin(kind, name, json(args));
    try {
      const answer = await work(node);
      node.end(answer.ok, answer.json);
      return answer.json;
    } catch (error) {
      node.fail(this.#bodyOf(error));
      throw error;
    }
  }

  #settle(outcome: Outcome): void {
    if (this.#over) return;
    this.#over = true;
    try {
      this.#nodes.endAll({ code: 'HANDLER_ERROR', message: OVER });
    } finally {
      this.#controller?.abort(ENDED);
      this.#resolve(outcome);
    }
  }

  #bodyOf(error: unknown): ErrorBody {
    return toSvcError(error, this.#options.log).toBody();
  }
}

function failure(error: ErrorBody): Outcome {
  return { state: 'error', summary: null, output: null, error };
}

/** `body` is what the handler returned, `{ summary?, output? }` as JSON text. */
function outcomeOf(body: Uint8Array): Outcome {
  if (body.length > LIMITS.fireResultBytes) {
    const message = `The handler returned ${body.length} bytes, and may return ${LIMITS.fireResultBytes}. Store large results through ctx.tool.`;
    return failure({ code: 'HANDLER_ERROR', message });
  }
  if (isTooDeep(body))
    return failure({ code: 'HANDLER_ERROR', message: `The handler returned a value that ${TOO_DEEP}.` });
  const { summary, output } = JSON.parse(textOf(body)) as { summary?: unknown; output?: unknown };
  return {
    state: 'ok',
    summary: typeof summary === 'string' ? summary.slice(0, LIMITS.errorMessageChars) : null,
    output: recordedValue(json(output)),
    error: null,
  };
}

/** Throws `BAD_REQUEST`: what a fire asks is not believed. */
function argumentsOf(payload: Uint8Array): Arguments {
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
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Arguments;
  throw new SvcError('BAD_REQUEST', 'The arguments must be an object.');
}

/** JSON text of a value, empty for undefined. */
function json(value: unknown): Uint8Array {
  const text = JSON.stringify(value);
  return text === undefined ? EMPTY : Buffer.from(text);
}

function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
}

/** As the log's readers get it: `ts` in milliseconds since the epoch. */
function parsedLine(line: string): unknown {
  return isTooDeep(line) ? line : (parseEntry(line) ?? line);
}
