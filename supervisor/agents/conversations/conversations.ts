/** Creates, lists, renames and deletes the conversations about an app, as rows of `runtime.sqlite` (decisions, sections 8 and 12). */
import { randomBytes } from 'node:crypto';
import type { SessionName } from '../../../protocol/agents/session-key.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { isSessionId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { DbClient } from '../../../protocol/wire/db-client.ts';
import {
  CONVERSATIONS_SCHEMA,
  type ConversationRecord,
  conversationOf,
  GET_CONVERSATION,
  listConversations,
} from '../../../storage/chat/conversation-rows.ts';
import { survive } from '../../outlive-writer.ts';
import { sessionOf, type TurnDrafts } from '../turns/turn-drafts.ts';
import type { Turns } from '../turns/turns.ts';
import { type ConversationTurns, demandRoom, type Message } from './conversation-turns.ts';

const INSERT = `INSERT INTO conversations (conversation_id, app_id, title, created_at, updated_at) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (conversation_id) DO NOTHING`;

type ConversationsOptions = {
  /** The gateway's runtime database. */
  db: DbClient;
  rows: ConversationTurns;
  turns: Pick<Turns, 'whileClosed' | 'settle'>;
  /** Null on the tarball backend. */
  drafts: Pick<TurnDrafts, 'close'> | null;
  /** Milliseconds since the epoch. */
  now?: () => number;
};

/** An id belongs to one app: what is worked on is the session of that name. Every statement here may run twice: see `survive`. */
export class Conversations {
  readonly #options: ConversationsOptions;
  readonly #db: DbClient;
  readonly #now: () => number;
  #ready: Promise<void> | null = null;

  constructor(options: ConversationsOptions) {
    this.#options = options;
    this.#db = options.db;
    this.#now = options.now ?? Date.now;
  }

  /** Makes the tables; turns that an earlier gateway left are `interrupted` when it resolves. When it rejects, the next call tries again. */
  async open(): Promise<void> {
    this.#ready ??= this.#prepare();
    try {
      await this.#ready;
    } catch (error) {
      this.#ready = null;
      throw error;
    }
  }

  async #prepare(): Promise<void> {
    await survive(() => this.#db.exec(CONVERSATIONS_SCHEMA));
    const { rows, turns } = this.#options;
    for (let after = ''; ; ) {
      const left = await rows.unended(after, LIMITS.listRows);
      for (const { app, conversationId } of left) await turns.settle(nameOf(app, conversationId));
      const last = left.at(-1);
      if (last === undefined) return;
      after = last.conversationId;
    }
  }

  /** Rejects with `INVALID_ID`, or with `CONFLICT` when there is one of this id, or too many. */
  async create(
    app: string,
    { id = `c${randomBytes(8).toString('hex')}`, title = null }: { id?: string; title?: string | null },
  ): Promise<ConversationRecord> {
    checkConversationId(id);
    await this.open();
    await demandRoom(this.#db, app);
    const now = this.#now();
    let lost = false;
    const { changes } = await survive(
      () => this.#db.run(INSERT, [id, app, title, now, now]),
      () => {
        lost = true;
      },
    );
    const found = await this.#find(id);
    // The lost statement may have been stored: then the row is ours.
    const isOwn = changes > 0 || (lost && found?.app === app && found.createdAt === now);
    if (found === null || !isOwn)
      throw new SvcError('CONFLICT', `A conversation "${id}" already exists.`, { path: 'conversationId' });
    return found;
  }

  /** Rejects with `UNKNOWN_CONVERSATION`, also for one of another app. */
  async get(app: string, id: string): Promise<ConversationRecord> {
    await this.open();
    const found = await this.#find(id);
    if (found?.app !== app) throw unknownConversation(id);
    return found;
  }

  /** The one that was used last first. Rejects with `UNKNOWN_CONVERSATION` for `before`. */
  async list(app: string, limit: number, before: string | null): Promise<ConversationRecord[]> {
    if (before === null) await this.open();
    else await this.get(app, before);
    const [sql, params] = listConversations(app, limit, before);
    return (await survive(() => this.#db.all(sql, params))).map(conversationOf);
  }

  async rename(app: string, id: string, title: string): Promise<ConversationRecord> {
    await this.get(app, id);
    await survive(() => this.#db.run('UPDATE conversations SET title = ? WHERE conversation_id = ?', [title, id]));
    return this.get(app, id);
  }

  /**
   * Messages of its latest turns, or of those before the turn `before`: at most `limit` turns. Rejects with
   * `UNKNOWN_CONVERSATION`.
   */
  async messages(app: string, id: string, limit: number, before: string | null): Promise<Message[]> {
    await this.get(app, id);
    return await this.#options.rows.messages(id, limit, before);
  }

  /** With its turns, those under way too, and the session that they worked in. Rejects with `UNKNOWN_CONVERSATION`. */
  async remove(app: string, id: string): Promise<void> {
    await this.get(app, id);
    const { turns, drafts } = this.#options;
    const name = nameOf(app, id);
    await turns.whileClosed(name, () =>
      survive(() => this.#db.run('DELETE FROM conversations WHERE conversation_id = ?', [id])),
    );
    await drafts?.close(sessionOf(name));
  }

  /** The app was removed, and with its folder its attachments; its turns have ended. Closes the sessions of its conversations. */
  async forgetApp(app: string): Promise<void> {
    for (const id of await this.forgetRows(app)) await this.#options.drafts?.close(sessionOf(nameOf(app, id)));
  }

  /** The same, but for the sessions. Resolves with the ids of the conversations. */
  async forgetRows(app: string): Promise<string[]> {
    await this.open();
    const rows = await survive(() => this.#db.all('SELECT conversation_id FROM conversations WHERE app_id = ?', [app]));
    await survive(() =>
      this.#db.batch([
        ['DELETE FROM conversations WHERE app_id = ?', [app]],
        ['DELETE FROM attachments WHERE app_id = ?', [app]],
      ]),
    );
    return rows.map((row) => String(row.conversation_id));
  }

  async #find(id: string): Promise<ConversationRecord | null> {
    const row = await survive(() => this.#db.get(GET_CONVERSATION, [id]));
    return row && conversationOf(row);
  }
}

/** The key of a conversation for turns. */
export function nameOf(app: string, id: string): SessionName {
  return { kind: 'conversation', app, id };
}

/** Throws `INVALID_ID`. */
export function checkConversationId(id: string): void {
  if (isSessionId(id)) return;
  throw new SvcError(
    'INVALID_ID',
    'A conversation id has 1 to 64 of A-Z, a-z, 0-9, "-" and "_", not "-" or "_" first.',
    { path: 'conversationId' },
  );
}

function unknownConversation(id: string): SvcError {
  return new SvcError('UNKNOWN_CONVERSATION', `The app has no conversation "${id.slice(0, 80)}".`);
}
