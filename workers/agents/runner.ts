/** Interfaces of runners, agents and turns: a runner opens an agent for a conversation, which takes one turn after the other. */
import type {
  PermissionOption,
  ProbeOrder,
  ProbeResult,
  RunnerEvent,
  TurnOrder,
} from '../../protocol/agents/agents.ts';
import type { AgentProgram, ProgramOptions } from './program.ts';

/** A turn as a runner sees it. */
export type Turn = {
  order: TurnOrder;
  /** Aborts when the turn is to end: stop the agent's work, keep the agent. */
  signal: AbortSignal;
  /**
   * Resolves when there is room for more events: do not read from the program until then. Text and results may be cut to their
   * limits.
   */
  emit(event: RunnerEvent): Promise<void>;
  /** Asks for a permission by the turn's policy; resolves with an `optionId`, or null for "no". */
  ask(question: { toolName: string; detail: string; options: PermissionOption[] }): Promise<string | null>;
};

/** What the process provides to a runner. */
export type RunnerHost = {
  /** Starts a program in a separate process group, tagged, with an environment made only from `spec.env` and `options.env`. */
  spawn(options: ProgramOptions): Promise<AgentProgram>;
  log(level: 'info' | 'warn', message: string): void;
};

/** The agent of one conversation, which is kept between turns. */
export interface Agent {
  /** False when its program has ended: the next turn opens another. */
  readonly isAlive: boolean;
  /**
   * Runs one turn, emitting its events: `session` first if the agent has an id for the conversation, `final` with the whole
   * last text on success. Rejects with an `SvcError` (`AGENT_FAILED`, `NO_RUNNER`, …) for the turn's `error` event; after an
   * abort it resolves as soon as the agent has stopped.
   */
  turn(turn: Turn): Promise<void>;
  /** Ends the agent and everything that it started. Never rejects. */
  end(): Promise<void>;
}

/** An agent with what it runs in. */
export type HostedAgent = Agent & {
  /** Ends its programs, which do not react, in a shorter time than `end`. Never rejects. */
  cut(): Promise<void>;
};

export type Runner = {
  /** Makes an agent ready for `order`'s conversation, resuming `order.resume` where it can. Rejects as `turn` does. */
  open(order: TurnOrder, host: RunnerHost, signal: AbortSignal): Promise<Agent>;
  /** Rejects with an error whose message is for people. `version` starts no session and uses no network. */
  probe(order: ProbeOrder, host: RunnerHost, signal: AbortSignal): Promise<ProbeResult>;
};
