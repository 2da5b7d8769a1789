/**
 * Fires automations: makes each fire a run of the `RunEngine`, has the handler run in its actor's thread or by the host, and fires
 * `onFailure` (specification, "Runs"). A cron or failure fire that finds its automation busy is `skipped`.
 */
import { automationRef, parseRef } from '../../../protocol/automations/automation.ts';
import type { RunRecord } from '../../../protocol/automations/runs.ts';
import type { WebhookResponse } from '../../../protocol/automations/webhook-messages.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { ToolKind } from '../../../protocol/wire/frames.ts';
import type { FireAutomation, FireAutomationFactory } from '../../extension-points.ts';
import type { RunEngine } from '../../runs/engine.ts';
import type { Actor } from '../../tree/actor/actor.ts';
import { Call } from '../../tree/actor/call.ts';
import type { LiveAutomation } from '../catalog.ts';
import { Fire, type FireOptions } from './fire.ts';
import type { FireRequest } from './fire-values.ts';
import { type HostFireOptions, runOnHost } from './host-fire.ts';

/** The actor whose thread runs an automation's handler. */
type FireActor = Pick<Actor, 'submit' | 'cancel'>;

/**
 * `ended` never rejects: it resolves with the run as it is stored, after that is durable. `response` is what its handler returned
 * for the sender, null until then.
 */
export type StartedRun = { run: RunRecord; ended: Promise<RunRecord>; response(): WebhookResponse | null };

export type FiresOptions = Omit<FireOptions, 'launch' | 'failed'> &
  HostFireOptions & {
    engine: RunEngine;
    /** The actor whose thread runs the automation's handler. May throw or reject, which fails the run. */
    actorOf(automation: LiveAutomation): FireActor | Promise<FireActor>;
    /** Runs fires in place of our threads; asked at the first fire. */
    factory: FireAutomationFactory | null;
    /** Address of the gateway, null when a host owns the server. */
    baseUrl(): string | null;
  };

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
    const fire = new Fire(request, {
      ...this.#options,
      launch: (one) => this.#launch(one),
      failed: (one, run) => void this.#fireFailure(one, run),
    });
    const { record: run, ended } = await this.#options.engine.start(fire);
    return { run, ended, response: () => fire.response };
  }

  async #launch(fire: Fire): Promise<void> {
    const { factory, actorOf, baseUrl, automationTimeoutMs: allowedMs } = this.#options;
    const { automation, traceId, span, caller } = fire;
    if (factory) {
      this.#onHost ??= factory({ baseUrl: baseUrl() });
      await runOnHost(this.#onHost, fire, this.#options);
      return;
    }
    const actor = await actorOf(automation);
    // It may have been cancelled between.
    if (fire.isOver) return;
    const body = Buffer.from(fireBody(fire));
    const tool = { kind: ToolKind.fire, tool: automation.id, body, traceId, span, caller, allowedMs };
    const call = new Call(tool, fire, performance.now());
    actor.submit(call);
    await fire.outcome;
    // However it ended: the actor knows whether the call is still at work.
    actor.cancel(call);
  }

  async #fireFailure({ request, span }: Fire, { runId, ref, error }: RunRecord): Promise<void> {
    const { automation, depth = 0 } = request;
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
function fireBody({ run, request, automation, input }: Fire): string {
  const { ref, id, manifest } = automation;
  const { name, version } = manifest;
  const { runId, trigger } = run.record;
  const known = { runId, now: request.at, trigger, automation: { ref, id, name, version }, request: request.request };
  const head = JSON.stringify(known);
  return input === undefined ? head : `${head.slice(0, -1)},"input":${input}}`;
}
