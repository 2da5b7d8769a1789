/** Stores and reads the turns of conversations as rows of `runtime.sqlite`, for `Turns` (decisions, section 12). */
import type { TurnEvent } from '../../../protocol/agents/agents.ts';
import { AnswerText } from '../../../protocol/agents/answer-text.ts';
import type {
  HistoryRow,
  NewTurn,
  OpenConversation,
  SaidText,
  StoredEvent,
  StoredTurn,
  TurnEnd,
  TurnState,
} from '../../../protocol/agents/turns.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { DbClient } from '../../../protocol/wire/db-client.ts';
import type { Row } from '../../../protocol/wire/frames.ts';
import {
  COUNT_CONVERSATIONS,
  endTurn,
  eventsOf,
  insertItem,
  insertTurn,
  type NamedAttachment,
} from '../../../storage/chat/conversation-rows.ts';
import { endOf, HistoryFold, hashOf } from '../../../storage/chat/transcript.ts';
import { survive } from '../../outlive-writer.ts';

const CONVERSATION = 'SELECT app_id, adapter, adapter_session FROM conversations WHERE conversation_id = ?';
const TURNS = `SELECT turn_id, idempotency_key, message_hash, state, last_id, runner,
  iif(ended_at IS NULL, message, '') AS message FROM turns
  WHERE conversation_id = ? ORDER BY turn_id`;
const SAID = `SELECT turn_id, message, answer FROM turns WHERE conversation_id = ? AND ended_at IS NOT NULL ORDER BY turn_id DESC LIMIT ?`;
const NAME_SESSION = 'UPDATE conversations SET adapter_session = ? WHERE conversation_id = ? AND adapter = ?';
const USED = 'UPDATE conversations SET updated_at = ? WHERE conversation_id = ?';
/** From the item on that has the event behind `after`. */
const ITEMS = `SELECT first_id, events, ts FROM items WHERE turn_id = ?
  AND first_id >= ifnull((SELECT max(first_id) FROM items WHERE turn_id = ? AND first_id <= ?), 0)
  ORDER BY first_id LIMIT ?`;
const OPEN_TURNS = `SELECT DISTINCT app_id, conversation_id FROM turns JOIN conversations USING (conversation_id)
  WHERE ended_at IS NULL AND conversation_id > ? ORDER BY conversation_id LIMIT ?`;
/** A page of turns, the latest first, and how many messages were before it. */
const PAGE = `SELECT turn_id, message, attachments, state, runner, started_at,
  octet_length(message) + (SELECT total(octet_length(events)) FROM items WHERE items.turn_id = turns.turn_id) AS bytes FROM turns
  WHERE conversation_id = ? AND turn_id < ? ORDER BY turn_id DESC LIMIT ?`;
const MESSAGES_BEFORE = 'SELECT total(messages) AS messages FROM turns WHERE conversation_id = ? AND turn_id < ?';
/** Comes behind every id. */
const LAST = '~';

/** Items that are read at a time. */
const ITEMS_AT_ONCE = 16;

export type Message = HistoryRow & { attachments?: NamedAttachment[] };

/** Every statement here may run twice: see `survive`. */
export class ConversationTurns {
  readonly #db: DbClient;
  readonly #now: () => number;

  /** `db` has the tables of conversations; `now` gives milliseconds since the epoch. */
  constructor(db: DbClient, now: () => number = Date.now) {
    this.#db = db;
    this.#now = now;
  }

