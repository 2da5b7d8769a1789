/**
 * Draft sessions: each has its own copy of the apps that it changes, edits it as plain files, and publishes it (decisions,
 * section 7). What is done to one app in one session is done one after the other.
 */
import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import type { Logger } from 'pino';
import type { MintedWebhook } from '../../protocol/automation.ts';
import { SvcError } from '../../protocol/errors.ts';
import type {
  CheckoutResult,
  DiffAppResult,
  GitFile,
  GitFileDiff,
  TreeOfResult,
  UpdateAppResult,
} from '../../protocol/git-jobs.ts';
import { checkAppId, isSessionId } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { FileConditions, SessionFilesResult } from '../../protocol/session-files.ts';
import type { CodeStorePaths } from '../../storage/layout.ts';
import { unknownApp } from '../../storage/registry.ts';
import {
  appFolders,
  createSession,
  isFolder,
  isSession,
  listSessions,
  readSession,
  removeSession,
  replaceApp,
  type SessionApp,
  type SessionRecord,
  stagingFolder,
  sweepSessions,
  touchedAt,
  writeSession,
} from '../../storage/sessions.ts';
import type { Jobs } from '../jobs.ts';
import { SerialByKey } from '../serial.ts';

/** What sessions need of the repository; commits are in hex. Rejects with `STORE_DAMAGED`. */
export type SessionRepository = {
  /** The commit of `main`. */
  main(): Promise<string>;
  /** Writes the app's files as `main` or a commit has them into the empty folder `to`. */
  checkout(app: string, from: string, to: string): Promise<CheckoutResult>;
  /** The files of the app as `main` or a commit has them. */
  files(app: string, from: string): Promise<TreeOfResult>;
  /** Merges what `main` has of the app since `base` with the folder, into the empty folder `to`. */
  update(app: string, base: string | null, folder: string, to: string): Promise<UpdateAppResult>;
  /** What a folder changes of the app as `main` has it. */
  diff(app: string, folder: string): Promise<DiffAppResult>;
  /** Points the branch at a commit, or removes it. */
  branch(name: string, to: string | null): Promise<void>;
};

export type Published = {
  id: string;
  /** n of the tag `<id>/v<n>`. */
  version: number;
  tag: string;
  sha: string;
  migrationsApplied: number[];
  webhooks: MintedWebhook[];
};

export type SessionsOptions = {
  store: CodeStorePaths;
  repository: SessionRepository;
  jobs: Pick<Jobs, 'sessionFiles'>;
  /** Publishes the app as `folder` has it; `base` is the commit that the folder was taken from. */
  publish(
    app: string,
    draft: { folder: string; base: string | null; message: string | null; origin: string },
  ): Promise<Published>;
  /** When the app was registered, in milliseconds since the epoch; null when it is not. */
  registeredAt(app: string): number | null;
  log: Pick<Logger, 'warn'>;
  now?(): number;
};

/**
 * A session in answers; times are milliseconds since the epoch. `apps` are those that were taken into it. `damaged` says what
 * is wrong with one whose record cannot be read: of it only the folders are known.
 */
export type SessionRow = {
  sessionId: string;
  base: string | null;
  createdAt: number | null;
  touchedAt: number;
  apps: string[];
  damaged?: string;
};

export type SessionDiff = { base: string; head: string; files: (GitFileDiff & { app: string })[] };

export class Sessions {
  readonly #options: Required<SessionsOptions>;
  readonly #serial = new SerialByKey();
  readonly #edited: ((sessionId: string, app: string) => void)[] = [];
  readonly #closed: ((sessionId: string) => void | Promise<void>)[] = [];
  /** What is being done in a session, by its id. */
  readonly #underWay = new Map<string, Set<Promise<unknown>>>();
  /** Bases that could not be written into a session's record, by `<session>/<app>`. */
  readonly #unwritten = new Map<string, SessionApp>();
  /** Nothing begins in these any more. */
  readonly #closing = new Set<string>();

  constructor(options: SessionsOptions) {
    this.#options = { now: Date.now, ...options };
  }

