/**
 * Stores the chat windows of an app: a transcript for each, `<app>/_chat/w<windowId>.jsonl`, and `index.json`, which lists them
 * (specification, "Chat window"). A missing, damaged or outdated index is rebuilt from the transcripts.
 */
import { type FileHandle, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ChatMode, TurnEvent } from '../../protocol/agents/agents.ts';
import type { HistoryRow, NewTurn, OpenConversation, StoredEvent, TurnEnd } from '../../protocol/agents/turns.ts';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import {
  clearPlace,
  inParallel,
  isMissing,
  isRecord,
  namesIn,
  readJson,
  syncDir,
  writeFileAtomic,
} from '../files/atomic-file.ts';
import { FolderSyncs } from './syncs.ts';
import {
  entryOf,
  historyOf,
  isEntry,
  packed,
  type TranscriptLine,
  transcriptLines,
  unpacked,
  type WindowEntry,
  WindowState,
  type WindowTurn,
} from './transcript.ts';
import { appendTranscript, damageIn, damageOf, ofRemoved, sizeOf } from './transcript-file.ts';

/** A window as it is listed. */
export type ChatWindow = { windowId: string } & Omit<WindowEntry, 'bytes' | 'session'>;

type ChatLog = { warn(fields: object, message: string): void };

/** A transcript that was read: what it says, and how long it is. */
type Known = { state: WindowState; bytes: number };

const TRANSCRIPT = /^w([A-Za-z0-9][A-Za-z0-9_-]{0,63})\.jsonl$/;
/** Transcripts that are checked in parallel when an index is read. */
const LOOKS_AT_ONCE = 16;

