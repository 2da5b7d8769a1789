/** Entry of the writer's threads: one watches the main thread, the others do what would hold it up. */
import { parentPort, workerData } from 'node:worker_threads';
import type { MigrationFile } from '../../protocol/frames.ts';
import { describeFailure } from './failure.ts';
import { checkpoint, migrate } from './maintenance.ts';
import { type WatchedMemory, watch } from './watch.ts';

/** What a thread is started with. */
export type ThreadTask =
  | { mode: 'watch'; memory: WatchedMemory; supervisorSocket: string; ticket: string }
  /** Is sent the names of files, and sends each back when it is done. */
  | { mode: 'checkpoint' }
  /** Sends one `MigrationOutcome`. */
  | { mode: 'migrate'; file: string; files: MigrationFile[]; backupTo: string | null };

export type MigrationOutcome = { applied: number[] } | { error: ReturnType<typeof describeFailure> };

const task = workerData as ThreadTask;
if (task.mode === 'watch') {
  watch(task.memory, task.supervisorSocket, task.ticket);
} else if (task.mode === 'migrate') {
  parentPort?.postMessage(await migrationOutcome(task.file, task.files, task.backupTo));
} else {
  parentPort?.on('message', (file: string) => {
    // A log that could not be copied now is tried again after later commits.
    const done = (): void => parentPort?.postMessage(file);
    checkpoint(file).then(done, done);
  });
}

async function migrationOutcome(
  file: string,
  files: MigrationFile[],
  backupTo: string | null,
): Promise<MigrationOutcome> {
  try {
    return { applied: await migrate(file, files, backupTo) };
  } catch (error) {
    return { error: describeFailure(error) };
  }
}
