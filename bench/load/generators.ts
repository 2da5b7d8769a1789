/** The processes that make the load. They are started once, so that no scenario pays for their start or their first compiles. */
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { Tinypool } from 'tinypool';
import { type LoadResult, type LoadTask, merge } from './task.ts';

const MAX_GENERATORS = 4;
/** More than a task takes, so that what went wrong is told by the task itself. */
const GRACE_MS = 60_000;

export class Generators {
  /** Half of the cores; the other half is for the server. */
  readonly count = Math.min(MAX_GENERATORS, Math.max(1, Math.floor(availableParallelism() / 2)));
  readonly #pool = new Tinypool({
    runtime: 'child_process',
    filename: fileURLToPath(new URL('./worker.ts', import.meta.url)),
    name: 'run',
    minThreads: this.count,
    maxThreads: this.count,
    // Requests travel as bytes.
    serialization: 'advanced',
  });

  /** Runs the task with its connections spread over the generators. Rejects with what went wrong in any of them. */
  async run(task: LoadTask): Promise<LoadResult> {
    const shares = task.subscribe ? [task.connections] : spread(task.connections, this.count);
    const signal = AbortSignal.timeout(Math.ceil(task.warmUpMs + task.measureMs) + GRACE_MS);
    let first = 0;
    const tasks = shares.map((connections): LoadTask => {
      const requests = task.burst ? requestsOf(task, first, connections) : task.requests;
      first += connections;
      return { ...task, connections, requests };
    });
    const results: LoadResult[] = await Promise.all(tasks.map((share) => this.#pool.run(share, { signal })));
    return merge(results);
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }
}

function spread(connections: number, generators: number): number[] {
  const used = Math.min(connections, generators);
  return Array.from({ length: used }, (_, i) => Math.floor((connections + i) / used));
}

/** What the connections from `first` send in a burst. */
function requestsOf({ requests, connections: all }: LoadTask, first: number, connections: number): Uint8Array[] {
  const each = requests.length / all;
  return requests.slice(first * each, (first + connections) * each);
}
