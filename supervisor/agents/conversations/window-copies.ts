/**
 * Copies the turns of chat windows from their rows to files, `<app>/_chat/w<windowId>.jsonl` and `index.json` (specification, "Chat
 * windows"), and brings what only a file has into rows: windows of earlier releases, of restored apps and of old backups.
 */
import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Logger } from 'pino';
import type { ConversationName } from '../../../protocol/agents/session-key.ts';
import type { TurnEnd, TurnState } from '../../../protocol/agents/stored-turns.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { appOfKey, scopeKey, workspaceOfKey } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { DbClient } from '../../../protocol/wire/db-client.ts';
import type { Row, SqlStatement } from '../../../protocol/wire/frames.ts';
import { Tally } from '../../../storage/chat/chat-history.ts';
import {
  copiedTo,
  endTurn,
  type IndexedWindow,
  insertItem,
  insertTurn,
  itemsOf,
  keepResumeId,
  LIST_WINDOWS,
  personIn,
  rowIdOf,
  type StoredItem,
  unpacked,
  usedAt,
  windowOf,
} from '../../../storage/chat/chat-tables.ts';
import {
  addLines,
  type EventsLine,
  isDamaged,
  lengthOf,
  makeChatFolder,
  setAside,
  type TranscriptLine,
  transcriptLines,
} from '../../../storage/chat/transcript.ts';
import {
  clearPlace,
  exists,
  inParallel,
  isMissing,
  namesIn,
  syncDir,
  syncTree,
  writeFileAtomic,
} from '../../../storage/files/atomic-file.ts';
import type { Layout } from '../../../storage/layout.ts';
import { retryIfWriterLost } from '../../retry-if-writer-lost.ts';
import type { RuntimeTables } from '../../runtime/runtime-databases.ts';

const LENGTHS = `SELECT conversation_id, transcript_bytes FROM conversations WHERE app_id = ? AND kind = 'window'`;
const ENDED = 'SELECT turn_id FROM turns WHERE conversation_id = ? AND ended_at IS NOT NULL ORDER BY turn_id';
const TURN = `SELECT turn_id, message, state, turns.runner, model, idempotency_key, last_id, started_at, ended_at, mode, limited, turns.person,
  iif(adapter = turns.runner, adapter_session, NULL) AS session
  FROM turns JOIN conversations USING (conversation_id) WHERE turn_id = ?`;
const TRANSCRIPT = /^w([A-Za-z0-9][A-Za-z0-9_-]{0,63})\.jsonl$/;
/** Transcripts that are completed in parallel. */
const COMPLETED_AT_ONCE = 16;
/** The most that is imported into rows together. */
const IMPORT_BATCH = { statements: 200, chars: 1024 * 1024 };

/** The end of a turn that is about to be stored. */
export type Ending = { turnId: string; end: TurnEnd; item: StoredItem; session: string | undefined };

type WindowCopiesOptions = { tables: RuntimeTables; layout: Layout; log: Pick<Logger, 'warn'> };

export class WindowCopies {
  /** Windows whose file had a turn that has not ended. `Turns` ends it. */
  readonly withOpenTurns: ConversationName[] = [];
  readonly #tables: RuntimeTables;
  readonly #layout: Layout;
  readonly #log: Pick<Logger, 'warn'>;
  /** By key of an app or draft, with the database as it was then: another node may have had it since. */
  readonly #completed = new Map<string, { db: DbClient | null; looked: Promise<void> }>();
  /** Indexes that are to be written. */
  readonly #due = new Map<string, NodeJS.Timeout>();
  #writing: Promise<void> = Promise.resolve();

  constructor({ tables, layout, log }: WindowCopiesOptions) {
    this.#tables = tables;
    this.#layout = layout;
    this.#log = log;
  }

