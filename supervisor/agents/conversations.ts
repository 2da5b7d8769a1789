/** Conversations about an app: opened, listed, named and deleted, as rows of `runtime.sqlite` (decisions, sections 8 and 12). */
import { createHash, randomBytes } from 'node:crypto';
import { SvcError } from '../../protocol/errors.ts';
import { isSessionId } from '../../protocol/ids.ts';
import type { DbClient } from '../../protocol/wire/db-client.ts';
import {
  CONVERSATIONS_SCHEMA,
  type ConversationRecord,
  conversationOf,
  GET_CONVERSATION,
  listConversations,
} from '../../storage/conversation-rows.ts';
import { survive } from '../outlive-writer.ts';

const INSERT = `INSERT INTO conversations (conversation_id, app_id, title, created_at, updated_at) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (conversation_id) DO NOTHING`;

const PREFIX = 'conversation-';
const SESSION_CHARS = 64;
const HASH_CHARS = 16;

/** The session in which a conversation works; of an id that leaves no room for it, the end is a hash. */
export function sessionOf(conversationId: string): string {
  const whole = PREFIX + conversationId;
  if (whole.length <= SESSION_CHARS) return whole;
  const hash = createHash('sha256').update(conversationId).digest('hex').slice(0, HASH_CHARS);
  return `${whole.slice(0, SESSION_CHARS - HASH_CHARS - 1)}-${hash}`;
}

/** An id belongs to one app: what is worked on is the session of that name. Every statement here may run twice: see `survive`. */
export class Conversations {
  readonly #db: DbClient;
  readonly #now: () => number;
  #ready: Promise<unknown> | null = null;

  /** `db` is the gateway's runtime database; `now` gives milliseconds since the epoch. */
  constructor(db: DbClient, now: () => number = Date.now) {
    this.#db = db;
    this.#now = now;
  }

  /** Makes the tables, unless they are there. When it rejects, the next call tries again. */
  async open(): Promise<void> {
    this.#ready ??= survive(() => this.#db.exec(CONVERSATIONS_SCHEMA));
    try {
      await this.#ready;
    } catch (error) {
      this.#ready = null;
      throw error;
    }
  }

  /** Rejects with `INVALID_ID`, or with `CONFLICT` when there is one of this id. */
  async create(
    app: string,
    { id = `c${randomBytes(8).toString('hex')}`, title = null }: { id?: string; title?: string | null },
  ): Promise<ConversationRecord> {
    checkConversationId(id);
    await this.open();
    const now = this.#now();
    let lost = false;
    const { changes } = await survive(
      () => this.#db.run(INSERT, [id, app, title, now, now]),
      () => {
        lost = true;
      },
    );
    const found = await this.#find(id);
    // What was lost with the writer may have been stored: then the row is our own.
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

  /** With its turns. What it is worked on in is for the caller to close. Rejects with `UNKNOWN_CONVERSATION`. */
  async remove(app: string, id: string): Promise<void> {
    await this.get(app, id);
    await survive(() => this.#db.run('DELETE FROM conversations WHERE conversation_id = ?', [id]));
  }

  /** The app was removed; its files are gone with its folder. Resolves with the ids of its conversations. */
  async forgetApp(app: string): Promise<string[]> {
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
