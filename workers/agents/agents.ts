/** Runs turns and probes with the agents of this process, and starts and ends their programs. */
import type { AgentScope, ProbeOrder, ProbeResult, RunnerKind, TurnOrder } from '../../protocol/agents/agents.ts';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { secretsOf } from './agent-secrets.ts';
import { type Program, startProgram } from './program.ts';
import type { Agent, HostedAgent, Runner, RunnerHost } from './runner.ts';
import { type SendEvent, TurnRun } from './turn-run.ts';
import { WarmAgents } from './warm-agents.ts';

type AgentsOptions = {
  tag: string;
  maxAgents: number;
  idleMs: number;
  runnerOf(kind: RunnerKind): Promise<Runner>;
  /** Called when a program that leads a process group has started, and when its group has ended. */
  onProcess(pid: number, alive: boolean): void;
  log(level: 'info' | 'warn', message: string): void;
};

export class Agents {
  readonly #options: AgentsOptions;
  readonly #warm: WarmAgents;
  readonly #turns = new Map<number, TurnRun>();
  readonly #probes = new Map<number, AbortController>();
  readonly #programs = new Set<Program>();
  #started = 0;
  #ended = false;

  constructor(options: AgentsOptions) {
    this.#options = options;
    this.#warm = new WarmAgents(options);
  }

