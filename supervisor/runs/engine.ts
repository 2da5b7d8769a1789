/**
 * Runs everything that is recorded as a run: fires of automations by schedule, webhook, hand and failure, and turns of chats
 * (specification, "Runs"). `Run` has the phases of one.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { v7 as uuid } from 'uuid';
import type { RunEvent, RunRecord } from '../../protocol/automations/runs.ts';
import { movedError, SvcError } from '../../protocol/errors.ts';
import { summaryText } from '../../storage/automations/run-rows.ts';
import { toSvcError } from '../http/answers.ts';
import { stoppingError } from '../tree/actor/call-errors.ts';
import type { RunLedger } from './ledger.ts';
import { type Outcome, Run, type RunParts, type Work } from './run.ts';

type Kind = RunRecord['kind'];

export type RunEngineOptions = Pick<RunParts, 'events' | 'log'> &
  Partial<Pick<RunParts, 'now' | 'pause'>> & { ledger: RunParts['ledger'] & Pick<RunLedger, 'get'> };

const MOVED = 'The data of its app moved to another node before it had ended; what was done until then stays done.';

export class RunEngine {
  readonly #parts: RunParts;
  readonly #ledger: RunEngineOptions['ledger'];
  /** The runs of each lane in their order; the first one runs. */
  readonly #lanes = new Map<string, Run[]>();
  readonly #runs = new Map<string, Run>();
  readonly #stopping = new Set<Kind>();
  /** Apps whose runs another node has, or that are being put right. */
  readonly #away = new Set<string>();

  constructor(options: RunEngineOptions) {
    const { now = Date.now, pause = (ms) => wait(ms, undefined, { ref: false }) } = options;
    this.#parts = { ...options, now, pause, isStopping: (work) => this.#isStopping(work) };
    this.#ledger = options.ledger;
  }

  /**
   * Stores a run and runs it when its turn comes. Resolves once the row is durable. Rejects with `OVERLOADED` when too many wait or
   * the gateway stops, and as `Work.store` does.
   */
  async start(work: Work): Promise<Run> {
    const { kind, lane: key, about } = work;
    if (this.#stopping.has(kind.name)) throw stoppingError();
    if (this.#away.has(about.app)) throw movedError();
    const lane = this.#lanes.get(key) ?? [];
    const run = new Run(uuid(), work, lane.length === 0, this.#parts, (...stopped) => void this.#end(...stopped));
    if (run.isSkipped) {
      await work.store(run);
      this.#tell({ type: 'run.end', run: run.record });
      run.resolve(run.record);
      return run;
    }
    if (lane.length > kind.waiting) throw overloaded(kind.tooMany(key));
    if (kind.all !== undefined && this.#of(kind.name).length >= kind.all) throw overloaded(kind.tooMany(null));
    // Taken before anything is awaited: of two that start at once, the second finds the first.
    lane.push(run);
    this.#lanes.set(key, lane);
    this.#runs.set(run.runId, run);
    try {
      await work.store(run);
    } catch (error) {
      this.#leave(run);
      run.resolve(run.record);
      throw error;
    }
    run.phase = 'waiting';
    if (run.stoppedAs) void this.#end(run, run.stoppedAs);
    else this.#next(key);
    return run;
  }

  /** Runs of the lane under way: the one that runs and those that wait. */
  running(lane: string): number {
    return this.#lanes.get(lane)?.length ?? 0;
  }

  /** Numbers of running and waiting runs of a kind. */
  load(kind: Kind): { running: number; waiting: number } {
    const all = this.#of(kind);
    const running = all.filter(({ phase }) => phase === 'running' || phase === 'ending').length;
    return { running, waiting: all.length - running };
  }

  /** Resolves once no run of the kind is under way, those that others led to included. */
  async idle(kind: Kind): Promise<void> {
    // The run of an `onFailure` begins in the same turn in which the failed one ends.
    for (let all = this.#of(kind); all.length > 0; all = this.#of(kind)) await endOf(all);
  }

  /** Ends a run as `aborted`; resolves when that is stored. One that has ended is left as it is. Rejects with `UNKNOWN_RUN`. */
  async cancel(runId: string): Promise<RunRecord> {
    const known = this.#runs.get(runId);
    if (known) {
      known.stop('aborted', new SvcError('RUN_ABORTED', 'The run was cancelled.'));
      return await known.ended;
    }
    const run = await this.#ledger.get(runId);
    if (!run) throw new SvcError('UNKNOWN_RUN', `No run "${runId.slice(0, 80)}" is kept.`, { path: 'runId' });
    return run;
  }

  /** Takes no more runs of the kind, and gives those that run `drainMs` to end; what is left is stored as `interrupted`. */
  async stop(kind: Kind, drainMs: number): Promise<void> {
    this.#stopping.add(kind);
    await this.#interrupt(this.#of(kind), drainMs, (run) => run.work.kind.stopped);
  }

  /** Takes no runs of these apps. */
  refuse(apps: Iterable<string>): void {
    for (const app of apps) this.#away.add(app);
  }

  /** Takes runs of these apps again. */
  serve(apps: Iterable<string>): void {
    for (const app of apps) this.#away.delete(app);
  }

  /** Gives these runs `drainMs` to end; what is left is stored as `interrupted`, and another node goes on with their app. */
  async release(wanted: (run: Run) => boolean, drainMs: number): Promise<void> {
    await this.#interrupt([...this.#runs.values()].filter(wanted), drainMs, () => MOVED);
  }

  async #interrupt(all: Run[], drainMs: number, why: (run: Run) => string): Promise<void> {
    const ended = endOf(all);
    const interrupt = (run: Run) => run.stop('interrupted', new SvcError('RUN_ABORTED', why(run)));
    for (const run of all) if (run.phase !== 'running') interrupt(run);
    await atMost(drainMs, ended);
    for (const run of all) interrupt(run);
    // The next start finds and marks runs whose end could not be stored.
    await atMost(Math.max(0, ...all.map(({ work }) => work.kind.endMs)), ended);
  }

  #isStopping({ kind, about }: Work): boolean {
    return this.#stopping.has(kind.name) || this.#away.has(about.app);
  }

  /** Ends these runs as `aborted`; resolves when that is stored. */
  async abort(wanted: (run: Run) => boolean, message: string): Promise<void> {
    const all = [...this.#runs.values()].filter(wanted);
    for (const run of all) run.stop('aborted', new SvcError('RUN_ABORTED', message));
    await endOf(all);
  }

  #of(kind: Kind): Run[] {
    return [...this.#runs.values()].filter(({ work }) => work.kind.name === kind);
  }

  /** Runs the first of the lane, if it waits. */
  #next(key: string): void {
    const run = this.#lanes.get(key)?.[0];
    if (run?.phase !== 'waiting') return;
    const refusal = run.work.refusal?.() ?? null;
    if (refusal !== null) {
      void this.#end(run, refusal);
      return;
    }
    run.phase = 'running';
    const startedAt = this.#parts.now();
    run.record = { ...run.record, state: 'running', startedAt };
    if (!run.first) this.#parts.ledger.started(run.record, startedAt);
    this.#tell({ type: 'run.start', run: run.record });
    void run.work.perform().then((outcome) => this.#end(run, outcome));
  }

  /** Never rejects. */
  async #end(run: Run, outcome: Outcome): Promise<void> {
    run.phase = 'ending';
    const usage = { ...run.nodes.usage };
    const summary = summaryText(outcome.summary);
    run.record = { ...run.record, ...outcome, summary, usage, endedAt: this.#parts.now() };
    try {
      await run.work.end?.(outcome);
      await run.storeEnd();
    } catch (error) {
      // It counts as failed: the next start will find it interrupted.
      const { log } = this.#parts;
      const { runId, state } = run.record;
      log.error({ err: error, runId, state }, 'The end of a run could not be stored.');
      run.record = { ...run.record, state: 'error', error: toSvcError(error, log).toBody() };
    }
    this.#tell({ type: 'run.end', run: run.record });
    this.#leave(run);
    run.resolve(run.record);
    if (!this.#isStopping(run.work)) run.work.followUp?.(outcome, run.record);
  }

  #tell(event: Extract<RunEvent, { run: RunRecord }>): void {
    try {
      this.#parts.events.publish(event);
    } catch (error) {
      const { runId } = event.run;
      this.#parts.log.error({ err: error, runId }, 'The step of a run could not be sent to its followers.');
    }
  }

  /** Makes room for the next one. */
  #leave(run: Run): void {
    const key = run.work.lane;
    this.#runs.delete(run.runId);
    const lane = this.#lanes.get(key) ?? [];
    lane.splice(lane.indexOf(run), 1);
    if (lane.length === 0) this.#lanes.delete(key);
    else this.#next(key);
  }
}

function overloaded(message: string): SvcError {
  return new SvcError('OVERLOADED', message, { headers: { 'retry-after': '5' } });
}

function endOf(runs: Run[]): Promise<unknown> {
  return Promise.all(runs.map(({ ended }) => ended));
}

async function atMost(ms: number, work: Promise<unknown>): Promise<void> {
  const enough = new AbortController();
  const late = wait(ms, undefined, { signal: enough.signal }).catch(() => {});
  await Promise.race([work, late]);
  enough.abort();
}
