/** Makes the history of a conversation from the events of its turns, and adds up what their agents answered. Pure. */
import type { TurnEvent } from '../../protocol/agents/agents.ts';
import { AnswerText } from '../../protocol/agents/answer-text.ts';
import type { NewTurn, TurnEnd } from '../../protocol/agents/stored-turns.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { HistoryRow } from '../../protocol/routes/agents/turns-rows.ts';

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

  message({ turnId, ts, message, by }: Pick<NewTurn, 'turnId' | 'ts' | 'message' | 'by'>): void {
    const said = { text: message, ...(by && { by }) };
    const user: RowOf<'user'> = { seq: this.#seq(), turnId, ts, kind: 'user', ...said, state: 'running' };
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

const CUT = '[the beginning is cut] ';

/** Of a long text the end, to which the next message refers. */
export function endOf(text: string): string {
  const most = LIMITS.chatHistoryTextChars;
  return text.length <= most ? text : CUT + text.slice(CUT.length - most);
}
