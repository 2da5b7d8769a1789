/** What a fire is asked with, and what the parts around it must offer. */
import type { HistoryKeep } from '../../../protocol/automation.ts';
import type { SqlStatement } from '../../../protocol/frames.ts';
import type { RunEvent, RunNode, RunRecord, RunState, RunTrigger } from '../../../protocol/runs.ts';
import type { Call } from '../../tree/actor/call.ts';
import type { LiveAutomation } from '../catalog.ts';

/**
 * `at` is the time of the fire, milliseconds since the epoch: the handler's `ctx.now`. `input` is a JSON value, undefined for
 * none. `extra` gives the statements that are stored together with the run's row, all or none.
 */
export type FireRequest = {
  automation: LiveAutomation;
  trigger: RunTrigger;
  at: number;
  input: unknown;
  parentRunId?: string | null;
  /** How many `onFailure` fires led to this one. */
  depth?: number;
  extra?: (runId: string) => SqlStatement[];
};

/** `ended` never rejects: it resolves with the run as it is stored, after that is durable. */
export type StartedRun = { run: RunRecord; ended: Promise<RunRecord> };

/** Which automation, for the ledger. */
export type AutomationName = { app: string; id: string };

/** Which runs `ctx.runs` wants. */
export type RunFilter = { ref: AutomationName; state?: RunState };

/** What a fire needs of the run ledger. */
export type Ledger = {
  insert(run: RunRecord, extra?: SqlStatement[]): Promise<void>;
  skip(run: RunRecord, keep: HistoryKeep, extra?: SqlStatement[]): Promise<void>;
  started(runId: string, startedAt: number): void;
  node(node: RunNode): void;
  /** `model` is that of the agents that it asked, null when it asked none. */
  end(run: RunRecord, keep: HistoryKeep, model: string | null): Promise<void>;
  get(runId: string): Promise<RunRecord | null>;
  /** Newest first. */
  list(filter: RunFilter, limit: number): Promise<RunRecord[]>;
  readonly state: {
    // Checked there: keys and values are what a handler gave.
    get(automation: AutomationName, key: unknown): Promise<unknown>;
    set(automation: AutomationName, key: unknown, value: unknown): Promise<void>;
    delete(automation: AutomationName, key: unknown): Promise<void>;
  };
};

/** Who tells the followers of a run. */
export type RunPublisher = { publish(event: RunEvent): void };

/** The actor whose thread runs an automation's handler. */
export type FireActor = {
  submit(call: Call): void;
  /** Ends the call wherever it is, and its thread if it does not react. */
  cancel(call: Call): void;
};

/** The MCP servers of the configuration. */
export type ToolServers = {
  has(server: string): boolean;
  /** Arguments and answer are JSON text. Rejects with `TOOL_SERVER_FAILED`. */
  callForJson(server: string, tool: string, args: Uint8Array, signal: AbortSignal): Promise<Uint8Array>;
};
