/** The folders of the apps in sessions, and what the records of the sessions say of them: always both, whatever is cut off. */
import { rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { SvcError } from '../../protocol/errors.ts';
import type { CheckoutResult, DiffAppResult, TreeOfResult, UpdateAppResult } from '../../protocol/git-jobs.ts';
import { checkAppId, isSessionId, unknownSession } from '../../protocol/ids.ts';
import type { CodeStorePaths } from '../../storage/layout.ts';
import { unknownApp } from '../../storage/registry.ts';
import { readSession, type SessionApp, type SessionRecord, writeSession } from '../../storage/session-record.ts';
import { isFolder, isWaiting, replaceApp, stagingFolder } from '../../storage/sessions.ts';
import { SerialByKey } from '../serial.ts';

/** What sessions need of the repository; commits are in hex. Rejects with `STORE_DAMAGED`. */
export type SessionRepository = {
  /** The commit of `main`. */
  main(): Promise<string>;
  /** Writes the app's files as `main` or a commit has them into the empty folder `to`, durably. */
  checkout(app: string, from: string, to: string): Promise<CheckoutResult>;
  /** The files of the app as `main` or a commit has them. */
  files(app: string, from: string): Promise<TreeOfResult>;
  /** Merges what `main` has of the app since `base` with the folder, into the empty folder `to`, durably. */
  update(app: string, base: string | null, folder: string, to: string): Promise<UpdateAppResult>;
  /** What a folder, taken from the commit `since`, changes of the app as `main` has it. */
  diff(app: string, since: string | null, folder: string): Promise<DiffAppResult>;
  /** Points the branch at a commit, or removes it. */
  branch(name: string, to: string | null): Promise<void>;
  /** Makes these branches, name after the prefix → commit, all that there are below it. */
  branches(prefix: string, branches: ReadonlyMap<string, string>): Promise<void>;
  /** Whether the commit is a version of the app. */
  isPublished(app: string, commit: string): Promise<boolean>;
};

export type SessionFoldersOptions = {
  store: CodeStorePaths;
  repository: SessionRepository;
  /** When the app was registered, in milliseconds since the epoch; null when it is not. */
  registeredAt(app: string): number | null;
};

/** The caller sees to it that one thing at a time is done to an app of a session. */
export class SessionFolders {
  readonly #options: SessionFoldersOptions;
  /** The records, by session. */
  readonly #serial = new SerialByKey();
  /** What could not be written into a session's record, by `<session>/<app>`. */
  readonly #unwritten = new Map<string, SessionApp>();

  constructor(options: SessionFoldersOptions) {
    this.#options = options;
  }

  /** Its folder, taken from `main` when it is not there. */
  async checkedOut(id: string, app: string): Promise<string> {
    const { store, repository } = this.#options;
    const session = store.session(id);
    const record = await this.record(id);
    checkAppId(app);
    const known = record.apps[app];
    // Only when the disk refused it: everything else ends at the next start.
    if (known?.from !== undefined && (await isWaiting(store, known.from)))
      await replaceApp(store, id, app, join(store.sessionsDir, known.from));
    // Somebody may have removed the folder of one that was taken.
    if (known !== undefined && (await isFolder(session.app(app)))) return session.app(app);
    // Before the files: when it is removed meanwhile, they are those of an app that is gone.
    const since = this.since(app);
    await this.replace(id, app, async (staged) => {
      const { commit } = await repository.checkout(app, 'main', staged);
      if (commit === null) throw since === null ? unknownApp(app) : neverActive(app);
      return { base: commit, ...since };
    });
    return session.app(app);
  }

  /** The commit that the app's files came from; null when they came from none, or from an app that was removed since. */
  async baseOf(id: string, app: string): Promise<string | null> {
    const { base, since } = await this.entry(id, app);
    return since === undefined || since === this.#options.registeredAt(app) ? base : null;
  }

  /** What is known of an app in the session. Rejects with `UNKNOWN_SESSION`. */
  async entry(id: string, app: string): Promise<SessionApp> {
    const record = await this.record(id);
    return this.#unwritten.get(`${id}/${app}`) ?? record.apps[app] ?? { base: null };
  }

  /** For the record of an app that is taken now: which of those that may come to have its id it is. Null when it is not registered. */
  since(app: string): { since: number } | null {
    const since = this.#options.registeredAt(app);
    return since === null ? null : { since };
  }

  /** As `remember`; known to this gateway even when there is no room to write it down. */
  async rememberSurely(id: string, app: string, entry: SessionApp, head: string): Promise<void> {
    this.#unwritten.set(`${id}/${app}`, entry);
    await this.remember(id, app, entry, head);
  }

  /** Of a session that is closed. */
  forget(id: string): void {
    for (const key of this.#unwritten.keys()) if (key.startsWith(`${id}/`)) this.#unwritten.delete(key);
  }

  /**
   * Has `fill` write the app's files into an empty folder, durably, which then takes the place of the app's with `base` as
   * what they came from: both, or neither. With `same` the files stay. Nothing is left when it rejects.
   */
  async replace<T extends { base: string | null; since?: number; same?: boolean }>(
    id: string,
    app: string,
    fill: (staged: string) => Promise<T>,
    head?: string,
  ): Promise<T> {
    const { store } = this.#options;
    const staged = await stagingFolder(store);
    let result: T;
    try {
      result = await fill(staged);
      const { base, since, same = false } = result;
      const entry = { base, ...(since === undefined ? {} : { since }) };
      // The record first: it says that the folder is to take the place, should that be cut off.
      const before = await this.remember(id, app, { ...entry, ...(same ? {} : { from: basename(staged) }) }, head);
      if (!same) await this.#put(id, app, staged, before);
    } catch (error) {
      const { apps = {} } = (await readSession(store.session(id)).catch(() => null)) ?? {};
      // As long as the record names it, it is the app's.
      if (apps[app]?.from !== basename(staged)) await rm(staged, { recursive: true, force: true });
      throw error;
    }
    await rm(staged, { recursive: true, force: true });
    return result;
  }

  async #put(id: string, app: string, staged: string, before: SessionRecord): Promise<void> {
    const { store } = this.#options;
    try {
      await replaceApp(store, id, app, staged);
    } catch (error) {
      await this.remember(id, app, before.apps[app], before.base);
      throw error;
    }
  }

  /** One record is written at a time, whatever apps are at work. Answers the record before; without `entry` the app is in it no more. */
  async remember(id: string, app: string, entry: SessionApp | undefined, head?: string): Promise<SessionRecord> {
    return this.#serial.run(id, async () => {
      const record = await this.record(id);
      const { [app]: _, ...others } = record.apps;
      await writeSession(this.#options.store.session(id), {
        ...record,
        base: head ?? record.base,
        apps: { ...others, ...(entry === undefined ? {} : { [app]: entry }) },
      });
      this.#unwritten.delete(`${id}/${app}`);
      return record;
    });
  }

  /** An unfinished session is one that stays. Rejects with `UNKNOWN_SESSION`. */
  async keep(id: string): Promise<void> {
    await this.#serial.run(id, async () => {
      const { unfinished, ...record } = await this.record(id);
      if (unfinished) await writeSession(this.#options.store.session(id), record);
    });
  }

  /** Rejects with `UNKNOWN_SESSION`, `SESSION_DAMAGED`. */
  async record(id: string): Promise<SessionRecord> {
    const record = isSessionId(id) ? await readSession(this.#options.store.session(id)) : null;
    if (record === null) throw unknownSession(id);
    return record;
  }
}

/** Below it each session has a branch. */
export const BRANCHES = 'sessions/';

export function branchOf(id: string): string {
  return BRANCHES + id;
}

/** There is a version of it, which nobody made live: `main` has nothing of it. */
function neverActive(app: string): SvcError {
  return new SvcError(
    'NO_ACTIVE_VERSION',
    `No version of "${app}" is active, so the session has no files. Activate one first: svc versions ${app}, then svc activate ${app} <version>.`,
  );
}
