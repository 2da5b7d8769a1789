/** Entry of the writer's threads: one watches the main thread, the others do its long work. */
import { parentPort, workerData } from 'node:worker_threads';
import { LIMITS } from '../../protocol/limits.ts';
import type { MigrationFile } from '../../protocol/wire/frames.ts';
import { checkpoint, migrate } from './maintenance.ts';
import { type WatchedMemory, watch } from './watch.ts';

/** What a thread is started with. */
export type ThreadTask =
  | { mode: 'watch'; memory: WatchedMemory; supervisorSocket: string; ticket: string }
  /** Gets the names of files and sends each back when it is done. Ends when none has come for a while. */
  | { mode: 'checkpoint' }
  /** Sends the numbers that it applied, or ends with the error. */
  | { mode: 'migrate'; file: string; files: MigrationFile[]; backupTo: string | null };

const task = workerData as ThreadTask;
if (task.mode === 'watch') {
  watch(task.memory, task.supervisorSocket, task.ticket);
} else if (task.mode === 'migrate') {
  void migrate(task.file, task.files, task.backupTo).then((applied) => parentPort?.postMessage(applied));
} else {
  const idle = setTimeout(() => process.exit(), LIMITS.databaseIdleMs);
  parentPort?.on('message', (file: string) => {
    // A log that could not be copied now is tried again after later commits.
    const done = (): void => {
      idle.refresh();
      parentPort?.postMessage(file);
    };
    checkpoint(file).then(done, done);
  });
}
