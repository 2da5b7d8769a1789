/**
 * Serves one running handler: answers its requests through `ctx`, and takes its result. The first result, failure or abort ends
 * the run; later ones are ignored. Every call of `ctx.tool` and `ctx.agent`, and every permission that an agent asks for, is a
 * node of the run: counted, sent to followers, and recorded when it ends.
 */
import { setMaxListeners } from 'node:events';
import type { Logger } from 'pino';
import { parseRef } from '../../../protocol/automations/automation.ts';
import {
  addUsage,
  NOT_GRANTED,
  noUsage,
  RUN_STATES,
  type RunNode,
  type RunRecord,
  type Usage,
} from '../../../protocol/automations/runs.ts';
import { type WebhookResponse, webhookResponse } from '../../../protocol/automations/webhook-messages.ts';
import { type ErrorBody, SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Redactor } from '../../../protocol/redactor.ts';
import { isTooDeep } from '../../../protocol/rules/json-text.ts';
import type { AskVerb } from '../../../protocol/wire/frames.ts';
import type { HandlerCaller } from '../../../protocol/wire/handler-caller.ts';
import { type RunFilter, recordedValue } from '../../../storage/automations/run-rows.ts';
import { parseEntry } from '../../../storage/logs/log-pages.ts';
import type { ConversationRunner } from '../../extension-points.ts';
import { toSvcError } from '../../http/answers.ts';
import type { Secrets } from '../../secrets.ts';
import type { Span } from '../../tracing/span.ts';
import { type CallReply, newTraceId } from '../../tree/actor/call.ts';
import type { LiveAutomation } from '../catalog.ts';
import type { RunLedger } from '../history/ledger.ts';
import type { RunEvents } from '../history/run-events.ts';
import { askAgent, type PermissionDecision } from './agents.ts';
import type { FireTools } from './fire-tools.ts';

/** The outcome of a run. */
export type Outcome = Pick<RunRecord, 'summary' | 'output' | 'error'> & {
  state: 'ok' | 'error' | 'aborted' | 'interrupted';
};

type FireOptions = {
  runId: string;
  automation: LiveAutomation;
  tools: Pick<FireTools, 'call'>;
  runner: ConversationRunner;
  ledger: Pick<RunLedger, 'node' | 'list' | 'getState' | 'setState' | 'deleteState'>;
  events: Pick<RunEvents, 'publish'>;
  secrets: Pick<Secrets, 'get' | 'redactor'>;
  now(): number;
  log: Logger;
  /** Span of the run, if its trace is recorded or passed on. */
  span?: Span | null;
};

type Arguments = Record<string, unknown>;

/** A call of `ctx.tool` or `ctx.agent` under way; `usage` grows. */
type OpenNode = Omit<RunNode, 'output' | 'ok' | 'error' | 'endedAt'>;

const EMPTY = new Uint8Array(0);
/** Characters of a node's name that are recorded. */
const NODE_NAME_CHARS = 200;
/** Why calls that were under way at the end of their run failed. */
const OVER = 'The run had ended before this call did; its outcome is unknown.';
const TOO_DEEP = `nests deeper than ${LIMITS.jsonDepth} levels`;

/** The reason of every signal, made once: an error takes longer to make than all else at the end of a run. */
const ENDED = new SvcError('RUN_ABORTED', 'The run has ended.');

export class Fire implements CallReply {
  readonly traceId: string;
  /** The caller that its handler and the tools it calls see. */
  readonly caller: HandlerCaller;
  /** Resolves when the run is over; never rejects. */
  readonly outcome: Promise<Outcome>;
  readonly options: FireOptions;
  /** Usage of all nodes, ended and under way. */
  readonly usage: Usage = noUsage();
  readonly #open = new Set<OpenNode>();
  #ordinal = 0;
  #batchId = 0;
  #controller: AbortController | null = null;
  over = false;
  /** The model of its agents, as far as it is known; the last that one of them named. */
  model: string | null = null;
  /** The handler's response to the sender of a webhook. */
  response: WebhookResponse | null = null;
  #resolve: (outcome: Outcome) => void = () => {};

