/** A draft that follows a folder: sends what is edited, says what is wrong, and outlives a gateway that restarts. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ErrorBody } from '../../protocol/errors.ts';
import { openBrowser } from '../browser.ts';
import { type Explanation, explain } from '../explain.ts';
import { CommandError, errorBodyOf, GatewayError, UnreachableError } from '../failure.ts';
import type { DescribedApp, LogEntry, SessionRow, ToolAnswer } from '../gateway/api.ts';
import type { Client } from '../gateway/client.ts';
import type { ServerSentEvent } from '../gateway/event-stream.ts';
import { findPages, makeLink } from '../gateway/pages.ts';
import { draftPath, withQuery } from '../gateway/paths.ts';
import { allSessions } from '../sessions.ts';
import type { Progress } from '../terminal/progress.ts';
import { plural } from '../terminal/units.ts';
import { scanAppFolder } from './app-folder.ts';
import { type FileFault, isFinal, isPassing } from './draft-errors.ts';
import { FolderSync, type Synced, type SyncResult } from './folder-sync.ts';
import { GateCheck } from './gate-check.ts';
import { excerpt } from './source-excerpt.ts';
import { checkSyntax } from './syntax-check.ts';

const RETRY_MS = 1000;
/** Files with a fault that are named besides the first. */
const LISTED = 5;

export type DraftEvent =
  | ({ event: 'synced' } & SyncResult)
  /** `unfit`: it works as a draft, and would be refused when it is published. */
  | { event: 'broken' | 'unfit'; error: ErrorBody; title: string; lines: string[] }
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
  /** Hears of a sync that begins how far it is, in bytes. */
  startSync(): Progress;
};

export class DraftFollower {
  readonly #options: DraftOptions;
  readonly #files: FolderSync;
  readonly #gates: GateCheck;
  #client: Client;
  /** When the session was made; another time is another session. */
  #createdAt = 0;
  #lost = false;
  /** A stream ended: the gateway may have gone, or the session was closed. */
  #unsure = false;
  /** What was said last of what is wrong. */
  #fault: { event: 'broken' | 'unfit'; text: string } | null = null;

  constructor(options: DraftOptions) {
    const { session, app, folder } = options;
    this.#options = options;
    this.#files = new FolderSync(session, app, folder);
    this.#gates = new GateCheck(folder);
    this.#client = options.connect();
  }

