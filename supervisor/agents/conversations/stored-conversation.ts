/** A conversation or chat window that is open for turns: stores them as rows, and reads them again (specification, "Turns"). */
import type { ChatMode, TurnEvent } from '../../../protocol/agents/agents.ts';
import type { ConversationName } from '../../../protocol/agents/session-key.ts';
import type {
  MessageText,
  NewTurn,
  OpenConversation,
  StoredEvent,
  StoredRun,
  StoredTurn,
  TurnEnd,
  TurnState,
} from '../../../protocol/agents/stored-turns.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { scopeKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { DbClient } from '../../../protocol/wire/db-client.ts';
import type { Row, SqlParams, SqlStatement } from '../../../protocol/wire/frames.ts';
import type { NamedPerson } from '../../../protocol/wire/handler-caller.ts';
import { endOf, Tally } from '../../../storage/chat/chat-history.ts';
import {
  COUNT_CONVERSATIONS,
  copiedTo,
  endTurn,
  hashOf,
  insertItem,
  insertTurn,
  itemsOf,
  keepResumeId,
  packed,
  personIn,
  rowIdOf,
  unpacked,
  usedAt,
} from '../../../storage/chat/chat-tables.ts';
import { retryIfWriterLost } from '../../retry-if-writer-lost.ts';
import type { RuntimeTables } from '../../runtime/runtime-databases.ts';
import type { Ending, WindowCopies } from './window-copies.ts';

type Tools = { tables: RuntimeTables; now: () => number; copies: WindowCopies };
/** `damage` is why the transcript of a window without rows cannot be read. */
type Found = { head: Row | null; turns: Row[]; texts: Row[]; damage: SvcError | null };
type OpenTurn = { -readonly [Member in keyof StoredTurn]: StoredTurn[Member] } & {
  readonly message: string;
  /** For a turn that this gateway runs; null for others. */
  tally: Tally | null;
  run: StoredRun | undefined;
};

/** Every statement here may run twice: see `retryIfWriterLost`. */
export class StoredConversation implements OpenConversation {
  readonly turns: OpenTurn[];
  mode: ChatMode | null;
  limited: boolean;
  by: NamedPerson | null;
  readonly #tools: Tools;
  readonly #name: ConversationName;
  readonly #rowId: string;
  /** Of its app or draft. */
  readonly #key: string;
  readonly #damage: SvcError | null;
  readonly #texts: MessageText[] = [];
  #isNew: boolean;
  #textsChars = 0;
  #adapter: string | null;
  #resumeId: string | null;
  /** The length of its transcript; null while that is not as the rows left it. */
  #bytes: number | null;
  /** Ends of turns, one after the other: each adds to the transcript. */
  #ending: Promise<unknown> = Promise.resolve();

  constructor(tools: Tools, name: ConversationName, { head, turns, texts, damage }: Found) {
    this.#tools = tools;
    this.#name = name;
    this.#rowId = rowIdOf(name);
    this.#key = scopeKey(name.app, name.draft);
    this.#damage = damage;
    this.turns = turns.map(turnOf);
    this.#isNew = head === null;
    this.mode = name.kind === 'conversation' ? 'full' : ((head?.mode ?? null) as ChatMode | null);
    this.limited = head?.limited === 1;
    this.by = (head && personIn(head).by) ?? null;
    this.#adapter = (head?.adapter ?? null) as string | null;
    this.#resumeId = (head?.adapter_session ?? null) as string | null;
    this.#bytes = head === null ? 0 : (head.transcript_bytes as number | null);
    for (const { turn_id, message, answer } of texts.reverse())
      this.#addTexts(String(turn_id), String(message), String(answer));
  }

