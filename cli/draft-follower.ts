/** A draft that follows a folder: sends what is edited, says what is wrong, and outlives a gateway that restarts. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ErrorBody } from '../protocol/errors.ts';
import type { LogEntry, SessionRow } from './api.ts';
import { scanAppFolder } from './app-folder.ts';
import { openPage } from './browser.ts';
import type { Client } from './client.ts';
import type { ServerSentEvent } from './event-stream.ts';
import { explain } from './explain.ts';
import { CommandError, errorBodyOf, GatewayError, UnreachableError } from './failure.ts';
import { FolderSync, type SyncResult } from './folder-sync.ts';
import { draftPath, withQuery } from './paths.ts';
import { allSessions } from './sessions.ts';
import { excerpt } from './source-excerpt.ts';
import { checkSyntax } from './syntax-check.ts';

const RETRY_MS = 1000;

export type DraftEvent =
  | ({ event: 'synced' } & SyncResult)
  | { event: 'broken'; error: ErrorBody; title: string; lines: string[] }
  | { event: 'mended' | 'lost' }
  | { event: 'back'; preview: string }
  | { event: 'log'; entry: LogEntry };

export type DraftOptions = {
  /** The client for the gateway as it is found now; with `again`, looked for once more. */
  connect(again?: boolean): Client;
  session: string;
  app: string;
  folder: string;
  tell(event: DraftEvent): void;
};

export class DraftFollower {
  readonly #options: DraftOptions;
  readonly #files: FolderSync;
  #client: Client;
  /** When the session was made; another time is another session. */
  #createdAt = 0;
  #lost = false;
  /** What was said last of what is wrong. */
  #fault: string | null = null;

  constructor(options: DraftOptions) {
    const { session, app, folder } = options;
    this.#options = options;
    this.#files = new FolderSync(session, app, folder);
    this.#client = options.connect();
  }

  get preview(): string {
    return this.#client.url + draftPath(this.#options.session, `${this.#options.app}/`);
  }

