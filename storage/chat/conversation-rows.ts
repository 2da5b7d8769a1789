/**
 * Defines the tables of `runtime.sqlite` that store conversations, their turns, events and attachments (decisions, section 12),
 * the statements for them, and their rows as the API returns them. Pure.
 */
import { basename } from 'node:path';
import type { TurnEvent } from '../../protocol/agents/agents.ts';
import type { NewTurn, StoredEvent, TurnEnd, TurnState } from '../../protocol/agents/turns.ts';
import type { Row, SqlStatement, SqlValue } from '../../protocol/wire/frames.ts';
import { hashOf, packed, titleOf, unpacked } from './transcript.ts';

/**
 * A turn's id is a UUIDv7, so that ids sort by time. An item is a group of consecutive events of a turn, under the id of the
 * first one. The row of a turn that has ended has its answer and its number of messages.
 */
export const CONVERSATIONS_SCHEMA = `
  CREATE TABLE IF NOT EXISTS conversations (
    conversation_id TEXT PRIMARY KEY,
    app_id TEXT NOT NULL,
    title TEXT,
    adapter TEXT,
    adapter_session TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
  );
  CREATE INDEX IF NOT EXISTS conversations_by_app ON conversations (app_id, updated_at, conversation_id);
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
 * `state` is that of the latest turn, null before the first. `messages` counts those of people and agents, and the calls of tools;
 * of a turn that runs, only its own message. Times are milliseconds since the epoch.
 */
export type ConversationRecord = {
  conversationId: string;
  app: string;
  title: string | null;
  /** The runner of the latest turn. */
  adapter: string | null;
  counts: { turns: number; messages: number };
  state: TurnState | null;
  createdAt: number;
  updatedAt: number;
};

const OF_IT = 'FROM turns WHERE turns.conversation_id = conversations.conversation_id';
const COLUMNS = `conversation_id, app_id, title, adapter, created_at, updated_at,
  (SELECT count(*) ${OF_IT}) AS turns, (SELECT total(messages) ${OF_IT}) AS messages,
  (SELECT state ${OF_IT} ORDER BY turn_id DESC LIMIT 1) AS state`;

export const GET_CONVERSATION = `SELECT ${COLUMNS} FROM conversations WHERE conversation_id = ?`;

/** Conversations of an app, the most recently used first; with `before`, those that follow this one. */
export function listConversations(app: string, limit: number, before: string | null): SqlStatement {
  const behind = `AND (updated_at, conversation_id) <
    (SELECT updated_at, conversation_id FROM conversations WHERE conversation_id = ?)`;
  const params: SqlValue[] = before === null ? [app, limit] : [app, before, limit];
  return [
    `SELECT ${COLUMNS} FROM conversations WHERE app_id = ? ${before === null ? '' : behind}
      ORDER BY updated_at DESC, conversation_id DESC LIMIT ?`,
    params,
  ];
}

export const COUNT_CONVERSATIONS = 'SELECT count(*) AS count FROM conversations WHERE app_id = ?';

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
  };
}

/** An attachment as its message names it. */
export type NamedAttachment = { sha256: string; name: string; type: string };

/** Inserts a turn, and its conversation if this is the first turn. */
export function insertTurn(app: string, conversationId: string, turn: NewTurn): SqlStatement[] {
  const { turnId, idempotencyKey, message, attachments = [], runner, model, ts } = turn;
  const named: NamedAttachment[] = attachments.map(({ name, type, path }) => ({ sha256: basename(path), name, type }));
  return [
    [
      `INSERT INTO conversations (conversation_id, app_id, created_at, updated_at) VALUES (?, ?, ?, ?)
        ON CONFLICT (conversation_id) DO NOTHING`,
      [conversationId, app, ts, ts],
    ],
    [
      // A session belongs to its runner: another runner does not resume it.
      `UPDATE conversations SET title = coalesce(title, ?), updated_at = ?,
        adapter_session = iif(adapter = ?, adapter_session, NULL), adapter = ? WHERE conversation_id = ?`,
      [titleOf(message), ts, runner, runner, conversationId],
    ],
    [
      `INSERT INTO turns (turn_id, conversation_id, idempotency_key, state, message, message_hash, attachments, runner, model, started_at)
        VALUES (?, ?, ?, 'running', ?, ?, ?, ?, ?, ?) ON CONFLICT (turn_id) DO NOTHING`,
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
      ],
    ],
    ...named.map(
      ({ sha256 }): SqlStatement => [
        'INSERT INTO turn_attachments (turn_id, app_id, sha256) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
        [turnId, app, sha256],
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
    ['UPDATE turns SET last_id = ? WHERE turn_id = ?', [firstId + events.length - 1, turnId]],
  ];
}

/** Ends a turn; one that has ended stays as it is. */
export function endTurn(turnId: string, state: TurnEnd, answer: string, messages: number, ts: number): SqlStatement {
  const sql = `UPDATE turns SET state = ?, answer = ?, messages = ?, ended_at = ? WHERE turn_id = ? AND ended_at IS NULL`;
  return [sql, [state, answer, messages, ts, turnId]];
}

/** The stored events of an item, each with its id. */
export function eventsOf(row: Row): StoredEvent[] {
  return unpacked({ id: row.first_id as number, events: JSON.parse(row.events as string) });
}

/** `size` in bytes. */
export type AttachmentRecord = { sha256: string; size: number; type: string };

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
