/**
 * Fires automations: makes each fire a run of the `RunEngine`, has the handler run in its actor's thread or by the host, and fires
 * `onFailure` (specification, "Runs"). A cron or failure fire that finds its automation busy is `skipped`.
 */
import type { Logger } from 'pino';
import { automationRef, type HistoryKeep, parseRef } from '../../../protocol/automations/automation.ts';
import type { RunRecord, RunTrigger } from '../../../protocol/automations/runs.ts';
import type { WebhookRequest, WebhookResponse } from '../../../protocol/automations/webhook-messages.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Redactor } from '../../../protocol/text/redactor.ts';
import { type SqlStatement, ToolKind } from '../../../protocol/wire/frames.ts';
import { recordedValue } from '../../../storage/automations/run-rows.ts';
import type { ConversationRunner, FireAutomation, FireAutomationFactory } from '../../extension-points.ts';
import type { RunEngine } from '../../runs/engine.ts';
import type { RunLedger } from '../../runs/ledger.ts';
import type { Outcome, Run, RunKind, Work } from '../../runs/run.ts';
import type { RunEvents } from '../../runs/run-events.ts';
import type { Secrets } from '../../secrets.ts';
import type { Span } from '../../tracing/span.ts';
import type { Tracing } from '../../tracing/tracing.ts';
import type { Actor } from '../../tree/actor/actor.ts';
import { Call } from '../../tree/actor/call.ts';
import type { AutomationCatalog, LiveAutomation } from '../catalog.ts';
import { Fire } from './fire.ts';
import type { FireTools } from './fire-tools.ts';
import { failure } from './fire-values.ts';
import { runOnHost } from './host-fire.ts';

/** The actor whose thread runs an automation's handler. */
type FireActor = Pick<Actor, 'submit' | 'cancel'>;

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
  /** The span that fires it, where traces are recorded. */
  span?: Span | null;
  /** How many `onFailure` fires led to this one. */
  depth?: number;
  extra?: (runId: string) => SqlStatement[];
};

/**
 * `ended` never rejects: it resolves with the run as it is stored, after that is durable. `response` is what its handler returned
 * for the sender, null until then.
 */
export type StartedRun = { run: RunRecord; ended: Promise<RunRecord>; response(): WebhookResponse | null };

