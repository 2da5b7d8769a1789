/**
 * Stores conversations and chat windows as rows of the runtime databases (specification, "Conversations"). The transcripts of windows are
 * copies of them.
 */
import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import type { ChatMode } from '../../../protocol/agents/agents.ts';
import type { ConversationName } from '../../../protocol/agents/session-key.ts';
import type { NewTurn, OpenConversation, TurnState } from '../../../protocol/agents/stored-turns.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { isChosenId, scopeKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { ChatWindow } from '../../../protocol/routes/agents/chat-rows.ts';
import type { ConversationRecord } from '../../../protocol/routes/agents/conversations-rows.ts';
import type { HistoryRow } from '../../../protocol/routes/agents/turns-rows.ts';
import type { DbClient } from '../../../protocol/wire/db-client.ts';
import type { Row, SqlParams } from '../../../protocol/wire/frames.ts';
import type { NamedPerson } from '../../../protocol/wire/handler-caller.ts';
import { HistoryFold } from '../../../storage/chat/chat-history.ts';
import {
  ADDED_COLUMNS,
  ADDED_INDEXES,
  CHAT_SCHEMA,
  conversationOf,
  GET_CONVERSATION,
  itemsOf,
  LIST_WINDOWS,
  listConversations,
  type NamedAttachment,
  nameOfRow,
  personIn,
  rowIdOf,
  unpacked,
  windowOf,
} from '../../../storage/chat/chat-tables.ts';
import { isDamaged } from '../../../storage/chat/transcript.ts';
import type { Layout } from '../../../storage/layout.ts';
import { addColumns } from '../../added-columns.ts';
import { retryIfWriterLost } from '../../retry-if-writer-lost.ts';
import type { RuntimeTables } from '../../runtime/runtime-databases.ts';
import { demandRoom, StoredConversation } from './stored-conversation.ts';
import { WindowCopies } from './window-copies.ts';

const INSERT = `INSERT INTO conversations (conversation_id, app_id, title, created_at, updated_at, person) VALUES (?, ?, ?, ?, ?, ?)
  ON CONFLICT (conversation_id) DO NOTHING`;
const HEAD = `SELECT app_id, mode, limited, adapter, adapter_session, transcript_bytes, person FROM conversations WHERE conversation_id = ?`;
const TURNS = `SELECT turn_id, idempotency_key, message_hash, state, last_id, runner,
  iif(ended_at IS NULL, message, '') AS message FROM turns
  WHERE conversation_id = ? ORDER BY turn_id`;
const SAID = `SELECT turn_id, message, answer FROM turns WHERE conversation_id = ? AND ended_at IS NOT NULL ORDER BY turn_id DESC LIMIT ?`;
const OPEN_TURNS = `SELECT DISTINCT app_id, conversation_id FROM turns JOIN conversations USING (conversation_id)
  WHERE ended_at IS NULL AND conversation_id > ? ORDER BY conversation_id LIMIT ?`;
const DRAFT_KEYS = `SELECT DISTINCT app_id FROM conversations WHERE app_id >= '_drafts/' AND app_id < '_drafts0'`;
/** A page of turns, the latest first, and how many messages were before it. */
const PAGE = `SELECT turn_id, message, attachments, state, runner, started_at, person,
  octet_length(message) + (SELECT total(octet_length(events)) FROM items WHERE items.turn_id = turns.turn_id) AS bytes FROM turns
  WHERE conversation_id = ? AND turn_id < ? ORDER BY turn_id DESC LIMIT ?`;
const MESSAGES_BEFORE = 'SELECT total(messages) AS messages FROM turns WHERE conversation_id = ? AND turn_id < ?';
const ALL_TURNS =
  'SELECT turn_id, message, attachments, state, runner, started_at, person FROM turns WHERE conversation_id = ? ORDER BY turn_id';
/** Comes behind every id. */
const LAST = '~';
/** Few at a time, so that long ones do not keep the writer from everything else. */
const FORGET = `DELETE FROM conversations WHERE conversation_id IN
  (SELECT conversation_id FROM conversations WHERE app_id = ? AND kind = ? LIMIT 16)`;

