/** A draft that follows a local folder: sends edits, reports faults, and survives a restart of the gateway. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ErrorBody, InputIssue } from '../../protocol/errors.ts';
import { addressOf } from '../../protocol/http/client.ts';
import type { ServerSentEvent } from '../../protocol/http/event-stream.ts';
import { GatewayError } from '../../protocol/http/gateway-error.ts';
import { blockedAddresses } from '../../protocol/http/mcp-app.ts';
import type { KnownModules } from '../../protocol/rules/gates/check-handlers.ts';
import { plural } from '../../protocol/text/units.ts';
import { explain } from '../explain.ts';
import { CommandError, errorBodyOf, UnreachableError } from '../failure.ts';
import type { Client } from '../gateway/client.ts';
import { describeApp } from '../gateway/descriptions.ts';
import { findPages, makeLink, openBrowser } from '../gateway/page-links.ts';
import { find } from '../resource.ts';
import { WORKSPACES } from '../resources.ts';
import type { LogEntry } from '../terminal/log-entry.ts';
import type { Progress } from '../terminal/terminal.ts';
import { scanAppFolder } from './app-folder.ts';
import { knownOrigin, nameOf, noteVersion, readOrigin, versionsOf } from './folder-origin.ts';
import { type FileFault, FolderSync, isFinal, isPassing, type Synced, type SyncResult } from './folder-sync.ts';
import { checkMistakes, checkRules, checkSyntax, excerpt } from './source-check.ts';

const RETRY_MS = 1000;
/** How often one update starts over: where files go on vanishing, the next one tries again after a pause. */
const STARTS = 10;
/** Files with a fault that are listed after the first. */
const LISTED = 5;

export type DraftEvent =
  | ({ event: 'synced' } & SyncResult)
  /** `unfit`: it works as a draft, but publishing would refuse it. */
  | { event: 'broken' | 'unfit'; error: ErrorBody; title: string; lines: string[] }
  /** What is probably mistyped, and what its page loads and browsers block; publishing does not refuse it. */
  | { event: 'warned'; warnings: InputIssue[] }
  | { event: 'mended' | 'lost' }
  | { event: 'back'; preview: string }
  | { event: 'log'; entry: LogEntry };

type DraftOptions = {
  /** The client for the gateway; with `again`, it looks for the gateway again. */
  connect(again?: boolean): Client;
  workspace: string;
  /** Of the workspace, for people; undefined leaves the one that it has. */
  name?: string | undefined;
  app: string;
  folder: string;
  tell(event: DraftEvent): void;
  /** Shows the progress of a sync, in bytes. */
  startSync(): Progress;
};

export class DraftFollower {
  readonly #options: DraftOptions;
  readonly #files: FolderSync;
  readonly #known: KnownModules = new Map();
  #client: Client;
  /** When the workspace was made; another time is another workspace. */
  #createdAt = 0;
  #lost = false;
  /** A stream ended: the gateway may have gone, or the workspace was closed. */
  #unsure = false;
  /** The version that the workspace's files came from, as far as it is known. */
  #version: string | null = null;
  /** The folder does not say what it is. */
  #isUnsaid = true;
  /** The workspace was made for this folder: what it had before is no one's. */
  #isBlank = false;
  /** The last reported fault. */
  #fault: { event: 'broken' | 'unfit'; text: string } | null = null;
  /** The last reported warnings, as JSON. */
  #warned = '[]';

  constructor(options: DraftOptions) {
    const { workspace, app, folder } = options;
    this.#options = options;
    this.#files = new FolderSync(workspace, app, folder);
    this.#client = options.connect();
  }

