/**
 * Reads the lines of a chat window's transcript (specification, "Chat window"), and builds the window's state and history from
 * them. Invalid lines are skipped.
 */
import { createHash } from 'node:crypto';
import { CHAT_MODES, type ChatMode, type TurnEvent } from '../../protocol/agents/agents.ts';
import { AnswerText } from '../../protocol/agents/answer-text.ts';
import {
  type HistoryRow,
  type NewTurn,
  type SaidText,
  type StoredEvent,
  type StoredTurn,
  TURN_STATES,
  type TurnEnd,
  type TurnState,
} from '../../protocol/agents/turns.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { isRecord } from '../files/atomic-file.ts';
import { ofDamage, openTranscript } from './transcript-file.ts';

/** Consecutive pieces of text, which share one line. */
type Pieces = { type: 'assistant.delta' | 'reasoning.delta'; deltas: string[] };

export type UserLine = { kind: 'user' } & NewTurn;
/** `id` is that of the first event; each event, and each piece of text, is one more. */
export type EventsLine = {
  kind: 'events';
  turnId: string;
  id: number;
  ts: number;
  events: (TurnEvent | Pieces)[];
  session?: string;
  end?: TurnEnd;
};
export type TranscriptLine = UserLine | EventsLine;

/** The events as a line stores them: consecutive pieces of text share one member. */
export function packed(events: TurnEvent[]): EventsLine['events'] {
  const packed: EventsLine['events'] = [];
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

export function unpacked(line: Pick<EventsLine, 'id' | 'events'>): StoredEvent[] {
  let { id } = line;
  return line.events.flatMap((event) => {
    if (!('deltas' in event)) return [{ id: id++, event }];
    const { type, deltas } = event;
    return deltas.map((delta) => ({ id: id++, event: { type, delta } }));
  });
}

/** Null for an invalid line, which a crash or another program left. */
function parseLine(text: string): TranscriptLine | null {
  let line: unknown;
  try {
    line = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isRecord(line) || typeof line.turnId !== 'string' || typeof line.ts !== 'number') return null;
  if (line.kind === 'user') {
    const isWhole =
      typeof line.message === 'string' &&
      typeof line.runner === 'string' &&
      (CHAT_MODES as readonly unknown[]).includes(line.mode);
    return isWhole ? (line as UserLine) : null;
  }
  const isWhole =
    line.kind === 'events' &&
    Number.isSafeInteger(line.id) &&
    Array.isArray(line.events) &&
    line.events.every(isEvent) &&
    (line.end === undefined || (TURN_STATES as readonly unknown[]).includes(line.end));
  return isWhole ? (line as EventsLine) : null;
}

function isEvent(event: unknown): boolean {
  if (!isRecord(event) || typeof event.type !== 'string') return false;
  if (event.type !== 'assistant.delta' && event.type !== 'reasoning.delta') return true;
  return Array.isArray(event.deltas) && event.deltas.every((delta) => typeof delta === 'string');
}

/** A turn, with the place of its message in the file. */
export type WindowTurn = { -readonly [Member in keyof StoredTurn]: StoredTurn[Member] } & {
  readonly offset: number;
  /** Its message and answer, until it has ended. */
  message: string;
  answer: AnswerText;
  final: string | null;
};

/** The state of a window after the lines read so far. */
export class WindowState {
  mode: ChatMode | null = null;
  limited = false;
  title = '';
  createdAt = 0;
  updatedAt = 0;
  /** The runner of the last turn that began, and the session id of its agent. */
  adapter: string | null = null;
  session: string | null = null;
  readonly turns: WindowTurn[] = [];
  readonly said: SaidText[] = [];
  #saidChars = 0;

  /** `offset` is where the line begins. */
  take(line: TranscriptLine, offset: number): void {
    this.updatedAt = line.ts;
    if (line.kind === 'user') this.#begin(line, offset);
    else this.#append(line);
  }

  turn(turnId: string): WindowTurn | undefined {
    return this.turns.findLast((turn) => turn.turnId === turnId);
  }

  #begin(line: UserLine, offset: number): void {
    // What was said stays in what the agent is told.
    if (line.limited === true) this.limited = true;
    if (this.mode === null) {
      this.mode = line.mode;
      this.title = titleOf(line.message);
      this.createdAt = line.ts;
    }
    this.turns.push({
      turnId: line.turnId,
      idempotencyKey: line.idempotencyKey ?? null,
      messageHash: hashOf(line.message),
      state: 'running',
      lastId: 0,
      offset,
      runner: line.runner,
      message: line.message,
      answer: new AnswerText(),
      final: null,
    });
  }

  #append(line: EventsLine): void {
    const turn = this.turn(line.turnId);
    if (!turn) return;
    turn.lastId = line.id - 1;
    for (const event of line.events) {
      turn.lastId += 'deltas' in event ? event.deltas.length : 1;
      if (!('deltas' in event)) turn.answer.take(event);
      else if (event.type === 'assistant.delta') turn.answer.add(event.deltas.join(''));
      if (event.type === 'final') turn.final = event.text;
    }
    if (line.session !== undefined) {
      this.adapter = turn.runner;
      this.session = line.session;
    }
    if (line.end !== undefined) this.#end(turn, line.end);
  }

  #end(turn: WindowTurn, end: TurnEnd): void {
    turn.state = end;
    if (this.adapter !== turn.runner) {
      // The earlier agent does not know of this turn, so its session is not resumed.
      this.adapter = turn.runner;
      this.session = null;
    }
    this.#say(turn.turnId, 'user', turn.message);
    this.#say(turn.turnId, 'assistant', turn.final ?? turn.answer.text);
    turn.message = '';
    turn.answer = new AnswerText();
    turn.final = null;
  }

  #say(turnId: string, role: SaidText['role'], text: string): void {
    if (text === '') return;
    const kept = endOf(text);
    this.said.push({ turnId, role, text: kept });
    this.#saidChars += kept.length;
    while (this.#saidChars > LIMITS.chatHistoryChars) this.#saidChars -= this.said.shift()?.text.length ?? 0;
  }
}

