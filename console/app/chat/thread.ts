/** The conversation that is shown: its turns, those that run followed as they go on, earlier ones read on demand. */
import type { TurnEvent } from '../../../protocol/agents/agents.ts';
import { GatewayError, gateway, isSignedOut, unreachable } from '../../gateway.ts';
import type { ConversationName, Conversations, HistoryRow, Message, Mode } from './conversations.ts';
import { ShownTurn } from './drawn-turn.ts';

/** Called when turns come or end, and when turns change a draft. */
type ThreadListener = {
  changed(): void;
  /** The workspace of the draft that it works on. */
  workspace(sessionId: string): void;
  /** A turn changed a file of it, or has ended. */
  edited(): void;
};

export class Thread {
  readonly conversation: ConversationName;
  turns: readonly ShownTurn[] = [];
  /** There are earlier messages than those that were read. */
  hasEarlier = false;
  readonly #conversations: Conversations;
  readonly #listener: ThreadListener;
  /** Rows of the oldest turn that is loaded in part, and the oldest row of all. */
  #rest: HistoryRow[] = [];
  #oldest: HistoryRow | null = null;
  readonly #running = new Map<ShownTurn, AbortController>();
  #isClosed = false;

  constructor(conversations: Conversations, conversation: ConversationName, listener: ThreadListener) {
    this.#conversations = conversations;
    this.conversation = conversation;
    this.#listener = listener;
  }

  /** How many turns run or wait. */
  get running(): number {
    return this.#running.size;
  }

  /** Reads its latest turns, and tells which draft they work on before it resolves, also while one of them runs. */
  async open(): Promise<void> {
    const read = await this.readEarlier();
    const last = read.at(-1);
    if (this.#conversations.find(this.conversation)?.mode !== 'full' || !last?.turnId) return;
    const start = await this.#conversations.start(this.conversation, last.turnId);
    if (start?.sessionId && !this.#isClosed) this.#listener.workspace(start.sessionId);
  }

  /** Closes the streams; the turns themselves go on. */
  close(): void {
    this.#isClosed = true;
    for (const leaving of this.#running.values()) leaving.abort();
    this.#running.clear();
  }

  /** Puts turns before those that are there: whole ones, at least one while there is any. Resolves with them. */
  async readEarlier(): Promise<ShownTurn[]> {
    do {
      const rows = await this.#conversations.history(this.conversation, this.#oldest);
      if (this.#isClosed) return [];
      this.#oldest = rows[0] ?? null;
      this.#rest = [...rows, ...this.#rest];
    } while (this.#oldest !== null && this.#oldest.seq > 1 && !this.#rest.some(({ kind }) => kind === 'user'));
    const begin = this.#rest.findIndex(({ kind }) => kind === 'user');
    const turns = turnsOf(begin === -1 ? [] : this.#rest.splice(begin));
    this.turns = [...turns, ...this.turns];
    this.hasEarlier = this.#oldest !== null && this.#oldest.seq !== 1;
    for (const turn of turns) if (turn.turn.state === 'running') void this.#follow(turn);
    this.#listener.changed();
    return turns;
  }

  /** Sends a message. Rejects when it was not taken; then the turn says so. */
  async send(mode: Mode, message: Message): Promise<void> {
    const turn = new ShownTurn(message.message, { attached: message.attachments });
    this.turns = [...this.turns, turn];
    this.#listener.changed();
    try {
      const start = await this.#conversations.send(this.conversation, mode, message);
      if (!start) throw unreachable('The gateway ended before the turn began.');
      turn.turnId = start.turnId;
      if (!this.#isClosed) void this.#follow(turn);
    } catch (error) {
      if (error instanceof GatewayError && error.status === 401) {
        this.turns = this.turns.filter((other) => other !== turn);
      } else {
        const { code = 'INTERNAL', message: why } = error as GatewayError;
        turn.fail({ code, message: why });
        turn.end();
      }
      throw error;
    } finally {
      this.#listener.changed();
    }
  }

  /** Stops the turn that runs; the next one that waits begins. */
  async stop(): Promise<void> {
    const [turn] = this.#running.keys();
    if (turn?.turnId) await this.#conversations.stop(this.conversation, turn.turnId);
  }

  /** Answers a question of the agent. */
  async answer({ turnId }: ShownTurn, requestId: string, optionId: string): Promise<void> {
    await this.#conversations.answer(this.conversation, turnId ?? '', requestId, optionId);
  }

  /** Shows a turn from its first event on; after a lost connection it goes on where it was. */
  async #follow(turn: ShownTurn): Promise<void> {
    const leaving = new AbortController();
    this.#running.set(turn, leaving);
    this.#listener.changed();
    const onLost = () => turn.say('The connection was lost; trying again …');
    const { path } = this.#conversations.eventsOf(this.conversation, turn.turnId ?? '');
    try {
      for await (const { data } of gateway.follow(path, { isPatient: true, signal: leaving.signal, onLost })) {
        const event = JSON.parse(data) as TurnEvent;
        turn.show(event);
        if (event.type === 'assistant.start' && event.sessionId) this.#listener.workspace(event.sessionId);
        if (event.type === 'file') this.#listener.edited();
        if (event.type === 'end') break;
      }
    } catch {
      // It was closed, or the gateway has no such turn any more. Signed out, it goes on after the next sign-in.
      if (leaving.signal.aborted || isSignedOut()) return;
    }
    this.#running.delete(turn);
    this.#listener.changed();
    this.#listener.edited();
  }
}

function turnsOf(rows: readonly HistoryRow[]): ShownTurn[] {
  const turns = new Map<string, ShownTurn>();
  for (const row of rows) {
    if (row.kind === 'user') {
      const { turnId, text, state = 'running', attachments: attached = [], by } = row;
      turns.set(turnId, new ShownTurn(text, { turnId, state, attached, by }));
    } else if (turns.get(row.turnId)?.turn.state !== 'running') {
      turns.get(row.turnId)?.showRow(row);
    }
  }
  for (const row of rows) {
    const turn = row.kind === 'user' ? turns.get(row.turnId) : undefined;
    if (!turn || turn.turn.state === 'running' || row.kind !== 'user') continue;
    const { state } = turn.turn;
    if (row.error) turn.fail(row.error);
    turn.end(state);
  }
  return [...turns.values()];
}