  /** Where the draft's page is; a browser that is not signed in is sent to sign in first. */
  async preview(): Promise<string> {
    const { session, app } = this.#options;
    return (await findPages(this.#client))({ session, app });
  }

  /** In a browser that need not be signed in. */
  async openPreview(platform: NodeJS.Platform): Promise<void> {
    const { session, app } = this.#options;
    const { url } = await makeLink(this.#client, { session, app });
    openBrowser(url, platform);
  }

  /** As of the last update: nothing is wrong that may be right again without an edit that anybody sees. */
  get settled(): boolean {
    return !this.#lost && this.#fault?.event !== 'broken';
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
   * Sends what was edited and looks whether the draft is whole; false when something is wrong, which was told. As soon as there
   * `isMore` to be sent, it leaves the rest of the looking to the next update. Rejects with what cannot get better: the session
   * was closed, the token is refused.
   */
  async update(isMore: () => boolean = () => false): Promise<boolean> {
    try {
      if (this.#lost || this.#unsure) await this.#find();
      const { faults, files } = await this.#send();
      const [first, ...others] = faults;
      if (first !== undefined) {
        await this.#tellFault('broken', first.error, first.path, await this.#titlesOf(others));
        return false;
      }
      const fault = await this.#look(files, isMore);
      if (fault !== null) await this.#tellFault('unfit', new GatewayError(400, fault));
      if (fault === null && !isMore()) this.#mended();
      return fault === null;
    } catch (error) {
      // Something of the folder, or all of it, went while it was read: what is left is looked at afresh.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return this.update(isMore);
      if (isRefused(error) && this.#takeNewToken()) return this.update(isMore);
      if (isPassing(error) && this.#createdAt > 0) this.#lose();
      else if (isFinal(error)) throw this.#closed(error);
      else await this.#tellFault('broken', error);
      return false;
    }
  }

  async #send(): Promise<Omit<Synced, 'result'>> {
    const progress = this.#options.startSync();
    const synced = this.#files.sync(this.#client, progress.update).finally(() => progress.end());
    const { result, ...more } = await synced;
    if (Object.values(result).some((paths) => paths.length > 0)) this.#options.tell({ event: 'synced', ...result });
    return more;
  }

  /** What publishing would refuse of a draft that is whole otherwise; rejects when it is not. */
  async #look(files: string[], isMore: () => boolean): Promise<ErrorBody | null> {
    const { folder, app, session } = this.#options;
    const unparsed = await checkSyntax(folder, files);
    if (unparsed !== null) throw new GatewayError(400, unparsed);
    const describe = draftPath(session, '_tool/svc_describe');
    const { data } = await this.#client.post<ToolAnswer<DescribedApp>>(describe, { app });
    return this.#gates.check(data, files, isMore);
  }

  #mended(): void {
    if (this.#fault !== null) this.#options.tell({ event: 'mended' });
    this.#fault = null;
  }

  /** Whether there is another token than the one that was refused, which may have been rotated. */
  #takeNewToken(): boolean {
    const { token } = this.#client.connection;
    try {
      this.#client = this.#options.connect(true);
    } catch {
      return false;
    }
    return this.#client.connection.token !== token;
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

  /** One stream after the other. When one begins or ends, an update looks what happened. */
  async #hear(
    path: string,
    signal: AbortSignal,
    look: () => void,
    heard: (event: ServerSentEvent) => void,
  ): Promise<void> {
    while (!signal.aborted) {
      try {
        const onLost = (): void => {
          throw new UnreachableError('The stream ended.', '');
        };
        // What happened before it stood, nobody was told.
        for await (const event of this.#client.follow(path, { signal, onLost, onOpen: look })) heard(event);
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof UnreachableError) this.#unsure = true;
        look();
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
    const { url } = this.#client;
    this.#client = this.#options.connect(true);
    const row = await this.#row();
    if (row === undefined) throw new GatewayError(404, { code: 'UNKNOWN_SESSION', message: '' });
    if (row.createdAt !== null && row.createdAt !== this.#createdAt) this.#files.forget();
    this.#createdAt = row.createdAt ?? this.#createdAt;
    const isBack = this.#lost || this.#client.url !== url;
    this.#lost = false;
    this.#unsure = false;
    if (isBack) this.#options.tell({ event: 'back', preview: await this.preview() });
  }

  async #row(): Promise<SessionRow | undefined> {
    const { session } = this.#options;
    const rows = await allSessions(this.#client);
    return rows.find(({ sessionId }) => sessionId === session);
  }

  async #tellFault(event: 'broken' | 'unfit', error: unknown, path?: string, others: string[] = []): Promise<void> {
    const { title, lines: advice } = await this.#explain(error);
    const body = path === undefined ? errorBodyOf(error) : { path, ...errorBodyOf(error) };
    const lines = [...this.#excerptOf(body), ...others, ...advice];
    const text = [title, ...lines].join('\n');
    if (event === this.#fault?.event && text === this.#fault.text) return;
    this.#fault = { event, text };
    this.#options.tell({ event, error: body, title, lines });
  }

  #explain(error: unknown): Promise<Explanation> {
    return explain(error, this.#client, { app: this.#options.app });
  }

  /** Those of a few, and how many more there are. */
  async #titlesOf(faults: FileFault[]): Promise<string[]> {
    const told = await Promise.all(faults.slice(0, LISTED).map(({ error }) => this.#explain(error)));
    const titles = told.map(({ title }) => title);
    const rest = faults.length - titles.length;
    return rest === 0 ? titles : [...titles, `and ${plural(rest, 'more file')}`];
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
      `The session ${session} was closed; the folder is unchanged.`,
      'Open it again: svc dev <dir>',
    );
  }
}

function isRefused(error: unknown): boolean {
  return error instanceof GatewayError && error.status === 401;
}

/** An update tells these by itself, with what to do. */
function isFaultOfFiles({ tool, level, msg }: LogEntry): boolean {
  return tool === null && level === 'error' && /^[A-Z_]+: /.test(msg ?? '');
}
