/**
 * Every run of every automation, from the request to its stored end (specification, "Runs"). One run of an automation at a
 * time; the others wait in its lane.
 *
 *   storing ─row stored→ waiting ─its turn→ running ─outcome→ ending ─end stored→ gone
 *      │                    └ cancel, stop ──────────────────→ ending
 *      └ not stored → gone, and `start` rejects
 *
 * The row of a run that need not wait says `running` from the beginning: storing that it started would cost another commit.
 * A cron or failure fire that finds the lane occupied is stored as `skipped` and does not run.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type { Logger } from 'pino';
import { v7 as uuid } from 'uuid';
import { automationRef, type HistoryKeep, parseRef } from '../../../protocol/automations/automation.ts';
import { noUsage, type RunRecord, type RunTrigger } from '../../../protocol/automations/runs.ts';
import type { WebhookRequest, WebhookResponse } from '../../../protocol/automations/webhook-messages.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { Redactor } from '../../../protocol/text/redactor.ts';
import { type SqlStatement, ToolKind } from '../../../protocol/wire/frames.ts';
import { recordedValue } from '../../../storage/automations/run-rows.ts';
import type { ConversationRunner, FireAutomation, FireAutomationFactory } from '../../extension-points.ts';
import { toSvcError } from '../../http/answers.ts';
import type { RunLedger } from '../../runs/ledger.ts';
import type { RunEvents } from '../../runs/run-events.ts';
import type { Secrets } from '../../secrets.ts';
import type { Span } from '../../tracing/span.ts';
import type { Tracing } from '../../tracing/tracing.ts';
import type { Actor } from '../../tree/actor/actor.ts';
import { Call } from '../../tree/actor/call.ts';
import { stoppingError } from '../../tree/actor/call-errors.ts';
import type { AutomationCatalog, LiveAutomation } from '../catalog.ts';
import { Fire } from './fire.ts';
import type { FireTools } from './fire-tools.ts';
import { failure, type Outcome } from './fire-values.ts';
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
  ledger: Pick<
    RunLedger,
    'insert' | 'skip' | 'started' | 'node' | 'end' | 'get' | 'list' | 'getState' | 'setState' | 'deleteState'
  >;
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
  now?: () => number;
  /** Waits before the end of a run is stored again. */
  pause?: (ms: number) => Promise<unknown>;
};

/** A run under way. The phases are those above. */
class Pending {
  run: RunRecord;
  readonly request: FireRequest;
  /** JSON text; undefined without input. */
  readonly input: string | undefined;
  /** It is the first of its lane and starts as soon as it is stored, so that its row says `running` from the beginning. */
  readonly first: boolean;
  phase: 'storing' | 'waiting' | 'running' | 'ending' = 'storing';
  /** How it is to end once it is stored, because it was stopped before. */
  doom: Outcome | null = null;
  fire: Fire | null = null;
  firedBy: Span | null = null;
  keep: HistoryKeep;
  resolve: (run: RunRecord) => void = () => {};
  readonly ended = new Promise<RunRecord>((resolve) => {
    this.resolve = resolve;
  });

  constructor(run: RunRecord, request: FireRequest, input: string | undefined, first: boolean) {
    this.run = run;
    this.request = request;
    this.input = input;
    this.first = first;
    this.keep = request.automation.manifest.history.keep;
  }
}

export class Fires {
  readonly #options: FiresOptions;
  readonly #now: () => number;
  readonly #pause: (ms: number) => Promise<unknown>;
  /** The runs of each automation in their order; the first one runs. */
  readonly #lanes = new Map<string, Pending[]>();
  readonly #runs = new Map<string, Pending>();
  #onHost: FireAutomation | null = null;
  #stopping = false;

  constructor(options: FiresOptions) {
    const { now = Date.now, pause = (ms) => wait(ms, undefined, { ref: false }) } = options;
    this.#options = options;
    this.#now = now;
    this.#pause = pause;
  }

