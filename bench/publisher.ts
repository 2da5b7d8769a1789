/** Publishes a few apps of a store in turn, one changed file each time. */
import { AuthoringSession } from './authoring-session.ts';
import type { Daemon } from './daemon.ts';

/** The file that is changed. */
export const EDITED = 'style.css';
/** How many apps are published in turn: the first ones. */
export const PUBLISHED = 3;

export class Publisher {
  /** Milliseconds of every publication. */
  readonly times: number[] = [];
  /** The same with the change of the file before it. */
  readonly cycles: number[] = [];
  readonly #session: AuthoringSession;
  readonly #apps: string[];

  private constructor(session: AuthoringSession, apps: string[]) {
    this.#session = session;
    this.#apps = apps;
  }

  static async open({ daemon, apps }: { daemon: Daemon; apps: string[] }): Promise<Publisher> {
    return new Publisher(await AuthoringSession.open(daemon), apps.slice(0, PUBLISHED));
  }

  /** The time of the publication alone, in milliseconds. */
  async publish(): Promise<number> {
    const app = this.#apps[this.times.length % this.#apps.length] as string;
    const changedAt = performance.now();
    // Unlike what is live, whoever published it.
    await this.#session.put(app, EDITED, css(`${Date.now()} ${this.times.length}`));
    const startedAt = performance.now();
    await this.#session.publish(app);
    const publishedAt = performance.now();
    this.times.push(publishedAt - startedAt);
    this.cycles.push(publishedAt - changedAt);
    return publishedAt - startedAt;
  }

  /** Publishes without a pause until it is told to stop, which resolves when the last one is done. */
  goOn(): () => Promise<void> {
    let stopped = false;
    const running = (async () => {
      while (!stopped) await this.publish();
    })();
    // What went wrong is told when it is stopped.
    running.catch(() => {});
    return () => {
      stopped = true;
      return running;
    };
  }

  close(): Promise<void> {
    return this.#session.close();
  }
}

export function css(mark: string): string {
  return `/* ${mark} */\nbody { margin: 0 }\n`;
}
