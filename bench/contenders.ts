/** Who takes turns under a load: the gateway, and the servers it is measured beside. */
import { setTimeout as wait } from 'node:timers/promises';
import { LIMITS } from '../protocol/limits.ts';
import type { EventLoopDelay } from '../supervisor/operations/event-loop.ts';
import type { Context } from './context.ts';
import type { Daemon } from './daemon.ts';
import type { Generators } from './load/generators.ts';
import type { LoadResult, LoadTask } from './load/task.ts';
import type { NamedProcess } from './process-usage.ts';
import type { Server } from './servers.ts';

/** One stretch of load. */
export type Phase = Pick<LoadTask, 'connections' | 'warmUpMs' | 'measureMs'>;

export type Commits = { commits: number; rows: number };

export type Contender = {
  readonly name: string;
  readonly processes: NamedProcess[];
  /** What has to be there before a round; nothing of it is measured. */
  prepare?(): Promise<void>;
  run(phase: Phase): Promise<LoadResult>;
  /** Commits that one request is; for those who do not count them. */
  readonly commitsPerRequest?: number;
  /** Since the start; for those who count. */
  commits?(): Promise<Commits>;
  /** The delays of its event loop since the last time they were taken; null when it does not say. */
  takeEventLoop?(): Promise<EventLoopDelay | null>;
};

/** A server loaded over HTTP. */
export class HttpContender implements Contender {
  readonly name: string;
  readonly commitsPerRequest: number;
  readonly #server: Server;
  readonly #generators: Generators;
  readonly #task: Omit<LoadTask, 'port' | keyof Phase>;

  constructor(
    name: string,
    server: Server,
    generators: Generators,
    task: Omit<LoadTask, 'port' | keyof Phase>,
    commitsPerRequest = 0,
  ) {
    this.name = name;
    this.commitsPerRequest = commitsPerRequest;
    this.#server = server;
    this.#generators = generators;
    this.#task = task;
  }

  get processes(): NamedProcess[] {
    return this.#server.processes;
  }

  run(phase: Phase): Promise<LoadResult> {
    return this.#generators.run({ ...this.#task, ...phase, port: this.#server.port });
  }
}

export class GatewayContender extends HttpContender {
  readonly #daemon: Daemon;

  readonly #smoke: boolean;

  constructor(name: string, daemon: Daemon, context: Context, task: Omit<LoadTask, 'port' | keyof Phase>) {
    super(name, daemon, context.generators, task);
    this.#daemon = daemon;
    this.#smoke = context.options.smoke;
  }

  /** The counts come with the writer's heartbeat, so one is waited for; a smoke run has no time for it. */
  async commits(): Promise<Commits> {
    if (!this.#smoke) await wait(LIMITS.heartbeatMs * 1.2);
    const status = await this.#daemon.refresh();
    const counters = status.processes.find((process) => process.role === 'writer')?.counters;
    return { commits: counters?.commits ?? 0, rows: counters?.rows ?? 0 };
  }

  takeEventLoop(): Promise<EventLoopDelay | null> {
    return this.#daemon.takeEventLoop();
  }
}

/** The same load while something else goes on, which `begin` begins; what it returns ends that. */
export function accompanied(
  name: string,
  alone: GatewayContender,
  begin: () => (() => unknown) | Promise<() => unknown>,
): Contender {
  return {
    name,
    processes: alone.processes,
    takeEventLoop: () => alone.takeEventLoop(),
    run: async (phase) => {
      const end = await begin();
      try {
        return await alone.run(phase);
      } finally {
        await end();
      }
    },
  };
}