  /**
   * Stores a run and runs it when its turn comes. Resolves once the row is durable. Rejects with `OVERLOADED` when too many
   * wait or the gateway stops, `BAD_REQUEST` for an input that is no JSON value, and as the ledger does.
   */
  async start(request: FireRequest): Promise<StartedRun> {
    if (this.#stopping) throw stoppingError();
    const input = inputText(request.input);
    const { ref } = request.automation;
    const redactor = this.#options.secrets.redactor(request.automation.app);
    const run = newRun(request, input, redactor, this.#now());
    const lane = this.#lanes.get(ref) ?? [];
    const { kind } = request.trigger;
    if (lane.length > 0 && (kind === 'cron' || kind === 'failure')) return await this.#skip(request, run);
    if (lane.length > LIMITS.runsWaiting) throw tooManyWait(ref);
    // Taken before anything is awaited: of two that start at once, the second finds the first.
    const pending = new Pending(run, request, input, lane.length === 0);
    // A scheduled fire starts a new trace, whichever call set the timer.
    pending.firedBy = request.span ?? (kind === 'cron' ? null : (this.#options.tracing?.current ?? null));
    lane.push(pending);
    this.#lanes.set(ref, lane);
    this.#runs.set(run.runId, pending);
    try {
      const stored: RunRecord = pending.first ? { ...run, state: 'running', startedAt: run.queuedAt } : run;
      await this.#options.ledger.insert(stored, request.extra?.(run.runId));
    } catch (error) {
      this.#leave(pending);
      pending.resolve(run);
      throw error;
    }
    pending.phase = 'waiting';
    if (pending.doom) void this.#end(pending, pending.doom);
    else this.#next(ref);
    return { run: pending.run, ended: pending.ended, response: () => pending.fire?.response ?? null };
  }

  /** Runs of the automation under way: the one that runs and those that wait. */
  running(ref: string): number {
    return this.#lanes.get(ref)?.length ?? 0;
  }

  /** Numbers of running and waiting runs of all automations. */
  get load(): { running: number; waiting: number } {
    let running = 0;
    for (const { phase } of this.#runs.values()) if (phase === 'running' || phase === 'ending') running++;
    return { running, waiting: this.#runs.size - running };
  }

  /** Resolves once no run is under way, those that others led to included. */
  async idle(): Promise<void> {
    // The run of an `onFailure` begins in the same turn in which the failed one ends.
    while (this.#runs.size > 0) await Promise.all([...this.#runs.values()].map(({ ended }) => ended));
  }

  /** Ends a run as `aborted`; resolves when that is stored. One that has ended is left as it is. Rejects with `UNKNOWN_RUN`. */
  async cancel(runId: string): Promise<RunRecord> {
    const pending = this.#runs.get(runId);
    if (pending) {
      this.#stopRun(pending, 'aborted', new SvcError('RUN_ABORTED', 'The run was cancelled.'));
      return await pending.ended;
    }
    const run = await this.#options.ledger.get(runId);
    if (!run) throw new SvcError('UNKNOWN_RUN', `No run "${runId.slice(0, 80)}" is kept.`, { path: 'runId' });
    return run;
  }

  /** Takes no more fires, and gives those that run `drainMs` to end; what is left is stored as `interrupted`. */
  async stop(drainMs: number): Promise<void> {
    this.#stopping = true;
    const error = new SvcError('RUN_ABORTED', 'The gateway stopped before the run ended.');
    const all = [...this.#runs.values()];
    const ended = Promise.all(all.map((pending) => pending.ended));
    for (const pending of all) if (pending.phase !== 'running') this.#stopRun(pending, 'interrupted', error);
    await atMost(drainMs, ended);
    for (const pending of all) this.#stopRun(pending, 'interrupted', error);
    // The next start finds and marks runs whose end could not be stored.
    await atMost(LIMITS.runEndTries * LIMITS.runEndWaitMs, ended);
  }

  /** Ends the runs of an app before it is removed. */
  async stopApp(app: string): Promise<void> {
    const all = [...this.#runs.values()].filter(({ run }) => run.app === app);
    for (const pending of all) this.#stopRun(pending, 'aborted', new SvcError('RUN_ABORTED', 'The app was removed.'));
    await Promise.all(all.map((pending) => pending.ended));
  }

  #stopRun(pending: Pending, state: 'aborted' | 'interrupted', error: SvcError): void {
    if (pending.phase === 'running') {
      pending.fire?.abort(state, error);
      return;
    }
    const outcome: Outcome = { state, summary: null, output: null, error: error.toBody() };
    if (pending.phase === 'storing') pending.doom ??= outcome;
    if (pending.phase === 'waiting') void this.#end(pending, outcome);
  }

  async #skip({ automation, extra }: FireRequest, queued: RunRecord): Promise<StartedRun> {
    const error = { code: 'CONFLICT', message: 'An earlier run of the automation was still under way.' };
    const run: RunRecord = { ...queued, state: 'skipped', error, endedAt: queued.queuedAt };
    await this.#options.ledger.skip(run, automation.manifest.history.keep, extra?.(run.runId));
    this.#options.events.publish({ type: 'run.end', run });
    return { run, ended: Promise.resolve(run), response: () => null };
  }

  /** Runs the first of the lane, if it waits. */
  #next(ref: string): void {
    const pending = this.#lanes.get(ref)?.[0];
    if (pending?.phase !== 'waiting') return;
    // A new version may have come while it waited.
    const automation = this.#options.catalog.get(ref);
    if (!automation) {
      const error = { code: 'UNKNOWN_AUTOMATION', message: `There is no automation "${ref}" any more.` };
      void this.#end(pending, failure(error));
      return;
    }
    pending.phase = 'running';
    pending.keep = automation.manifest.history.keep;
    const startedAt = this.#now();
    pending.run = { ...pending.run, state: 'running', startedAt };
    const span = this.#span(pending, automation);
    const fire = new Fire({ ...this.#options, runId: pending.run.runId, automation, now: this.#now, span });
    pending.fire = fire;
    void fire.outcome.then((outcome) => this.#end(pending, outcome));
    this.#launch(pending, fire, automation, startedAt).catch((error: unknown) => fire.faulted(error));
  }

  #span({ run, firedBy }: Pending, { ref, app }: LiveAutomation): Span | null {
    const { tracing } = this.#options;
    if (tracing === null) return null;
    const span = tracing.start(`fire ${ref}`, 'internal', firedBy?.traceparent);
    span.set('svc.app', app);
    span.set('svc.run_id', run.runId);
    span.set('svc.trigger', run.trigger.kind);
    return span;
  }

  async #launch(pending: Pending, fire: Fire, automation: LiveAutomation, startedAt: number): Promise<void> {
    const { ledger, events, factory, actorOf, automationTimeoutMs: allowedMs } = this.#options;
    const { run, request } = pending;
    if (!pending.first) ledger.started(run.runId, startedAt);
    events.publish({ type: 'run.start', run });
    if (factory) {
      this.#onHost ??= factory({ baseUrl: this.#options.baseUrl() });
      await runOnHost(this.#onHost, fire, request, this.#options);
      return;
    }
    const actor = await actorOf(automation);
    // It may have been cancelled between.
    if (fire.over) return;
    const body = Buffer.from(fireBody(run, request, automation, pending.input));
    const { traceId, caller, options } = fire;
    const { span } = options;
    const tool = { kind: ToolKind.fire, tool: automation.id, body, traceId, span, caller, allowedMs };
    const call = new Call(tool, fire, performance.now());
    actor.submit(call);
    await fire.outcome;
    // However it ended: the actor knows whether the call is still at work.
    actor.cancel(call);
  }

  /** Never rejects. */
  async #end(pending: Pending, outcome: Outcome): Promise<void> {
    pending.phase = 'ending';
    const span = pending.fire?.options.span;
    if (outcome.error !== null) span?.fail(outcome.error.code);
    span?.end();
    const usage = pending.fire?.nodes.usage ?? noUsage();
    const run = await this.#store({ ...pending.run, ...outcome, usage: { ...usage }, endedAt: this.#now() }, pending);
    pending.run = run;
    try {
      this.#options.events.publish({ type: 'run.end', run });
    } catch (error) {
      this.#options.log.error({ err: error, runId: run.runId }, 'The end of a run could not be sent to its followers.');
    }
    this.#leave(pending);
    pending.resolve(run);
    if (outcome.state === 'error' && !this.#stopping) await this.#fireFailure(pending.request, run, span);
  }

  /** The run as it is stored. One that cannot be stored counts as failed: the next start will find it interrupted. */
  async #store(run: RunRecord, { keep, fire }: Pending): Promise<RunRecord> {
    const { ledger, log } = this.#options;
    for (let tries = 1; ; tries++) {
      try {
        await ledger.end(run, keep, { model: fire?.model ?? null, status: fire?.response?.status ?? null });
        return run;
      } catch (error) {
        if (tries >= LIMITS.runEndTries || this.#stopping) {
          log.error({ err: error, runId: run.runId, state: run.state }, 'The end of a run could not be stored.');
          return { ...run, state: 'error', error: toSvcError(error, log).toBody() };
        }
        log.warn({ err: error, runId: run.runId }, 'The end of a run could not be stored; trying again.');
      }
      await this.#pause(LIMITS.runEndWaitMs);
    }
  }

  async #fireFailure(
    { automation, depth = 0 }: FireRequest,
    { runId, ref, error }: RunRecord,
    span: Span | null | undefined,
  ): Promise<void> {
    const { catalog, log } = this.#options;
    const failedOne = catalog.get(ref) ?? automation;
    const target = failureTarget(failedOne, depth, (other) => catalog.get(other));
    if (typeof target === 'string') log.warn({ ref, runId }, `No automation is fired for a failed run: ${target}.`);
    if (typeof target === 'string' || target === null) return;
    try {
      await this.start({
        automation: target,
        trigger: { kind: 'failure', origin: runId },
        at: this.#now(),
        input: { runId, automationName: failedOne.manifest.name, error },
        parentRunId: runId,
        span: span ?? null,
        depth: depth + 1,
      });
    } catch (cause) {
      log.warn({ err: cause, ref: target.ref, runId }, 'The automation for a failed run could not be fired.');
    }
  }

  /** Makes room for the next one. */
  #leave(pending: Pending): void {
    const { ref, runId } = pending.run;
    this.#runs.delete(runId);
    const lane = this.#lanes.get(ref) ?? [];
    lane.splice(lane.indexOf(pending), 1);
    if (lane.length === 0) this.#lanes.delete(ref);
    else this.#next(ref);
  }
}

function tooManyWait(ref: string): SvcError {
  return new SvcError('OVERLOADED', `${LIMITS.runsWaiting} runs of "${ref}" are already waiting; try again later.`, {
    headers: { 'retry-after': '5' },
  });
}

async function atMost(ms: number, work: Promise<unknown>): Promise<void> {
  const enough = new AbortController();
  const late = wait(ms, undefined, { signal: enough.signal }).catch(() => {});
  await Promise.race([work, late]);
  enough.abort();
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

/** Times are milliseconds since the epoch. */
function newRun(
  { automation, trigger, parentRunId = null }: FireRequest,
  input: string | undefined,
  redactor: Redactor,
  queuedAt: number,
): RunRecord {
  return {
    runId: uuid(),
    kind: 'automation',
    ref: automation.ref,
    app: automation.app,
    automation: automation.id,
    trigger,
    parentRunId,
    state: 'queued',
    input: recordedValue(redactor.json(Buffer.from(input ?? ''))),
    output: null,
    summary: null,
    error: null,
    queuedAt,
    startedAt: null,
    endedAt: null,
    usage: noUsage(),
    pinned: false,
  };
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
