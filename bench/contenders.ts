/** Who takes turns under a load: the gateway, and the servers it is measured beside. */
import { setTimeout as wait } from 'node:timers/promises';
import { LIMITS } from '../protocol/limits.ts';
import type { EventLoopDelay } from '../supervisor/operations/event-loop.ts';
import type { NamedProcess } from '../testing/processes.ts';
import type { Context } from './context.ts';
import type { Daemon } from './daemon.ts';
import type { LoadResult, LoadTask } from './load/task.ts';
import type { Server } from './servers.ts';

/** One stretch of load. */
export type Phase = Pick<LoadTask, 'connections' | 'warmUpMs' | 'measureMs'>;

export type Commits = { commits: number; rows: number };

export type Contender = {
  readonly name: string;
  processes(): NamedProcess[];
  /** What has to be there before a round; nothing of it is measured. */
  prepare?(): Promise<void>;
  run(phase: Phase): Promise<LoadResult>;
  /** Since the start; for those who count. */
  commits?(): Promise<Commits>;
  /** The delays of its event loop since the last time they were taken; null when it does not say. */
  takeEventLoop?(): Promise<EventLoopDelay | null>;
};

type Task = Omit<LoadTask, 'port' | keyof Phase>;

/** A server loaded over HTTP. */
export function onServer(name: string, server: Server, { generators }: Context, task: Task): Contender {
  return {
    name,
    processes: () => server.processes,
    run: (phase) => generators.run({ ...task, ...phase, port: server.port }),
  };
}

export function onGateway(name: string, daemon: Daemon, context: Context, task: Task): Contender {
  return {
    ...onServer(name, daemon, context, task),
    takeEventLoop: () => daemon.takeEventLoop(),
    // The counts come with the writer's heartbeat, so one is waited for; a smoke run has no time for it.
    commits: async () => {
      if (!context.options.smoke) await wait(LIMITS.heartbeatMs * 1.2);
      const status = await daemon.refresh();
      const counters = status.processes.find((process) => process.role === 'writer')?.counters;
      return { commits: counters?.commits ?? 0, rows: counters?.rows ?? 0 };
    },
  };
}

/** The same load while something else goes on, which `begin` begins; what it returns ends that. */
export function accompanied(
  name: string,
  { commits: _, ...alone }: Contender,
  begin: () => (() => unknown) | Promise<() => unknown>,
): Contender {
  return {
    ...alone,
    name,
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