type ChatStoreOptions = {
  /** With what `makeChatTables` makes. */
  tables: RuntimeTables;
  layout: Layout;
  log: Pick<Logger, 'warn'>;
  /** Milliseconds since the epoch. */
  now?: () => number;
};

/**
 * The id of a conversation belongs to one app: what is worked on is the workspace of that name. Every statement here may run twice:
 * see `retryIfWriterLost`.
 */
export class ChatStore {
  readonly tables: RuntimeTables;
  readonly copies: WindowCopies;
  readonly #now: () => number;

  constructor(options: ChatStoreOptions) {
    this.tables = options.tables;
    this.copies = new WindowCopies(options);
    this.#now = options.now ?? Date.now;
  }

  /**
   * For turns; stores nothing until one begins. Rejects with `CONFLICT` when another app has a conversation of this id. A window
   * whose transcript cannot be read has no turns, and none begins: `begin` rejects with `WINDOW_DAMAGED`.
   */
  async open(name: ConversationName): Promise<OpenConversation> {
    let damage: SvcError | null = null;
    const head = await this.#head(name).catch((error: unknown) => {
      if (!isDamaged(error)) throw error;
      damage = error;
      return null;
    });
    if (head !== null && head.app_id !== scopeKey(name.app, name.draft)) {
      const message = `The conversation "${name.id}" is about another app; choose another id.`;
      throw new SvcError('CONFLICT', message, { path: 'conversationId' });
    }
    const id = rowIdOf(name);
    const key = scopeKey(name.app, name.draft);
    const [turns, texts] = await Promise.all([
      this.#all(key, TURNS, [id]),
      this.#all(key, SAID, [id, LIMITS.listRowsMax]),
    ]);
    const tools = { tables: this.tables, now: this.#now, copies: this.copies };
    return new StoredConversation(tools, name, { head, turns, texts, damage });
  }

  /** Conversations and windows in a database with a turn that has not ended, in order, a limited number after the row `after`. */
  async unended(db: DbClient, after: string, limit: number): Promise<ConversationName[]> {
    const rows = await retryIfWriterLost(() => db.all(OPEN_TURNS, [after, limit]));
    return rows.map((row) => nameOfRow(String(row.conversation_id), String(row.app_id)));
  }

  /** The keys of drafts that have windows. */
  async draftKeys(): Promise<string[]> {
    const keys: string[] = [];
    for (const db of await this.tables.all())
      for (const row of await retryIfWriterLost(() => db.all(DRAFT_KEYS))) keys.push(String(row.app_id));
    return keys;
  }

  /** The windows of an app or draft; the one that was used last comes first. */
  async windows(key: string): Promise<ChatWindow[]> {
    await this.copies.completeAll(key);
    const rows = await this.#all(key, LIST_WINDOWS, [key]);
    return rows.flatMap((row) => {
      const found = windowOf(row);
      if (found === null) return [];
      const { session: _resumeId, bytes: _bytes, ...window } = found;
      return [window];
    });
  }

  /**
   * The mode of a window, and whose it is. One that cannot be read may have been of mode `full`, and is nobody's. Rejects with
   * `UNKNOWN_WINDOW`.
   */
  async about(name: ConversationName): Promise<{ mode: ChatMode; by: NamedPerson | null }> {
    try {
      const head = await this.#head(name);
      if (head !== null) return { mode: head.mode as ChatMode, by: personIn(head).by ?? null };
    } catch (error) {
      if (!isDamaged(error)) throw error;
      return { mode: 'full', by: null };
    }
    throw unknownWindow(name);
  }

  /** The messages of a window in the order in which they were stored. Rejects with `UNKNOWN_WINDOW`, `WINDOW_DAMAGED`. */
  async history(name: ConversationName): Promise<HistoryRow[]> {
    if ((await this.#head(name)) === null) throw unknownWindow(name);
    const key = scopeKey(name.app, name.draft);
    const turns = await this.#all(key, ALL_TURNS, [rowIdOf(name)]);
    const placed = await this.#placed(key, turns);
    // Turns that wait are stored among the events of the one that runs.
    placed.sort((one, other) => one.place - other.place);
    return placed.map(({ row }, at) => ({ ...row, seq: at + 1 }));
  }

  /** Rejects with `INVALID_ID`, or with `CONFLICT` when there is one of this id, or too many. */
  async create(
    app: string,
    {
      id = `c${randomBytes(8).toString('hex')}`,
      title = null,
      by,
    }: { id?: string; title?: string | null; by?: NamedPerson | undefined },
  ): Promise<ConversationRecord> {
    checkConversationId(id);
    const db = await this.tables.of(app);
    await demandRoom(db, nameOf(app, id));
    const now = this.#now();
    let lost = false;
    const { changes } = await retryIfWriterLost(
      () => db.run(INSERT, [id, app, title, now, now, by === undefined ? null : JSON.stringify(by)]),
      () => {
        lost = true;
      },
    );
    const found = await this.#find(app, id);
    // The lost statement may have been stored: then the row is ours.
    const isOwn = changes > 0 || (lost && found?.app === app && found.createdAt === now);
    if (found === null || !isOwn)
      throw new SvcError('CONFLICT', `A conversation "${id}" already exists.`, { path: 'conversationId' });
    return found;
  }

  /** Rejects with `UNKNOWN_CONVERSATION`, also for one of another app. */
  async get(app: string, id: string): Promise<ConversationRecord> {
    const found = await this.#find(app, id);
    if (found?.app !== app) throw unknownConversation(id);
    return found;
  }

  /** The one that was used last first. Rejects with `UNKNOWN_CONVERSATION` for `before`. */
  async list(app: string, limit: number, before: string | null): Promise<ConversationRecord[]> {
    if (before !== null) await this.get(app, before);
    const [sql, params] = listConversations(app, limit, before);
    return (await this.#all(app, sql, params)).map(conversationOf);
  }

  async rename(app: string, id: string, title: string): Promise<ConversationRecord> {
    await this.get(app, id);
    const db = await this.tables.of(app);
    await retryIfWriterLost(() => db.run('UPDATE conversations SET title = ? WHERE conversation_id = ?', [title, id]));
    return this.get(app, id);
  }

  /**
   * Messages and tool calls of the latest turns of a conversation, or of those before the turn `before`, oldest first: at most
   * `limit` turns, fewer if they exceed `LIMITS.conversationPageBytes` together. `seq` counts through the conversation. Rejects with
   * `UNKNOWN_CONVERSATION`.
   */
  async messages(app: string, id: string, limit: number, before: string | null): Promise<HistoryRow[]> {
    await this.get(app, id);
    const turns: Row[] = [];
    let bytes = 0;
    for (const turn of await this.#all(app, PAGE, [id, before ?? LAST, limit])) {
      bytes += Number(turn.bytes);
      if (turns.length > 0 && bytes > LIMITS.conversationPageBytes) break;
      turns.unshift(turn);
    }
    const first = String(turns[0]?.turn_id ?? '');
    const [earlier] = await this.#all(app, MESSAGES_BEFORE, [id, first]);
    const placed = await this.#placed(app, turns);
    return placed.map(({ row }, at) => ({ ...row, seq: Number(earlier?.messages ?? 0) + at + 1 }));
  }

  /** With its turns, of which none is under way. */
  async remove(name: ConversationName): Promise<void> {
    const db = await this.tables.of(scopeKey(name.app, name.draft));
    await retryIfWriterLost(() => db.run('DELETE FROM conversations WHERE conversation_id = ?', [rowIdOf(name)]));
    if (name.kind === 'window') await this.copies.remove(name);
  }

  /** The windows of an app or draft are no more; their files are left. */
  async forgetWindows(key: string): Promise<void> {
    await this.#forget(key, 'window');
    this.copies.forget(key);
  }

  /** The app was removed, and with its folder its attachments and transcripts. Resolves with the ids of its conversations. */
  async forgetApp(app: string): Promise<string[]> {
    const rows = await this.#all(
      app,
      `SELECT conversation_id FROM conversations WHERE app_id = ? AND kind = 'conversation'`,
      [app],
    );
    await this.forgetWindows(app);
    await this.#forget(app, 'conversation');
    const db = await this.tables.existing(app);
    if (db !== null) await retryIfWriterLost(() => db.run('DELETE FROM attachments WHERE app_id = ?', [app]));
    return rows.map((row) => String(row.conversation_id));
  }

  async #forget(key: string, kind: ConversationName['kind']): Promise<void> {
    const db = await this.tables.existing(key);
    while (db !== null && (await retryIfWriterLost(() => db.run(FORGET, [key, kind]))).changes > 0);
  }

  /** Null when there is none. Rejects with `WINDOW_DAMAGED`. */
  async #head(name: ConversationName): Promise<Row | null> {
    const key = scopeKey(name.app, name.draft);
    const get = () => this.#get(key, HEAD, [rowIdOf(name)]);
    if (name.kind === 'conversation') return get();
    await this.copies.completeAll(key);
    const head = await get();
    return head !== null || (await this.copies.complete(name)) === 0 ? head : get();
  }

  /** The messages and tool calls of turns, by turn, each with the place of the item that began it. */
  async #placed(key: string, turns: Row[]): Promise<{ row: HistoryRow; place: number }[]> {
    const fold = new HistoryFold();
    const placed: { row: HistoryRow; place: number }[] = [];
    const byTurn = new Map(turns.map((turn) => [String(turn.turn_id), turn]));
    let begun = '';
    for await (const { turnId, firstId, events, ts, place } of itemsOf(
      (...asked) => this.#all(key, ...asked),
      [...byTurn.keys()],
    )) {
      const turn = byTurn.get(turnId) as Row;
      if (turnId !== begun) {
        begun = turnId;
        fold.message(newTurnOf(turn));
        const attachments = JSON.parse(String(turn.attachments)) as NamedAttachment[];
        if (attachments.length > 0) Object.assign(fold.rows.at(-1) as HistoryRow, { attachments });
      }
      const state = turn.state as TurnState;
      const end = state === 'running' ? {} : { end: state };
      for (const { event } of unpacked(firstId, events)) fold.event({ turnId, ts, ...end }, event);
      for (const row of fold.rows.slice(placed.length)) placed.push({ row, place });
    }
    return placed;
  }

  async #all(key: string, sql: string, params: SqlParams): Promise<Row[]> {
    const db = await this.tables.existing(key);
    return db === null ? [] : retryIfWriterLost(() => db.all(sql, params));
  }

  async #get(key: string, sql: string, params: SqlParams): Promise<Row | null> {
    const db = await this.tables.existing(key);
    return db && retryIfWriterLost(() => db.get(sql, params));
  }

  async #find(app: string, id: string): Promise<ConversationRecord | null> {
    const row = await this.#get(app, GET_CONVERSATION, [id]);
    return row && conversationOf(row);
  }
}

