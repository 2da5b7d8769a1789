/**
 * Records a turn in the run ledger: a run of kind `chat` with a node for each tool and each permission (specification, "Turns"). Its
 * beginning and its end are stored in one commit with those of the turn.
 */
import type { Logger } from 'pino';
import type { TurnEvent } from '../../../protocol/agents/agents.ts';
import type { StoredRun } from '../../../protocol/agents/turns.ts';
import {
  addUsage,
  CHAT_RUNS,
  NOT_GRANTED,
  noUsage,
  type RunNode,
  type RunRecord,
} from '../../../protocol/automations/runs.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { SqlStatement } from '../../../protocol/wire/frames.ts';
import { recordedValue } from '../../../storage/automations/run-rows.ts';
import { json } from '../../automations/fires/fire-values.ts';
import type { RunLedger } from '../../runs/ledger.ts';
import type { RunEvents } from '../../runs/run-events.ts';
import { type OpenNode, RunNodes } from '../../runs/run-nodes.ts';
import { usageOf } from './sound-event.ts';
import type { BegunTurn } from './turn-lane.ts';
import type { TurnObserver, TurnOutcome } from './turn-work.ts';

type TurnRunOptions = {
  ledger: Pick<RunLedger, 'insert' | 'started' | 'node' | 'end'>;
  events: Pick<RunEvents, 'publish'>;
  log: Pick<Logger, 'warn'>;
};

export class TurnRun implements TurnObserver {
  readonly #options: TurnRunOptions;
  readonly #nodes: RunNodes;
  readonly #waits: boolean;
  #run: RunRecord;
  #model: string | null;
  /** Its end is not stored. */
  #isOpen = true;
  /** By the key of the event that ends them. */
  readonly #open = new Map<string, OpenNode>();

  /** `waits`: another turn of the conversation comes before it. */
  constructor(turn: BegunTurn, waits: boolean, options: TurnRunOptions) {
    const { ledger, events } = options;
    this.#options = options;
    this.#waits = waits;
    this.#run = newRun(turn, waits);
    this.#model = turn.model ?? null;
    this.#nodes = new RunNodes({ runId: turn.turnId, events, store: (node) => ledger.node(node), now: Date.now });
  }

  readonly run: StoredRun = {
    begin: (turn) => this.#options.ledger.insert(this.#run, turn),
    end: (turn) => this.#end(turn),
  };

  started(): void {
    const startedAt = Date.now();
    this.#run = { ...this.#run, state: 'running', startedAt };
    if (this.#waits) this.#options.ledger.started(this.#run.runId, startedAt);
    this.#options.events.publish({ type: 'run.start', run: this.#run });
  }

  event(event: TurnEvent): void {
    if (event.type === 'tool.start') {
      const args = event.args ?? (event.sql === undefined ? undefined : { sql: event.sql });
      this.#begin(`tool ${event.toolCallId}`, 'tool', event.toolName, args);
    } else if (event.type === 'tool.result') {
      const error = event.ok ? null : { code: 'HANDLER_ERROR', message: event.errorText ?? 'The tool failed.' };
      this.#finish(`tool ${event.toolCallId}`, event.ok, event.result, error);
    } else if (event.type === 'permission') {
      this.#begin(`permission ${event.requestId}`, 'permission', event.toolName, { detail: event.detail });
    } else if (event.type === 'permission.result') {
      const { requestId, ok, optionId } = event;
      this.#finish(`permission ${requestId}`, ok, { optionId }, ok ? null : NOT_GRANTED);
    } else if (event.type === 'usage') {
      const { model, ...used } = usageOf(event);
      this.#model = model ?? this.#model;
      addUsage(this.#nodes.usage, used);
    }
  }

  ending({ state, error, text }: TurnOutcome): void {
    const summary = text === '' ? null : text;
    this.#run = { ...this.#run, state, error, summary, usage: this.#nodes.usage, endedAt: Date.now() };
  }

  /** A turn whose end could not be stored has a run that ended all the same. */
  async ended(): Promise<void> {
    if (!this.#isOpen) return;
    try {
      await this.#end([]);
    } catch (error) {
      this.#options.log.warn({ err: error, runId: this.#run.runId }, 'The run of a turn could not be recorded.');
    }
  }

  async #end(turn: SqlStatement[]): Promise<void> {
    const { ledger, events } = this.#options;
    await ledger.end(this.#run, { count: LIMITS.chatRuns }, { model: this.#model, extra: turn });
    this.#isOpen = false;
    events.publish({ type: 'run.end', run: this.#run });
  }

  #begin(key: string, kind: RunNode['kind'], name: string, args: unknown): void {
    if (this.#nodes.count < LIMITS.runNodes) this.#open.set(key, this.#nodes.begin(kind, name, json(args)));
  }

  #finish(key: string, ok: boolean, output: unknown, error: RunNode['error']): void {
    const open = this.#open.get(key);
    if (open) this.#nodes.end(open, ok, json(output), error);
  }
}

function newRun({ turnId, name, request, runner, model, mode }: BegunTurn, waits: boolean): RunRecord {
  const now = Date.now();
  const asked = { message: request.message, runner, ...(model === undefined ? {} : { model }), mode };
  return {
    runId: turnId,
    kind: 'chat',
    ref: `${name.app}/${CHAT_RUNS}`,
    app: name.app,
    automation: CHAT_RUNS,
    trigger: { kind: 'chat', origin: name.id },
    parentRunId: null,
    state: waits ? 'queued' : 'running',
    input: recordedValue(json(asked)),
    output: null,
    summary: null,
    error: null,
    queuedAt: now,
    startedAt: waits ? null : now,
    endedAt: null,
    usage: noUsage(),
    pinned: false,
  };
}
