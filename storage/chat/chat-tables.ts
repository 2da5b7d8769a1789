/**
 * Defines the tables of `runtime.sqlite` that store conversations and chat windows, their turns, events and attachments
 * (specification, "Turns"), the statements for them, and their rows as the API returns them. Pure.
 */
import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import type { ChatMode, TurnEvent } from '../../protocol/agents/agents.ts';
import { type ConversationName, parseSessionKey, sessionKey } from '../../protocol/agents/session-key.ts';
import type { NewTurn, StoredEvent, TurnEnd, TurnState } from '../../protocol/agents/stored-turns.ts';
import { appOfKey, scopeKey } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { ChatWindow } from '../../protocol/routes/agents/chat-rows.ts';
import type { ConversationRecord } from '../../protocol/routes/agents/conversations-rows.ts';
import type { FILE } from '../../protocol/routes/apps/files-rows.ts';
import type { Of } from '../../protocol/shapes/schema.ts';
import type { Row, SqlParams, SqlStatement, SqlValue } from '../../protocol/wire/frames.ts';
import type { NamedPerson } from '../../protocol/wire/handler-caller.ts';

/**
 * A turn's id is a UUIDv7, so that ids sort by time. An item is a group of consecutive events of a turn, under the id of the
 * first one; rowids tell the order in which items were stored. The row of a turn that has ended has its answer and its number of
 * messages.
 */
export const CHAT_SCHEMA = `
  CREATE TABLE IF NOT EXISTS conversations (
    conversation_id TEXT PRIMARY KEY,
    app_id TEXT NOT NULL,
    title TEXT,
    adapter TEXT,
    adapter_session TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
  );
  CREATE TABLE IF NOT EXISTS turns (
    turn_id TEXT PRIMARY KEY,
    conversation_id TEXT NOT NULL REFERENCES conversations (conversation_id) ON DELETE CASCADE,
    idempotency_key TEXT,
    state TEXT NOT NULL,
    message TEXT NOT NULL,
    message_hash TEXT NOT NULL,
    attachments TEXT NOT NULL,
    runner TEXT NOT NULL,
    model TEXT,
    answer TEXT NOT NULL DEFAULT '',
    last_id INTEGER NOT NULL DEFAULT 0,
    messages INTEGER NOT NULL DEFAULT 1,
    started_at INTEGER NOT NULL,
    ended_at INTEGER
  );
  CREATE INDEX IF NOT EXISTS turns_by_conversation ON turns (conversation_id, turn_id);
  CREATE INDEX IF NOT EXISTS turns_open ON turns (turn_id) WHERE ended_at IS NULL;
  CREATE UNIQUE INDEX IF NOT EXISTS turns_by_key ON turns (conversation_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
  CREATE TABLE IF NOT EXISTS items (
    turn_id TEXT NOT NULL REFERENCES turns (turn_id) ON DELETE CASCADE,
    first_id INTEGER NOT NULL,
    events TEXT NOT NULL,
    ts INTEGER NOT NULL,
    PRIMARY KEY (turn_id, first_id)
  );
  CREATE TABLE IF NOT EXISTS attachments (
    app_id TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    type TEXT NOT NULL,
    size INTEGER NOT NULL,
    uploaded_at INTEGER NOT NULL,
    PRIMARY KEY (app_id, sha256)
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS turn_attachments (
    turn_id TEXT NOT NULL REFERENCES turns (turn_id) ON DELETE CASCADE,
    app_id TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (turn_id, sha256)
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS turn_attachments_by_content ON turn_attachments (app_id, sha256)`;

/**
 * Columns that earlier releases did not have, by table, and what depends on them. A window is a conversation whose id is its session
 * key, and whose app is a draft's key where it is one of a draft. `limited`: someone who does not manage the app has said something
 * in it. `transcript_bytes` is the length of its transcript as of the last turn that ended; null until all that was in a file is in
 * rows. `person` is the JSON text of who began the conversation or sent the message; null where that is nobody with an account.
 */
export const ADDED_COLUMNS: Readonly<Record<string, readonly string[]>> = {
  conversations: [
    "kind TEXT NOT NULL DEFAULT 'conversation'",
    "mode TEXT NOT NULL DEFAULT 'full'",
    'limited INTEGER NOT NULL DEFAULT 0',
    'transcript_bytes INTEGER',
    'person TEXT',
  ],
  turns: ['person TEXT'],
};
export const ADDED_INDEXES = `
  DROP INDEX IF EXISTS conversations_by_app;
  CREATE INDEX IF NOT EXISTS conversations_by_kind ON conversations (app_id, kind, updated_at, conversation_id)`;