/** The tables of conversations; adds what those of earlier releases do not have. */
export async function makeChatTables(db: DbClient): Promise<void> {
  await db.exec(CHAT_SCHEMA);
  for (const [table, columns] of Object.entries(ADDED_COLUMNS)) await addColumns(db, table, columns);
  await db.exec(ADDED_INDEXES);
}

/** The key of a conversation for turns. */
export function nameOf(app: string, id: string): ConversationName {
  return { kind: 'conversation', app, id };
}

/** Throws `INVALID_ID`. */
export function checkConversationId(id: string): void {
  if (isChosenId(id)) return;
  throw new SvcError(
    'INVALID_ID',
    'A conversation id has 1 to 64 of A-Z, a-z, 0-9, "-" and "_", not "-" or "_" first.',
    { path: 'conversationId' },
  );
}

function unknownConversation(id: string): SvcError {
  return new SvcError('UNKNOWN_CONVERSATION', `The app has no conversation "${id.slice(0, 80)}".`);
}

export function unknownWindow({ app, id }: ConversationName): SvcError {
  return new SvcError('UNKNOWN_WINDOW', `"${app}" has no chat window "${id}".`);
}

function newTurnOf(row: Row): NewTurn {
  return {
    turnId: row.turn_id as string,
    message: row.message as string,
    mode: 'full',
    runner: row.runner as string,
    ts: row.started_at as number,
    ...personIn(row),
  };
}