  get counters(): Record<string, number> {
    return { turns: this.#turns.size, programs: this.#programs.size, ...this.#warm.counters };
  }

  /** Resolves when the turn sends no more events. Never rejects: failures are events. */
  async turn(id: number, order: TurnOrder, send: SendEvent): Promise<void> {
    const run = new TurnRun(order, send);
    this.#turns.set(id, run);
    let error: unknown;
    try {
      await this.#turn(run);
    } catch (caught) {
      error = caught ?? new Error('it gave no reason');
    }
    this.#turns.delete(id);
    run.end(error);
  }

  /** Does nothing for a turn or probe that has ended; so do `taken` and `answer`. */
  cancel(id: number): void {
    this.#turns.get(id)?.cancel();
    this.#probes.get(id)?.abort();
  }

  taken(id: number, bytes: number): void {
    this.#turns.get(id)?.taken(bytes);
  }

  answer(id: number, requestId: string, optionId: string | null): void {
    this.#turns.get(id)?.answer(requestId, optionId);
  }

  /** Ends the agents of these ended conversations, busy ones after their turn. */
  endAgentsOf(over: AgentScope): void {
    this.#warm.endAgentsOf(over);
  }

  /** Rejects with an error whose message is for people. */
  async probe(id: number, order: ProbeOrder): Promise<ProbeResult> {
    const ms = order.want === 'version' ? LIMITS.agentProbeMs : LIMITS.agentStartMs;
    const { host, end } = this.#hostFor(order.runner.env);
    const controller = new AbortController();
    this.#probes.set(id, controller);
    try {
      const runner = await this.#options.runnerOf(order.runner.kind);
      const found = runner.probe(order, host, controller.signal);
      return await within(ms, found, controller, `${order.runner.name} did not answer within ${ms / 1000} s.`);
    } catch (error) {
      const { message } = error as Error;
      throw new SvcError('AGENT_FAILED', secretsOf(order.runner).text(message));
    } finally {
      this.#probes.delete(id);
      await end();
    }
  }

  /** Ends every program and what it started, quickly: the gateway is gone. */
  async end(): Promise<void> {
    this.#ended = true;
    await Promise.all([...this.#programs].map((program) => program.end(LIMITS.agentLossEndMs)));
  }

  /** Kills every program without waiting: this process ends. */
  kill(): void {
    this.#ended = true;
    for (const program of this.#programs) program.kill();
  }

  async #turn(run: TurnRun): Promise<void> {
    const { order, signal } = run;
    const place = await this.#warm.take(order, signal, (why) => run.phase('waiting', why));
    try {
      place.agent ??= await this.#open(order, signal);
      await run.drive(place.agent);
    } finally {
      if (run.mustEndAgent) await place.agent?.cut();
      const ended = this.#warm.give(place, !run.mustEndAgent && !order.once);
      // What an agent does after its turn has ended must not reach a draft; the one of a single turn has none.
      if (!order.once) await ended;
    }
  }

  async #open(order: TurnOrder, signal: AbortSignal): Promise<HostedAgent> {
    const { host, programs, end } = this.#hostFor(order.runner.env);
    const controller = new AbortController();
    const abort = () => controller.abort();
    signal.addEventListener('abort', abort, { once: true });
    const late = `The agent ${order.runner.name} was not ready within ${LIMITS.agentStartMs / 1000} s.`;
    try {
      signal.throwIfAborted();
      const runner = await this.#options.runnerOf(order.runner.kind);
      const opened = runner.open(order, host, controller.signal);
      return withPrograms(await within(LIMITS.agentStartMs, opened, controller, late), programs, end);
    } catch (error) {
      await end();
      throw error;
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }

  /** A runner's way to start programs, those that run, and the function that ends them all. */
  #hostFor(env: Record<string, string>): {
    host: RunnerHost;
    programs: ReadonlySet<Program>;
    end(graceMs?: number): Promise<void>;
  } {
    const programs = new Set<Program>();
    let over = false;
    const host: RunnerHost = {
      spawn: async (options) => {
        const started = await this.#start({ ...options, env: { ...env, ...options.env } });
        programs.add(started);
        void started.gone.then(() => programs.delete(started));
        // Started while it was being ended.
        if (over) await started.end();
        return started;
      },
      log: this.#options.log,
    };
    return {
      host,
      programs,
      end: async (graceMs) => {
        over = true;
        await Promise.all([...programs].map((program) => program.end(graceMs)));
      },
    };
  }

  async #start(options: Parameters<RunnerHost['spawn']>[0]): Promise<Program> {
    if (this.#ended) throw new SvcError('AGENT_FAILED', 'The gateway stops.');
    const { tag, onProcess } = this.#options;
    const program = await startProgram(options, `${tag}.${++this.#started}`, onProcess);
    this.#programs.add(program);
    void program.gone.then(() => this.#programs.delete(program));
    if (this.#ended) program.kill();
    return program;
  }
}

/**
 * Wraps an agent so that its end also ends all of its programs, and the end of a turn all that they started in it: a command that
 * an agent left in the background would go on writing.
 */
function withPrograms(
  agent: Agent,
  programs: ReadonlySet<Program>,
  endPrograms: (graceMs?: number) => Promise<void>,
): HostedAgent {
  let isClean = true;
  return {
    get isAlive() {
      return isClean && agent.isAlive;
    },
    turn: async (turn) => {
      const before = new Map([...programs].map((program) => [program, program.started]));
      try {
        await agent.turn(turn);
      } finally {
        const ends = [...programs].map((program) => program.endSince(before.get(program) ?? []));
        isClean &&= (await Promise.all(ends)).every(Boolean);
      }
    },
    cut: () => endPrograms(LIMITS.agentLossEndMs),
    end: async () => {
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, 3 * LIMITS.agentEndMs);
      });
      await Promise.race([agent.end().catch(() => {}), late]);
      clearTimeout(timer);
      await endPrograms();
    },
  };
}

/** Waits for `promise`. Rejects when `controller` aborts, and after `ms`, when it aborts `controller` itself. */
async function within<T>(ms: number, promise: Promise<T>, controller: AbortController, late: string): Promise<T> {
  const { signal } = controller;
  let timer: NodeJS.Timeout | undefined;
  let abort = () => {};
  const given = new Promise<never>((_resolve, reject) => {
    abort = () => reject(new SvcError('AGENT_FAILED', 'It was cancelled.'));
    signal.addEventListener('abort', abort, { once: true });
    timer = setTimeout(() => {
      reject(new SvcError('AGENT_FAILED', late));
      controller.abort();
    }, ms);
  });
  if (signal.aborted) abort();
  // A late rejection would be unhandled.
  promise.catch(() => {});
  try {
    return await Promise.race([promise, given]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
  }
}