  /** In a browser that need not be signed in; the address that is printed does not sign in. */
  openPreview(platform: NodeJS.Platform): Promise<void> {
    const { session, app } = this.#options;
    return openPage(this.#client.connection, `_draft/${session}/${app}`, platform);
  }

  /** As of the last update. What was wrong may be right again without an edit that anybody sees. */
  get whole(): boolean {
    return !this.#lost && this.#fault === null;
  }

  /** Opens the session where it is not open, and puts the app into it where it is not published. */
  async open(): Promise<void> {
    const { session, app } = this.#options;
    if ((await this.#row()) === undefined) await this.#client.post('/svc/_sessions', { sessionId: session });
    this.#createdAt = (await this.#row())?.createdAt ?? 0;
    try {
      // It begins as a blank one, whose files then give way to those of the folder.
      await this.#client.post('/svc/_apps', { id: app, sessionId: session });
    } catch (error) {
      if (!(error instanceof GatewayError && error.body.code === 'CONFLICT')) throw error;
    }
  }

  /**
   * Sends what was edited and looks whether the draft is whole; false when something is wrong, which was told. Rejects with
   * what cannot get better: the session was closed, the token is refused.
   */
  async update(): Promise<boolean> {
    const { folder, app, session, tell } = this.#options;
    try {
      if (this.#lost) await this.#find();
      const result = await this.#files.sync(this.#client);
      if (Object.values(result).some((paths) => paths.length > 0)) tell({ event: 'synced', ...result });
      const unparsed = await checkSyntax(folder, scanAppFolder(folder).files);
      if (unparsed !== null) throw new GatewayError(400, unparsed);
      await this.#client.post(draftPath(session, '_tool/svc_describe'), { app });
      if (this.#fault !== null) tell({ event: 'mended' });
      this.#fault = null;
      return true;
    } catch (error) {
      // Something of the folder, or all of it, went while it was read: what is left is looked at afresh.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return this.update();
      if (isPassing(error) && this.#createdAt > 0) this.#lose();
      else if (isFinal(error)) throw this.#closed(error);
      else await this.#tellFault(error);
      return false;
    }
  }

  /** Hears what the draft logs, and `edited` when somebody else edits it. Resolves when `signal` aborts. */
  async follow(signal: AbortSignal, edited: () => void): Promise<void> {
    const { app, session, tell } = this.#options;
    const logs = withQuery(draftPath(session, '_logs'), { app, follow: 1 });
    await Promise.all([
      this.#hear(logs, signal, edited, ({ event, data }) => {
        if (event !== 'log') return;
        const entry = JSON.parse(data) as LogEntry;
        if (!isFaultOfFiles(entry)) tell({ event: 'log', entry });
      }),
      this.#hear(draftPath(session, `${app}/_changes`), signal, edited, ({ event }) => {
        if (event === 'reload') edited();
      }),
    ]);
  }

  /** One stream after the other. When one ends, an update finds out why. */
  async #hear(
    path: string,
    signal: AbortSignal,
    ended: () => void,
    heard: (event: ServerSentEvent) => void,
  ): Promise<void> {
    while (!signal.aborted) {
      try {
        const onLost = (): void => {
          throw new UnreachableError('The stream ended.', '');
        };
        for await (const event of this.#client.follow(path, { signal, onLost })) heard(event);
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof UnreachableError) this.#lose();
        ended();
      }
      await sleep(RETRY_MS, undefined, { signal }).catch(() => {});
    }
  }

  #lose(): void {
    if (!this.#lost) this.#options.tell({ event: 'lost' });
    this.#lost = true;
  }

  /** Rejects with `UnreachableError` while there is nothing to be found. */
  async #find(): Promise<void> {
    this.#client = this.#options.connect(true);
    const row = await this.#row();
    if (row === undefined) throw new GatewayError(404, { code: 'UNKNOWN_SESSION', message: '' });
    if (row.createdAt !== null && row.createdAt !== this.#createdAt) this.#files.forget();
    this.#createdAt = row.createdAt ?? this.#createdAt;
    this.#lost = false;
    this.#options.tell({ event: 'back', preview: this.preview });
  }

  async #row(): Promise<SessionRow | undefined> {
    const { session } = this.#options;
    const rows = await allSessions(this.#client);
    return rows.find(({ sessionId }) => sessionId === session);
  }

  async #tellFault(error: unknown): Promise<void> {
    const { title, lines: advice } = await explain(error, this.#client, { app: this.#options.app });
    const body = errorBodyOf(error);
    const lines = [...this.#excerptOf(body), ...advice];
    const fault = [title, ...lines].join('\n');
    if (fault === this.#fault) return;
    this.#fault = fault;
    this.#options.tell({ event: 'broken', error: body, title, lines });
  }

  /** The lines that an error is about, when it says which and they are still there. */
  #excerptOf({ issues }: ErrorBody): string[] {
    const { path, line, column } = issues?.[0] ?? {};
    if (path === undefined || line === undefined || column === undefined) return [];
    const { folder } = this.#options;
    try {
      if (!scanAppFolder(folder).files.includes(path)) return [];
      return excerpt(readFileSync(join(folder, path), 'utf8'), { line, column });
    } catch {
      // What the folder's own fault is, the next look at it tells.
      return [];
    }
  }

  #closed(error: unknown): unknown {
    if (!(error instanceof GatewayError && error.body.code === 'UNKNOWN_SESSION')) return error;
    const { session } = this.#options;
    return new CommandError(
      `The session ${session} was closed; the folder is as it was.`,
      'Open it again: svc dev <dir>',
    );
  }
}

/** The gateway is stopping, starting, or elsewhere. */
function isPassing(error: unknown): boolean {
  return error instanceof UnreachableError || (error instanceof GatewayError && error.body.code === 'OVERLOADED');
}

function isFinal(error: unknown): boolean {
  if (!(error instanceof GatewayError)) return false;
  return error.status === 401 || error.status === 403 || error.body.code === 'UNKNOWN_SESSION';
}

/** An update tells these by itself, with what to do. */
function isFaultOfFiles({ tool, level, msg }: LogEntry): boolean {
  return tool === null && level === 'error' && /^[A-Z_]+: /.test(msg ?? '');
}
