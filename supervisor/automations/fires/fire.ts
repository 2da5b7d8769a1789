/**
 * One fire of an automation, as a run of the `RunEngine`: answers what its handler asks through `ctx`, and takes its result. The first
 * result, failure or stop ends it; later ones are ignored. Every call of `ctx.tool` and `ctx.agent`, every request of `ctx.fetch`, and
 * every permission that an agent asks for, is a node of the run.
 */
import { setMaxListeners } from 'node:events';
import type { Logger } from 'pino';
import type { HistoryKeep } from '../../../protocol/automations/automation.ts';
import { NOT_GRANTED, type RunNode, type RunRecord } from '../../../protocol/automations/runs.ts';
import type { WebhookResponse } from '../../../protocol/automations/webhook-messages.ts';
import { type ErrorBody, SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Redactor } from '../../../protocol/text/redactor.ts';
import type { AskVerb } from '../../../protocol/wire/frames.ts';
import type { HandlerCaller } from '../../../protocol/wire/handler-caller.ts';
import { recordedValue } from '../../../storage/automations/run-rows.ts';
import type { ConversationRunner } from '../../extension-points.ts';
import { toSvcError } from '../../http/answers.ts';
import type { RunLedger } from '../../runs/ledger.ts';
import type { Outcome, Run, RunKind, Work } from '../../runs/run.ts';
import type { RunEvents } from '../../runs/run-events.ts';
import type { OpenNode, RunNodes } from '../../runs/run-nodes.ts';
import type { Secrets } from '../../secrets.ts';
import type { Span } from '../../tracing/span.ts';
import type { Tracing } from '../../tracing/tracing.ts';
import { type CallReply, newTraceId } from '../../tree/actor/call.ts';
import type { AutomationCatalog, LiveAutomation } from '../catalog.ts';
import { askAgent, type PermissionDecision } from './fire-agents.ts';
import type { FireTools } from './fire-tools.ts';
import {
  type Arguments,
  argumentsOf,
  bad,
  EMPTY,
  type FireRequest,
  failure,
  inputText,
  json,
  parsedLine,
  resultOf,
  wantedRuns,
} from './fire-values.ts';

export type FireOptions = {
  catalog: Pick<AutomationCatalog, 'get'>;
  tools: Pick<FireTools, 'call'>;
  /** A notice of an automation's app: `{ notice }` → what the handler gets. */
  notify(app: string, args: { notice?: unknown }): Promise<unknown>;
  runner: ConversationRunner;
  ledger: Pick<RunLedger, 'list' | 'getState' | 'setState' | 'deleteState'>;
  events: Pick<RunEvents, 'publish'>;
  secrets: Pick<Secrets, 'get' | 'redactor'>;
  tracing: Tracing | null;
  /** Milliseconds since the epoch. */
  now(): number;
  log: Logger;
  /** Has the handler run; what it rejects with fails the run. */
  launch(fire: Fire): Promise<void>;
  /** The run ended as `error`, and that is stored. */
  failed(fire: Fire, run: RunRecord): void;
};

const FIRES: RunKind = {
  name: 'automation',
  waiting: LIMITS.runsWaiting,
  tooMany: (ref) => `${LIMITS.runsWaiting} runs of "${ref}" are already waiting; try again later.`,
  stopped: 'The gateway stopped before the run ended.',
  endMs: LIMITS.runEndTries * LIMITS.runEndWaitMs,
};
/** Of a fire by schedule or failure. */
const SKIPPED = { code: 'CONFLICT', message: 'An earlier run of the automation was still under way.' };
const EGRESS_REFUSED = 'EGRESS_REFUSED';
/** Why calls that were under way at the end of their run failed. */
const OVER = 'The run had ended before this call did; its outcome is unknown.';

/** The reason of every signal, made once: an error takes longer to make than all else at the end of a run. */
const ENDED = new SvcError('RUN_ABORTED', 'The run has ended.');