  /**
   * Completes the windows of an app or draft whose transcript is not as their rows left it, before they are used. Does so once for
   * each. The log says which transcript cannot be used.
   */
  async completeAll(key: string): Promise<void> {
    const db = await this.#tables.existing(key);
    const known = this.#completed.get(key);
    if (known?.db === db) return known.looked;
    const looked = this.#completeAll(key, db);
    this.#completed.set(key, { db, looked });
    looked.catch(() => this.#completed.delete(key));
    return looked;
  }

  async #completeAll(key: string, db: DbClient | null): Promise<void> {
    const workspace = workspaceOfKey(key);
    const draft = workspace === undefined ? {} : { draft: workspace };
    const nameOf = (id: string): ConversationName => ({ kind: 'window', app: appOfKey(key), ...draft, id });
    const lengths = new Map<string, number>();
    for (const row of db === null ? [] : await retryIfWriterLost(() => db.all(LENGTHS, [key])))
      lengths.set(String(row.conversation_id), Number(row.transcript_bytes ?? -1));
    const names = new Map<string, ConversationName>();
    for (const file of await namesIn(this.#layout.app(key).chatDir)) {
      const id = TRANSCRIPT.exec(file)?.[1];
      if (id !== undefined) names.set(rowIdOf(nameOf(id)), nameOf(id));
    }
    for (const rowId of lengths.keys()) names.set(rowId, nameOf(rowId.slice(rowIdOf(nameOf('')).length)));
    await inParallel(names, COMPLETED_AT_ONCE, async ([rowId, name]) => {
      try {
        if ((await lengthOf(this.#pathOf(name))) !== lengths.get(rowId)) await this.complete(name);
      } catch (error) {
        this.#log.warn({ err: error, windowId: name.id }, 'The transcript of a chat window cannot be read.');
      }
    });
  }

  /**
   * Imports turns of a transcript that the rows do not have, and adds turns that have ended and that it does not have. What
   * cannot be read is set aside where there are rows; else rejects with `WINDOW_DAMAGED`. Resolves with the length of the transcript.
   */
  async complete(name: ConversationName): Promise<number> {
    const path = this.#pathOf(name);
    const rowId = rowIdOf(name);
    const key = scopeKey(name.app, name.draft);
    const before = await this.#ended(await this.#tables.existing(key), rowId);
    if (before.length === 0 && (await lengthOf(path)) === 0) return 0;
    const db = await this.#tables.of(key);
    let found: ImportResult;
    try {
      found = await this.#importTurns(db, name, path, new Set(before));
    } catch (error) {
      if (!isDamaged(error) || before.length === 0) throw error;
      await setAside(path);
      found = { bytes: 0, whole: true, ended: new Set() };
    }
    let { bytes, whole } = found;
    for (const turnId of await this.#ended(db, rowId)) {
      if (found.ended.has(turnId)) continue;
      await makeChatFolder(dirname(path));
      bytes += await addLines(path, await this.#linesOf(db, turnId), whole);
      whole = true;
    }
    // The next line begins on a new one.
    if (!whole) bytes += await addLines(path, [], whole);
    await retryIfWriterLost(() => db.batch([copiedTo(rowId, bytes)]));
    this.indexSoon(key);
    return bytes;
  }

  /** Completes the transcript of a window that has rows; resolves with its length, or with null when that failed. Never rejects. */
  tryComplete(name: ConversationName): Promise<number | null> {
    return this.complete(name).catch((error: unknown) => {
      this.#lacks(name, error);
      return null;
    });
  }

  /**
   * Adds a turn whose end is about to be stored to a transcript of `bytes`; resolves with its length then. With null when it is not
   * as its rows left it: to be completed once the end is stored. Never rejects.
   */
  async add(name: ConversationName, bytes: number | null, ending: Ending): Promise<number | null> {
    const path = this.#pathOf(name);
    try {
      if (bytes === null || (await lengthOf(path)) !== bytes) return null;
      const db = await this.#tables.of(scopeKey(name.app, name.draft));
      return bytes + (await addLines(path, await this.#linesOf(db, ending.turnId, ending)));
    } catch (error) {
      this.#lacks(name, error);
      return null;
    }
  }

  /** Rejects with `UNKNOWN_APP` when the app was removed. */
  async makeFolder(name: ConversationName): Promise<void> {
    await makeChatFolder(dirname(this.#pathOf(name)));
  }

  /** Removes the transcript of a window; a folder in its place is set aside. */
  async remove(name: ConversationName): Promise<void> {
    const path = this.#pathOf(name);
    await clearPlace(path);
    await rm(path, { force: true });
    await syncDir(dirname(path)).catch(unlessMissing);
    this.indexSoon(scopeKey(name.app, name.draft));
  }

  /** Writes the index of the windows of an app or draft in a moment, with other changes. */
  indexSoon(key: string): void {
    if (this.#due.has(key)) return;
    this.#due.set(key, setTimeout(() => this.#index(key), LIMITS.chatIndexMs).unref());
  }

  /** Writes the indexes that changed. Never rejects. */
  async flush(): Promise<void> {
    for (const key of [...this.#due.keys()]) this.#index(key);
    await this.#writing;
  }

  /** Prepares the folder of an app to be moved away. All turns that have ended are then in it, durably. Never rejects. */
  async prepareMove(key: string): Promise<void> {
    const { chatDir } = this.#layout.app(key);
    try {
      this.#completed.delete(key);
      await this.completeAll(key);
      await this.flush();
      if (await exists(chatDir)) await syncTree(chatDir);
    } catch (error) {
      this.#log.warn(
        { err: error, app: key },
        'The transcripts of the chat windows of an app may lack what was said last.',
      );
    }
    this.forget(key);
  }

  /** Its windows are no more: the next ones of this key are others. */
  forget(key: string): void {
    this.#completed.delete(key);
    clearTimeout(this.#due.get(key));
    this.#due.delete(key);
  }

  /** The same for all of these. */
  forgetAll(isOf: (key: string) => boolean): void {
    for (const key of [...this.#completed.keys(), ...this.#due.keys()]) if (isOf(key)) this.forget(key);
  }

  #lacks(name: ConversationName, error: unknown): void {
    // Without its folder the app was removed.
    if (isMissing(error) || (error instanceof SvcError && error.code === 'UNKNOWN_APP')) return;
    this.#log.warn({ err: error, windowId: name.id }, 'The transcript of a chat window lacks turns.');
  }

  #pathOf(name: ConversationName): string {
    return join(this.#layout.app(scopeKey(name.app, name.draft)).chatDir, `w${name.id}.jsonl`);
  }

  async #ended(db: DbClient | null, rowId: string): Promise<string[]> {
    if (db === null) return [];
    return (await retryIfWriterLost(() => db.all(ENDED, [rowId]))).map((row) => String(row.turn_id));
  }

  /** Stores what a transcript has of turns that have not ended in `known`; may be repeated after a crash. */
  async #importTurns(
    db: DbClient,
    name: ConversationName,
    path: string,
    known: ReadonlySet<string>,
  ): Promise<ImportResult> {
    const imported = new ImportedTurns(name, known);
    let at = { bytes: 0, whole: true };
    let statements: SqlStatement[] = [];
    let chars = 0;
    const store = async (): Promise<void> => {
      const stored = statements;
      statements = [];
      chars = 0;
      if (stored.length > 0) await retryIfWriterLost(() => db.batch(stored));
    };
    for await (const line of transcriptLines(path, (end) => (at = end))) {
      statements.push(...imported.take(line));
      chars += line.kind === 'user' ? line.message.length : JSON.stringify(line.events).length;
      if (statements.length >= IMPORT_BATCH.statements || chars >= IMPORT_BATCH.chars) await store();
    }
    await store();
    if (imported.hasOpenTurns) this.withOpenTurns.push(name);
    return { ...at, ended: imported.ended };
  }

  /** A turn as its transcript has it; `ending` is what is not stored of it yet. */
  async #linesOf(db: DbClient, turnId: string, ending?: Ending): Promise<TranscriptLine[]> {
    const items: StoredItem[] = [];
    const [row] = await Promise.all([
      retryIfWriterLost(() => db.get(TURN, [turnId])),
      (async () => {
        for await (const item of itemsOf((sql, params) => retryIfWriterLost(() => db.all(sql, params)), [turnId]))
          items.push(item);
      })(),
    ]);
    if (row === null) return [];
    if (ending) items.push(ending.item);
    const { session: resumeId, end } = ending ?? { session: undefined, end: row.state as TurnState as TurnEnd };
    const named = resumeId ?? (row.session as string | null) ?? undefined;
    const last = items.pop() ?? { turnId, firstId: Number(row.last_id) + 1, events: [], ts: Number(row.ended_at) };
    const line = ({ firstId, events, ts }: StoredItem) =>
      ({ kind: 'events', turnId, ts, id: firstId, events }) as const;
    return [
      userLine(row),
      ...items.map(line),
      { ...line(last), ...(named === undefined ? {} : { session: named }), end },
    ];
  }

  #index(key: string): void {
    clearTimeout(this.#due.get(key));
    this.#due.delete(key);
    this.#writing = this.#writing.then(async () => {
      try {
        const windows: Record<string, IndexedWindow> = {};
        const db = await this.#tables.existing(key);
        for (const row of db === null ? [] : await retryIfWriterLost(() => db.all(LIST_WINDOWS, [key]))) {
          const window = windowOf(row);
          if (window === null) continue;
          const { windowId, ...entry } = window;
          windows[windowId] = entry;
        }
        const path = join(this.#layout.app(key).chatDir, 'index.json');
        await clearPlace(path);
        await writeFileAtomic(path, `${JSON.stringify({ windows }, null, 1)}\n`);
      } catch (error) {
        // Without its folder the app was removed.
        if (!isMissing(error)) this.#log.warn({ err: error }, 'The index of chat windows could not be written.');
      }
    });
  }
}

/** The length of a file, whether its last line is whole, and the turns whose end it has. */
type ImportResult = { bytes: number; whole: boolean; ended: ReadonlySet<string> };

/** Makes rows of the lines of a transcript, but for turns that have ended in rows. */
class ImportedTurns {
  readonly ended = new Set<string>();
  readonly #name: ConversationName;
  readonly #known: ReadonlySet<string>;
  readonly #open = new Map<string, { runner: string; tally: Tally; lastId: number }>();

  constructor(name: ConversationName, known: ReadonlySet<string>) {
    this.#name = name;
    this.#known = known;
  }

  /** A turn has no end. */
  get hasOpenTurns(): boolean {
    return this.#open.size > 0;
  }

  take(line: TranscriptLine): SqlStatement[] {
    const { turnId } = line;
    if (line.kind === 'events') return this.#events(line);
    if (this.#known.has(turnId) || this.#open.has(turnId)) return [];
    this.#open.set(turnId, { runner: line.runner, tally: new Tally(), lastId: 0 });
    return insertTurn(this.#name, line);
  }

  #events({ turnId, id, ts, events: packed, session: resumeId, end }: EventsLine): SqlStatement[] {
    if (end !== undefined) this.ended.add(turnId);
    const turn = this.#open.get(turnId);
    // A turn that was cut was added again.
    if (!turn || id <= turn.lastId) return [];
    const rowId = rowIdOf(this.#name);
    const events = unpacked(id, packed).map(({ event }) => event);
    for (const event of events) turn.tally.take(event);
    turn.lastId = id + events.length - 1;
    const statements = insertItem(turnId, id, events, ts);
    if (resumeId !== undefined) statements.push(keepResumeId(rowId, turn.runner, resumeId));
    if (end === undefined) return statements;
    this.#open.delete(turnId);
    return [...statements, endTurn(turnId, end, turn.tally.answer, turn.tally.messages, ts), usedAt(rowId, ts)];
  }
}

function userLine(row: Row): TranscriptLine {
  return {
    kind: 'user',
    turnId: String(row.turn_id),
    message: String(row.message),
    mode: row.mode as 'data' | 'full',
    runner: String(row.runner),
    ...(row.model === null ? {} : { model: String(row.model) }),
    ...(row.idempotency_key === null ? {} : { idempotencyKey: String(row.idempotency_key) }),
    ...(row.limited === 1 ? { limited: true as const } : {}),
    ...personIn(row),
    ts: Number(row.started_at),
  };
}

function unlessMissing(error: unknown): void {
  if (!isMissing(error)) throw error;
}
