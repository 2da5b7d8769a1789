/**
 * Sends turns and probes to the agents process (workers/agents), which also has the clients of MCP servers, see
 * `automations/mcp-tool-servers.ts`. What that process leaves behind when it dies is ended here.
 */
import { isRunnerEvent } from '../../../protocol/agents/agent-events.ts';
import type { AgentScope, ProbeOrder, ProbeResult, RunnerEvent, TurnOrder } from '../../../protocol/agents/agents.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { flag, listOf, object, oneOf, text } from '../../../protocol/shapes/schema.ts';
import { shape } from '../../../protocol/shapes/shape.ts';
import { joinSignals } from '../../../protocol/signals.ts';
import { type Frame, Kind } from '../../../protocol/wire/frames.ts';
import { compareIdentity, killGroup } from '../../../storage/processes/process-identity.ts';
import { descendantsOf, killAll, sweepTagged } from '../../../storage/processes/tagged.ts';
import type { Child, ChildEvents } from '../../tree/child.ts';
import { ChildClient, type Failure } from '../../tree/child-client.ts';
import { ReportedProcesses } from '../../tree/reported-processes.ts';
import type { AgentProcessSettings } from '../../tree/specifications.ts';
import { TurnFeed } from './turn-feed.ts';

type AgentProcessOptions = Pick<AgentProcessSettings, 'maxAgents' | 'toolServers'> & {
  /** `tagOf` the data directory. */
  tag: string;
  /** `Tree.agentsChild`. */
  createChild(settings: AgentProcessSettings, events: ChildEvents): Child;
  /** A program of an agent or an MCP server came into being or is gone: the record of children on disk is due. */
  onProcess(pid: number, role: string, alive: boolean): void;
  log(level: 'info' | 'warn', message: string): void;
};

export type RunOptions = {
  /** When it aborts, the turn is to end; what the agent did until then still comes. */
  signal: AbortSignal;
  /**
   * Resolves with the option that was chosen for a `permission` event, with null for "no". Absent when there is no one to ask.
   */
  answer?: ((requestId: string) => Promise<string | null>) | undefined;
};

/** Neither turns nor calls wait for each other here: what limits them is in the process, or their callers'. */
const UNLIMITED = { threads: { agents: Number.POSITIVE_INFINITY }, waiting: Number.POSITIVE_INFINITY };
const FOR_ALL = { pool: 'agents', party: null } as const;

const FAILED = shape(object({ failed: text }));
/** A `ProbeResult`; what else its models and tools have is not looked at. */
const PROBED = shape(
  object(
    {},
    {
      version: text,
      fault: text,
      models: listOf(object({ id: text })),
      tools: listOf(object({ name: text })),
      signedIn: flag,
    },
  ),
);
const LOGGED = shape(object({ level: oneOf('info', 'warn'), message: text }));

export class AgentProcess {
  readonly client: ChildClient;
  /** What it is told of MCP servers. */
  readonly toolServers: AgentProcessSettings['toolServers'];
  readonly #options: AgentProcessOptions;
  readonly #turns = new Map<number, TurnFeed>();
  /** The programs of agents, and MCP servers. */
  readonly #programs: ReportedProcesses;
  #starts = 0;