  /** Removes what a crash left. */
  async open(): Promise<void> {
    await sweepSessions(this.#options.store);
  }

  /** Told after an app's files were changed through these methods. */
  onEdited(told: (sessionId: string, app: string) => void): void {
    this.#edited.push(told);
  }

  /** Told when a session is about to go; it waits for what they return. */
  onClosed(told: (sessionId: string) => void | Promise<void>): void {
    this.#closed.push(told);
  }

  /** Rejects with `INVALID_ID`, `CONFLICT` when the id is taken, or `RATE_LIMITED` when there are too many sessions. */
  async create(id = `s${randomBytes(8).toString('hex')}`): Promise<{ sessionId: string; base: string }> {
    if (!isSessionId(id)) {
      throw new SvcError(
        'INVALID_ID',
        'A session id has 1 to 64 of A-Z, a-z, 0-9, "-" and "_", not "-" or "_" first.',
        {
          path: 'sessionId',
        },
      );
    }
    const { store, repository, now } = this.#options;
    if ((await listSessions(store)).length >= LIMITS.sessions) {
      throw new SvcError('CONFLICT', `There are ${LIMITS.sessions} sessions already; delete those that nobody needs.`);
    }
    const base = await repository.main();
    if (this.#closing.has(id))
      throw new SvcError('CONFLICT', `The session "${id}" is being closed; try again.`, { path: 'sessionId' });
    if (!(await createSession(store, id, { createdAt: now(), base, apps: {} })))
      throw new SvcError('CONFLICT', `There is a session "${id}" already.`, { path: 'sessionId' });
    try {
      await repository.branch(branchOf(id), base);
    } catch (error) {
      await removeSession(store, id);
      throw error;
    }
    return { sessionId: id, base };
  }

  /** Sorted by id; those whose record is damaged say so. */
  async list(): Promise<SessionRow[]> {
    const { store, log } = this.#options;
    const rows: SessionRow[] = [];
    for (const sessionId of await listSessions(store)) {
      try {
        rows.push(await this.#row(sessionId));
      } catch (error) {
        const isGone = error instanceof SvcError && error.code === 'UNKNOWN_SESSION';
        if (!isGone) log.warn({ session: sessionId, err: error }, 'a session cannot be read');
      }
    }
    return rows;
  }

  async #row(sessionId: string): Promise<SessionRow> {
    const session = this.#options.store.session(sessionId);
    try {
      const { base, createdAt, apps } = await this.#record(sessionId);
      return { sessionId, base, createdAt, touchedAt: await touchedAt(session), apps: Object.keys(apps).sort() };
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== 'SESSION_DAMAGED') throw error;
      const apps = await appFolders(session);
      const damaged = error.message;
      return { sessionId, base: null, createdAt: null, touchedAt: await touchedAt(session), apps, damaged };
    }
  }

  /** Its drafts are gone with it. What was begun in it ends first: a publication is whole, or never was. Rejects with `UNKNOWN_SESSION`. */
  async remove(id: string): Promise<void> {
    const { store, repository, log } = this.#options;
    if (!(await this.has(id)) || this.#closing.has(id)) throw unknownSession(id);
    this.#closing.add(id);
    try {
      await Promise.allSettled(this.#underWay.get(id) ?? []);
      await removeSession(store, id);
      for (const key of this.#unwritten.keys()) if (key.startsWith(`${id}/`)) this.#unwritten.delete(key);
      for (const told of this.#closed) await told(id);
      // It is closed, whatever becomes of the name, which the next session of this id takes over.
      await repository.branch(branchOf(id), null).catch((error: unknown) => {
        log.warn({ session: id, err: error }, 'the branch of a closed session could not be removed');
      });
    } finally {
      this.#closing.delete(id);
    }
  }

  async has(id: string): Promise<boolean> {
    return !this.#closing.has(id) && (await isSession(this.#options.store, id));
  }

  /** The apps that were taken into the session, sorted. Rejects with `UNKNOWN_SESSION`. */
  async apps(id: string): Promise<string[]> {
    return Object.keys((await this.#record(id)).apps).sort();
  }

  /** Where the app's files are, taken into the session on first use. Rejects with `UNKNOWN_SESSION`, `UNKNOWN_APP`. */
  async folder(id: string, app: string): Promise<string> {
    await this.#exclusively(id, app, () => this.#checkedOut(id, app));
    return this.#options.store.session(id).app(app);
  }

  async files(id: string, app: string): Promise<GitFile[]> {
    const folder = await this.folder(id, app);
    return this.#options.jobs.sessionFiles({ work: 'list', folder });
  }

  async readFile(id: string, app: string, path: string): Promise<SessionFilesResult['read']> {
    const folder = await this.folder(id, app);
    return this.#options.jobs.sessionFiles({ work: 'read', folder, path });
  }

  async putFile(
    id: string,
    app: string,
    path: string,
    bytes: Uint8Array,
    conditions: FileConditions,
  ): Promise<SessionFilesResult['put']> {
    return this.edit(id, app, (folder) =>
      this.#options.jobs.sessionFiles({ work: 'put', folder, path, bytes, conditions }),
    );
  }

  async deleteFile(id: string, app: string, path: string, conditions: FileConditions): Promise<{ path: string }> {
    return this.edit(id, app, (folder) =>
      this.#options.jobs.sessionFiles({ work: 'delete', folder, path, conditions }),
    );
  }

  /** Runs `work` on the app's folder while nothing else is done to it, then tells that it was edited. */
  async edit<T>(id: string, app: string, work: (folder: string) => Promise<T>): Promise<T> {
    const result = await this.#exclusively(id, app, async () => work(await this.#checkedOut(id, app)));
    this.#tellEdited(id, app);
    return result;
  }

  /**
   * Puts a new app into the session; `fill` writes its files into an empty folder. Nothing of it stays when that rejects.
   * Rejects with `CONFLICT` when the session or `main` has an app of this id.
   */
  async add(id: string, app: string, fill: (folder: string) => Promise<void>): Promise<void> {
    checkAppId(app);
    const { store, repository } = this.#options;
    await this.#exclusively(id, app, async () => {
      const record = await this.#record(id);
      const taken = record.apps[app] !== undefined || (await repository.files(app, 'main')).files !== null;
      if (taken) throw new SvcError('CONFLICT', `There is an app "${app}" already; choose another id.`, { path: 'id' });
      await this.#staging(async (staged) => {
        await fill(staged);
        await replaceApp(store, { sid: id, app, staged }, () => this.#remember(id, app, { base: null }));
      });
    });
    this.#tellEdited(id, app);
  }

  /**
   * Takes what was published of the app since into the session's files, as the way out of a `MERGE_CONFLICT`: lines that both
   * changed are kept both, between marks. Rejects with `UNKNOWN_SESSION`, `UNKNOWN_APP`.
   */
  async update(id: string, app: string): Promise<{ base: string; merged: string[]; conflicts: string[] }> {
    const { store, repository } = this.#options;
    const { main, merged, conflicts } = await this.#exclusively(id, app, async () => {
      const folder = await this.#checkedOut(id, app);
      const base = await this.#baseOf(id, app);
      const since = this.#since(app);
      return this.#staging(async (staged) => {
        const result = await repository.update(app, base, folder, staged);
        const remember = () => this.#remember(id, app, { base: result.main, ...since });
        // The files before the record: were it the other way round, a crash would leave the old files as a change of the new.
        if (result.merged.length + result.conflicts.length === 0) await remember();
        else await replaceApp(store, { sid: id, app, staged }, remember);
        return result;
      });
    });
    if (merged.length + conflicts.length > 0) this.#tellEdited(id, app);
    return { base: main, merged, conflicts };
  }

