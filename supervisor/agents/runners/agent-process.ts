/** Sends turns and probes to the agents process (workers/agents), and starts that process with the first of them. */
import { isRunnerEvent, OpenTools } from '../../../protocol/agents/agent-events.ts';
import type { AgentScope, ProbeOrder, ProbeResult, RunnerEvent, TurnOrder } from '../../../protocol/agents/agents.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { type Frame, Kind } from '../../../protocol/wire/frames.ts';
import { AGENT_LEADER } from '../../../storage/processes/children.ts';
import { compareIdentity, killGroup } from '../../../storage/processes/process-identity.ts';
import { descendantsOf, killAll, sweepTagged } from '../../../storage/processes/tagged.ts';
import type { Child, ChildEvents } from '../../tree/child.ts';
import { ReportedProcesses } from '../../tree/reported-processes.ts';
import { TurnFeed } from './turn-feed.ts';

type AgentProcessOptions = {
  /** `tagOf` the data directory. */
  tag: string;
  /** Agents at a time. */
  maxAgents: number;
  /** `Tree.agentsChild`. */
  createChild(settings: { tag: () => string; maxAgents: number }, events: ChildEvents): Child;
  /** A program of an agent came into being or is gone: the record of children on disk is due. */
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

type Turn = {
  id: number;
  order: TurnOrder;
  sent: boolean;
  feed: TurnFeed;
  tools: OpenTools;
  /** Resolves when the turn has ended, and all that its agent started in it. */
  over: Promise<void>;
  end(): void;
};
type Probe = {
  id: number;
  order: ProbeOrder;
  sent: boolean;
  resolve(result: ProbeResult): void;
  reject(error: SvcError): void;
};

export class AgentProcess {
  readonly #options: AgentProcessOptions;
  readonly #child: Child;
  readonly #turns = new Map<number, Turn>();
  readonly #probes = new Map<number, Probe>();
  /** The agents' programs. */
  readonly #programs: ReportedProcesses;
  readonly #sweeps = new Set<Promise<void>>();
  #nextId = 0;
  #starts = 0;
  #stopping = false;

  constructor(options: AgentProcessOptions) {
    this.#options = options;
    this.#programs = new ReportedProcesses(AGENT_LEADER, options.onProcess);
    const settings = { tag: () => `${options.tag}.${++this.#starts}`, maxAgents: options.maxAgents };
    this.#child = options.createChild(settings, {
      onReady: () => this.#ready(),
      onFrame: (frame) => this.#onFrame(frame),
      onExit: (reason) => this.#onExit(reason),
    });
  }

  /**
   * Runs a turn. Yields the runner's events, with a result for each tool even if a process dies; a failure is the `error` event
   * at the end. Reads from the agent as fast as events are taken. Leaving the loop ends the turn, and waits for its end: until
   * then an agent may write to a draft.
   */
  async *run(order: TurnOrder, { signal, answer }: RunOptions): AsyncGenerator<RunnerEvent, void, undefined> {
    const id = ++this.#nextId;
    let end = (): void => {};
    const over = new Promise<void>((resolve) => {
      end = resolve;
    });
    const turn: Turn = {
      id,
      order,
      sent: false,
      feed: new TurnFeed((bytes) => this.#taken(id, bytes)),
      tools: new OpenTools(),
      over,
      end,
    };
    this.#turns.set(id, turn);
    const cancel = () => {
      if (turn.sent) this.#child.send([Kind.cancel, id, 'cancelled']);
      else this.#finish(turn);
    };
    signal.addEventListener('abort', cancel, { once: true });
    try {
      if (signal.aborted) return;
      this.#begin(turn);
      for await (const event of turn.feed.events()) {
        if (event.type === 'permission' && event.optionId === undefined) void this.#decide(id, event.requestId, answer);
        yield event;
      }
    } finally {
      signal.removeEventListener('abort', cancel);
      turn.feed.leave();
      if (this.#turns.has(id)) cancel();
      await over;
    }
  }

  /** These conversations are over: their agents end. Without a process there are none. */
  leave(over: AgentScope): void {
    if (this.#child.state === 'running') this.#child.send([Kind.agentsLeave, 0, over]);
  }

  /** Asks a runner about itself. Rejects with `AGENT_FAILED` and what was wrong, in words for people. */
  async probe(order: ProbeOrder, signal: AbortSignal): Promise<ProbeResult> {
    signal.throwIfAborted();
    const id = ++this.#nextId;
    let abort = () => {};
    try {
      this.#wake();
      return await new Promise<ProbeResult>((resolve, reject) => {
        const probe: Probe = { id, order, sent: false, resolve, reject };
        this.#probes.set(id, probe);
        abort = () => {
          if (probe.sent) this.#child.send([Kind.cancel, id, 'cancelled']);
          reject(failed('It was cancelled.'));
        };
        signal.addEventListener('abort', abort, { once: true });
        if (this.#child.state === 'running') this.#sendProbe(probe);
      });
    } finally {
      signal.removeEventListener('abort', abort);
      this.#probes.delete(id);
    }
  }

  /** Ends the process and the agents, with all that they started. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#failAll('The gateway stops.');
    await this.#child.stop(2 * LIMITS.agentLossEndMs + LIMITS.terminateMs + LIMITS.cancelGraceMs);
    await Promise.all(this.#sweeps);
  }

  #begin(turn: Turn): void {
    try {
      this.#wake();
      if (this.#child.state === 'running' && !turn.sent) this.#send(turn);
    } catch (error) {
      this.#finish(turn, error as SvcError);
    }
  }

  #wake(): void {
    if (this.#stopping) throw failed('The gateway stops.');
    if (!this.#child.wake()) throw failed(`The process of the agents does not stay up: ${this.#child.lastExit}.`);
  }

  #ready(): void {
    for (const turn of [...this.#turns.values()]) if (!turn.sent) this.#send(turn);
    for (const probe of [...this.#probes.values()]) if (!probe.sent) this.#sendProbe(probe);
  }

  #send(turn: Turn): void {
    turn.sent = true;
    try {
      this.#child.send([Kind.turn, turn.id, turn.order]);
    } catch {
      this.#finish(turn, failed('What the agent is to be told is too large.'));
    }
  }

  #sendProbe(probe: Probe): void {
    probe.sent = true;
    this.#child.send([Kind.probe, probe.id, probe.order]);
  }

  #taken(id: number, bytes: number): void {
    if (this.#turns.has(id)) this.#child.send([Kind.turnTaken, id, bytes]);
  }

  async #decide(id: number, requestId: string, answer: RunOptions['answer']): Promise<void> {
    // A failed question denies the permission.
    const optionId = (await answer?.(requestId).catch(() => null)) ?? null;
    if (this.#turns.has(id)) this.#child.send([Kind.turnAnswer, id, requestId, optionId]);
  }

  /** Ends the turn, with failed results for its open tools. */
  #finish(turn: Turn, error?: SvcError): void {
    if (!this.#turns.delete(turn.id)) return;
    for (const result of turn.tools.missing('The turn ended before the tool did.')) turn.feed.put([result], 0);
    if (error) turn.feed.put([{ type: 'error', code: error.code, message: error.message }], 0);
    turn.feed.end();
    turn.end();
  }

  #failAll(why: string): void {
    for (const turn of [...this.#turns.values()]) this.#finish(turn, failed(why));
    for (const probe of [...this.#probes.values()]) probe.reject(failed(why));
  }

  #onExit(reason: string): void {
    const swept = this.#sweep();
    const isFailed = this.#child.state === 'failed';
    const error = isFailed
      ? failed(`The process of the agents does not stay up: ${reason}.`)
      : failed(`The process of the agents ended (${reason}). What the agent did until then is done.`);
    // Turns that were not sent yet wait for the next process, if there is to be one.
    const lost = [...this.#turns.values()].filter(({ sent }) => sent || isFailed);
    void swept.then(() => {
      for (const turn of lost) this.#finish(turn, error);
    });
    for (const probe of [...this.#probes.values()]) if (probe.sent || isFailed) probe.reject(error);
  }

  /** A process that was killed could not end its programs. */
  #sweep(): Promise<void> {
    const recorded = this.#programs.takeAll();
    const leaders = recorded.filter((leader) => compareIdentity(leader) !== 'gone');
    // Listed first: the children of a program that has ended are no longer its descendants.
    const started = descendantsOf(leaders.map(({ pid }) => pid));
    for (const leader of leaders) killGroup(leader);
    killAll(started);
    const swept = sweepTagged(`${this.#options.tag}.${this.#starts}`, recorded).then((left) => {
      if (left.length > 0) this.#options.log('warn', `Processes of agents do not end: ${left.map(({ pid }) => pid)}.`);
      this.#programs.ended(recorded);
    });
    this.#sweeps.add(swept);
    return swept.finally(() => this.#sweeps.delete(swept));
  }

  /** Throws for a frame that this process may not send, or not in this form; its connection is then closed. */
  #onFrame(frame: Frame): void {
    switch (frame[0]) {
      case Kind.turnEvents:
        this.#events(frame[1], frame[2], frame[3]);
        break;
      case Kind.turnEnd: {
        const turn = this.#turns.get(frame[1]);
        if (turn) this.#finish(turn);
        break;
      }
      case Kind.probed:
        this.#probed(frame[1], frame[2]);
        break;
      case Kind.toolProcess:
        if (!this.#programs.report(frame[1], frame[2])) throw malformed('process');
        break;
      case Kind.log:
        this.#log(frame[1]);
        break;
      default:
        throw new Error(`The process of the agents may not send frames of kind ${frame[0]}.`);
    }
  }

  #events(id: number, events: unknown, bytes: unknown): void {
    if (!Array.isArray(events) || !events.every(isRunnerEvent)) throw malformed('event');
    if (!Number.isSafeInteger(bytes) || (bytes as number) < 0) throw malformed('number of bytes');
    const turn = this.#turns.get(id);
    if (!turn) return;
    turn.feed.put(
      events.flatMap((event) => turn.tools.admit(event)),
      bytes as number,
    );
    // It should have waited for room.
    if (turn.feed.waiting > LIMITS.agentUntakenBytes + LIMITS.frameBytes) throw malformed('number of events');
  }

  #probed(id: number, answer: unknown): void {
    const { failed: why } = (answer ?? {}) as { failed?: unknown };
    const probe = this.#probes.get(id);
    if (typeof why === 'string') probe?.reject(failed(why.slice(0, LIMITS.errorMessageChars)));
    else if (isProbeResult(answer)) probe?.resolve(answer);
    else throw malformed('answer');
  }

  #log(line: unknown): void {
    const { level, message } = parsed(line);
    if ((level !== 'info' && level !== 'warn') || typeof message !== 'string') throw malformed('line of log');
    this.#options.log(level, message.slice(0, LIMITS.errorMessageChars));
  }
}

function failed(message: string): SvcError {
  return new SvcError('AGENT_FAILED', message);
}

function malformed(what: string): Error {
  return new Error(`The process of the agents sent a malformed ${what}.`);
}

function parsed(line: unknown): { level?: unknown; message?: unknown } {
  try {
    return (JSON.parse(String(line)) ?? {}) as { level?: unknown; message?: unknown };
  } catch {
    return {};
  }
}

/** Lists of things with a name each; what else they hold is not looked at. */
function isProbeResult(value: unknown): value is ProbeResult {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const { version, fault, models, tools, signedIn } = value as Record<string, unknown>;
  const lists = (list: unknown, key: string) =>
    list === undefined ||
    (Array.isArray(list) && list.every((item) => typeof (item as Record<string, unknown> | null)?.[key] === 'string'));
  return (
    (version === undefined || typeof version === 'string') &&
    (fault === undefined || typeof fault === 'string') &&
    (signedIn === undefined || typeof signedIn === 'boolean') &&
    lists(models, 'id') &&
    lists(tools, 'name')
  );
}
