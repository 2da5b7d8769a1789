/** Entry of the writer's threads: one watches the main thread, the others do what would hold it up. */
import { parentPort, workerData } from 'node:worker_threads';
import { Kind, type MigrationFile } from '../../protocol/frames.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { openLink } from '../link.ts';
import { Begun } from './begun.ts';
import { describeFailure } from './failure.ts';
import { checkpoint, migrate } from './maintenance.ts';
import { Pulse, StuckDetector } from './pulse.ts';

const LOOKS = 10;

/** Of `Pulse` and `Begun`. */
export type WatchedMemory = { pulse: SharedArrayBuffer; begun: SharedArrayBuffer };

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

/** The watch thread: tells the supervisor when the main thread is stuck in a statement, and ends an orphan that is. */
function watch(memory: WatchedMemory, supervisorSocket: string, ticket: string): void {
  const everyMs = LIMITS.writerStuckMs / LOOKS;
  const pulse = new Pulse(memory.pulse);
  const begun = new Begun(performance, memory.begun);
  const detector = new StuckDetector(everyMs, LIMITS.writerStuckMs);
  const link = openLink(supervisorSocket, ticket, {
    onFrame: () => {},
    // The main thread ends by itself when the supervisor is gone, unless it cannot.
    onClose: () => setTimeout(() => process.kill(process.pid, 'SIGKILL'), LIMITS.terminateMs),
  });
  setInterval(() => {
    const beat = pulse.read();
    if (!detector.look(beat) || beat === null || !pulse.halt(beat)) return;
    link.send([Kind.stuck, pulse.name(), LIMITS.writerStuckMs, begun.read()]);
  }, everyMs);
}