  /** What the session changes against `main`, in all its apps or in one. Rejects with `UNKNOWN_SESSION`, `UNKNOWN_APP`. */
  async diff(id: string, app: string | null): Promise<SessionDiff> {
    const { store, repository } = this.#options;
    return this.#within(id, async () => {
      const record = await this.#record(id);
      if (app !== null) await this.#exclusively(id, app, () => this.#checkedOut(id, app));
      const base = await repository.main();
      const files: SessionDiff['files'] = [];
      for (const one of app === null ? Object.keys(record.apps).sort() : [app]) {
        const { files: changes } = await repository.diff(one, store.session(id).app(one));
        files.push(...changes.map((change) => ({ app: one, ...change })));
      }
      return { base, head: record.base, files };
    });
  }

  /**
   * Publishes one app of the session; without `app`, the only one that it changes. Rejects with the errors of decisions,
   * section 7, and leaves the session as it was.
   */
  async publish(
    id: string,
    { app = null, message = null, origin }: { app?: string | null; message?: string | null; origin: string },
  ): Promise<Published> {
    const one = app ?? (await this.#onlyChanged(id));
    const published = await this.#exclusively(id, one, async () => {
      const folder = await this.#checkedOut(id, one);
      const base = await this.#baseOf(id, one);
      const result = await this.#options.publish(one, { folder, base, message, origin });
      await this.#bringUpToDate(id, one, result.sha);
      return result;
    });
    this.#tellEdited(id, one);
    return published;
  }

  /** The session's files are those that were published, so that the next edit is one of them. */
  async #bringUpToDate(id: string, app: string, sha: string): Promise<void> {
    const { store, repository, log } = this.#options;
    const session = store.session(id);
    try {
      // One after the other: another thread that has to be started for the second takes longer than both.
      const published = await repository.files(app, sha);
      const here = await this.#options.jobs.sessionFiles({ work: 'list', folder: session.app(app) });
      const entry = { base: sha, ...this.#since(app) };
      const remember = () => this.#remember(id, app, entry, sha);
      if (sameFiles(published.files ?? [], here)) {
        // Even when there is no room to write it down: the author's next change must not be in conflict with this one.
        this.#unwritten.set(`${id}/${app}`, entry);
        await remember();
      } else {
        await this.#staging(async (staged) => {
          await repository.checkout(app, sha, staged);
          await replaceApp(store, { sid: id, app, staged }, remember);
        });
      }
      await repository.branch(branchOf(id), sha);
    } catch (error) {
      // It is published. What the session has of it is older, and merges with it like any other change.
      log.warn({ session: id, app, err: error }, 'a session could not be brought up to date with what it published');
    }
  }

  async #onlyChanged(id: string): Promise<string> {
    const changed = [...new Set((await this.diff(id, null)).files.map(({ app }) => app))];
    const [only] = changed;
    if (only === undefined) throw new SvcError('NO_CHANGES', 'The session changes nothing against what is published.');
    if (changed.length === 1) return only;
    throw new SvcError(
      'BAD_REQUEST',
      `The session changes several apps; say which to publish: ${changed.join(', ')}.`,
      {
        path: 'app',
      },
    );
  }

  /** Within the app's turn: its folder, taken from `main` when it is not there. */
  async #checkedOut(id: string, app: string): Promise<string> {
    const { store, repository } = this.#options;
    const session = store.session(id);
    const record = await this.#record(id);
    checkAppId(app);
    // Somebody may have removed the folder of one that was taken.
    if (record.apps[app] !== undefined && (await isFolder(session.app(app)))) return session.app(app);
    // Before the files: when it is removed meanwhile, they are those of an app that is gone.
    const since = this.#since(app);
    await this.#staging(async (staged) => {
      const { commit } = await repository.checkout(app, 'main', staged);
      if (commit === null) throw since === null ? unknownApp(app) : neverActive(app);
      await replaceApp(store, { sid: id, app, staged }, () => this.#remember(id, app, { base: commit, ...since }));
    });
    return session.app(app);
  }

  async #staging<T>(work: (staged: string) => Promise<T>): Promise<T> {
    const staged = await stagingFolder(this.#options.store);
    try {
      return await work(staged);
    } finally {
      await rm(staged, { recursive: true, force: true });
    }
  }

  /** Null when the app is not registered. */
  #since(app: string): { since: number } | null {
    const since = this.#options.registeredAt(app);
    return since === null ? null : { since };
  }

  /** The commit that the app's files came from; null when they came from none, or from an app that was removed since. */
  async #baseOf(id: string, app: string): Promise<string | null> {
    const record = await this.#record(id);
    const { base = null, since } = this.#unwritten.get(`${id}/${app}`) ?? record.apps[app] ?? {};
    return since === undefined || since === this.#options.registeredAt(app) ? base : null;
  }

  /** One record is written at a time, whatever apps are at work. */
  async #remember(id: string, app: string, entry: SessionApp, head?: string): Promise<void> {
    await this.#serial.run(id, async () => {
      const record = await this.#record(id);
      await writeSession(this.#options.store.session(id), {
        ...record,
        base: head ?? record.base,
        apps: { ...record.apps, [app]: entry },
      });
      this.#unwritten.delete(`${id}/${app}`);
    });
  }

  /** Rejects with `UNKNOWN_SESSION`. */
  async #record(id: string): Promise<SessionRecord> {
    const record = isSessionId(id) ? await readSession(this.#options.store.session(id)) : null;
    if (record === null) throw unknownSession(id);
    return record;
  }

  #exclusively<T>(id: string, app: string, work: () => Promise<T>): Promise<T> {
    return this.#within(id, () => this.#serial.run(`${id}/${app}`, work));
  }

  /** The session stays until the work has ended. Rejects with `UNKNOWN_SESSION` when it is being closed. */
  async #within<T>(id: string, work: () => Promise<T>): Promise<T> {
    if (this.#closing.has(id)) throw unknownSession(id);
    const underWay = this.#underWay.get(id) ?? new Set();
    this.#underWay.set(id, underWay);
    const run = work();
    underWay.add(run);
    try {
      return await run;
    } finally {
      underWay.delete(run);
      if (underWay.size === 0) this.#underWay.delete(id);
    }
  }

  #tellEdited(id: string, app: string): void {
    for (const told of this.#edited) told(id, app);
  }
}

function branchOf(id: string): string {
  return `sessions/${id}`;
}

function sameFiles(left: GitFile[], right: GitFile[]): boolean {
  const key = (files: GitFile[]) =>
    files
      .map(({ path, sha }) => `${path}\0${sha}`)
      .sort()
      .join('\n');
  return key(left) === key(right);
}

/** There is a version of it, which nobody made live: `main` has nothing of it. */
function neverActive(app: string): SvcError {
  return new SvcError(
    'NO_ACTIVE_VERSION',
    `No version of "${app}" is active, so that a session has no files to take. Activate one first: svc versions ${app}, then svc activate ${app} <version>.`,
  );
}

export function unknownSession(id: string): SvcError {
  return new SvcError('UNKNOWN_SESSION', `There is no open session "${id.slice(0, 80)}"; open one first.`);
}