  /** The address of the draft's page. */
  async preview(): Promise<string> {
    const { workspace, app } = this.#options;
    return (await findPages(this.#client))({ workspace, app });
  }

  /** Opens the draft's page in the browser, and signs it in. */
  async openPreview(platform: NodeJS.Platform): Promise<void> {
    const { workspace, app } = this.#options;
    const { url } = await makeLink(this.#client, { workspace, app });
    openBrowser(url, this.#client, platform);
  }

  /** Whether a retry would not help: a fault, if any, needs an edit. */
  get settled(): boolean {
    return !this.#lost && this.#fault?.event !== 'broken';
  }

  /** Opens the workspace unless it is open, names it, and creates the app in it unless it is published. */
  async open(): Promise<void> {
    const { workspace, name, app } = this.#options;
    const row = await find(this.#client, WORKSPACES, workspace);
    if (row === undefined) await this.#client.call('POST /svc/_sessions', { body: { sessionId: workspace, name } });
    else if (name !== undefined && name !== row.name)
      await this.#client.call('PATCH /svc/_sessions/:sid', { params: { sid: workspace }, body: { name } });
    this.#createdAt = (await find(this.#client, WORKSPACES, workspace))?.createdAt ?? 0;
    try {
      // It starts as a blank app; the first sync replaces its files.
      await this.#client.call('POST /svc/_apps', { body: { id: app, sessionId: workspace } });
      this.#isBlank = true;
    } catch (error) {
      if (!(error instanceof GatewayError && error.code === 'CONFLICT')) throw error;
      await this.#agreeOnVersion();
    }
  }

  /** Publishing then merges what the folder changes of the version that it came from. */
  async #agreeOnVersion(): Promise<void> {
    const { app, folder } = this.#options;
    const origin = readOrigin(folder, app);
    this.#isUnsaid = origin === null;
    const known = origin === null ? undefined : knownOrigin(origin, await versionsOf(this.#client, app));
    const counted = known && (await this.#base({ version: known.versionId, folder: nameOf(folder) }));
    this.#version = counted ?? (await this.#base());
    if (counted != null && counted !== origin?.version)
      await noteVersion(this.#client, folder, { app, version: counted });
  }

  /** Of the workspace's files of the app; says it first, if given. Null where it is not known, as to an older gateway. */
  async #base(said?: { version: string; folder: string }): Promise<string | null> {
    const { workspace, app } = this.#options;
    const params = { sid: workspace, id: app };
    try {
      const base = said
        ? await this.#client.call('PUT /svc/_sessions/:sid/apps/:id/base', { params, body: said })
        : await this.#client.call('GET /svc/_sessions/:sid/apps/:id/base', { params });
      return base.version;
    } catch (error) {
      if (error instanceof GatewayError && !isPassing(error) && !isFinal(error)) return null;
      throw error;
    }
  }

  /** Notes what the folder is once the workspace was published or updated, or where both had the `same` files from the beginning. */
  async #noteVersion(same: boolean): Promise<void> {
    const { app, folder } = this.#options;
    const version = await this.#base();
    const isNews = version !== this.#version || (this.#isUnsaid && same);
    this.#isUnsaid = false;
    if (version === null || !isNews) return;
    this.#version = version;
    await noteVersion(this.#client, folder, { app, version });
  }

  /**
   * Sends edits and checks the draft; reports a fault and resolves with false. If `isMore` says that there is more to
   * send, the rest of the check is left to the next update. Rejects with errors that another update cannot fix: the
   * workspace was closed, the token is refused.
   */
  async update(isMore: () => boolean = () => false): Promise<boolean> {
    for (let start = 1; ; start++) {
      try {
        return await this.#updateOnce(isMore);
      } catch (error) {
        if (start < STARTS && this.#mayStartOver(error)) continue;
        if (isPassing(error) && this.#createdAt > 0) this.#lose();
        else if (isFinal(error)) throw this.#closed(error);
        else await this.#tellFault('broken', error);
        return false;
      }
    }
  }

  async #updateOnce(isMore: () => boolean): Promise<boolean> {
    if (this.#lost || this.#unsure) await this.#find();
    const { faults, ...sent } = await this.#send();
    const [first, ...others] = faults;
    if (first !== undefined) {
      await this.#tellFault('broken', first.error, first.path, await this.#titlesOf(others));
      return false;
    }
    await this.#noteVersion(sent.same);
    const fault = await this.#look(sent, isMore);
    if (fault !== null) await this.#tellFault('unfit', new GatewayError(400, fault));
    if (fault === null && !isMore()) this.#mended();
    return fault === null;
  }

  /** Files vanished while they were read, and what is left can be sent; or there is another token than the refused one. */
  #mayStartOver(error: unknown): boolean {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return true;
    return error instanceof GatewayError && error.status === 401 && this.#takeNewToken();
  }

  /** `same`: nothing was sent or taken. */
  async #send(): Promise<Omit<Synced, 'result'> & { same: boolean }> {
    const progress = this.#options.startSync();
    const { result, ...more } = await this.#files.sync(this.#client, progress.update).finally(progress.end);
    if (this.#isBlank) {
      // The files of a blank app were never the author's.
      result.deleted.length = 0;
      this.#isBlank = false;
    }
    const same = Object.values(result).every((paths) => paths.length === 0);
    if (!same) this.#options.tell({ event: 'synced', ...result });
    return { ...more, same };
  }

  /** Why publishing would refuse a draft that works; rejects if the draft does not work. */
  async #look({ files, bundles }: Pick<Synced, 'files' | 'bundles'>, isMore: () => boolean): Promise<ErrorBody | null> {
    const { folder, app, workspace } = this.#options;
    const unparsed = await checkSyntax(folder, files);
    if (unparsed !== null) throw new GatewayError(400, unparsed);
    const described = await describeApp(this.#client, app, workspace);
    const used = new Set<string>();
    const fault = await checkRules(folder, this.#known, described, files, isMore, bundles, used);
    // A check that ended early has not seen what the other handlers import.
    if (!isMore())
      this.#tellWarnings([
        ...blockedAddresses(described.mcpApp),
        ...(await checkMistakes(folder, described, files, used)),
      ]);
    return fault;
  }

  #tellWarnings(warnings: InputIssue[]): void {
    const text = JSON.stringify(warnings);
    if (text !== this.#warned && warnings.length > 0) this.#options.tell({ event: 'warned', warnings });
    this.#warned = text;
  }

  #mended(): void {
    if (this.#fault !== null) this.#options.tell({ event: 'mended' });
    this.#fault = null;
  }

  /** Whether there is another token than the refused one: it may have been rotated. */
  #takeNewToken(): boolean {
    const { token } = this.#client.connection;
    try {
      this.#client = this.#options.connect(true);
    } catch {
      return false;
    }
    return this.#client.connection.token !== token;
  }

  /** Reports the draft's log, and calls `edited` when somebody else edits it. Resolves when `signal` aborts. */
  async follow(signal: AbortSignal, edited: () => void): Promise<void> {
    const { app, workspace, tell } = this.#options;
    const logs = addressOf('GET /svc/_logs', { params: { sid: workspace }, query: { app, follow: '1' } });
    const changes = addressOf('GET /svc/:id/_changes', { params: { sid: workspace, id: app } });
    await Promise.all([
      this.#hear(logs, signal, edited, ({ event, data }) => {
        if (event !== 'log') return;
        const entry = JSON.parse(data) as LogEntry;
        if (!isFaultOfFiles(entry)) tell({ event: 'log', entry });
      }),
      this.#hear(changes, signal, edited, ({ event }) => {
        if (event === 'reload') edited();
      }),
    ]);
  }

  /** Follows a stream, and opens it again when it ends. Each opening and end triggers an update. */
  async #hear(
    path: string,
    signal: AbortSignal,
    look: () => void,
    heard: (event: ServerSentEvent) => void,
  ): Promise<void> {
    while (!signal.aborted) {
      try {
        const onLost = (): void => {
          throw new UnreachableError('The stream ended.', []);
        };
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

  /** Looks for the gateway and the workspace again. Rejects with `UnreachableError` while no gateway is found. */
  async #find(): Promise<void> {
    const { workspace, connect } = this.#options;
    const { url } = this.#client;
    this.#client = connect(true);
    const row = await find(this.#client, WORKSPACES, workspace);
    if (row === undefined) throw new GatewayError(404, { code: 'UNKNOWN_SESSION', message: '' });
    if (row.createdAt !== null && row.createdAt !== this.#createdAt) this.#files.forget();
    this.#createdAt = row.createdAt ?? this.#createdAt;
    const isBack = this.#lost || this.#client.url !== url;
    this.#lost = false;
    this.#unsure = false;
    if (isBack) this.#options.tell({ event: 'back', preview: await this.preview() });
  }

  async #tellFault(event: 'broken' | 'unfit', error: unknown, path?: string, others: string[] = []): Promise<void> {
    const { title, lines: advice } = await explain(error, this.#client, { app: this.#options.app });
    const body = path === undefined ? errorBodyOf(error) : { path, ...errorBodyOf(error) };
    const lines = [...this.#excerptOf(body), ...others, ...advice];
    const text = [title, ...lines].join('\n');
    if (event === this.#fault?.event && text === this.#fault.text) return;
    this.#fault = { event, text };
    this.#options.tell({ event, error: body, title, lines });
  }

  /** What is wrong with the first of these files, and how many more there are. */
  async #titlesOf(faults: FileFault[]): Promise<string[]> {
    const explained = await Promise.all(faults.slice(0, LISTED).map(({ error }) => explain(error, this.#client, {})));
    const titles = explained.map(({ title }) => title);
    const rest = faults.length - titles.length;
    return rest === 0 ? titles : [...titles, `and ${plural(rest, 'more file')}`];
  }

  /** The lines that an error is about, when it says which. */
  #excerptOf({ issues }: ErrorBody): string[] {
    const { path, line, column } = issues?.[0] ?? {};
    if (path === undefined || line === undefined || column === undefined) return [];
    const { folder } = this.#options;
    try {
      if (!scanAppFolder(folder).files.includes(path)) return [];
      return excerpt(readFileSync(join(folder, path), 'utf8'), { line, column });
    } catch {
      // The file vanished: the next update reports that.
      return [];
    }
  }

  #closed(error: unknown): unknown {
    if (!(error instanceof GatewayError && error.code === 'UNKNOWN_SESSION')) return error;
    const { workspace } = this.#options;
    return new CommandError(
      `The workspace ${workspace} was closed; the folder is unchanged.`,
      'Open it again: svc dev <dir>',
    );
  }
}

/** An update reports these faults itself, with advice. */
function isFaultOfFiles({ tool, level, msg, page }: LogEntry): boolean {
  return tool === null && page === undefined && level === 'error' && /^[A-Z_]+: /.test(String(msg));
}
