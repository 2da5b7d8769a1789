/** Starts on a full disk: serves existing data, and leaves no partial new directory. */
import { readdir, rm, statfs } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Logger } from 'pino';
import { isDiskFull, SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { exists, mkdirDurable, writeFileAtomic } from '../../storage/files/atomic-file.ts';

type RoomToStart = {
  /** Why the start failed, in a message for the operator; what a first start left on a full disk is removed. */
  explain(error: unknown): Promise<unknown>;
};

/** Makes the data directory. Rejects with `STORAGE_FULL`, and makes nothing, when a new one would not fit on the disk. */
export async function roomToStart(dataDir: string): Promise<RoomToStart> {
  const wasThere = await exists(dataDir);
  const isNew = !wasThere || (await readdir(dataDir)).length === 0;
  const leave = async (): Promise<void> => {
    for (const name of wasThere ? await readdir(dataDir) : []) await remove(join(dataDir, name));
    if (!wasThere) await remove(dataDir);
  };
  try {
    await mkdirDurable(dataDir);
    const { bavail, bsize } = await statfs(dataDir);
    if (isNew && bavail * bsize < LIMITS.firstStartBytes) throw noRoom(dataDir);
  } catch (error) {
    if (isNew) await leave();
    throw isDiskFull(error) ? noRoom(dataDir, error) : error;
  }
  return {
    explain: async (error) => {
      if (!isDiskFull(error)) return error;
      if (isNew) await leave();
      return noRoom(dataDir, error);
    },
  };
}

/** Runs optional work: on a full disk it is skipped and logged. */
export async function unlessFull(log: Logger, work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!isDiskFull(error)) throw error;
    log.warn({ err: error }, 'A file could not be written: the disk is full.');
  }
}

/** Writes it now; on a full disk it resolves without, and goes on trying until `signal` aborts. */
export async function writeWhenRoom(path: string, text: string, signal: AbortSignal, log: Logger): Promise<void> {
  try {
    await mkdirDurable(dirname(path));
    await writeFileAtomic(path, text);
  } catch (error) {
    if (!isDiskFull(error)) throw error;
    log.warn({ err: error }, `${basename(path)} could not be written: the disk is full. That is tried again.`);
    void writeLater(path, text, signal);
  }
}

async function writeLater(path: string, text: string, signal: AbortSignal): Promise<void> {
  for (;;) {
    await wait(LIMITS.diskRetryMs, undefined, { ref: false });
    if (signal.aborted) return;
    const isWritten = await writeFileAtomic(path, text).then(
      () => true,
      () => false,
    );
    if (isWritten) return;
  }
}

/** A process that was just ended may be making a file yet. */
function remove(path: string): Promise<void> {
  return rm(path, { recursive: true, force: true, maxRetries: 10 });
}

function noRoom(dataDir: string, cause?: unknown): SvcError {
  return new SvcError(
    'STORAGE_FULL',
    `The disk of ${dataDir} is full. Free some space (1 MiB is enough to start), or use another --data-dir.`,
    cause === undefined ? {} : { cause },
  );
}