  constructor(options: AgentProcessOptions) {
    this.#options = options;
    this.toolServers = options.toolServers;
    this.#programs = new ReportedProcesses(options.onProcess);
    const { maxAgents, toolServers } = options;
    const settings = { tag: () => `${options.tag}.${++this.#starts}`, maxAgents, toolServers };
    this.client = new ChildClient({
      title: 'The process of the agents',
      createChild: (events) => options.createChild(settings, events),
      limits: UNLIMITED,
    });
    this.client.on('turnEvents', ([, id, events, bytes]) => this.#events(id, events, bytes));
    this.client.on('turnEnd', ([, id]) => {
      this.#turns.delete(id);
      this.client.answer(id, null);
    });
    this.client.on('probed', ([, id, answer]) => this.#probed(id, answer));
    this.client.on('toolProcess', ([, ...report]) => {
      if (!this.#programs.report(...report)) throw malformed('process');
    });
    this.client.on('log', ([, line]) => this.#log(line));
    this.client.onExit(() => this.#sweep());
  }

  /**
   * Runs a turn. Yields the runner's events as they come: `TurnContract` pairs those of tools. A failure is the `error` event at
   * the end. Reads from the agent as fast as events are taken. Leaving the loop ends the turn, and waits for its end: until
   * then an agent may write to a draft.
   */
  async *run(order: TurnOrder, { signal, answer }: RunOptions): AsyncGenerator<RunnerEvent, void, undefined> {
    const left = new AbortController();
    const ended = joinSignals([signal, left.signal]);
    let isCancelled = false;
    const asked = this.client.ask<null>({
      ...FOR_ALL,
      frame: (id) => [Kind.turn, id, order],
      failed: (why, reason) => {
        isCancelled = why === 'cancelled';
        return this.#failure(why, reason);
      },
      signal: ended.signal,
    });
    const { id } = asked;
    const feed = new TurnFeed((bytes) => this.client.tell(id, [Kind.turnTaken, id, bytes]));
    this.#turns.set(id, feed);
    const over = asked.answer.then(
      () => this.#finish(id, feed),
      (error: SvcError) => this.#finish(id, feed, isCancelled ? undefined : error),
    );
    try {
      for await (const event of feed.events()) {
        if (event.type === 'permission' && event.optionId === undefined) void this.#decide(id, event.requestId, answer);
        yield event;
      }
    } finally {
      feed.leave();
      left.abort();
      await over;
      ended.release();
    }
  }

  /** Ends the agents of conversations that are over. Without a process there are none. */
  endAgentsOf(over: AgentScope): void {
    this.client.tellAll([Kind.endAgents, 0, over]);
  }

  /** Asks a runner about itself. Rejects with `AGENT_FAILED` and what was wrong, in words for people. */
  async probe(order: ProbeOrder, signal: AbortSignal): Promise<ProbeResult> {
    signal.throwIfAborted();
    const frame = (id: number) => [Kind.probe, id, order] satisfies Frame;
    const failed = (why: Failure, reason: string) => this.#failure(why, reason);
    return await this.client.ask<ProbeResult>({ ...FOR_ALL, frame, failed, signal, leaves: true }).answer;
  }

  /** Ends the process, the agents and the MCP servers, with all that they started. */
  async stop(): Promise<void> {
    await this.client.close(2 * LIMITS.agentLossEndMs + LIMITS.terminateMs + LIMITS.cancelGraceMs);
  }

  async #decide(id: number, requestId: string, answer: RunOptions['answer']): Promise<void> {
    // A failed question denies the permission.
    const optionId = (await answer?.(requestId).catch(() => null)) ?? null;
    this.client.tell(id, [Kind.turnAnswer, id, requestId, optionId]);
  }

  #finish(id: number, feed: TurnFeed, error?: SvcError): void {
    this.#turns.delete(id);
    if (error) feed.put([{ type: 'error', code: error.code, message: error.message }], 0);
    feed.end();
  }

  #failure(why: Failure, reason: string): SvcError {
    if (why === 'stopping') return failed('The gateway stops.');
    if (why === 'cancelled') return failed('It was cancelled.');
    if (why === 'too-large') return failed('What the agent is to be told is too large.');
    return why === 'down' || this.client.isDown
      ? failed(`The process of the agents does not stay up: ${reason}.`)
      : failed(`The process of the agents ended (${reason}). What the agent did until then is done.`);
  }

  /** A process that was killed could not end its programs. */
  async #sweep(): Promise<void> {
    const recorded = this.#programs.takeAll();
    const running = recorded.filter((leader) => compareIdentity(leader) !== 'gone');
    // Listed first: the children of a program that has ended are no longer its descendants.
    const started = descendantsOf(running.map(({ pid }) => pid));
    for (const leader of recorded) killGroup(leader);
    killAll(started);
    const left = await sweepTagged(`${this.#options.tag}.${this.#starts}`, recorded);
    if (left.length > 0) this.#options.log('warn', `Processes of agents do not end: ${left.map(({ pid }) => pid)}.`);
    this.#programs.ended(recorded);
  }

  /** Throws for events in another form; the connection of the process is then closed. */
  #events(id: number, events: unknown, bytes: unknown): void {
    if (!Array.isArray(events) || !events.every(isRunnerEvent)) throw malformed('event');
    if (!Number.isSafeInteger(bytes) || (bytes as number) < 0) throw malformed('number of bytes');
    const feed = this.#turns.get(id);
    if (!feed) return;
    feed.put(events, bytes as number);
    // It should have waited for room.
    if (feed.waiting > LIMITS.agentUntakenBytes + LIMITS.frameBytes) throw malformed('number of events');
  }

  #probed(id: number, answer: unknown): void {
    if (FAILED.holds(answer)) this.client.answer(id, failed(answer.failed.slice(0, LIMITS.errorMessageChars)));
    else if (PROBED.holds(answer)) this.client.answer(id, answer);
    else throw malformed('answer');
  }

  #log(line: unknown): void {
    const said = parsed(line);
    if (!LOGGED.holds(said)) throw malformed('line of log');
    this.#options.log(said.level, said.message.slice(0, LIMITS.errorMessageChars));
  }
}

function failed(message: string): SvcError {
  return new SvcError('AGENT_FAILED', message);
}

function malformed(what: string): Error {
  return new Error(`The process of the agents sent a malformed ${what}.`);
}

function parsed(line: unknown): unknown {
  try {
    return JSON.parse(String(line));
  } catch {
    return null;
  }
}
