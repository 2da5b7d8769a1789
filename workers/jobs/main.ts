/**
 * Runs jobs for the supervisor in threads with limits of time and memory: work that costs CPU or disk, or reads untrusted
 * input. Entry of dist/jobs.cjs. It runs under Node's permission model, holds no thread while there is nothing to do, and ends
 * with its parent.
 */
import { createInterface } from 'node:readline';
import { Piscina } from 'piscina';
import { LIMITS } from '../../protocol/limits.ts';
import { type Frame, type FrameOf, Kind } from '../../protocol/wire/frames.ts';
import type { JobAnswer, JobFailure, JobPool, JobsBootstrap } from '../../protocol/wire/jobs.ts';
import { openLink, pong } from '../../protocol/wire/link.ts';
import { PRIVATE_UMASK } from '../../storage/files/private-tree.ts';
import { Control } from './control.ts';
import { FlushRelay } from './flush-relay.ts';

type Answer = JobAnswer<unknown> | JobFailure;

/** A job under way. `step` is the limited step that was seen last, and since when, in milliseconds. */
type Running = { control: Control; ending: AbortController; step: number | null; since: number };

const MiB = 1024 * 1024;
const THREADS: Record<JobPool, { maxThreads: number; idleTimeout: number }> = {
  work: { maxThreads: LIMITS.jobThreads, idleTimeout: LIMITS.jobIdleMs },
  drafts: { maxThreads: LIMITS.jobThreadsOfDrafts, idleTimeout: LIMITS.draftIdleMs },
  long: { maxThreads: LIMITS.jobThreadsForLong, idleTimeout: LIMITS.jobIdleMs },
};

/** Runs jobs in threads, and ends the thread of a job that exceeds its limits. */
class Runner {
  readonly #settings: JobsBootstrap;
  readonly #pools: Record<JobPool, Pool>;
  readonly #running = new Map<number, Running>();
  #looking: NodeJS.Timeout | null = null;

  constructor(settings: JobsBootstrap, flushes: FlushRelay) {
    this.#settings = settings;
    this.#pools = {
      work: new Pool('work', settings, flushes),
      drafts: new Pool('drafts', settings, flushes),
      long: new Pool('long', settings, flushes),
    };
  }

  /** Threads that live now, with a job or without. */
  get threads(): number {
    return Object.values(this.#pools).reduce((sum, pool) => sum + pool.threads, 0);
  }

  get jobs(): number {
    return this.#running.size;
  }

  /** Never rejects. */
  async run([, id, name, poolName, ms, job]: FrameOf<'job'>): Promise<Answer> {
    const control = new Control();
    const ending = new AbortController();
    this.#running.set(id, { control, ending, step: null, since: 0 });
    this.#looking ??= setInterval(() => this.#look(), LIMITS.jobsLookMs);
    const timer = setTimeout(() => ending.abort({ failed: 'time', detail: '' } satisfies JobFailure), ms);
    try {
      return await this.#pools[poolName].run(name, { job, memory: control.memory }, ending.signal);
    } catch (error) {
      return ending.signal.aborted ? (ending.signal.reason as Answer) : failureOf(error);
    } finally {
      clearTimeout(timer);
      this.#running.delete(id);
      if (this.#running.size === 0 && this.#looking) {
        clearInterval(this.#looking);
        this.#looking = null;
      }
    }
  }

  /** Its result is no longer wanted. Jobs that check for this end soon, and remove what they wrote. */
  cancel(id: number): void {
    this.#running.get(id)?.control.cancel();
  }

  #look(): void {
    const { memoryMb } = this.#settings;
    if (process.memoryUsage.rss() > memoryMb * MiB) {
      // V8's message, which the supervisor looks for.
      process.stderr.write(`FATAL ERROR: out of memory: it used more than ${memoryMb} MiB\n`);
      end();
    }
    const now = performance.now();
    for (const running of this.#running.values()) {
      const { step } = running.control;
      if (step !== running.step) {
        running.step = step;
        running.since = now;
      } else if (step !== null && now - running.since > running.control.limitMs) {
        const error = running.control.readVerdict();
        if (error !== null) running.ending.abort({ ok: false, error } satisfies Answer);
      }
    }
  }
}

class Pool {
  readonly #name: JobPool;
  readonly #settings: JobsBootstrap;
  readonly #flushes: FlushRelay;
  #piscina: Piscina | null = null;
  /** Why the last one was given up. */
  #failure: unknown;

  constructor(name: JobPool, settings: JobsBootstrap, flushes: FlushRelay) {
    this.#name = name;
    this.#settings = settings;
    this.#flushes = flushes;
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
    const { thread, threadMemoryMb } = this.#settings;
    const resourceLimits = { maxOldGenerationSizeMb: threadMemoryMb };
    const pool = new Piscina({ filename: thread, minThreads: 0, ...THREADS[this.#name], resourceLimits });
    pool.on('message', (opened) => this.#flushes.serve(opened));
    // A thread failed without a job, for example because its module cannot be loaded: piscina would let jobs wait for ever.
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

function start(settings: JobsBootstrap): void {
  const flushes = new FlushRelay((frame) => link.send(frame));
  const runner = new Runner(settings, flushes);
  const run = async (frame: FrameOf<'job'>): Promise<void> => {
    const answer = await runner.run(frame);
    try {
      link.send([Kind.jobDone, frame[1], answer]);
    } catch (error) {
      link.send([Kind.jobDone, frame[1], { failed: 'fault', detail: `its answer: ${(error as Error).message}` }]);
    }
  };
  const link = openLink(settings.supervisorSocket, settings.ticket, {
    onFrame: (frame: Frame) => {
      if (frame[0] === Kind.job) void run(frame);
      else if (frame[0] === Kind.cancel) runner.cancel(frame[1]);
      else if (frame[0] === Kind.flushed) flushes.answer(frame);
      else if (frame[0] === Kind.ping) link.send(pong(frame[1], { threads: runner.threads, jobs: runner.jobs }));
    },
    onClose: end,
  });
  process.stdin.on('close', end);
  link.send([Kind.ready, { pid: process.pid }]);
}

/** At once: an orderly end would wait for threads that are inside native code. */
function end(): void {
  process.kill(process.pid, 'SIGKILL');
}

process.umask(PRIVATE_UMASK);
const lines = createInterface({ input: process.stdin });
lines.once('line', (line) => start(JSON.parse(line) as JobsBootstrap));