  constructor(options: FireOptions) {
    this.options = options;
    this.traceId = options.span?.traceId ?? newTraceId();
    this.caller = Object.freeze({ kind: 'automation', name: options.automation.ref });
    this.outcome = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  /** Aborts when the run ends for any reason. Made on first use: many runs call nothing. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      // Every call under way listens to it.
      setMaxListeners(0, this.#controller.signal);
      if (this.over) this.#controller.abort(ENDED);
    }
    return this.#controller.signal;
  }

  /** Records and events contain no secrets of the app. */
  get redactor(): Redactor {
    return this.options.secrets.redactor(this.options.automation.app);
  }

  result(_status: number, body: Uint8Array): void {
    if (this.over) return;
    const { outcome, response } = resultOf(this.redactor.json(body));
    this.response = response;
    this.#settle(outcome);
  }

  failed(error: SvcError): void {
    this.#settle(failure(this.redactor.value(error.toBody())));
  }

  /** A fire writes through its tools, which announce the changes themselves. */
  outcomeUnknown(): void {}

  faulted(error: unknown): void {
    this.failed(toSvcError(error, this.options.log));
  }

  /** Ends the run from outside; its handler is told, and not waited for. */
  abort(state: 'aborted' | 'interrupted', error: SvcError): void {
    this.#settle({ state, summary: null, output: null, error: error.toBody() });
  }

  /** The handler asks for something; `answer` is called once. */
  asked(verb: AskVerb, payload: Uint8Array, answer: (ok: boolean, body: Uint8Array) => void): void {
    this.ask(verb, payload)
      .then((body) => answer(true, body))
      .catch((error: unknown) => answer(false, Buffer.from(JSON.stringify(this.#bodyOf(error)))))
      .catch((error: unknown) => this.options.log.error({ err: error }, 'A fire could not be answered.'));
  }

  /** A line of the app's log that this run wrote, as JSON text. */
  logged(line: string): void {
    if (this.over) return;
    this.options.events.publish({ type: 'log', runId: this.options.runId, line: parsedLine(line) });
  }

  /** The answer as JSON text, empty for undefined. `payload` is JSON text, an object. */
  async ask(verb: AskVerb, payload: Uint8Array): Promise<Uint8Array> {
    if (this.over) throw new SvcError('RUN_ABORTED', 'The run has ended.');
    const args = argumentsOf(payload);
    if (verb === 'tool') return await this.#tool(args);
    if (verb === 'agent') return await this.#agent(args);
    return json(await this.#recall(verb, args));
  }

  async #recall(verb: Exclude<AskVerb, 'tool' | 'agent'>, args: Arguments): Promise<unknown> {
    const { automation, ledger } = this.options;
    if (verb === 'state.get') return await ledger.getState(automation, args.key);
    if (verb === 'state.set') return await ledger.setState(automation, args.key, args.value);
    if (verb === 'state.delete') return await ledger.deleteState(automation, args.key);
    const runs = await this.#runs(args, verb === 'runs.last' ? 1 : undefined);
    return verb === 'runs.last' ? (runs[0] ?? null) : runs;
  }

  /** Runs of an automation, newest first, without the one that asks. */
  async #runs(args: Arguments, most?: number): Promise<RunRecord[]> {
    const { automation, ledger, runId } = this.options;
    const { filter, limit } = wantedRuns(automation, args.filter ?? {});
    const wanted = most ?? limit;
    const runs = await ledger.list(filter, wanted + 1);
    return runs.filter((run) => run.runId !== runId).slice(0, wanted);
  }

  async #tool({ name, args }: Arguments): Promise<Uint8Array> {
    if (typeof name !== 'string') throw bad('name', 'The name of the tool must be a string.');
    const { tools, automation, span } = this.options;
    const traceId = span?.traceparent ?? this.traceId;
    const call = () => tools.call({ automation, traceId, signal: this.signal }, name, args);
    return await this.#node('tool', name, args, call);
  }

  async #agent({ prompt, json: asJson = false }: Arguments): Promise<Uint8Array> {
    if (typeof prompt !== 'string' || prompt === '') throw bad('prompt', '"prompt" must be a string.');
    if (typeof asJson !== 'boolean') throw bad('json', '"json" must be a boolean.');
    const { automation, runner, runId, events } = this.options;
    const { model, tools } = automation.manifest.requires;
    this.model ??= model ?? null;
    // An answer may repeat what was asked, and a secret in it be cut by the end of a part.
    const isTold = this.redactor.text(prompt) === prompt;
    return await this.#node('agent', model ?? 'agent', { prompt, json: asJson }, async (node) => {
      const answer = await askAgent(runner, {
        app: automation.app,
        automationRef: automation.ref,
        runId,
        ordinal: node.ordinal,
        prompt,
        json: asJson,
        model,
        tools,
        signal: this.signal,
        onDelta: (delta) => {
          if (isTold && this.#open.has(node))
            events.publish({ type: 'node.delta', runId, ordinal: node.ordinal, delta });
        },
        onUsage: (usage, used) => {
          this.#used(node, usage);
          if (!this.over) this.model = used ?? this.model;
        },
        onPermission: (decision) => this.#decided(node, decision),
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
    const node = this.#begin(kind, name, json(args));
    // Calls of apps have separate spans.
    const span = name.startsWith('svc_')
      ? null
      : this.options.span?.child(kind === 'tool' ? `tool ${node.name}` : kind);
    try {
      const answer = await work(node);
      this.#endNode(node, answer.ok, answer.json, null);
      return answer.json;
    } catch (error) {
      const body = this.#bodyOf(error);
      span?.fail(body.code);
      this.#endNode(node, false, EMPTY, body);
      throw error;
    } finally {
      span?.end();
    }
  }

  /** Throws `OVERLOADED` when the run has made, or has under way, as many calls as it may. `args` is JSON text. */
  #begin(kind: RunNode['kind'], name: string, args: Uint8Array): OpenNode {
    if (this.#ordinal >= LIMITS.runNodes)
      throw new SvcError('OVERLOADED', `A run may make at most ${LIMITS.runNodes} calls of ctx.tool and ctx.agent.`);
    if (this.#open.size >= LIMITS.runNodesAtOnce) {
      const running = `${LIMITS.runNodesAtOnce} calls of ctx.tool and ctx.agent are already running`;
      throw new SvcError('OVERLOADED', `${running}; await some of them first.`);
    }
    return this.#newNode(kind, name, args);
  }

  #newNode(kind: RunNode['kind'], name: string, args: Uint8Array): OpenNode {
    const { runId, events, now } = this.options;
    // A call that begins while another is under way joins its batch.
    if (this.#open.size === 0) this.#batchId++;
    const start = {
      runId,
      ordinal: ++this.#ordinal,
      batchId: this.#batchId,
      kind,
      name: name.slice(0, NODE_NAME_CHARS),
      args: recordedValue(this.redactor.json(args)),
      startedAt: now(),
    };
    const node = { ...start, usage: noUsage() };
    this.#open.add(node);
    events.publish({ type: 'node.start', ...start });
    return node;
  }

  /** A permission of an agent is a separate node beside the agent's. */
  #decided(agent: OpenNode, { toolName, detail, optionId, ok }: PermissionDecision): void {
    if (!this.#open.has(agent) || this.#ordinal >= LIMITS.runNodes) return;
    const node = this.#newNode('permission', toolName, json({ detail }));
    this.#endNode(node, ok, json({ optionId }), ok ? null : NOT_GRANTED);
  }

  #used(node: OpenNode, usage: Partial<Usage>): void {
    if (!this.#open.has(node)) return;
    addUsage(node.usage, usage);
    addUsage(this.usage, usage);
  }

  /** Does nothing for a node that has ended. `output` is JSON text. */
  #endNode(open: OpenNode, ok: boolean, output: Uint8Array, error: ErrorBody | null): void {
    if (!this.#open.delete(open)) return;
    const { now, ledger, events } = this.options;
    const { redactor } = this;
    const recorded = { output: recordedValue(redactor.json(output)), ok, error: redactor.value(error) };
    const node: RunNode = { ...open, ...recorded, endedAt: now() };
    ledger.node(node);
    events.publish({ type: 'node.end', node });
  }

  #settle(outcome: Outcome): void {
    if (this.over) return;
    this.over = true;
    try {
      for (const node of this.#open) this.#endNode(node, false, EMPTY, { code: 'HANDLER_ERROR', message: OVER });
    } finally {
      this.#controller?.abort(ENDED);
      this.#resolve(outcome);
    }
  }

  #bodyOf(error: unknown): ErrorBody {
    return toSvcError(error, this.options.log).toBody();
  }
}

export function failure(error: ErrorBody): Outcome {
  return { state: 'error', summary: null, output: null, error };
}

type Result = { outcome: Outcome; response: WebhookResponse | null };

/** `body` is what the handler returned, `{ summary?, output?, response? }` as JSON text. */
function resultOf(body: Uint8Array): Result {
  const refuse = (error: ErrorBody): Result => ({ outcome: failure(error), response: null });
  if (body.length > LIMITS.fireResultBytes) {
    const message = `The handler returned ${body.length} bytes, and may return ${LIMITS.fireResultBytes}. Store large results through ctx.tool.`;
    return refuse({ code: 'HANDLER_ERROR', message });
  }
  if (isTooDeep(body))
    return refuse({ code: 'HANDLER_ERROR', message: `The handler returned a value that ${TOO_DEEP}.` });
  const { summary, output, response } = JSON.parse(textOf(body)) as Record<string, unknown>;
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

/**
 * `filter.ref` may name another automation of the same app or of an app in `apps`. Throws `BAD_REQUEST` or `TOOL_REFUSED`.
 */
function wantedRuns(automation: LiveAutomation, filter: unknown): { filter: RunFilter; limit: number } {
  if (typeof filter !== 'object' || filter === null || Array.isArray(filter))
    throw bad('filter', 'The filter of ctx.runs must be an object.');
  const { ref = automation.ref, state, limit = LIMITS.listRows } = filter as Arguments;
  const named = typeof ref === 'string' ? parseRef(ref) : null;
  if (!named) throw bad('filter.ref', '"ref" must be "<app>/<automation>".');
  if (named.app !== automation.app && !automation.manifest.apps?.includes(named.app)) {
    const message = `"${automation.ref}" may not see runs of "${named.app}".`;
    throw new SvcError('TOOL_REFUSED', message, { path: 'filter.ref' });
  }
  const known = RUN_STATES.find((one) => one === state);
  if (state !== known) throw bad('filter.state', `"state" must be one of ${RUN_STATES.join(', ')}.`);
  if (typeof limit !== 'number' || !Number.isInteger(limit) || limit < 1 || limit > LIMITS.listRowsMax)
    throw bad('filter.limit', `"limit" must be a whole number from 1 to ${LIMITS.listRowsMax}.`);
  return { filter: known === undefined ? { ref: named } : { ref: named, state: known }, limit };
}

function bad(path: string, message: string): SvcError {
  return new SvcError('BAD_REQUEST', message, { path });
}