/** Where the row of a conversation or window is. */
export function rowIdOf(name: ConversationName): string {
  return name.kind === 'conversation' ? name.id : sessionKey(name);
}

/** The reverse; `key` is its app, or the key of its draft. */
export function nameOfRow(rowId: string, key: string): ConversationName {
  return parseSessionKey(rowId) ?? { kind: 'conversation', app: appOfKey(key), id: rowId };
}

const OF_IT = 'FROM turns WHERE turns.conversation_id = conversations.conversation_id';
const COLUMNS = `conversation_id, app_id, title, adapter, created_at, updated_at, person,
  (SELECT count(*) ${OF_IT}) AS turns, (SELECT total(messages) ${OF_IT}) AS messages,
  (SELECT state ${OF_IT} ORDER BY turn_id DESC LIMIT 1) AS state`;

export const GET_CONVERSATION = `SELECT ${COLUMNS} FROM conversations WHERE conversation_id = ? AND kind = 'conversation'`;

/** Conversations of an app, the most recently used first; with `before`, those that follow this one. */
export function listConversations(app: string, limit: number, before: string | null): SqlStatement {
  const behind = `AND (updated_at, conversation_id) <
    (SELECT updated_at, conversation_id FROM conversations WHERE conversation_id = ?)`;
  const params: SqlValue[] = before === null ? [app, limit] : [app, before, limit];
  return [
    `SELECT ${COLUMNS} FROM conversations WHERE app_id = ? AND kind = 'conversation' ${before === null ? '' : behind}
      ORDER BY updated_at DESC, conversation_id DESC LIMIT ?`,
    params,
  ];
}

export const COUNT_CONVERSATIONS = 'SELECT count(*) AS count FROM conversations WHERE app_id = ? AND kind = ?';

export function conversationOf(row: Row): ConversationRecord {
  return {
    conversationId: row.conversation_id as string,
    app: row.app_id as string,
    title: row.title as string | null,
    adapter: row.adapter as string | null,
    counts: { turns: row.turns as number, messages: row.messages as number },
    state: row.state as TurnState | null,
    createdAt: row.created_at as number,
    updatedAt: row.updated_at as number,
    ...personIn(row),
  };
}

/** A window in `index.json`, with the agent's session, and the length of its transcript. */
export type IndexedWindow = Omit<ChatWindow, 'windowId'> & { session: string | null; bytes: number };

const LATEST = `(SELECT turn_id ${OF_IT} ORDER BY turn_id DESC LIMIT 1)`;
/** The windows of an app or draft, the one that was used last first. */
export const LIST_WINDOWS = `SELECT ${COLUMNS}, mode, adapter_session, transcript_bytes, ${LATEST} AS latest
  FROM conversations WHERE app_id = ? AND kind = 'window' ORDER BY updated_at DESC, conversation_id`;

/** Null for a window without a turn: its transcript was not read to the end. */
export function windowOf(row: Row): (ChatWindow & Pick<IndexedWindow, 'session' | 'bytes'>) | null {
  if (row.latest === null) return null;
  const { id } = nameOfRow(String(row.conversation_id), String(row.app_id));
  return {
    windowId: id,
    mode: row.mode as ChatMode,
    title: String(row.title),
    turns: row.turns as number,
    adapter: row.adapter as string | null,
    lastTurn: { turnId: row.latest as string, state: row.state as TurnState },
    createdAt: row.created_at as number,
    updatedAt: row.updated_at as number,
    ...personIn(row),
    session: row.adapter_session as string | null,
    bytes: Number(row.transcript_bytes ?? 0),
  };
}

/** Who began it, or sent it. */
export function personIn({ person }: Row): { by?: NamedPerson } {
  return typeof person === 'string' ? { by: JSON.parse(person) as NamedPerson } : {};
}

/** An attachment as its message names it. */
export type NamedAttachment = { sha256: string; name: string; type: string };