  /** Stores nothing until a turn begins. Rejects with `CONFLICT` when another app has a conversation of this id. */
  async open(app: string, conversationId: string): Promise<OpenConversation> {
    const [found, turns, said] = await Promise.all([
      survive(() => this.#db.get(CONVERSATION, [conversationId])),
      survive(() => this.#db.all(TURNS, [conversationId])),
      survive(() => this.#db.all(SAID, [conversationId, LIMITS.listRowsMax])),
    ]);
    if (found !== null && found.app_id !== app) {
      const message = `The conversation "${conversationId}" is about another app; choose another id.`;
      throw new SvcError('CONFLICT', message, { path: 'conversationId' });
    }
    return new OpenRows(this.#db, this.#now, { app, id: conversationId, found, turns: turns.map(turnOf), said });
  }

  /** Conversations with a turn that has not ended, in order, a limited number after the id `after`. */
  async unended(after: string, limit: number): Promise<{ app: string; conversationId: string }[]> {
    const rows = await survive(() => this.#db.all(OPEN_TURNS, [after, limit]));
    return rows.map((row) => ({ app: String(row.app_id), conversationId: String(row.conversation_id) }));
  }

  /**
   * Messages and tool calls of the latest turns, or of those before the turn `before`, oldest first: at most `limit` turns,
   * fewer if they exceed `LIMITS.conversationPageBytes` together. `seq` counts through the conversation.
   */
  async messages(conversationId: string, limit: number, before: string | null): Promise<Message[]> {
    const turns = await survive(() => this.#db.all(PAGE, [conversationId, before ?? LAST, limit]));
    const parts: Message[][] = [];
    let first = '';
    let bytes = 0;
    for (const turn of turns) {
      bytes += Number(turn.bytes);
      if (parts.length > 0 && bytes > LIMITS.conversationPageBytes) break;
      first = String(turn.turn_id);
      parts.unshift(await this.#messagesOf(turn));
    }
    const earlier = await survive(() => this.#db.get(MESSAGES_BEFORE, [conversationId, first]));
    const rows = parts.flat();
    for (const [at, row] of rows.entries()) row.seq = Number(earlier?.messages ?? 0) + at + 1;
    return rows;
  }

  async #messagesOf(turn: Row): Promise<Message[]> {
    const fold = new HistoryFold();
    const turnId = String(turn.turn_id);
    fold.message(newTurnOf(turn));
    const state = turn.state as TurnState;
    const end = state === 'running' ? {} : { end: state };
    for await (const { event, ts } of itemsOf(this.#db, turnId, 0)) fold.event({ turnId, ts, ...end }, event);
    const attachments = JSON.parse(String(turn.attachments)) as NamedAttachment[];
    const [asked, ...rest] = fold.rows;
    if (asked === undefined) return rest;
    return [attachments.length === 0 ? asked : { ...asked, attachments }, ...rest];
  }
}

/** Rejects with `CONFLICT` when the app has as many conversations as it may. */
export async function demandRoom(db: DbClient, app: string): Promise<void> {
  const row = await survive(() => db.get(COUNT_CONVERSATIONS, [app]));
  if (Number(row?.count) < LIMITS.conversations) return;
  const message = `The app has ${LIMITS.conversations} conversations, the maximum; delete some.`;
  throw new SvcError('CONFLICT', message);
}

type Opened = { app: string; id: string; found: Row | null; turns: OpenTurn[]; said: Row[] };
type OpenTurn = { -readonly [Member in keyof StoredTurn]: StoredTurn[Member] } & {
  readonly message: string;
  /** For a turn that this gateway runs; null for others. */
  tally: Tally | null;
};

/** Adds up the answer of a turn and its number of messages, as `HistoryFold` counts them. */
export class Tally {
  messages = 1;
  readonly #said = new AnswerText();
  #final: string | null = null;
  #isInText = false;

  take(event: TurnEvent): void {
    this.#said.take(event);
    if (event.type === 'tool.start' || event.type === 'permission') {
      this.messages++;
      this.#isInText = false;
    } else if (event.type === 'assistant.delta' || event.type === 'reasoning.delta' || event.type === 'final') {
      if (!this.#isInText) this.messages++;
      this.#isInText = true;
      if (event.type === 'final') this.#final = event.text;
    }
  }

  get answer(): string {
    return endOf(this.#final ?? this.#said.text);
  }
}

class OpenRows implements OpenConversation {
  readonly mode = 'full';
  /** Only those who manage the app have any. */
  readonly limited = false;
  readonly turns: OpenTurn[];
  readonly #db: DbClient;
  readonly #now: () => number;
  readonly #app: string;
  readonly #id: string;
  readonly #said: SaidText[] = [];
  #isNew: boolean;
  #saidChars = 0;
  #adapter: string | null;
  #session: string | null;

  constructor(db: DbClient, now: () => number, { app, id, found, turns, said }: Opened) {
    this.#db = db;
    this.#now = now;
    this.#app = app;
    this.#id = id;
    this.turns = turns;
    this.#isNew = found === null;
    this.#adapter = (found?.adapter as string | null | undefined) ?? null;
    this.#session = (found?.adapter_session as string | null | undefined) ?? null;
    for (const { turn_id, message, answer } of said.reverse())
      this.#say(String(turn_id), String(message), String(answer));
  }

  get said(): SaidText[] {
    return [...this.#said];
  }

  resume(runner: string): string | null {
    return this.#adapter === runner ? this.#session : null;
  }

  async begin(turn: NewTurn, events: TurnEvent[]): Promise<StoredTurn> {
    const { turnId, idempotencyKey, message, runner, ts } = turn;
    if (this.#isNew) await demandRoom(this.#db, this.#app);
    const statements = [...insertTurn(this.#app, this.#id, turn), ...insertItem(turnId, 1, events, ts)];
    await survive(() => this.#db.batch(statements));
    this.#isNew = false;
    if (this.#adapter !== runner) this.#session = null;
    this.#adapter = runner;
    const tally = new Tally();
    for (const event of events) tally.take(event);
    const stored: OpenTurn = {
      turnId,
      idempotencyKey: idempotencyKey ?? null,
      messageHash: hashOf(message),
      state: 'running',
      lastId: events.length,
      runner,
      message,
      tally,
    };
    this.turns.push(stored);
    return stored;
  }

  async append(
    turn: OpenTurn,
    events: TurnEvent[],
    { session, end }: { session?: string; end?: TurnEnd } = {},
  ): Promise<void> {
    const ts = this.#now();
    const { turnId, lastId, runner } = turn;
    const tally = turn.tally ?? (await this.#tallyOf(turnId));
    for (const event of events) tally.take(event);
    const statements = insertItem(turnId, lastId + 1, events, ts);
    if (session !== undefined) statements.push([NAME_SESSION, [session, this.#id, runner]]);
    if (end !== undefined) {
      statements.push(endTurn(turnId, end, tally.answer, tally.messages, ts), [USED, [ts, this.#id]]);
    }
    await survive(() => this.#db.batch(statements));
    turn.lastId = lastId + events.length;
    if (session !== undefined && this.#adapter === runner) this.#session = session;
    if (end === undefined) return;
    turn.state = end;
    turn.tally = null;
    this.#say(turnId, turn.message, tally.answer);
  }

  async *events({ turnId, lastId }: StoredTurn, after: number): AsyncGenerator<StoredEvent> {
    // Events that are added meanwhile are read with the next call.
    const last = lastId;
    for await (const { id, event } of itemsOf(this.#db, turnId, after)) {
      if (id > last) return;
      yield { id, event };
    }
  }

  async close(): Promise<void> {}

  async #tallyOf(turnId: string): Promise<Tally> {
    const tally = new Tally();
    for await (const { event } of itemsOf(this.#db, turnId, 0)) tally.take(event);
    return tally;
  }

  #say(turnId: string, message: string, answer: string): void {
    for (const [role, text] of [
      ['user', endOf(message)],
      ['assistant', answer],
    ] as const) {
      if (text === '') continue;
      this.#said.push({ turnId, role, text });
      this.#saidChars += text.length;
    }
    while (this.#saidChars > LIMITS.chatHistoryChars) this.#saidChars -= this.#said.shift()?.text.length ?? 0;
  }
}

/** The stored events with ids over `after`, in order. */
async function* itemsOf(db: DbClient, turnId: string, after: number): AsyncGenerator<StoredEvent & { ts: number }> {
  for (let at = after; ; ) {
    const rows = await survive(() => db.all(ITEMS, [turnId, turnId, at + 1, ITEMS_AT_ONCE]));
    for (const row of rows) {
      const ts = Number(row.ts);
      for (const stored of eventsOf(row)) {
        if (stored.id <= at) continue;
        at = stored.id;
        yield { ...stored, ts };
      }
    }
    if (rows.length < ITEMS_AT_ONCE) return;
  }
}

function turnOf(row: Row): OpenTurn {
  return {
    turnId: row.turn_id as string,
    idempotencyKey: row.idempotency_key as string | null,
    messageHash: row.message_hash as string,
    state: row.state as TurnState,
    lastId: row.last_id as number,
    runner: row.runner as string,
    message: row.message as string,
    tally: null,
  };
}

function newTurnOf(row: Row): NewTurn {
  return {
    turnId: row.turn_id as string,
    message: row.message as string,
    mode: 'full',
    runner: row.runner as string,
    ts: row.started_at as number,
  };
}