/** The windows of one app. */
export class ChatWindows {
  readonly #dir: string;
  readonly #index: string;
  readonly #log: ChatLog;
  readonly #syncs: FolderSyncs;
  /** Windows that were closed lately, the last one last. */
  readonly #kept = new Map<string, Known & { timer: NodeJS.Timeout }>();
  #entries: Promise<Map<string, WindowEntry>> | null = null;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(dir: string, log: ChatLog) {
    this.#dir = dir;
    this.#index = join(dir, 'index.json');
    this.#log = log;
    this.#syncs = new FolderSyncs(dir);
  }

  /** The window that was used last comes first. */
  async list(): Promise<ChatWindow[]> {
    const entries = [...(await this.#loaded())];
    entries.sort(([a, one], [b, other]) => other.updatedAt - one.updatedAt || (a < b ? -1 : 1));
    return entries.map(([windowId, { mode, title, turns, adapter, lastTurn, createdAt, updatedAt }]) => {
      return { windowId, mode, title, turns, adapter, lastTurn, createdAt, updatedAt };
    });
  }

  /** Also for a window whose transcript cannot be read. */
  async has(windowId: string): Promise<boolean> {
    return (await this.modeOf(windowId)) !== null;
  }

  /** Null when there is no such window. One that cannot be read may have been of mode `full`. */
  async modeOf(windowId: string): Promise<ChatMode | null> {
    const entry = (await this.#loaded()).get(windowId);
    if (entry) return entry.mode;
    return (await damageOf(this.#pathOf(windowId))) === null ? null : 'full';
  }

  /**
   * Opens a window for turns; nothing is stored until a turn begins. One that cannot be read has no turns, and none begins:
   * `begin` rejects with `WINDOW_DAMAGED`.
   */
  async open(windowId: string): Promise<OpenConversation> {
    const entries = await this.#loaded();
    const path = this.#pathOf(windowId);
    let damage: SvcError | null = null;
    const read = async () =>
      await readTranscript(path).catch((error: unknown) => {
        damage = damageIn(error);
        return { state: new WindowState(), bytes: 0, whole: true };
      });
    const { state, bytes, whole } = (await this.#takeKept(windowId)) ?? (await read());
    return new OpenWindow(path, this.#syncs, state, bytes, whole, {
      beginning: () => {
        if (damage !== null) throw damage;
        if (!entries.has(windowId) && entries.size >= LIMITS.chatWindows) throw tooManyWindows();
      },
      changed: (entry, save) => {
        entries.set(windowId, entry);
        if (save) this.#saveSoon();
      },
      closed: (known) => this.#keep(windowId, known),
    });
  }

  async history(windowId: string): Promise<HistoryRow[]> {
    return await historyOf(transcriptLines(this.#pathOf(windowId)));
  }

  /** It must not be open. False when there is no such window. A folder in place of its transcript is set aside. */
  async remove(windowId: string): Promise<boolean> {
    const entries = await this.#loaded();
    const path = this.#pathOf(windowId);
    if (!entries.delete(windowId) && (await damageOf(path)) === null) return false;
    this.#drop(windowId);
    await clearPlace(path);
    await rm(path, { force: true });
    await syncDir(this.#dir);
    this.#saveSoon();
    return true;
  }

  /** Writes the index if it changed. Never rejects. */
  async flush(): Promise<void> {
    if (this.#timer !== undefined) this.#save();
    await this.#writing;
  }

  #keep(windowId: string, known: Known): void {
    this.#drop(windowId);
    const timer = setTimeout(() => this.#drop(windowId), LIMITS.agentIdleMs).unref();
    this.#kept.set(windowId, { ...known, timer });
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > LIMITS.chatWindowsKept && oldest !== undefined) this.#drop(oldest);
  }

  #drop(windowId: string): void {
    clearTimeout(this.#kept.get(windowId)?.timer);
    this.#kept.delete(windowId);
  }

  /** The stored state of a window, unless its transcript has changed since. */
  async #takeKept(windowId: string): Promise<(Known & { whole: boolean }) | null> {
    const kept = this.#kept.get(windowId);
    if (!kept) return null;
    this.#drop(windowId);
    const bytes = await sizeOf(this.#pathOf(windowId)).catch(() => null);
    return bytes === kept.bytes ? { ...kept, whole: true } : null;
  }

  #pathOf(windowId: string): string {
    return join(this.#dir, `w${windowId}.jsonl`);
  }

  #loaded(): Promise<Map<string, WindowEntry>> {
    this.#entries ??= this.#load().catch((error: unknown) => {
      this.#entries = null;
      throw error;
    });
    return this.#entries;
  }

  async #load(): Promise<Map<string, WindowEntry>> {
    const stored = await readJson(this.#index, null).catch(() => null);
    const known = isRecord(stored) && isRecord(stored.windows) ? stored.windows : {};
    const entries = new Map<string, WindowEntry>();
    await inParallel(await namesIn(this.#dir), LOOKS_AT_ONCE, async (name) => {
      const windowId = TRANSCRIPT.exec(name)?.[1];
      if (windowId === undefined) return;
      const path = join(this.#dir, name);
      const listed = known[windowId];
      try {
        const size = await sizeOf(path);
        if (isEntry(listed) && listed.bytes === size) {
          entries.set(windowId, listed);
          return;
        }
        const { state, bytes } = await readTranscript(path);
        const entry = entryOf(state, bytes);
        if (entry !== null) entries.set(windowId, entry);
      } catch (error) {
        this.#log.warn({ err: error, windowId }, 'The transcript of a chat window cannot be read.');
      }
    });
    return entries;
  }

  #saveSoon(): void {
    this.#timer ??= setTimeout(() => this.#save(), LIMITS.chatIndexMs).unref();
  }

  #save(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing = this.#writing.then(async () => {
      try {
        const windows = Object.fromEntries(await this.#loaded());
        await clearPlace(this.#index);
        await writeFileAtomic(this.#index, `${JSON.stringify({ windows }, null, 1)}\n`);
      } catch (error) {
        // It is made again from the transcripts. Without its folder the app was removed.
        if (!isMissing(error)) this.#log.warn({ err: error }, 'The index of chat windows could not be written.');
      }
    });
  }
}

type Changes = {
  /** Throws when the id cannot be a window's. */
  beginning(): void;
  changed(entry: WindowEntry, save: boolean): void;
  /** Its transcript is as long as this, and ends with a whole line. */
  closed(known: Known): void;
};

class OpenWindow implements OpenConversation {
  readonly #path: string;
  readonly #syncs: FolderSyncs;
  readonly #state: WindowState;
  readonly #on: Changes;
  #bytes: number;
  /** The file ends with a whole line. After a partial line of a crash or a full disk, the next one begins on a new line. */
  #whole: boolean;
  /** A write failed: the file may hold more than the state says. */
  #isUnsure = false;
  /** The name of its file may be lost in a crash. */
  #isNew = false;
  #file: FileHandle | null = null;
  /** The last write or attempt: waiting turns and the running one write one after the other. */
  #writing: Promise<unknown> = Promise.resolve();

  constructor(path: string, syncs: FolderSyncs, state: WindowState, bytes: number, whole: boolean, on: Changes) {
    this.#path = path;
    this.#syncs = syncs;
    this.#state = state;
    this.#bytes = bytes;
    this.#whole = whole;
    this.#on = on;
  }

  get mode(): OpenConversation['mode'] {
    return this.#state.mode;
  }

  get limited(): boolean {
    return this.#state.limited;
  }

  get turns(): readonly WindowTurn[] {
    return this.#state.turns;
  }

  get said(): OpenConversation['said'] {
    return [...this.#state.said];
  }

  resume(runner: string): string | null {
    return this.#state.adapter === runner ? this.#state.session : null;
  }

  async begin(turn: NewTurn, events: TurnEvent[]): Promise<WindowTurn> {
    if (this.#bytes > LIMITS.chatTranscriptBytes) {
      throw new SvcError('CONFLICT', 'This window is full; go on in a new one.', { path: 'windowId' });
    }
    this.#on.beginning();
    const { turnId, ts } = turn;
    await this.#write(
      [
        { kind: 'user', ...turn },
        { kind: 'events', turnId, ts, id: 1, events: packed(events) },
      ],
      true,
    );
    return this.#state.turn(turnId) as WindowTurn;
  }

  async append(
    { turnId, lastId }: WindowTurn,
    events: TurnEvent[],
    { session, end }: { session?: string; end?: TurnEnd } = {},
  ): Promise<void> {
    const line: TranscriptLine = {
      kind: 'events',
      turnId,
      ts: Date.now(),
      id: lastId + 1,
      events: packed(events),
      ...(session === undefined ? {} : { session }),
      ...(end === undefined ? {} : { end }),
    };
    await this.#write([line], end !== undefined);
  }

  async *events({ turnId, offset, lastId }: WindowTurn, after: number): AsyncGenerator<StoredEvent> {
    // Events that are added meanwhile are read with the next call.
    const last = lastId;
    if (after >= last) return;
    for await (const { line } of transcriptLines(this.#path, offset)) {
      if (line.turnId !== turnId || line.kind !== 'events') continue;
      for (const stored of unpacked(line)) {
        if (stored.id > after) yield stored;
        if (stored.id >= last) return;
      }
    }
  }

  async close(): Promise<void> {
    await this.#writing;
    const file = this.#file;
    this.#file = null;
    await file?.close();
    if (file && !this.#isUnsure) this.#on.closed({ state: this.#state, bytes: this.#bytes });
  }

  /** With `durable` all of the file is on the disk when it resolves, and the index is due. */
  #write(lines: TranscriptLine[], durable: boolean): Promise<void> {
    const written = this.#writing.then(() => this.#writeNow(lines, durable));
    this.#writing = written.catch(() => {});
    return written;
  }

  async #writeNow(lines: TranscriptLine[], durable: boolean): Promise<void> {
    const file = await this.#opened();
    const texts = lines.map((line) => Buffer.from(`${JSON.stringify(line)}\n`));
    const bytes = Buffer.concat(this.#whole ? texts : [Buffer.from('\n'), ...texts]);
    let at = this.#bytes + (this.#whole ? 0 : 1);
    this.#whole = false;
    try {
      await file.appendFile(bytes);
      if (durable) await this.#sync(file);
    } catch (error) {
      this.#isUnsure = true;
      this.#bytes = (await file.stat()).size;
      throw error;
    }
    this.#whole = true;
    this.#bytes += bytes.length;
    for (const [i, line] of lines.entries()) {
      this.#state.take(line, at);
      at += (texts[i] as Buffer).length;
    }
    const entry = entryOf(this.#state, this.#bytes);
    if (entry !== null) this.#on.changed(entry, durable);
  }

  async #sync(file: FileHandle): Promise<void> {
    // The disk writes name and content together.
    const names = this.#isNew ? this.#syncs.names().catch((error) => Promise.reject(ofRemoved(error))) : undefined;
    await Promise.all([names, this.#syncs.file(() => file.datasync())]);
    this.#isNew = false;
  }

  async #opened(): Promise<FileHandle> {
    if (this.#file) return this.#file;
    const isNew = this.#bytes === 0;
    this.#file = await appendTranscript(this.#path, isNew);
    this.#isNew ||= isNew;
    return this.#file;
  }
}

async function readTranscript(path: string): Promise<{ state: WindowState; bytes: number; whole: boolean }> {
  const state = new WindowState();
  let at = { bytes: 0, whole: true };
  const lines = transcriptLines(path, 0, (end) => {
    at = end;
  });
  for await (const { line, offset } of lines) state.take(line, offset);
  return { state, ...at };
}

function tooManyWindows(): SvcError {
  return new SvcError('CONFLICT', `The app has ${LIMITS.chatWindows} chat windows, the maximum; delete some.`);
}