/** Inserts a turn, and its conversation or window if this is the first turn. */
export function insertTurn(name: ConversationName, turn: NewTurn): SqlStatement[] {
  const { turnId, idempotencyKey, message, mode, limited, attachments = [], runner, model, by, ts } = turn;
  const key = scopeKey(name.app, name.draft);
  const conversationId = rowIdOf(name);
  const person = by === undefined ? null : JSON.stringify(by);
  const named: NamedAttachment[] = attachments.map(({ name, type, path }) => ({ sha256: basename(path), name, type }));
  return [
    [
      `INSERT INTO conversations (conversation_id, app_id, kind, mode, created_at, updated_at, person)
        VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (conversation_id) DO NOTHING`,
      [conversationId, key, name.kind, mode, ts, ts, person],
    ],
    [
      // A session belongs to its runner: another runner does not resume it.
      `UPDATE conversations SET title = coalesce(title, ?), updated_at = ?, limited = max(limited, ?),
        adapter_session = iif(adapter = ?, adapter_session, NULL), adapter = ? WHERE conversation_id = ?`,
      [titleOf(message), ts, limited ? 1 : 0, runner, runner, conversationId],
    ],
    [
      `INSERT INTO turns (turn_id, conversation_id, idempotency_key, state, message, message_hash, attachments, runner, model, started_at, person)
        VALUES (?, ?, ?, 'running', ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (turn_id) DO NOTHING`,
      [
        turnId,
        conversationId,
        idempotencyKey ?? null,
        message,
        hashOf(message),
        JSON.stringify(named),
        runner,
        model ?? null,
        ts,
        person,
      ],
    ],
    ...named.map(
      ({ sha256 }): SqlStatement => [
        'INSERT INTO turn_attachments (turn_id, app_id, sha256) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
        [turnId, key, sha256],
      ],
    ),
  ];
}

/** Events of a turn that come together; `firstId` is the id of the first. */
export function insertItem(turnId: string, firstId: number, events: TurnEvent[], ts: number): SqlStatement[] {
  // An empty item would take the id of the next one.
  if (events.length === 0) return [];
  return [
    [
      'INSERT INTO items (turn_id, first_id, events, ts) VALUES (?, ?, ?, ?) ON CONFLICT (turn_id, first_id) DO NOTHING',
      [turnId, firstId, JSON.stringify(packed(events)), ts],
    ],
    ['UPDATE turns SET last_id = max(last_id, ?) WHERE turn_id = ?', [firstId + events.length - 1, turnId]],
  ];
}

/** Consecutive events of a turn; `ts` is when they were stored, `place` grows with each item that is stored. */
export type StoredItem = { turnId: string; firstId: number; events: PackedEvent[]; ts: number; place?: number };

/** As many as are read at a time. */
const PAGE_BYTES = 4 * 1024 * 1024;
const FIRST_ITEM = 'SELECT max(first_id) AS first_id FROM items WHERE turn_id = ? AND first_id <= ?';
const ITEMS = `SELECT place, turn_id, first_id, events, ts, upto FROM (
    SELECT rowid AS place, turn_id, first_id, events, ts, octet_length(events) AS bytes,
      sum(octet_length(events)) OVER (ORDER BY turn_id, first_id) AS upto
    FROM items WHERE turn_id IN (SELECT value FROM json_each(@turns)) AND (turn_id, first_id) >= (@turn, @first))
  WHERE upto - bytes < @most ORDER BY turn_id, first_id`;

/** The stored items of turns, by turn; of a single turn those that have events with ids over `after`. */
export async function* itemsOf(
  all: (sql: string, params: SqlParams) => Promise<Row[]>,
  turnIds: readonly string[],
  after = 0,
): AsyncGenerator<Required<StoredItem>> {
  let turn = '';
  let first = 0;
  if (after > 0) {
    turn = String(turnIds[0]);
    first = Number((await all(FIRST_ITEM, [turn, after + 1]))[0]?.first_id ?? 0);
  }
  const turns = JSON.stringify(turnIds);
  for (;;) {
    const rows = await all(ITEMS, { turns, turn, first, most: PAGE_BYTES });
    for (const row of rows)
      yield {
        turnId: row.turn_id as string,
        firstId: row.first_id as number,
        events: JSON.parse(row.events as string) as PackedEvent[],
        ts: row.ts as number,
        place: row.place as number,
      };
    const last = rows.at(-1);
    if (last === undefined || Number(last.upto) < PAGE_BYTES) return;
    turn = last.turn_id as string;
    first = (last.first_id as number) + 1;
  }
}

