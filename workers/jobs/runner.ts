/** Runs jobs in threads, each within its time and memory, and ends the thread of one that does not keep to them. */
import { Piscina } from 'piscina';
import type { JobFrame } from '../../protocol/frames.ts';
import type { JobAnswer, JobFailure, JobPool } from '../../protocol/jobs.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { type Control, controlOf, jobMemory } from './control.ts';

export type RunnerOptions = {
  /** The module of the threads. */
  thread: string;
  /** Heap of one thread, and all memory of the process, in MiB. */
  threadMemoryMb: number;
  memoryMb: number;
  /** Bytes of memory that the process has now. */
  rss(): number;
  onDone(id: number, answer: JobAnswer<unknown> | JobFailure): void;
  /** The process has more memory than it may. */
  onMemory(): void;
};

/** A job under way. `step` is the limited step that was seen last, and since when, in milliseconds. */
type Running = { control: Control; ending: AbortController; step: number | null; since: number };

const MiB = 1024 * 1024;
const THREADS: Record<JobPool, { threads: number; idleMs: number }> = {
  work: { threads: LIMITS.jobThreads, idleMs: LIMITS.jobIdleMs },
  drafts: { threads: LIMITS.jobThreadsOfDrafts, idleMs: LIMITS.draftIdleMs },
  long: { threads: LIMITS.jobThreadsForLong, idleMs: LIMITS.jobIdleMs },
};

export class Runner {
  readonly #options: RunnerOptions;
  readonly #pools = new Map<JobPool, Pool>();
  readonly #running = new Map<number, Running>();
  #looking: NodeJS.Timeout | null = null;

  constructor(options: RunnerOptions) {
    this.#options = options;
  }

  /** Threads that live now, with a job or without. */
  get threads(): number {
    return [...this.#pools.values()].reduce((sum, pool) => sum + pool.threads, 0);
  }

  get jobs(): number {
    return this.#running.size;
  }

  /** Never rejects. */
  async run([, id, name, poolName, ms, job]: JobFrame): Promise<void> {
    const memory = jobMemory();
    const running: Running = { control: controlOf(memory), ending: new AbortController(), step: null, since: 0 };
    this.#running.set(id, running);
    this.#looking ??= setInterval(() => this.#look(), LIMITS.jobsLookMs);
    const late = () => running.ending.abort({ failed: 'time', detail: '' } satisfies JobFailure);
    const timer = setTimeout(late, ms);
    let answer: JobAnswer<unknown> | JobFailure;
    try {
      answer = await this.#pool(poolName).run(name, { job, memory }, running.ending.signal);
    } catch (error) {
      const { signal } = running.ending;
      answer = signal.aborted ? (signal.reason as JobAnswer<never> | JobFailure) : failureOf(error);
    }
    clearTimeout(timer);
    this.#running.delete(id);
    if (this.#running.size === 0 && this.#looking) {
      clearInterval(this.#looking);
      this.#looking = null;
    }
    this.#options.onDone(id, answer);
  }

  /** Nobody wants its result any more. Jobs that look for it end soon; what they have written is theirs to remove. */
  cancel(id: number): void {
    this.#running.get(id)?.control.cancel();
  }

  #pool(name: JobPool): Pool {
    let pool = this.#pools.get(name);
    if (!pool) {
      const { thread, threadMemoryMb } = this.#options;
      pool = new Pool({ ...THREADS[name], thread, threadMemoryMb });
      this.#pools.set(name, pool);
    }
    return pool;
  }

  #look(): void {
    if (this.#options.rss() > this.#options.memoryMb * MiB) this.#options.onMemory();
    const now = performance.now();
    for (const running of this.#running.values()) {
      const { step } = running.control;
      if (step !== running.step) {
        running.step = step;
        running.since = now;
      } else if (step !== null && now - running.since > LIMITS.schemasMs) {
        const error = running.control.readVerdict();
        if (error !== null) running.ending.abort({ ok: false, error } satisfies JobAnswer<never>);
      }
    }
  }
}

class Pool {
  readonly #options: { thread: string; threadMemoryMb: number; threads: number; idleMs: number };
  #piscina: Piscina | null = null;
  /** Why the last one was given up. */
  #failure: unknown;

  constructor(options: { thread: string; threadMemoryMb: number; threads: number; idleMs: number }) {
    this.#options = options;
  }

  get threads(): number {
    return this.#piscina?.threads.length ?? 0;
  }

  async run(name: string, order: object, signal: AbortSignal): Promise<JobAnswer<unknown>> {
    this.#piscina ??= this.#start();
    const started = this.#piscina;
    try {
      return (await started.run(order, { name, signal })) as JobAnswer<unknown>;
    } catch (error) {
      throw this.#piscina === started ? error : this.#failure;
    }
  }

  #start(): Piscina {
    const { thread, threadMemoryMb, threads, idleMs } = this.#options;
    const pool = new Piscina({
      filename: thread,
      minThreads: 0,
      maxThreads: threads,
      idleTimeout: idleMs,
      resourceLimits: { maxOldGenerationSizeMb: threadMemoryMb },
    });
    // A thread failed without a job, as one does whose module cannot be loaded: piscina would let the jobs wait for ever.
    pool.on('error', (error: unknown) => {
      this.#piscina = null;
      this.#failure = error;
      void pool.destroy();
    });
    return pool;
  }
}

/** A thread that died takes its own job with it, and no other. */
function failureOf(error: unknown): JobFailure {
  const { code, stack } = error as { code?: unknown; stack?: string };
  return { failed: code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'memory' : 'fault', detail: stack ?? String(error) };
}
