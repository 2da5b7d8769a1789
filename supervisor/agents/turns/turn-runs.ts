/**
 * Records turns in the run ledger, each as a run of kind `chat` with a node for each tool and each permission (decisions, section 12).
 * No turn waits for it: it stores records in order, in the background.
 */
import type { Logger } from 'pino';
import type { TurnEvent } from '../../../protocol/agents/agents.ts';
import {
  addUsage,
  CHAT_RUNS,
  NOT_GRANTED,
  noUsage,
  type RunNode,
  type RunRecord,
} from '../../../protocol/automations/runs.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { recordedValue } from '../../../storage/automations/run-rows.ts';
import type { RunLedger } from '../../automations/history/ledger.ts';
import type { RunEvents } from '../../automations/history/run-events.ts';
import { usageOf } from './turn-contract.ts';
import type { BegunTurn } from './turn-lane.ts';
import type { TurnObserver, TurnOutcome } from './turn-work.ts';

type TurnRunsOptions = {
  ledger: Pick<RunLedger, 'insert' | 'started' | 'node' | 'end'>;
  events: Pick<RunEvents, 'publish'>;
  log: Pick<Logger, 'warn'>;
};

export class TurnRuns {
  readonly #options: TurnRunsOptions;
  /** By turn. */
  readonly #storing = new Map<string, Promise<void>>();

  constructor(options: TurnRunsOptions) {
    this.#options = options;
  }

  /** Hears of a turn that was accepted. */
  readonly observe = (turn: BegunTurn): TurnObserver => {
    const run = new TurnRun(turn, this.#options);
    this.#storing.set(turn.turnId, run.stored);
    void run.stored.then(() => this.#storing.delete(turn.turnId));
    return run;
  };

  /** Resolves when the end of this turn's run is stored, or could not be. */
  async stored(turnId: string): Promise<void> {
    await this.#storing.get(turnId);
  }

  /** The same of all turns. */
  async settled(): Promise<void> {
    await Promise.all(this.#storing.values());
  }
}

type OpenNode = Pick<RunNode, 'ordinal' | 'batchId' | 'kind' | 'name' | 'args' | 'startedAt'>;

class TurnRun implements TurnObserver {
  /** Resolves when the end of the run is stored, or could not be. */
  readonly stored: Promise<void>;
  readonly #options: TurnRunsOptions;
  #run: RunRecord;
  #model: string | null;
  /** The records to store, one after the other. */
  #steps: Promise<void>;
  #inserted = false;
  #done: () => void = () => {};
  /** By the key of the event that ends them. */
  readonly #open = new Map<string, OpenNode>();
  #ordinal = 0;
  #batchId = 0;

  constructor(turn: BegunTurn, options: TurnRunsOptions) {
    this.#options = options;
    this.#run = newRun(turn);
    this.#model = turn.model ?? null;
    this.stored = new Promise((resolve) => {
      this.#done = resolve;
    });
    // Inserted later, when it is known whether the turn waits for another one.
    this.#steps = new Promise((resolve) => setImmediate(resolve)).then(() => {
      this.#inserted = true;
      return options.ledger.insert(this.#run);
    });
    this.#steps.catch(() => {});
  }

  started(): void {
    const startedAt = Date.now();
    this.#run = { ...this.#run, state: 'running', startedAt };
    const { runId } = this.#run;
    if (this.#inserted) this.#then(() => this.#options.ledger.started(runId, startedAt));
    this.#options.events.publish({ type: 'run.start', run: this.#run });
  }

  event(event: TurnEvent): void {
    if (event.type === 'tool.start') {
      const args = event.args ?? (event.sql === undefined ? undefined : { sql: event.sql });
      this.#begin(`tool ${event.toolCallId}`, 'tool', event.toolName, args);
    } else if (event.type === 'tool.result') {
      const error = event.ok ? null : { code: 'HANDLER_ERROR', message: event.errorText ?? 'The tool failed.' };
      this.#end(`tool ${event.toolCallId}`, event.ok, event.result, error);
    } else if (event.type === 'permission') {
      this.#begin(`permission ${event.requestId}`, 'permission', event.toolName, { detail: event.detail });
    } else if (event.type === 'permission.result') {
      const { requestId, ok, optionId } = event;
      this.#end(`permission ${requestId}`, ok, { optionId }, ok ? null : NOT_GRANTED);
    } else if (event.type === 'usage') {
      const { model, ...used } = usageOf(event);
      this.#model = model ?? this.#model;
      const usage = { ...this.#run.usage };
      addUsage(usage, used);
      this.#run = { ...this.#run, usage };
    }
  }

  ended({ state, error, text }: TurnOutcome): void {
    const { ledger, events, log } = this.#options;
    const summary = text === '' ? null : text;
    const run: RunRecord = { ...this.#run, state, error, summary, endedAt: Date.now() };
    this.#then(async () => {
      await ledger.end(run, { count: LIMITS.chatRuns }, { model: this.#model });
      events.publish({ type: 'run.end', run });
    });
    void this.#steps
      .catch((err: unknown) => log.warn({ err, runId: run.runId }, 'The run of a turn could not be recorded.'))
      .then(this.#done);
  }

  #begin(key: string, kind: RunNode['kind'], name: string, args: unknown): void {
    if (this.#ordinal >= LIMITS.runNodes) return;
    // A call that begins while another is under way joins its batch.
    if (this.#open.size === 0) this.#batchId++;
    const { runId } = this.#run;
    const startedAt = Date.now();
    const node: OpenNode = {
      ordinal: ++this.#ordinal,
      batchId: this.#batchId,
      kind,
      name,
      args: recorded(args),
      startedAt,
    };
    this.#open.set(key, node);
    this.#options.events.publish({ type: 'node.start', runId, ...node });
  }

  #end(key: string, ok: boolean, output: unknown, error: RunNode['error']): void {
    const open = this.#open.get(key);
    if (!open) return;
    this.#open.delete(key);
    const { ledger, events } = this.#options;
    const node: RunNode = {
      runId: this.#run.runId,
      ...open,
      output: recorded(output),
      ok,
      error,
      endedAt: Date.now(),
      usage: noUsage(),
    };
    events.publish({ type: 'node.end', node });
    this.#then(() => ledger.node(node));
  }

  #then(step: () => void | Promise<void>): void {
    this.#steps = this.#steps.then(step);
    this.#steps.catch(() => {});
  }
}

function newRun({ turnId, name, request, runner, model, mode }: BegunTurn): RunRecord {
  const asked = { message: request.message, runner, ...(model === undefined ? {} : { model }), mode };
  return {
    runId: turnId,
    kind: 'chat',
    ref: `${name.app}/${CHAT_RUNS}`,
    app: name.app,
    automation: CHAT_RUNS,
    trigger: { kind: 'chat', origin: name.id },
    parentRunId: null,
    state: 'queued',
    input: recorded(asked),
    output: null,
    summary: null,
    error: null,
    queuedAt: Date.now(),
    startedAt: null,
    endedAt: null,
    usage: noUsage(),
    pinned: false,
  };
}

function recorded(value: unknown): unknown {
  return value === undefined ? null : recordedValue(Buffer.from(JSON.stringify(value)));
}