export class Fire implements CallReply, Work {
  readonly kind = FIRES;
  readonly lane: string;
  readonly about: Work['about'];
  readonly skipped: Work['skipped'];
  readonly request: FireRequest;
  /** JSON text; undefined without input. */
  readonly input: string | undefined;
  /** The caller that its handler and the tools it calls see. */
  readonly caller: HandlerCaller;
  /** As it is now: a new version may come while the run waits. */
  automation: LiveAutomation;
  /** Set before its row is stored, as the next two are before its handler runs. */
  run!: Run;
  /** Span of the run, if its trace is recorded or passed on. */
  span: Span | null = null;
  traceId!: string;
  /** Resolves when the handler's part is over; never rejects. */
  readonly outcome: Promise<Outcome>;
  readonly options: FireOptions;
  readonly #firedBy: Span | null;
  /** Requests under way, by their ordinals. */
  readonly #fetching = new Map<number, OpenNode>();
  #fetches = 0;
  #controller: AbortController | null = null;
  isOver = false;
  /** The model of its agents, as far as it is known; the last that one of them named. */
  model: string | null = null;
  /** The handler's response to the sender of a webhook. */
  response: WebhookResponse | null = null;
  #resolve: (outcome: Outcome) => void = () => {};

  /** Throws `BAD_REQUEST` for an input that JSON cannot hold. */
  constructor(request: FireRequest, options: FireOptions) {
    const { automation, trigger, parentRunId = null, by, span } = request;
    this.options = options;
    this.request = request;
    this.automation = automation;
    this.lane = automation.ref;
    this.about = { app: automation.app, automation: automation.id, trigger, parentRunId, ...(by && { by }) };
    this.skipped = trigger.kind === 'cron' || trigger.kind === 'failure' ? SKIPPED : undefined;
    this.input = inputText(request.input);
    this.caller = Object.freeze({ kind: 'automation', name: automation.ref });
    // A scheduled fire starts a new trace, whichever call set the timer.
    this.#firedBy = span ?? (trigger.kind === 'cron' ? null : (options.tracing?.current ?? null));
    this.outcome = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  get keep(): HistoryKeep {
    return this.automation.manifest.history.keep;
  }

  get status(): number | null {
    return this.response?.status ?? null;
  }

  store(run: Run): Promise<void> {
    this.run = run;
    const input = recordedValue(this.redactor.json(Buffer.from(this.input ?? '')));
    return run.insert(input, this.request.extra?.(run.runId));
  }

  refusal(): Outcome | null {
    const automation = this.options.catalog.get(this.lane);
    if (!automation)
      return failure({ code: 'UNKNOWN_AUTOMATION', message: `There is no automation "${this.lane}" any more.` });
    this.automation = automation;
    return null;
  }

  async perform(): Promise<Outcome> {
    const span = this.#startSpan();
    this.span = span;
    this.traceId = span?.traceId ?? newTraceId();
    this.options.launch(this).catch((error: unknown) => this.faulted(error));
    const outcome = await this.outcome;
    if (outcome.error !== null) span?.fail(outcome.error.code);
    span?.end();
    return outcome;
  }

  /** Its handler is told, and not waited for. */
  stop(state: 'aborted' | 'interrupted', error: SvcError): Outcome {
    const outcome = { state, summary: null, output: null, error: error.toBody() };
    if (this.run.phase === 'running') this.#settle(outcome);
    return outcome;
  }

  followUp({ state }: Outcome, run: RunRecord): void {
    if (state === 'error') this.options.failed(this, run);
  }

  get nodes(): RunNodes {
    return this.run.nodes;
  }

  /** Aborts when the run ends for any reason. Made on first use: many runs call nothing. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      // Every call under way listens to it.
      setMaxListeners(0, this.#controller.signal);
      if (this.isOver) this.#controller.abort(ENDED);
    }
    return this.#controller.signal;
  }

  /** Records and events contain no secrets of the app. */
  get redactor(): Redactor {
    return this.options.secrets.redactor(this.about.app);
  }

  result(_status: number, body: Uint8Array): void {
    if (this.isOver) return;
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

  /** The handler asks for something; `answer` is called once. */
  asked(verb: AskVerb, payload: Uint8Array, answer: (ok: boolean, body: Uint8Array) => void): void {
    this.ask(verb, payload)
      .then((body) => answer(true, body))
      .catch((error: unknown) => answer(false, Buffer.from(JSON.stringify(this.#bodyOf(error)))))
      .catch((error: unknown) => this.options.log.error({ err: error }, 'A fire could not be answered.'));
  }

  /** A line of the app's log that this run wrote, as JSON text. */
  logged(line: string): void {
    if (this.isOver) return;
    this.options.events.publish({ type: 'log', runId: this.run.runId, line: parsedLine(line) });
  }

  /** The answer as JSON text, empty for undefined. `payload` is JSON text, an object. */
  async ask(verb: AskVerb, payload: Uint8Array): Promise<Uint8Array> {
    if (this.isOver) throw new SvcError('RUN_ABORTED', 'The run has ended.');
    const args = argumentsOf(payload);
    if (verb === 'tool') return await this.#tool(args);
    if (verb === 'agent') return await this.#agent(args);
    if (verb === 'fetch') return json(this.#fetchBegins(args));
    if (verb === 'fetched') {
      this.#fetchEnds(args);
      return EMPTY;
    }
    return json(await this.#recall(verb, args));
  }

  async #recall(verb: Exclude<AskVerb, 'tool' | 'agent' | 'fetch' | 'fetched'>, args: Arguments): Promise<unknown> {
    const { automation } = this;
    const { ledger } = this.options;
    if (verb === 'state.get') return await ledger.getState(automation, args.key);
    if (verb === 'state.set') return await ledger.setState(automation, args.key, args.value);
    if (verb === 'notify') return await this.options.notify(automation.app, args);
    if (verb === 'state.delete') return await ledger.deleteState(automation, args.key);
    const runs = await this.#runs(args, verb === 'runs.last' ? 1 : undefined);
    return verb === 'runs.last' ? (runs[0] ?? null) : runs;
  }

  /** Runs of an automation, newest first, without the one that asks. */
  async #runs(args: Arguments, most?: number): Promise<RunRecord[]> {
    const { automation, run: own } = this;
    const { filter, limit } = wantedRuns(automation, args.filter ?? {});
    const wanted = most ?? limit;
    const runs = await this.options.ledger.list(filter, wanted + 1);
    return runs.filter(({ runId }) => runId !== own.runId).slice(0, wanted);
  }

  async #tool({ name, args }: Arguments): Promise<Uint8Array> {
    if (typeof name !== 'string') throw bad('name', 'The name of the tool must be a string.');
    const { automation, span } = this;
    const traceId = span?.traceparent ?? this.traceId;
    const call = () => this.options.tools.call({ automation, traceId, signal: this.signal }, name, args);
    return await this.#node('tool', name, args, call);
  }

  async #agent({ prompt, json: asJson = false }: Arguments): Promise<Uint8Array> {
    if (typeof prompt !== 'string' || prompt === '') throw bad('prompt', '"prompt" must be a string.');
    if (typeof asJson !== 'boolean') throw bad('json', '"json" must be a boolean.');
    const { automation } = this;
    const { runId } = this.run;
    const { runner, events } = this.options;
    const { model, tools } = automation.manifest.requires;
    this.model ??= model ?? null;
    // An answer may repeat what was asked, and a secret in it be cut by the end of a part.
    const hasNoSecret = this.redactor.text(prompt) === prompt;
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
          if (hasNoSecret && this.nodes.isOpen(node))
            events.publish({ type: 'node.delta', runId, ordinal: node.ordinal, delta });
        },
        onUsage: (usage, used) => {
          this.nodes.used(node, usage);
          if (!this.isOver) this.model = used ?? this.model;
        },
        onPermission: (decision) => this.#decided(node, decision),
      });
      return { json: json(answer), ok: true };
    });
  }

  /**
   * The thread makes a request by itself, and tells of it: `url` without its query, which may hold keys. Answers with the number of
   * its node; null where no more are recorded, which refuses no request.
   */
  #fetchBegins({ method, url }: Arguments): number | null {
    if (typeof method !== 'string' || typeof url !== 'string') throw bad('url', '"method" and "url" must be strings.');
    if (this.#fetches >= LIMITS.runNodes) return null;
    this.#fetches++;
    const node = this.nodes.begin('fetch', this.redactor.text(`${method} ${url}`), EMPTY);
    this.#fetching.set(node.ordinal, node);
    return node.ordinal;
  }

  /** `status` is that of the answer; `error` why there is none. */
  #fetchEnds({ ordinal, status, error }: Arguments): void {
    const node = this.#fetching.get(ordinal as number);
    if (node === undefined) return;
    this.#fetching.delete(node.ordinal);
    const { code, message } = Object(error) as Arguments;
    const why =
      typeof message === 'string'
        ? {
            code: code === EGRESS_REFUSED ? EGRESS_REFUSED : 'HANDLER_ERROR',
            message: message.slice(0, LIMITS.errorMessageChars),
          }
        : null;
    const answered = typeof status === 'number';
    this.nodes.end(node, answered && status < 400, answered ? json({ status }) : EMPTY, why);
  }

  /** Calls that count for the limits: requests are refused by neither. */
  get #calls(): number {
    return this.nodes.count - this.#fetches;
  }

  async #node(
    kind: RunNode['kind'],
    name: string,
    args: unknown,
    work: (node: OpenNode) => Promise<{ json: Uint8Array; ok: boolean }>,
  ): Promise<Uint8Array> {
    const node = this.#begin(kind, name, json(args));
    // Calls of apps have separate spans.
    const span = name.startsWith('svc_') ? null : this.span?.child(kind === 'tool' ? `tool ${node.name}` : kind);
    try {
      const answer = await work(node);
      this.nodes.end(node, answer.ok, answer.json, null);
      return answer.json;
    } catch (error) {
      const body = this.#bodyOf(error);
      span?.fail(body.code);
      this.nodes.end(node, false, EMPTY, body);
      throw error;
    } finally {
      span?.end();
    }
  }

  /** Throws `OVERLOADED` when the run has made, or has under way, as many calls as it may. `args` is JSON text. */
  #begin(kind: RunNode['kind'], name: string, args: Uint8Array): OpenNode {
    if (this.#calls >= LIMITS.runNodes)
      throw new SvcError('OVERLOADED', `A run may make at most ${LIMITS.runNodes} calls of ctx.tool and ctx.agent.`);
    if (this.nodes.open - this.#fetching.size >= LIMITS.runNodesAtOnce) {
      const running = `${LIMITS.runNodesAtOnce} calls of ctx.tool and ctx.agent are already running`;
      throw new SvcError('OVERLOADED', `${running}; await some of them first.`);
    }
    return this.nodes.begin(kind, name, args);
  }

  /** A permission of an agent is a separate node beside the agent's. */
  #decided(agent: OpenNode, { toolName, detail, optionId, ok }: PermissionDecision): void {
    if (!this.nodes.isOpen(agent) || this.#calls >= LIMITS.runNodes) return;
    const node = this.nodes.begin('permission', toolName, json({ detail }));
    this.nodes.end(node, ok, json({ optionId }), ok ? null : NOT_GRANTED);
  }

  #startSpan(): Span | null {
    const { tracing } = this.options;
    if (tracing === null) return null;
    const { runId, ref, app, trigger } = this.run.record;
    const span = tracing.start(`fire ${ref}`, 'internal', this.#firedBy?.traceparent);
    span.set('svc.app', app);
    span.set('svc.run_id', runId);
    span.set('svc.trigger', trigger.kind);
    return span;
  }

  #settle(outcome: Outcome): void {
    if (this.isOver) return;
    this.isOver = true;
    try {
      this.nodes.endAll(EMPTY, { code: 'HANDLER_ERROR', message: OVER });
    } finally {
      this.#controller?.abort(ENDED);
      this.#resolve(outcome);
    }
  }

  #bodyOf(error: unknown): ErrorBody {
    return toSvcError(error, this.options.log).toBody();
  }
}
