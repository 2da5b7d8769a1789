/** Lists, reads and deletes the chat windows of apps and drafts, and runs their turns (specification, "Chat window"). */
import type { Logger } from 'pino';
import type { ChatMode } from '../../../protocol/agents/agents.ts';
import type { SessionName } from '../../../protocol/agents/session-key.ts';
import type { HistoryRow } from '../../../protocol/agents/turns.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { draftKey } from '../../../protocol/ids.ts';
import { type ChatWindow, ChatWindows } from '../../../storage/chat/windows.ts';
import type { Layout } from '../../../storage/layout.ts';
import { sessionOf, type TurnDrafts } from '../turns/turn-drafts.ts';
import type { TurnRuns } from '../turns/turn-runs.ts';
import { type TurnRunner, Turns } from '../turns/turns.ts';
import type { ConversationTurns } from './conversation-turns.ts';

type ChatOptions = {
  layout: Layout;
  runner: TurnRunner;
  runs: TurnRuns;
  /** Conversations are kept in rows, not in windows. */
  conversations: ConversationTurns;
  /** Null on the tarball backend. */
  drafts: TurnDrafts | null;
  log: Logger;
  permissionMs?: number;
};

export class Chat {
  readonly turns: Turns;
  readonly #options: ChatOptions;
  /** By what the app is kept under. */
  readonly #windows = new Map<string, ChatWindows>();

  constructor(options: ChatOptions) {
    const { runner, runs, conversations, drafts, log, permissionMs } = options;
    this.#options = options;
    this.turns = new Turns({
      open: (name) =>
        name.kind === 'conversation' ? conversations.open(name.app, name.id) : this.#of(name).open(name.id),
      runner,
      drafts,
      observe: runs.observe,
      log,
      ...(permissionMs === undefined ? {} : { permissionMs }),
    });
  }

  /** The windows of an app, or of a draft of it; the one that was used last comes first. */
  async list(app: string, draft?: string): Promise<ChatWindow[]> {
    const of = (id: string): SessionName => ({ kind: 'window', app, id, ...(draft === undefined ? {} : { draft }) });
    const windows = await this.#of({ app, ...(draft === undefined ? {} : { draft }) }).list();
    return windows.map((window) => {
      const { lastTurn, windowId } = window;
      if (lastTurn.state !== 'running' || this.turns.isOpen(of(windowId), lastTurn.turnId)) return window;
      // A gateway that died left it so; that is noted in the transcript once the window is used.
      return { ...window, lastTurn: { ...lastTurn, state: 'interrupted' } };
    });
  }

  /** The messages of a window, oldest first. Rejects with `UNKNOWN_WINDOW`. */
  async history(name: SessionName): Promise<HistoryRow[]> {
    const windows = this.#of(name);
    if (!(await windows.has(name.id))) throw unknownWindow(name);
    const rows = await windows.history(name.id);
    const isLive = (turnId: string): boolean => this.turns.isOpen(name, turnId);
    return rows.map((row) =>
      row.kind === 'user' && row.state === 'running' && !isLive(row.turnId) ? { ...row, state: 'interrupted' } : row,
    );
  }

  /** Throws away a window and ends its turns. Rejects with `UNKNOWN_WINDOW`. */
  async remove(name: SessionName): Promise<void> {
    const windows = this.#of(name);
    if (!(await windows.has(name.id))) throw unknownWindow(name);
    await this.turns.whileClosed(name, () => windows.remove(name.id));
    // A window of a draft does not own that draft, so it stays.
    if (name.draft === undefined) await this.#options.drafts?.close(sessionOf(name));
  }

  /** Rejects with `UNKNOWN_WINDOW` when it has no messages. */
  async modeOf(name: SessionName): Promise<ChatMode> {
    const mode = await this.#of(name).modeOf(name.id);
    if (mode === null) throw unknownWindow(name);
    return mode;
  }

  /** Aborts the turn whose run this is, if there is one; resolves when its end is in the history of runs. */
  async cancelRun(runId: string): Promise<void> {
    if (await this.turns.cancel(runId)) await this.#options.runs.stored(runId);
  }

  /**
   * Before an app or draft is removed: ends its turns and all writes to its folder, and closes the sessions that its windows
   * opened.
   */
  async removed(app: string, draft?: string): Promise<void> {
    await this.turns.stopApp(app, draft);
    if (draft === undefined) await this.#closeDrafts(app);
    const key = keyOf({ app, ...(draft === undefined ? {} : { draft }) });
    const windows = this.#windows.get(key);
    this.#windows.delete(key);
    await windows?.flush();
  }

  /** When a session closes: ends the turns that work in it, and forgets its drafts' windows. */
  async closed(session: string): Promise<void> {
    await this.turns.stopDraft(session);
    for (const key of [...this.#windows.keys()]) {
      if (!key.startsWith(draftKey(session, ''))) continue;
      await this.#windows.get(key)?.flush();
      this.#windows.delete(key);
    }
  }

  /** Turns under way are stored as `interrupted`. */
  async stop(): Promise<void> {
    await this.turns.stop();
    await this.#options.runs.settled();
    await Promise.all([...this.#windows.values()].map((windows) => windows.flush()));
  }

  /** Never rejects: people can close a session that is left. */
  async #closeDrafts(app: string): Promise<void> {
    const { drafts, log } = this.#options;
    if (drafts === null) return;
    try {
      for (const { windowId, mode } of await this.#of({ app }).list())
        if (mode === 'full') await drafts.close(sessionOf({ kind: 'window', app, id: windowId }));
    } catch (error) {
      log.warn({ err: error, app }, 'Sessions of the chat windows of an app that was removed may still be open.');
    }
  }

  #of(name: Pick<SessionName, 'app' | 'draft'>): ChatWindows {
    const key = keyOf(name);
    const known = this.#windows.get(key);
    if (known) return known;
    const { layout, log } = this.#options;
    const windows = new ChatWindows(layout.app(key).chatDir, log);
    this.#windows.set(key, windows);
    return windows;
  }
}

function keyOf({ app, draft }: Pick<SessionName, 'app' | 'draft'>): string {
  return draft === undefined ? app : draftKey(draft, app);
}

function unknownWindow({ app, id }: SessionName): SvcError {
  return new SvcError('UNKNOWN_WINDOW', `"${app}" has no chat window "${id}".`);
}
