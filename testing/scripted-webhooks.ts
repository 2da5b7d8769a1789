/** For tests: automations with webhooks, and runs that start on request and end when the test says so. */
import { createHash } from 'node:crypto';
import type { WebhookVerify } from '../protocol/automations/automation.ts';
import type { RunRecord } from '../protocol/automations/runs.ts';
import type { WebhookResponse } from '../protocol/automations/webhook-messages.ts';
import { SvcError } from '../protocol/errors.ts';
import type { SqlStatement } from '../protocol/wire/frames.ts';
import type { LiveAutomation } from '../supervisor/automations/catalog.ts';
import type { StartedRun } from '../supervisor/automations/fires/fires.ts';
import type { WebhooksOptions } from '../supervisor/automations/webhooks/webhooks.ts';
import { inTime } from './waiting.ts';

type FireRequest = Parameters<WebhooksOptions['fires']['start']>[0];
export type ScriptedRun = {
  request: FireRequest;
  run: RunRecord;
  /** The records stored with it: the last one claims its message. */
  statements: SqlStatement[];
  end(last?: Partial<RunRecord>): void;
};

/** An automation whose one trigger is a webhook with this slug and secret. */
export function hooked(
  slug: string,
  secret: string,
  more: { signing?: true; enabled?: false; versionId?: string } = {},
): LiveAutomation {
  const { signing, enabled = true, versionId = 'v_1' } = more;
  const secretHash = createHash('sha256').update(secret).digest('hex');
  const manifest: LiveAutomation['manifest'] = {
    name: slug,
    version: '1.0.0',
    enabled,
    requires: {},
    history: { keep: 'all' },
    triggers: [
      { kind: 'cron', expr: '* * * * *' },
      { kind: 'webhook', id: slug, secretHash, ...(signing && { signing }) },
    ],
  };
  return { ref: `app/${slug}`, app: 'app', id: slug, versionId, manifest };
}

/** The same for a sender that has a secret of the app. */
export function verifiedBy(slug: string, verify: WebhookVerify, secret: string, enabled = true): LiveAutomation {
  const automation = hooked(slug, '');
  const triggers: LiveAutomation['manifest']['triggers'] = [{ kind: 'webhook', id: slug, verify, secret }];
  return { ...automation, manifest: { ...automation.manifest, triggers, enabled } };
}

/** The active versions' automations by the slugs of their webhooks. */
export class ScriptedCatalog {
  readonly #bySlug = new Map<string, LiveAutomation>();
  readonly #listeners: ((app: string) => void)[] = [];

  bySlug(slug: string): LiveAutomation | undefined {
    return this.#bySlug.get(slug);
  }

  holderOf(slug: string): string | undefined {
    return this.#bySlug.get(slug)?.app;
  }

  onChange(listener: (app: string) => void): void {
    this.#listeners.push(listener);
  }

  /** Puts an automation at a slug, or removes the one there. */
  set(slug: string, automation: LiveAutomation | null): void {
    if (automation === null) this.#bySlug.delete(slug);
    else this.#bySlug.set(slug, automation);
    for (const listener of this.#listeners) listener('app');
  }
}

export class ScriptedFires {
  /** All started runs, in order. */
  readonly runs: ScriptedRun[] = [];
  /** If not null, ends runs as soon as they have started. */
  outcome: Partial<RunRecord> | null = {};
  /** The responses that handlers return for the sender. */
  response: WebhookResponse | null = null;
  /** Thrown by the next start. */
  refusal: Error | null = null;
  /** The most concurrent runs of each automation. */
  most = 0;
  /** Ids of signed messages that ran and did not fail, as in the ledger. */
  readonly ids = new Set<string>();
  readonly #underWay = new Map<string, number>();
  #waiting: (() => void)[] = [];

  async start(request: FireRequest): Promise<StartedRun> {
    await Promise.resolve();
    const { refusal } = this;
    this.refusal = null;
    if (refusal) throw refusal;
    const run = newRun(`run-${this.runs.length + 1}`, request);
    const statements = request.extra?.(run.runId) ?? [];
    const ids = statements.slice(-1).map(([, claimed]) => JSON.stringify(Object.values(claimed ?? {}).slice(0, 2)));
    if (ids.some((id) => this.ids.has(id))) throw new SvcError('CONFLICT', 'This webhook-id was taken before.');
    for (const id of ids) this.ids.add(id);

    const { ref } = request.automation;
    const underWay = (this.#underWay.get(ref) ?? 0) + 1;
    this.#underWay.set(ref, underWay);
    this.most = Math.max(this.most, underWay);

    let settle: (last: RunRecord) => void = () => {};
    const ended = new Promise<RunRecord>((resolve) => {
      settle = resolve;
    });
    const end = (last: Partial<RunRecord> = {}): void => {
      this.#underWay.set(ref, (this.#underWay.get(ref) ?? 0) - 1);
      if ((last.state ?? 'ok') !== 'ok') for (const id of ids) this.ids.delete(id);
      settle({ ...run, state: 'ok', ...last });
    };
    this.runs.push({ request, run, statements, end });
    for (const tell of this.#waiting.splice(0)) tell();
    // Runs take at least one turn, so that others come in between.
    if (this.outcome) setImmediate(end, this.outcome);
    return { run, ended, response: () => this.response };
  }

  /** The run of this number, counted from 1, after it has started. */
  async started(number: number): Promise<ScriptedRun> {
    while (this.runs.length < number) {
      const told = new Promise<void>((resolve) => this.#waiting.push(resolve));
      await inTime(told, `run number ${number}`);
    }
    return this.runs[number - 1] as ScriptedRun;
  }
}

function newRun(runId: string, { automation, trigger, input, at }: FireRequest): RunRecord {
  return {
    runId,
    kind: 'automation',
    ref: automation.ref,
    app: automation.app,
    automation: automation.id,
    trigger,
    parentRunId: null,
    state: 'queued',
    input,
    output: null,
    summary: null,
    error: null,
    queuedAt: at,
    startedAt: null,
    endedAt: null,
    usage: { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, costUsd: null },
    pinned: false,
  };
}
