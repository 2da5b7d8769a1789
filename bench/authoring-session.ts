/** A session of a daemon on the git store, as its users have it: edits, publications, and the draft's events. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Stream } from '../testing/gateway.ts';
import type { Daemon } from './daemon.ts';

export class AuthoringSession {
  readonly #daemon: Daemon;
  readonly #id: string;

  private constructor(daemon: Daemon, id: string) {
    this.#daemon = daemon;
    this.#id = id;
  }

  static async open(daemon: Daemon): Promise<AuthoringSession> {
    const { sessionId } = (await (await daemon.request('POST', '/svc/_sessions', '{}')).json()) as {
      sessionId: string;
    };
    return new AuthoringSession(daemon, sessionId);
  }

  async put(app: string, path: string, text: string): Promise<void> {
    const url = `/svc/_sessions/${this.#id}/apps/${app}/files/${path}`;
    await (await this.#daemon.request('PUT', url, text, 'application/octet-stream')).text();
  }

  /** Writes the file where the session has it, as an editor does. */
  async write(codeStore: string, app: string, path: string, text: string): Promise<void> {
    await writeFile(join(codeStore, 'worktrees/sessions', this.#id, 'apps', app, path), text);
  }

  async publish(app: string): Promise<void> {
    const body = JSON.stringify({ app, message: 'Change it' });
    await (await this.#daemon.request('POST', `/svc/_sessions/${this.#id}/publish`, body)).text();
  }

  /** What the preview answers for a file. */
  async preview(app: string, path: string): Promise<string> {
    return await (await this.#daemon.request('GET', `/svc/_draft/${this.#id}/${app}/${path}`)).text();
  }

  /** The draft's event stream. */
  changes(app: string): Promise<Stream> {
    return this.#daemon.stream(`/svc/_draft/${this.#id}/${app}/_changes`);
  }

  async close(): Promise<void> {
    await (await this.#daemon.request('DELETE', `/svc/_sessions/${this.#id}`)).text();
  }
}

/** Resolves when the next `reload` is there. */
export async function reloaded(events: Stream): Promise<void> {
  while ((await events.next()).event !== 'reload');
}
