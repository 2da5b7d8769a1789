/** A session of a daemon on the git store, as its users have it: edits, publications, and the draft's events. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
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

  changes(app: string): Promise<DraftEvents> {
    return DraftEvents.open(this.#daemon, `/svc/_draft/${this.#id}/${app}/_changes`);
  }

  async close(): Promise<void> {
    await (await this.#daemon.request('DELETE', `/svc/_sessions/${this.#id}`)).text();
  }
}

/** The draft's event stream. */
export class DraftEvents {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #text = '';

  private constructor(reader: ReadableStreamDefaultReader<Uint8Array>) {
    this.#reader = reader;
  }

  static async open(daemon: Daemon, path: string): Promise<DraftEvents> {
    const { body } = await daemon.request('GET', path);
    if (body === null) throw new Error('The event stream has no body.');
    return new DraftEvents(body.getReader());
  }

  /** Resolves when the next `reload` is there. */
  async reload(): Promise<void> {
    const decoder = new TextDecoder();
    for (;;) {
      const found = /^event: ?reload$/m.exec(this.#text);
      if (found !== null) {
        this.#text = this.#text.slice(found.index + found[0].length);
        return;
      }
      const { done, value } = await this.#reader.read();
      if (done) throw new Error('The event stream ended.');
      this.#text += decoder.decode(value, { stream: true });
    }
  }

  close(): Promise<void> {
    return this.#reader.cancel();
  }
}
