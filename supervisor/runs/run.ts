/**
 * One run under way: the work of an automation's fire or of a chat's turn, from its request to its stored end (specification, "Runs").
 *
 *   storing ─row stored→ waiting ─its turn→ running ─outcome→ ending ─end stored→ gone
 *      │                    └ cancel, stop ──────────────────→ ending
 *      └ not stored → gone, and nobody hears of it
 *
 * The row of a run that need not wait says `running` from the beginning: storing that it started would cost another commit. `RunEngine`
 * makes every step but one: how a run that runs ends is up to its work.
 */
import type { Logger } from 'pino';
import type { HistoryKeep } from '../../protocol/automations/automation.ts';
import { noUsage, type RunRecord } from '../../protocol/automations/runs.ts';
import type { ErrorBody, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Redactor } from '../../protocol/text/redactor.ts';
import type { SqlStatement } from '../../protocol/wire/frames.ts';
import type { RunLedger } from './ledger.ts';
import type { RunEvents } from './run-events.ts';
import { RunNodes } from './run-nodes.ts';

/** How a run ends. */
export type Outcome = Pick<RunRecord, 'summary' | 'output' | 'error'> & {
  state: 'ok' | 'error' | 'aborted' | 'interrupted';
};

/** What is common to all runs of a kind. */
export type RunKind = {
  name: RunRecord['kind'];
  /** Runs that may wait in one lane, and that may run and wait in all lanes together; and what a request over that is told. */
  waiting: number;
  all?: number;
  tooMany(lane: string | null): string;
  /** What a run is told that the gateway's stop interrupts. */
  stopped: string;
  /** How long one may take to end after it was stopped, in milliseconds. */
  endMs: number;
};

/** What a run does. */
export interface Work {
  readonly kind: RunKind;
  /** Runs of one lane come one after the other. */
  readonly lane: string;
  readonly about: Pick<RunRecord, 'app' | 'automation' | 'trigger' | 'parentRunId' | 'by'>;
  /** How it ends when its lane is occupied; absent where it waits. */
  readonly skipped?: ErrorBody | undefined;
  /** Takes secrets out of its nodes. */
  readonly redactor: Redactor;
  readonly keep: HistoryKeep;
  /** The model of its agents, as far as it is known. */
  readonly model: string | null;
  /** What its handler answered the sender of a webhook with. */
  readonly status?: number | null;
  /** Has `run.insert` store the row, perhaps with rows of its own. What it rejects with refuses the run. */
  store(run: Run): Promise<void>;
  /** Its turn has come: how it ends without having begun, or null. */
  refusal?(): Outcome | null;
  /** Does the work. Resolves with how it ended; never rejects. */
  perform(): Promise<Outcome>;
  /** It is to end. Returns how it ends if it does not run; otherwise `perform` is to resolve soon. */
  stop(state: 'aborted' | 'interrupted', error: SvcError): Outcome;
  /** It has ended so: may have `run.storeEnd` store that with rows of its own. */
  end?(outcome: Outcome): Promise<void>;
  /** Its end is stored and told; not called while the gateway stops. */
  followUp?(outcome: Outcome, run: RunRecord): void;
}

export type RunParts = {
  ledger: Pick<RunLedger, 'insert' | 'skip' | 'started' | 'node' | 'end'>;
  events: Pick<RunEvents, 'publish'>;
  log: Logger;
  /** Milliseconds since the epoch. */
  now(): number;
  /** Waits before the end of a run is stored again. */
  pause(ms: number): Promise<unknown>;
  /** The gateway stops: nothing is tried again. */
  isStopping(work: Work): boolean;
};

export class Run {
  record: RunRecord;
  readonly work: Work;
  readonly nodes: RunNodes;
  /** It is the first of its lane. */
  readonly first: boolean;
  phase: 'storing' | 'waiting' | 'running' | 'ending' = 'storing';
  /** The end of a run that was stopped while it was being stored. */
  stoppedAs: Outcome | null = null;
  /** Resolves with the run as it is stored, after that is durable; never rejects. */
  readonly ended: Promise<RunRecord>;
  resolve: (run: RunRecord) => void = () => {};
  readonly #parts: RunParts;
  readonly #onStopped: (outcome: Outcome) => void;
  #storing: Promise<void> | null = null;

  /** `onStopped` ends a run that waits. */
  constructor(
    runId: string,
    work: Work,
    first: boolean,
    parts: RunParts,
    onStopped: (run: Run, outcome: Outcome) => void,
  ) {
    const { kind, about } = work;
    this.work = work;
    this.first = first;
    this.#parts = parts;
    this.#onStopped = (outcome) => onStopped(this, outcome);
    this.ended = new Promise((resolve) => {
      this.resolve = resolve;
    });
    this.record = {
      runId,
      kind: kind.name,
      ref: `${about.app}/${about.automation}`,
      ...about,
      state: 'queued',
      input: null,
      output: null,
      summary: null,
      error: null,
      queuedAt: parts.now(),
      startedAt: null,
      endedAt: null,
      usage: noUsage(),
      pinned: false,
    };
    const { events, ledger, now } = parts;
    this.nodes = new RunNodes({
      runId,
      events,
      store: (node) => ledger.node(about.app, node),
      now,
      redactor: () => work.redactor,
    });
  }

  get runId(): string {
    return this.record.runId;
  }

  /** It ends as it begins. */
  get isSkipped(): boolean {
    return !this.first && this.work.skipped !== undefined;
  }

  /** Stores the row of the run; `extra` goes into the same commit. Rejects as `RunLedger.insert` does. */
  async insert(input: unknown, extra: SqlStatement[] = []): Promise<void> {
    const { ledger } = this.#parts;
    const { queuedAt } = this.record;
    this.record = { ...this.record, input };
    if (this.isSkipped) {
      this.record = { ...this.record, state: 'skipped', error: this.work.skipped ?? null, endedAt: queuedAt };
      await ledger.skip(this.record, this.work.keep, extra);
    } else {
      await ledger.insert(this.first ? { ...this.record, state: 'running', startedAt: queuedAt } : this.record, extra);
    }
  }

  /** Stores the end of the run, once; `extra` goes into the same commit. Rejects when that fails again and again. */
  storeEnd(extra: SqlStatement[] = []): Promise<void> {
    this.#storing ??= this.#storeEnd(extra);
    return this.#storing;
  }

  /** Ends it, before it has begun or while it runs; `ended` tells when. One that is ending already goes on so. */
  stop(state: 'aborted' | 'interrupted', error: SvcError): void {
    if (this.phase === 'ending') return;
    const outcome = this.work.stop(state, error);
    if (this.phase === 'storing') this.stoppedAs ??= outcome;
    if (this.phase === 'waiting') this.#onStopped(outcome);
  }

  async #storeEnd(extra: SqlStatement[]): Promise<void> {
    const { ledger, log, pause, isStopping } = this.#parts;
    const { runId, work } = this;
    for (let tries = 1; ; tries++) {
      try {
        await ledger.end(this.record, work.keep, { model: work.model, status: work.status ?? null, extra });
        return;
      } catch (error) {
        if (tries >= LIMITS.runEndTries || isStopping(work)) throw error;
        log.warn({ err: error, runId }, 'The end of a run could not be stored; trying again.');
      }
      await pause(LIMITS.runEndWaitMs);
    }
  }
}
