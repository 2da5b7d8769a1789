/** Starts and uses the writer's threads from its main thread. */
import { Worker } from 'node:worker_threads';
import type { MigrationFile } from '../../protocol/wire/frames.ts';
import { StatementError } from './statements.ts';
import type { WatchedMemory } from './watch.ts';
import type { ThreadTask } from './writer-thread.ts';

/** The watch thread only looks at a counter. */
const WATCH_MEMORY = { maxOldGenerationSizeMb: 8, maxYoungGenerationSizeMb: 2, stackSizeMb: 1 };

export class Threads {
  readonly #entry: URL;
  /** One thread for the checkpoints of all lanes. It ends when there have been none for a while. */
  #checkpointer: Worker | null = null;
  readonly #checkpoints = new Map<string, () => void>();

  /** `entry` is the built `thread.ts`. */
  constructor(entry: URL) {
    this.#entry = entry;
  }

  watch(memory: WatchedMemory, supervisorSocket: string, ticket: string): void {
    const workerData: ThreadTask = { mode: 'watch', memory, supervisorSocket, ticket };
    new Worker(this.#entry, { workerData, resourceLimits: WATCH_MEMORY });
  }

  /** Rejects with the error of the migration, or when its thread died. */
  migrate(file: string, files: MigrationFile[], backupTo: string | null): Promise<number[]> {
    return new Promise((resolve, reject) => {
      const workerData: ThreadTask = { mode: 'migrate', file, files, backupTo };
      const worker = new Worker(this.#entry, { workerData });
      worker.once('message', resolve);
      worker.once('error', reject);
      worker.once('exit', () => reject(new StatementError('SQLITE_INTERRUPT', 'The migration was interrupted.')));
    });
  }

  /** Resolves when the log was copied as far as possible, or could not be. */
  checkpoint(file: string): Promise<void> {
    this.#checkpointer ??= this.#startCheckpointer();
    const worker = this.#checkpointer;
    return new Promise((resolve) => {
      this.#checkpoints.set(file, resolve);
      worker.postMessage(file);
    });
  }

  #startCheckpointer(): Worker {
    const workerData: ThreadTask = { mode: 'checkpoint' };
    const worker = new Worker(this.#entry, { workerData });
    const done = (file: string): void => {
      this.#checkpoints.get(file)?.();
      this.#checkpoints.delete(file);
    };
    worker.on('message', done);
    worker.on('error', () => {});
    worker.once('exit', () => {
      this.#checkpointer = null;
      for (const file of [...this.#checkpoints.keys()]) done(file);
    });
    return worker;
  }
}