const CUT = '[the beginning is cut] ';

/** Of a long text the end, to which the next message refers. */
export function endOf(text: string): string {
  const most = LIMITS.chatHistoryTextChars;
  return text.length <= most ? text : CUT + text.slice(CUT.length - most);
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

const CHUNK_BYTES = 64 * 1024;
const NEWLINE = 0x0a;

/**
 * The lines of a transcript from `offset` on, each with its place. `end` gets the file's size, and whether its last line is whole.
 * Rejects with `WINDOW_DAMAGED`.
 */
export async function* transcriptLines(
  path: string,
  offset = 0,
  end: (at: { bytes: number; whole: boolean }) => void = () => {},
): AsyncGenerator<{ line: TranscriptLine; offset: number }> {
  const file = await openTranscript(path);
  if (file === null) {
    end({ bytes: 0, whole: true });
    return;
  }
  try {
    let at = offset;
    let parts: Buffer[] = [];
    let partBytes = 0;
    for (;;) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(CHUNK_BYTES), 0, CHUNK_BYTES, at + partBytes);
      let chunk = buffer.subarray(0, bytesRead);
      if (bytesRead === 0) break;
      for (let newline = chunk.indexOf(NEWLINE); newline >= 0; newline = chunk.indexOf(NEWLINE)) {
        const rest = chunk.subarray(0, newline);
        const bytes = partBytes + newline + 1;
        const text = parts.length === 0 ? rest.toString() : Buffer.concat([...parts, rest]).toString();
        const line = parseLine(text);
        if (line !== null) yield { line, offset: at };
        at += bytes;
        parts = [];
        partBytes = 0;
        chunk = chunk.subarray(newline + 1);
      }
      // A line that is too long to be valid is skipped.
      if (partBytes <= LIMITS.chatTurnBytes) parts.push(chunk);
      partBytes += chunk.length;
    }
    end({ bytes: at + partBytes, whole: partBytes === 0 });
  } catch (error) {
    throw ofDamage(error);
  } finally {
    await file.close();
  }
}

/** The history of a window, oldest first. */
export async function historyOf(lines: AsyncIterable<{ line: TranscriptLine }>): Promise<HistoryRow[]> {
  const history = new HistoryFold();
  for await (const { line } of lines) {
    if (line.kind === 'user') history.message(line);
    else for (const { event } of unpacked(line)) history.event(line, event);
  }
  return history.rows;
}

type RowOf<K extends HistoryRow['kind']> = Extract<HistoryRow, { kind: K }>;
type Place = { turnId: string; ts: number; end?: TurnEnd };

/** Makes history rows of events. Events of several turns may alternate. */
export class HistoryFold {
  readonly rows: HistoryRow[] = [];
  /** By turn: its message, the row that gets its text, its tools. */
  readonly #turns = new Map<
    string,
    { user: RowOf<'user'>; text: RowOf<'assistant'> | null; isVoid: boolean; tools: Map<string, RowOf<'tool'>> }
  >();

