/** Keeps known at a node which apps the cluster has, wherever they are (specification, "Files in the cluster"). */
import { LIMITS } from '../../protocol/limits.ts';
import type { AppDirectory, ListedApp } from '../../storage/cluster/app-directory.ts';

type KnownAppsOptions = {
  directory: Pick<AppDirectory, 'since'>;
  /** Whether the node gets to know of the app with the bucket of that. */
  isOwn(app: string): boolean;
  /** Takes what is new of the others, also that they were removed. */
  learn(apps: ListedApp[]): Promise<void>;
};

export class KnownApps {
  readonly #options: KnownAppsOptions;
  /** Up to which change all are known; null where all are to be read again. */
  #horizon: string | null = null;
  /** The reading that goes on, and the one that begins after it. */
  #reading: Promise<void> | null = null;
  #next: Promise<void> | null = null;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: KnownAppsOptions) {
    this.#options = options;
  }

  /** Looks what has changed, from now on again and again. Resolves after the first look. */
  async begin(): Promise<void> {
    const look = () => this.catchUp().catch(() => {}); // the next look
    this.#timer = setInterval(() => void look(), LIMITS.nodeLookMs).unref();
    await look();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** All are read again with the next look: some were left to a bucket that did not stay. */
  forget(): void {
    this.#horizon = null;
  }

  /** Resolves when all are known that were registered at any node before the call. Rejects with `STORAGE_UNAVAILABLE`. */
  catchUp(): Promise<void> {
    if (this.#reading === null) {
      this.#reading = this.#read().finally(() => {
        this.#reading = null;
      });
      return this.#reading;
    }
    this.#next ??= this.#reading
      .catch(() => {})
      .then(() => {
        this.#next = null;
        return this.catchUp();
      });
    return this.#next;
  }

  async #read(): Promise<void> {
    const { directory, isOwn, learn } = this.#options;
    const { apps, horizon } = await directory.since(this.#horizon);
    this.#horizon = horizon;
    try {
      await learn(apps.filter(({ id }) => !isOwn(id)));
    } catch (error) {
      this.forget();
      throw error;
    }
  }
}
