/** Has the loose objects of the repository packed in the background, one small job after the other; nobody waits for it. */
import type { Logger } from 'pino';
import { LIMITS } from '../../../protocol/limits.ts';
import type { GitRepository } from './git-jobs.ts';

export type PackerOptions = {
  git: Pick<GitRepository, 'packLoose'>;
  log: Pick<Logger, 'warn'>;
};

export class Packer {
  readonly #options: PackerOptions;
  #changes = 0;
  #running: Promise<void> | null = null;
  #closed = false;

  constructor(options: PackerOptions) {
    this.#options = options;
  }

  /** The repository has more objects than before; it is looked at once in a while. */
  changed(): void {
    this.#changes++;
    if (this.#changes >= LIMITS.gitPackEvery) this.look();
  }

  /** Packs what there is to pack, unless that is being done. */
  look(): void {
    if (this.#running !== null || this.#closed) return;
    this.#changes = 0;
    this.#running = this.#pack().finally(() => {
      this.#running = null;
    });
  }

  /** Resolves when the job that is under way has ended; no other follows. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#running;
  }

  /** Other jobs that came meanwhile are done between two of these. */
  async #pack(): Promise<void> {
    try {
      while (!this.#closed) {
        const { packed, joined } = await this.#options.git.packLoose({});
        if (packed === 0 && joined === 0) return;
      }
    } catch (error) {
      this.#options.log.warn(
        { err: error },
        'The objects of the git repository could not be packed; that is tried again.',
      );
    }
  }
}