  message({ turnId, ts, message }: NewTurn): void {
    const user: RowOf<'user'> = { seq: this.#seq(), turnId, ts, kind: 'user', text: message, state: 'running' };
    this.rows.push(user);
    this.#turns.set(turnId, { user, text: null, isVoid: false, tools: new Map() });
  }

  event(place: Place, event: TurnEvent): void {
    const turn = this.#turns.get(place.turnId);
    if (!turn) return;
    if (turn.isVoid && (event.type === 'final' || event.type.endsWith('.delta') || event.type === 'tool.start')) {
      turn.isVoid = false;
      if (turn.text) turn.text.text = '';
      delete turn.text?.reasoning;
    }
    if (event.type === 'assistant.delta') this.#text(turn, place).text += event.delta;
    else if (event.type === 'reasoning.delta') {
      const row = this.#text(turn, place);
      row.reasoning = (row.reasoning ?? '') + event.delta;
    } else if (event.type === 'final') {
      // Text that came in pieces is not repeated.
      if (turn.text === null || turn.text.text === '') this.#text(turn, place).text = event.text;
    } else if (event.type === 'error') turn.user.error = { code: event.code, message: event.message };
    else if (event.type === 'phase') turn.isVoid ||= event.phase === 'retrying';
    else if (event.type === 'end') turn.user.state = place.end ?? turn.user.state;
    else this.#tool(turn, place, event);
  }

  #tool(
    turn: { text: RowOf<'assistant'> | null; tools: Map<string, RowOf<'tool'>> },
    { turnId, ts }: Place,
    event: TurnEvent,
  ): void {
    const begin = (key: string, row: Omit<RowOf<'tool'>, 'seq' | 'turnId' | 'ts' | 'kind'>): void => {
      const tool: RowOf<'tool'> = { seq: this.#seq(), turnId, ts, kind: 'tool', ...row };
      this.rows.push(tool);
      turn.tools.set(key, tool);
      turn.text = null;
    };
    if (event.type === 'tool.start') {
      const { type, ...row } = event;
      begin(`tool ${event.toolCallId}`, row);
    } else if (event.type === 'tool.result') {
      const { type, ...row } = event;
      Object.assign(turn.tools.get(`tool ${event.toolCallId}`) ?? {}, row);
    } else if (event.type === 'permission') {
      const { requestId, toolName, detail } = event;
      begin(`permission ${requestId}`, { toolName, permission: { requestId, detail } });
    } else if (event.type === 'permission.result') {
      const row = turn.tools.get(`permission ${event.requestId}`);
      if (row?.permission)
        Object.assign(row, { ok: event.ok, permission: { ...row.permission, optionId: event.optionId } });
    }
  }

  #text(turn: { text: RowOf<'assistant'> | null }, { turnId, ts }: Place): RowOf<'assistant'> {
    if (turn.text === null) {
      turn.text = { seq: this.#seq(), turnId, ts, kind: 'assistant', text: '' };
      this.rows.push(turn.text);
    }
    return turn.text;
  }

  #seq(): number {
    return this.rows.length + 1;
  }
}

/** A window in the index; `bytes` shows whether the transcript has changed since. */
export type WindowEntry = {
  mode: ChatMode;
  title: string;
  turns: number;
  adapter: string | null;
  session: string | null;
  lastTurn: { turnId: string; state: TurnState };
  createdAt: number;
  updatedAt: number;
  bytes: number;
};

/** Whether it is a valid entry of a window: the file may be damaged. */
export function isEntry(value: unknown): value is WindowEntry {
  if (!isRecord(value) || !isRecord(value.lastTurn)) return false;
  const { mode, title, adapter, session, lastTurn } = value;
  const isTextOrNull = (one: unknown) => one === null || typeof one === 'string';
  return (
    (CHAT_MODES as readonly unknown[]).includes(mode) &&
    typeof title === 'string' &&
    isTextOrNull(adapter) &&
    isTextOrNull(session) &&
    typeof lastTurn.turnId === 'string' &&
    (TURN_STATES as readonly unknown[]).includes(lastTurn.state) &&
    [value.turns, value.createdAt, value.updatedAt, value.bytes].every(Number.isFinite)
  );
}

/** Null for a window without messages. */
export function entryOf(state: WindowState, bytes: number): WindowEntry | null {
  const last = state.turns.at(-1);
  if (state.mode === null || !last) return null;
  const { mode, title, adapter, session, createdAt, updatedAt } = state;
  const lastTurn = { turnId: last.turnId, state: last.state };
  return { mode, title, turns: state.turns.length, adapter, session, lastTurn, createdAt, updatedAt, bytes };
}
