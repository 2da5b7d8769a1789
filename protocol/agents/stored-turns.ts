/** Types of stored turns of chat windows and conversations (specification, "Turns"). */
import type { SqlStatement } from '../wire/frames.ts';
import type { NamedPerson } from '../wire/handler-caller.ts';
import type { ChatMode, ThinkingLevel, TurnAttachment, TurnEvent } from './agents.ts';

/** `running → ok | error | aborted`; `interrupted` when the gateway stopped in the middle. A waiting turn is `running` too. */
export const TURN_STATES = ['running', 'ok', 'error', 'aborted', 'interrupted'] as const;
export type TurnState = (typeof TURN_STATES)[number];
export type TurnEnd = Exclude<TurnState, 'running'>;

/** A message that was accepted. A retry with the same key must have the same text. */
export type NewTurn = {
  turnId: string;
  message: string;
  mode: ChatMode;
  /** Name of the runner, as in `assistant.start`. */
  runner: string;
  model?: string;
  thinking?: ThinkingLevel;
  attachments?: TurnAttachment[];
  /** A retry with the same key gets the events of this turn. */
  idempotencyKey?: string;
  /** Its sender does not manage the app; of the first message, the whole conversation is limited so. */
  limited?: true;
  /** The person who sent it; of the first message, whose the whole conversation is. */
  by?: NamedPerson;
  /** Milliseconds since the epoch. */
  ts: number;
};

/** A stored turn; `state` and `lastId` change as events are appended. */
export type StoredTurn = {
  readonly turnId: string;
  readonly idempotencyKey: string | null;
  /** SHA-256 of the message, in hex. */
  readonly messageHash: string;
  readonly state: TurnState;
  readonly runner: string;
  /** The id of its last event; ids grow by one from 1. */
  readonly lastId: number;
};

export type StoredEvent = { id: number; event: TurnEvent };

/** A message, or the answer of its turn. */
export type MessageText = { turnId: string; role: 'user' | 'assistant'; text: string };

/** The run of a turn, which is stored together with the turn: `turn` is what stores its beginning or end, all or none. */
export type StoredRun = {
  begin(turn: SqlStatement[]): Promise<void>;
  end(turn: SqlStatement[]): Promise<void>;
};

/** A conversation that is open for turns. It stores calls in order; a turn makes one call at a time. */
export interface OpenConversation {
  /** The first turn pins it; null before. */
  readonly mode: ChatMode | null;
  /** Its first message came from who does not manage the app, such as a page of it (specification, "Runners of pages"). */
  readonly limited: boolean;
  /** Whose it is: null where nobody with an account began it. */
  readonly by: NamedPerson | null;
  /** Oldest first. */
  readonly turns: readonly StoredTurn[];
  /** Messages and answers of turns that have ended, oldest first. Over `LIMITS.chatHistoryChars` the oldest are left out. */
  readonly texts: MessageText[];
  /** The session id of this runner's agent if this runner took the last turn, else null. */
  resume(runner: string): string | null;
  /**
   * Stores a message and the first events of its turn, and its run; durable when it resolves. Rejects with `CONFLICT` when there is no
   * room.
   */
  begin(turn: NewTurn, events: TurnEvent[], run?: StoredRun): Promise<StoredTurn>;
  /**
   * Appends events of a turn. `session` is the id of the agent's session. With `end` these are the last events, and the whole
   * conversation is durable when it resolves.
   */
  append(turn: StoredTurn, events: TurnEvent[], more?: { session?: string; end?: TurnEnd }): Promise<void>;
  /** The stored events of a turn with ids over `after`, in order. */
  events(turn: StoredTurn, after: number): AsyncIterable<StoredEvent>;
  /** The last call. */
  close(): Promise<void>;
}