/** The id of the agent's session, unless another runner took a turn since. */
export function keepResumeId(conversationId: string, runner: string, resumeId: string): SqlStatement {
  const sql = 'UPDATE conversations SET adapter_session = ? WHERE conversation_id = ? AND adapter = ?';
  return [sql, [resumeId, conversationId, runner]];
}

export function usedAt(conversationId: string, ts: number): SqlStatement {
  return ['UPDATE conversations SET updated_at = ? WHERE conversation_id = ?', [ts, conversationId]];
}

/** So long is its transcript, and it has all turns that have ended. */
export function copiedTo(conversationId: string, bytes: number): SqlStatement {
  return ['UPDATE conversations SET transcript_bytes = ? WHERE conversation_id = ?', [bytes, conversationId]];
}

/** Ends a turn; one that has ended stays as it is. */
export function endTurn(turnId: string, state: TurnEnd, answer: string, messages: number, ts: number): SqlStatement {
  const sql = `UPDATE turns SET state = ?, answer = ?, messages = ?, ended_at = ? WHERE turn_id = ? AND ended_at IS NULL`;
  return [sql, [state, answer, messages, ts, turnId]];
}

/** Consecutive pieces of text, which are stored as one. */
type Pieces = { type: 'assistant.delta' | 'reasoning.delta'; deltas: string[] };
export type PackedEvent = TurnEvent | Pieces;

/** The events as they are stored: consecutive pieces of text share one member. */
export function packed(events: TurnEvent[]): PackedEvent[] {
  const packed: PackedEvent[] = [];
  for (const event of events) {
    if (event.type !== 'assistant.delta' && event.type !== 'reasoning.delta') {
      packed.push(event);
      continue;
    }
    const last = packed.at(-1);
    if (last && 'deltas' in last && last.type === event.type) last.deltas.push(event.delta);
    else packed.push({ type: event.type, deltas: [event.delta] });
  }
  return packed;
}

/** `firstId` is the id of the first event; each event, and each piece of text, is one more. */
export function unpacked(firstId: number, events: PackedEvent[]): StoredEvent[] {
  let id = firstId;
  return events.flatMap((event) => {
    if (!('deltas' in event)) return [{ id: id++, event }];
    const { type, deltas } = event;
    return deltas.map((delta) => ({ id: id++, event: { type, delta } }));
  });
}

export function hashOf(message: string): string {
  return createHash('sha256').update(message).digest('hex');
}

/** The title of a conversation: the beginning of the first line of its first message. */
export function titleOf(message: string): string {
  const [line = ''] = message.trim().split('\n', 1);
  const most = LIMITS.titleChars;
  return line.length <= most ? line : `${line.slice(0, most - 1).replace(/[\uD800-\uDBFF]$/, '')}…`;
}

export type AttachmentRecord = Of<typeof FILE>;

/** Inserts an attachment, or notes that it was uploaded again. */
export function insertAttachment(app: string, { sha256, size, type }: AttachmentRecord, at: number): SqlStatement {
  const sql = `INSERT INTO attachments (app_id, sha256, type, size, uploaded_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (app_id, sha256) DO UPDATE SET type = excluded.type, uploaded_at = excluded.uploaded_at`;
  return [sql, [app, sha256, type, size, at]];
}

/** Total size of an app's attachments, each counted with at least this many bytes. */
export const ATTACHED_BYTES = 'SELECT total(max(size, ?)) AS bytes FROM attachments WHERE app_id = ?';
export const GET_ATTACHMENT = 'SELECT sha256, type, size FROM attachments WHERE app_id = ? AND sha256 = ?';

/** No turn names it. */
const UNNAMED = `NOT EXISTS (SELECT 1 FROM turn_attachments AS named
  WHERE named.app_id = attachments.app_id AND named.sha256 = attachments.sha256)`;
export const DELETE_ATTACHMENT = `DELETE FROM attachments WHERE app_id = ? AND sha256 = ? AND ${UNNAMED}`;
/** Attachments that no turn names and that were uploaded before a time; up to a number. */
export const DUE_ATTACHMENTS = `SELECT app_id, sha256 FROM attachments WHERE uploaded_at < ? AND ${UNNAMED} LIMIT ?`;
/** Checks again: since it was found due, it may have been uploaded again or named by a turn. */
export const DELETE_DUE_ATTACHMENT = `${DELETE_ATTACHMENT} AND uploaded_at < ?`;
