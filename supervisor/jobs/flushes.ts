/**
 * Flushes files of jobs where Node denies it to their process (`storage/files/flush.ts`): a few at a time, because Node's
 * threads for files also read the pages of apps.
 */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { resolve, sep } from 'node:path';
import { LIMITS } from '../../protocol/limits.ts';
import type { FlushFault } from '../../protocol/wire/frames.ts';

/** Follows no link, and does not wait for a pipe. */
const PLAINLY = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

export class Flushes {
  readonly #folders: string[];
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  /** `folders` are those that jobs may write. */
  constructor(folders: string[]) {
    this.#folders = folders;
  }

  /** Resolves with null once the file or folder is durable, else with why it is not. Throws at once for a path that no job may write. */
  flush(path: unknown): Promise<FlushFault | null> {
    if (typeof path !== 'string' || resolve(path) !== path || !this.#isWritable(path))
      throw new Error('The jobs process may flush only what it may write.');
    return this.#inTurn(path);
  }

  async #inTurn(path: string): Promise<FlushFault | null> {
    if (this.#waiting.length >= LIMITS.flushesWaiting) return { code: 'EAGAIN', message: 'Too many flushes wait.' };
    if (this.#running >= LIMITS.flushesAtOnce) await new Promise<void>((begin) => this.#waiting.push(begin));
    else this.#running++;
    try {
      await sync(path);
      return null;
    } catch (error) {
      const { code = 'EIO', message } = error as NodeJS.ErrnoException;
      return { code, message };
    } finally {
      const next = this.#waiting.shift();
      // It takes this one's place.
      if (next === undefined) this.#running--;
      else next();
    }
  }

  #isWritable(path: string): boolean {
    return this.#folders.some((folder) => path === folder || path.startsWith(folder + sep));
  }
}

async function sync(path: string): Promise<void> {
  const file = await open(path, PLAINLY);
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
