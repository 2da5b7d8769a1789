/** The lock that git programs take on a file before they replace it: `<file>.lock`, which becomes the file. */
import { type FileHandle, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { isMissing, mkdirDurable, syncDir } from '../atomic-file.ts';
import { crashPoint } from '../crash-point.ts';
import { isRunning } from '../process-identity.ts';

const HOST = hostname().replaceAll(/\s/g, '_');
/** Written into a lock while it is held. */
const OWNER = `svc ${HOST} ${process.pid}\n`;

export class LockFile {
  readonly #path: string;
  readonly #repository: string;
  readonly #lock: string;
  /** Null once the lock is not held. */
  #file: FileHandle | null;

  private constructor(path: string, repository: string, lock: string, file: FileHandle) {
    this.#path = path;
    this.#repository = repository;
    this.#lock = lock;
    this.#file = file;
  }

  /** On a file of the repository. Waits for a git program that holds it, and takes over what a crash left. Rejects with `CONFLICT`. */
  static async take(path: string, repository: string): Promise<LockFile> {
    const lock = `${path}.lock`;
    const deadline = Date.now() + LIMITS.gitLockMs;
    for (;;) {
      try {
        const held = new LockFile(path, repository, lock, await open(lock, 'wx', 0o600));
        await held.#write(OWNER);
        crashPoint('git.locked');
        return held;
      } catch (error) {
        if (isMissing(error) && Date.now() <= deadline) {
          await makeFolder(dirname(path));
          continue;
        }
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      }
      if (await isLeft(lock)) await rm(lock, { force: true });
      else if (Date.now() > deadline) {
        throw new SvcError('CONFLICT', 'Another program is changing the git repository; try again.');
      } else await wait(LIMITS.gitLockPollMs);
    }
  }

  /** Replaces the file, durably, and lets go of the lock; of that too when it rejects. */
  async replace(content: string): Promise<void> {
    if (this.#file === null) throw new Error('The lock is not held.');
    const file = this.#file;
    try {
      await file.truncate();
      await this.#write(content);
      await file.sync();
      await file.close();
      await rename(this.#lock, this.#path);
    } catch (error) {
      await this.release();
      throw error;
    }
    this.#file = null;
    await syncDir(dirname(this.#path)).catch(async (error: unknown) => {
      if (!isMissing(error)) throw error;
      // git has packed the name since, and removed its folder, which was empty then: `packed-refs` at the top has it.
      await syncDir(this.#repository);
    });
  }

  /** All of it, from the start; when there is no room for it the lock is let go of. */
  async #write(text: string): Promise<void> {
    const bytes = Buffer.from(text);
    try {
      for (let at = 0; at < bytes.length; )
        at += (await this.#file?.write(bytes, at, bytes.length - at, at))?.bytesWritten ?? 0;
    } catch (error) {
      await this.release();
      throw error;
    }
  }

  /** Leaves the file as it is. Does nothing when the lock is not held any more. */
  async release(): Promise<void> {
    if (this.#file === null) return;
    const file = this.#file;
    this.#file = null;
    await file.close();
    await rm(this.#lock, { force: true });
  }
}

/** git removes a folder of names when it has packed them all: at any time, also while it is made. */
async function makeFolder(path: string): Promise<void> {
  try {
    await mkdirDurable(path);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}

/** Git programs hold such a lock for milliseconds, and say nothing in it; a gateway says who holds it. */
async function isLeft(lock: string): Promise<boolean> {
  try {
    const [, host, pid] = /^svc (\S+) (\d+)\n/.exec(await readFile(lock, 'utf8')) ?? [];
    if (host === HOST && !isRunning(Number(pid))) return true;
    return Date.now() - (await stat(lock)).mtimeMs > LIMITS.gitLockLeftMs;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}
