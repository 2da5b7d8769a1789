/** An author at a daemon on the git store, as its users are: a session with edits, the draft's events, and timed publications. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Stream } from '../testing/gateway.ts';
import type { Daemon } from './daemon.ts';
import { timed } from './measurements.ts';

/** The file that is edited. */
export const EDITED = 'style.css';
/** How many apps are published in turn: the first ones. */
export const PUBLISHED = 3;

export class Author {
  /** Milliseconds of every publication of `publishNext`. */
  readonly times: number[] = [];
  /** The same with the edit before it. */
  readonly cycles: number[] = [];
  readonly #daemon: Daemon;
  readonly #session: string;
  readonly #apps: string[];

  private constructor(daemon: Daemon, session: string, apps: string[]) {
    this.#daemon = daemon;
    this.#session = session;
    this.#apps = apps;
  }

  static async open({ daemon, apps }: { daemon: Daemon; apps: string[] }): Promise<Author> {
    const opened = (await (await daemon.request('POST', '/svc/_sessions', '{}')).json()) as { sessionId: string };
    return new Author(daemon, opened.sessionId, apps.slice(0, PUBLISHED));
  }

  async edit(app: string, text: string): Promise<void> {
    const url = `/svc/_sessions/${this.#session}/apps/${app}/files/${EDITED}`;
    await (await this.#daemon.request('PUT', url, text, 'application/octet-stream')).text();
  }

  /** Writes the file where the session has it, as an editor does. */
  async write(codeStore: string, app: string, text: string): Promise<void> {
    await writeFile(join(codeStore, 'worktrees/sessions', this.#session, 'apps', app, EDITED), text);
  }

  /** Resolves when the preview answers this text. */
  async shows(app: string, text: string): Promise<void> {
    const path = `/svc/_draft/${this.#session}/${app}/${EDITED}`;
    while ((await (await this.#daemon.request('GET', path)).text()) !== text);
  }

  /** The draft's event stream. */
  changes(app: string): Promise<Stream> {
    return this.#daemon.stream(`/svc/_draft/${this.#session}/${app}/_changes`);
  }

  async publish(app: string): Promise<void> {
    const body = JSON.stringify({ app, message: 'Change it' });
    await (await this.#daemon.request('POST', `/svc/_sessions/${this.#session}/publish`, body)).text();
  }

  /** Edits the next app and publishes it: the time of the publication alone, in milliseconds. */
  async publishNext(): Promise<number> {
    const app = this.#apps[this.times.length % this.#apps.length] as string;
    const editedAt = performance.now();
    // Unlike what is live, whoever published it.
    await this.edit(app, css(`${Date.now()} ${this.times.length}`));
    const ms = await timed(() => this.publish(app));
    this.times.push(ms);
    this.cycles.push(performance.now() - editedAt);
    return ms;
  }

  /** Publishes without a pause until it is told to stop, which resolves when the last one is done. */
  goOn(): () => Promise<void> {
    let stopped = false;
    const running = (async () => {
      while (!stopped) await this.publishNext();
    })();
    // What went wrong is told when it is stopped.
    running.catch(() => {});
    return () => {
      stopped = true;
      return running;
    };
  }

  async close(): Promise<void> {
    await (await this.#daemon.request('DELETE', `/svc/_sessions/${this.#session}`)).text();
  }
}

export function css(mark: string): string {
  return `/* ${mark} */\nbody { margin: 0 }\n`;
}

/** Resolves when the next `reload` is there. */
export async function reloaded(events: Stream): Promise<void> {
  while ((await events.next()).event !== 'reload');
}