  get texts(): MessageText[] {
    return [...this.#texts];
  }

  resume(runner: string): string | null {
    return this.#adapter === runner ? this.#resumeId : null;
  }

  async begin(turn: NewTurn, events: TurnEvent[], run?: StoredRun): Promise<StoredTurn> {
    const { turnId, idempotencyKey, message, runner, mode, limited, by, ts } = turn;
    const { copies } = this.#tools;
    const name = this.#name;
    if (this.#damage !== null) throw this.#damage;
    if (name.kind === 'window' && Number(this.#bytes) > LIMITS.chatTranscriptBytes)
      throw new SvcError('CONFLICT', 'This window is full; go on in a new one.', { path: 'windowId' });
    const db = await this.#db();
    if (this.#isNew) await demandRoom(db, name);
    if (this.#isNew && name.kind === 'window') await copies.makeFolder(name);
    const statements = [...insertTurn(name, turn), ...insertItem(turnId, 1, events, ts)];
    if (this.#isNew && name.kind === 'window') statements.push(copiedTo(this.#rowId, 0));
    await (run?.begin(statements) ?? retryIfWriterLost(() => db.batch(statements)));
    if (this.#isNew) this.by = by ?? null;
    this.#isNew = false;
    this.mode ??= mode;
    this.limited ||= limited === true;
    if (this.#adapter !== runner) this.#resumeId = null;
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
      run,
    };
    this.turns.push(stored);
    if (name.kind === 'window') copies.indexSoon(this.#key);
    return stored;
  }

  async append(
    turn: OpenTurn,
    events: TurnEvent[],
    { session: resumeId, end }: { session?: string; end?: TurnEnd } = {},
  ): Promise<void> {
    const ts = this.#tools.now();
    const { turnId, lastId, runner } = turn;
    const tally = turn.tally ?? (await this.#tallyOf(turnId));
    for (const event of events) tally.take(event);
    const statements = insertItem(turnId, lastId + 1, events, ts);
    if (resumeId !== undefined) statements.push(keepResumeId(this.#rowId, runner, resumeId));
    if (end === undefined) await this.#batch(statements);
    else {
      statements.push(endTurn(turnId, end, tally.answer, tally.messages, ts), usedAt(this.#rowId, ts));
      const item = { turnId, firstId: lastId + 1, events: packed(events), ts };
      const named = this.#adapter === runner ? resumeId : undefined;
      const ended = this.#ending.then(() => this.#end(turn, statements, { turnId, end, item, session: named }));
      this.#ending = ended.catch(() => {});
      await ended;
    }
    turn.lastId = lastId + events.length;
    if (resumeId !== undefined && this.#adapter === runner) this.#resumeId = resumeId;
    if (end === undefined) return;
    turn.state = end;
    turn.tally = null;
    turn.run = undefined;
    this.#addTexts(turnId, turn.message, tally.answer);
  }

  async *events({ turnId, lastId }: StoredTurn, after: number): AsyncGenerator<StoredEvent> {
    // Events that are added meanwhile are read with the next call.
    const last = lastId;
    if (after >= last) return;
    for await (const { firstId, events } of itemsOf(this.#all, [turnId], after))
      for (const stored of unpacked(firstId, events)) {
        if (stored.id > last) return;
        if (stored.id > after) yield stored;
      }
  }

  async close(): Promise<void> {
    await this.#ending;
  }

  /** Stores the end of a turn, with that of a window in its transcript too. */
  async #end({ run }: OpenTurn, statements: SqlStatement[], ending: Ending): Promise<void> {
    const { copies } = this.#tools;
    const name = this.#name;
    const store = (all: SqlStatement[]) => run?.end(all) ?? this.#batch(all);
    if (name.kind === 'conversation') return void (await store(statements));
    // First the copy: if it is longer than the row says, the next gateway looks at it.
    const bytes = await copies.add(name, this.#bytes, ending);
    this.#bytes = null;
    await store(bytes === null ? statements : [...statements, copiedTo(this.#rowId, bytes)]);
    this.#bytes = bytes ?? (await copies.tryComplete(name));
    copies.indexSoon(this.#key);
  }

  readonly #all = async (sql: string, params: SqlParams): Promise<Row[]> => {
    const db = await this.#db();
    return retryIfWriterLost(() => db.all(sql, params));
  };

  async #batch(statements: SqlStatement[]): Promise<void> {
    const db = await this.#db();
    await retryIfWriterLost(() => db.batch(statements));
  }

  /** Asked for each time: the node may lose the app meanwhile. */
  #db(): Promise<DbClient> {
    return this.#tools.tables.of(this.#key);
  }

  async #tallyOf(turnId: string): Promise<Tally> {
    const tally = new Tally();
    for await (const { firstId, events } of itemsOf(this.#all, [turnId]))
      for (const { event } of unpacked(firstId, events)) tally.take(event);
    return tally;
  }

  #addTexts(turnId: string, message: string, answer: string): void {
    for (const [role, text] of [
      ['user', endOf(message)],
      ['assistant', answer],
    ] as const) {
      if (text === '') continue;
      this.#texts.push({ turnId, role, text });
      this.#textsChars += text.length;
    }
    while (this.#textsChars > LIMITS.chatHistoryChars) this.#textsChars -= this.#texts.shift()?.text.length ?? 0;
  }
}

/** Rejects with `CONFLICT` when the app or draft has as many conversations or windows as it may. */
export async function demandRoom(db: DbClient, name: ConversationName): Promise<void> {
  const [most, what] =
    name.kind === 'window' ? [LIMITS.chatWindows, 'chat windows'] : [LIMITS.conversations, 'conversations'];
  const row = await retryIfWriterLost(() => db.get(COUNT_CONVERSATIONS, [scopeKey(name.app, name.draft), name.kind]));
  if (Number(row?.count) < most) return;
  throw new SvcError('CONFLICT', `The app has ${most} ${what}, the maximum; delete some.`);
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
    run: undefined,
  };
}
