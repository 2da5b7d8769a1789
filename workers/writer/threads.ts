/** The writer's threads as its main thread sees them. */
import { Worker } from 'node:worker_threads';
import type { MigrationFile } from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { StatementError } from './failure.ts';
import type { MigrationOutcome, ThreadTask } from './thread.ts';
import type { WatchedMemory } from './watch.ts';

/** What a thread that only looks at a counter may take. */
const WATCH_MEMORY = { maxOldGenerationSizeMb: 8, maxYoungGenerationSizeMb: 2, stackSizeMb: 1 };

export class Threads {
  readonly #entry: URL;
  #checkpointer: Checkpointer | null = null;

  /** `entry` is the built `thread.ts`. */
  constructor(entry: URL) {
    this.#entry = entry;
  }

  watch(memory: WatchedMemory, supervisorSocket: string, ticket: string): void {
    this.#start({ mode: 'watch', memory, supervisorSocket, ticket }, { resourceLimits: WATCH_MEMORY });
  }

  /** Rejects with the failure that the thread reported, or when it died. */
  migrate(file: string, files: MigrationFile[], backupTo: string | null): Promise<number[]> {
    return new Promise((resolve, reject) => {
      const worker = this.#start({ mode: 'migrate', file, files, backupTo });
      worker.once('message', (outcome: MigrationOutcome) => {
        if ('applied' in outcome) resolve(outcome.applied);
        else reject(Object.assign(new Error(outcome.error.message), outcome.error));
      });
      worker.once('error', reject);
      worker.once('exit', () => reject(new StatementError('SQLITE_INTERRUPT', 'The migration was interrupted.')));
    });
  }

  /** Resolves when the log was copied as far as possible, or could not be. */
  checkpoint(file: string): Promise<void> {
    this.#checkpointer ??= new Checkpointer(this.#start({ mode: 'checkpoint' }), () => {
      this.#checkpointer = null;
    });
    return this.#checkpointer.checkpoint(file);
  }

  #start(task: ThreadTask, options: { resourceLimits?: typeof WATCH_MEMORY } = {}): Worker {
    return new Worker(this.#entry, { ...options, workerData: task });
  }
}

/** One thread for the checkpoints of all lanes; it ends when there have been none for a while. */
class Checkpointer {
  readonly #worker: Worker;
  readonly #waiting = new Map<string, () => void>();
  readonly #idle: NodeJS.Timeout;

  constructor(worker: Worker, onEnd: () => void) {
    this.#worker = worker;
    this.#idle = setTimeout(() => this.#endIfIdle(), LIMITS.databaseIdleMs);
    worker.on('message', (file: string) => this.#done(file));
    worker.on('error', () => {});
    worker.once('exit', () => {
      clearTimeout(this.#idle);
      onEnd();
      for (const file of [...this.#waiting.keys()]) this.#done(file);
    });
  }

  checkpoint(file: string): Promise<void> {
    this.#idle.refresh();
    return new Promise((resolve) => {
      this.#waiting.set(file, resolve);
      this.#worker.postMessage(file);
    });
  }

  #done(file: string): void {
    this.#waiting.get(file)?.();
    this.#waiting.delete(file);
  }

  #endIfIdle(): void {
    if (this.#waiting.size > 0) this.#idle.refresh();
    else void this.#worker.terminate();
  }
}