export type FiresOptions = {
  catalog: Pick<AutomationCatalog, 'get'>;
  engine: Pick<RunEngine, 'start'>;
  ledger: Pick<RunLedger, 'list' | 'getState' | 'setState' | 'deleteState'>;
  events: Pick<RunEvents, 'publish'>;
  secrets: Pick<Secrets, 'get' | 'redactor'>;
  tools: Pick<FireTools, 'call'>;
  /** A notice of an automation's app: `{ notice }` → what the handler gets. */
  notify(app: string, args: { notice?: unknown }): Promise<unknown>;
  /** The actor whose thread runs the automation's handler. May throw or reject, which fails the run. */
  actorOf(automation: LiveAutomation): FireActor | Promise<FireActor>;
  runner: ConversationRunner;
  /** Runs fires in place of our threads; asked at the first fire. */
  factory: FireAutomationFactory | null;
  /** The file of an automation's handler, for them. */
  handlerOf(automation: LiveAutomation): string;
  /** Holds what the host returned, as JSON text or null, against the schema of the automation. Rejects with `HANDLER_ERROR`. */
  judgeOutput(automation: LiveAutomation, output: string | null): Promise<void>;
  /** Address of the gateway, null when a host owns the server. */
  baseUrl(): string | null;
  /** One line of JSON for an app's log, without the newline. */
  appLog(app: string, line: string): void;
  automationTimeoutMs: number;
  tracing: Pick<Tracing, 'start' | 'current'> | null;
  log: Logger;
  /** Milliseconds since the epoch. */
  now(): number;
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

export class Fires {
  readonly #options: FiresOptions;
  #onHost: FireAutomation | null = null;

  constructor(options: FiresOptions) {
    this.#options = options;
  }

  /**
   * Stores a run and runs it when its turn comes. Resolves once the row is durable. Rejects with `BAD_REQUEST` for an input that is no
   * JSON value, and as `RunEngine.start` does.
   */
  async start(request: FireRequest): Promise<StartedRun> {
    const work = new FireWork(request, this.#options, {
      launch: (...fired) => this.#launch(...fired),
      failed: (...failed) => void this.#fireFailure(...failed),
    });
    const { record: run, ended } = await this.#options.engine.start(work);
    return { run, ended, response: () => work.response };
  }

  async #launch(fire: Fire, { request, input }: FireWork): Promise<void> {
    const { factory, actorOf, baseUrl, automationTimeoutMs: allowedMs } = this.#options;
    const { traceId, caller, options } = fire;
    const { automation, run, span } = options;
    if (factory) {
      this.#onHost ??= factory({ baseUrl: baseUrl() });
      await runOnHost(this.#onHost, fire, request, this.#options);
      return;
    }
    const actor = await actorOf(automation);
    // It may have been cancelled between.
    if (fire.over) return;
    const body = Buffer.from(fireBody(run.record, request, automation, input));
    const tool = { kind: ToolKind.fire, tool: automation.id, body, traceId, span, caller, allowedMs };
    const call = new Call(tool, fire, performance.now());
    actor.submit(call);
    await fire.outcome;
    // However it ended: the actor knows whether the call is still at work.
    actor.cancel(call);
  }

  async #fireFailure(
    { automation, depth = 0 }: FireRequest,
    { runId, ref, error }: RunRecord,
    span: Span | null,
  ): Promise<void> {
    const { catalog, log, now } = this.#options;
    const failedOne = catalog.get(ref) ?? automation;
    const target = failureTarget(failedOne, depth, (other) => catalog.get(other));
    if (typeof target === 'string') log.warn({ ref, runId }, `No automation is fired for a failed run: ${target}.`);
    if (typeof target === 'string' || target === null) return;
    try {
      await this.start({
        automation: target,
        trigger: { kind: 'failure', origin: runId },
        at: now(),
        input: { runId, automationName: failedOne.manifest.name, error },
        parentRunId: runId,
        span,
        depth: depth + 1,
      });
    } catch (cause) {
      log.warn({ err: cause, ref: target.ref, runId }, 'The automation for a failed run could not be fired.');
    }
  }
}

type Steps = {
  /** Has the handler run; what it rejects with fails the run. */
  launch(fire: Fire, work: FireWork): Promise<void>;
  failed(request: FireRequest, run: RunRecord, span: Span | null): void;
};

/** A fire as a run: its lane is its automation's. */
class FireWork implements Work {
  readonly kind = FIRES;
  readonly lane: string;
  readonly about: Work['about'];
  readonly skipped: Work['skipped'];
  readonly request: FireRequest;
  /** JSON text; undefined without input. */
  readonly input: string | undefined;
  readonly #options: FiresOptions;
  readonly #steps: Steps;
  readonly #firedBy: Span | null;
  #automation: LiveAutomation;
  #fire: Fire | null = null;

  constructor(request: FireRequest, options: FiresOptions, steps: Steps) {
    const { automation, trigger, parentRunId = null, span } = request;
    const { kind } = trigger;
    this.lane = automation.ref;
    this.about = { app: automation.app, automation: automation.id, trigger, parentRunId };
    this.skipped = kind === 'cron' || kind === 'failure' ? SKIPPED : undefined;
    this.request = request;
    this.input = inputText(request.input);
    this.#options = options;
    this.#steps = steps;
    // A scheduled fire starts a new trace, whichever call set the timer.
    this.#firedBy = span ?? (kind === 'cron' ? null : (options.tracing?.current ?? null));
    this.#automation = automation;
  }

  /** Records and events contain no secrets of the app. */
  get redactor(): Redactor {
    return this.#options.secrets.redactor(this.about.app);
  }

