/** Runs the turns of chat windows and conversations of apps and drafts, and removes both (specification, "Chat windows"). */
import type { Logger } from 'pino';
import type { ConversationName } from '../../../protocol/agents/session-key.ts';
import type { SvcError } from '../../../protocol/errors.ts';
import { scopeKey, workspaceOfKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { DbClient } from '../../../protocol/wire/db-client.ts';
import { rowIdOf } from '../../../storage/chat/chat-tables.ts';
import { isMoved, type Moved } from '../../dispatch/scope.ts';
import { OncePerDatabase } from '../../runtime/runtime-databases.ts';
import { type TurnDrafts, workspaceOf } from '../turns/turn-drafts.ts';
import { type TurnRunner, Turns, type TurnsOptions } from '../turns/turns.ts';
import { type ChatStore, nameOf } from './chat-store.ts';

type ChatOptions = {
  store: ChatStore;
  runner: TurnRunner;
  engine: TurnsOptions['engine'];
  /** Null on the tarball backend. */
  drafts: TurnDrafts | null;
  /** Why an app or draft takes no calls here; null where it does, or is none. */
  refusalOf(key: string): SvcError | null;
  log: Logger;
  permissionMs?: number;
};

export class Chat {
  readonly turns: Turns;
  readonly store: ChatStore;
  readonly #options: ChatOptions;
  readonly #recovery = new OncePerDatabase((db) => this.#settleTurns(db));
  #ready: Promise<void> | null = null;
  #settling: Promise<void> = Promise.resolve();

  constructor(options: ChatOptions) {
    const { store, runner, engine, drafts, log, permissionMs } = options;
    this.#options = options;
    this.store = store;
    this.turns = new Turns({
      open: (name) => store.open(name),
      runner,
      drafts,
      engine,
      log,
      ...(permissionMs === undefined ? {} : { permissionMs }),
    });
  }

  /**
   * Before anything else: makes the tables; turns that an earlier gateway left are `interrupted` when it resolves: all that are here at
   * the start, and those in the database of the app or draft `key`. When it rejects, the next call tries again.
   */
  async open(key?: string): Promise<void> {
    this.#ready ??= this.#prepare();
    try {
      await this.#ready;
    } catch (error) {
      this.#ready = null;
      throw error;
    }
    const db = key === undefined ? null : await this.store.tables.existing(key);
    if (db !== null) await this.recover(db);
  }

  /** Ends the turns that an earlier gateway left in a database, once; their runs are ended by the ledger, which does so first. */
  async recover(db: DbClient): Promise<void> {
    await this.#recovery.in(db);
  }

  /** The same, once more: there are apps that were not served before. */
  serve(): Promise<void> {
    const before = this.#ready?.catch(() => {});
    this.#ready = before === undefined ? null : before.then(() => this.#prepare());
    return this.open();
  }

  /**
   * Turns are stored as `interrupted`, and what was said is in the folders: another node goes on with these. Where they are lost, nothing
   * is stored.
   */
  async release(moved: Moved, isLost: boolean): Promise<void> {
    const { turns, store } = this;
    await turns.release(moved);
    if (isLost) {
      store.copies.forgetAll((key) => isMoved(moved, key));
      return;
    }
    await this.open();
    const drafts = (await store.draftKeys()).filter((key) => isMoved(moved, key));
    for (const key of [...moved.apps, ...drafts]) await store.copies.prepareMove(key);
  }

  async #prepare(): Promise<void> {
    const { store, drafts, refusalOf } = this.#options;
    const all = await store.tables.all();
    // A crash may have come between the end of a workspace and that of its windows.
    for (const key of drafts === null ? [] : await store.draftKeys())
      if (refusalOf(key) === null && !(await drafts?.has(workspaceOfKey(key) ?? ''))) await store.forgetWindows(key);
    for (const db of all) await this.#settleTurns(db);
  }

  async #settleTurns(db: DbClient): Promise<void> {
    const { store, refusalOf } = this.#options;
    for (let after = ''; ; ) {
      const left = await store.unended(db, after, LIMITS.listRows);
      for (const name of left) if (refusalOf(scopeKey(name.app, name.draft)) === null) await this.turns.settle(name);
      const last = left.at(-1);
      if (last === undefined) return;
      after = rowIdOf(last);
    }
  }

  /**
   * Before the windows of an app or draft are used: what only their transcripts have is in rows, and turns that an earlier gateway left
   * there are `interrupted`.
   */
  async ready(key: string): Promise<void> {
    await this.open(key);
    const { copies } = this.store;
    await copies.completeAll(key);
    const { withOpenTurns } = copies;
    const settled = this.#settling.then(async () => {
      for (; withOpenTurns[0] !== undefined; withOpenTurns.shift()) await this.turns.settle(withOpenTurns[0]);
    });
    this.#settling = settled.catch(() => {});
    await settled;
  }

  /** Throws away a window or conversation, and ends its turns. Rejects with `UNKNOWN_WINDOW`, `UNKNOWN_CONVERSATION`. */
  async remove(name: ConversationName): Promise<void> {
    const { store, drafts } = this.#options;
    await this.open(scopeKey(name.app, name.draft));
    await (name.kind === 'window' ? store.about(name) : store.get(name.app, name.id));
    await this.turns.whileClosed(name, () => store.remove(name));
    // A window of a draft does not own that draft, so it stays.
    if (name.draft === undefined) await drafts?.close(workspaceOf(name));
  }

  /** Before an app is removed: ends its turns and all writes to its folder, and closes the workspaces that its windows opened. */
  async removed(app: string): Promise<void> {
    await this.turns.stopApp(app);
    await this.#closeDrafts(app);
    await this.store.copies.prepareMove(app);
  }

  /** When a workspace closes: ends the turns that work in it, and forgets its drafts' windows. Never rejects. */
  async closed(workspace: string): Promise<void> {
    await this.turns.stopDraft(workspace);
    try {
      await this.open();
      for (const key of await this.store.draftKeys())
        if (workspaceOfKey(key) === workspace) await this.store.forgetWindows(key);
    } catch (error) {
      // The next start forgets them.
      this.#options.log.warn({ err: error, workspace }, 'The chat windows of a closed workspace could not be removed.');
    }
  }

  /**
   * The app was removed, and with its folder its attachments and transcripts; its turns have ended. Closes the workspaces of its
   * conversations. `keepsChats`: they go on, in the draft of a workspace.
   */
  async forgetApp(app: string, { keepsChats = false }: { keepsChats?: boolean } = {}): Promise<void> {
    if (keepsChats) {
      await this.open(app);
      await this.store.forgetWindows(app);
    } else for (const id of await this.forgetRows(app)) await this.#options.drafts?.close(workspaceOf(nameOf(app, id)));
  }

  /** The same, but for the workspaces. Resolves with the ids of the conversations. */
  async forgetRows(app: string): Promise<string[]> {
    await this.open(app);
    return await this.store.forgetApp(app);
  }

  /** Turns under way are stored as `interrupted`. */
  async stop(): Promise<void> {
    await this.turns.stop();
    await this.store.copies.flush();
  }

  /** Never rejects: people can close a workspace that is left. */
  async #closeDrafts(app: string): Promise<void> {
    const { drafts, store, log } = this.#options;
    if (drafts === null) return;
    try {
      await this.open(app);
      for (const { windowId, mode } of await store.windows(app))
        if (mode === 'full') await drafts.close(workspaceOf({ kind: 'window', app, id: windowId }));
    } catch (error) {
      log.warn({ err: error, app }, 'Workspaces of the chat windows of an app that was removed may still be open.');
    }
  }
}