  get keep(): HistoryKeep {
    return this.#automation.manifest.history.keep;
  }

  get model(): string | null {
    return this.#fire?.model ?? null;
  }

  get response(): WebhookResponse | null {
    return this.#fire?.response ?? null;
  }

  get status(): number | null {
    return this.response?.status ?? null;
  }

  store(run: Run): Promise<void> {
    const input = recordedValue(this.redactor.json(Buffer.from(this.input ?? '')));
    return run.insert(input, this.request.extra?.(run.runId));
  }

  /** A new version may have come while it waited. */
  refusal(): Outcome | null {
    const automation = this.#options.catalog.get(this.lane);
    if (!automation)
      return failure({ code: 'UNKNOWN_AUTOMATION', message: `There is no automation "${this.lane}" any more.` });
    this.#automation = automation;
    return null;
  }

  async run(run: Run): Promise<Outcome> {
    const span = this.#startSpan(run.record);
    const fire = new Fire({ ...this.#options, run, automation: this.#automation, span });
    this.#fire = fire;
    this.#steps.launch(fire, this).catch((error: unknown) => fire.faulted(error));
    const outcome = await fire.outcome;
    if (outcome.error !== null) span?.fail(outcome.error.code);
    span?.end();
    return outcome;
  }

  stop(state: 'aborted' | 'interrupted', error: SvcError): Outcome {
    const outcome = { state, summary: null, output: null, error: error.toBody() };
    this.#fire?.abort(outcome);
    return outcome;
  }

  followUp({ state }: Outcome, run: RunRecord): void {
    if (state === 'error') this.#steps.failed(this.request, run, this.#fire?.options.span ?? null);
  }

  #startSpan({ runId, ref, app, trigger }: RunRecord): Span | null {
    const { tracing } = this.#options;
    if (tracing === null) return null;
    const span = tracing.start(`fire ${ref}`, 'internal', this.#firedBy?.traceparent);
    span.set('svc.app', app);
    span.set('svc.run_id', runId);
    span.set('svc.trigger', trigger.kind);
    return span;
  }
}

/**
 * The automation that a failed run fires (specification, "Runs"), or a text that says why it fires none; null without
 * `onFailure`. `depth` counts the `onFailure` fires that led to the failed run.
 */
function failureTarget(
  failed: LiveAutomation,
  depth: number,
  get: (ref: string) => LiveAutomation | undefined,
): LiveAutomation | string | null {
  const { onFailure } = failed.manifest;
  if (onFailure === undefined) return null;
  const ref = onFailure.includes('/') ? onFailure : automationRef(failed.app, onFailure);
  if (parseRef(ref) === null) return `onFailure "${onFailure.slice(0, 200)}" is no handle of an automation`;
  if (ref === failed.ref) return 'onFailure names the automation itself';
  if (depth >= LIMITS.failureDepth) return `${LIMITS.failureDepth} onFailure fires led to this run already`;
  const target = get(ref);
  if (!target) return `onFailure names "${ref}", and there is no such automation`;
  return target.manifest.enabled ? target : `onFailure names "${ref}", which is disabled`;
}

/** The fire's data for the thread. */
function fireBody(
  run: RunRecord,
  { at: now, request }: FireRequest,
  automation: LiveAutomation,
  input: string | undefined,
): string {
  const { ref, id, manifest } = automation;
  const { name, version } = manifest;
  const known = { runId: run.runId, now, trigger: run.trigger, automation: { ref, id, name, version }, request };
  const head = JSON.stringify(known);
  return input === undefined ? head : `${head.slice(0, -1)},"input":${input}}`;
}

/** The input as JSON text; undefined without input. Throws `BAD_REQUEST` for a value that JSON cannot hold. */
function inputText(input: unknown): string | undefined {
  try {
    return JSON.stringify(input);
  } catch (error) {
    throw new SvcError('BAD_REQUEST', `The input is not a JSON value: ${(error as Error).message}.`, { path: 'input' });
  }
}
