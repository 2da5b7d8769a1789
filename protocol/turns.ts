/** Turns of conversations as they are kept, whatever keeps them: windows their transcripts, conversations their rows (decisions, section 12). */
import type { ChatMode, TurnAttachment, TurnEvent } from './agents.ts';

/** `running → ok | error | aborted`; `interrupted` when the gateway stopped in the middle. One that waits for its turn is running. */
export const TURN_STATES = ['running', 'ok', 'error', 'aborted', 'interrupted'] as const;
export type TurnState = (typeof TURN_STATES)[number];
export type TurnEnd = Exclude<TurnState, 'running'>;

/** A message that was accepted. Its text is what a retry is compared with. */
export type NewTurn = {
  turnId: string;
  message: string;
  mode: ChatMode;
  /** Name of the runner, as `assistant.start` says it. */
  runner: string;
  model?: string;
  thinking?: string;
  attachments?: TurnAttachment[];
  /** A retry with the same key gets the events of this turn. */
  idempotencyKey?: string;
  /** Milliseconds since the epoch. */
  ts: number;
};

/** A turn as its conversation has it; `state` and `lastId` change as events are appended. */
export type StoredTurn = {
  readonly turnId: string;
  readonly idempotencyKey: string | null;
  /** SHA-256 of the message, in hex. */
  readonly messageHash: string;
  readonly state: TurnState;
  /** The id of its last event; ids grow by one from 1. */
  readonly lastId: number;
};

export type StoredEvent = { id: number; event: TurnEvent };

export type Said = { role: 'user' | 'assistant'; text: string };

/** A conversation that is open for turns. What is stored is stored in the order of the calls, for each turn one at a time. */
export interface OpenConversation {
  /** The first turn pins it; null before. */
  readonly mode: ChatMode | null;
  /** Oldest first. */
  readonly turns: readonly StoredTurn[];
  /** What was said in turns that have ended, oldest first; the oldest are left out over `LIMITS.chatHistoryChars`. */
  readonly said: Said[];
  /** What the agent of this runner called its session, if its turn was the last one. */
  resume(runner: string): string | null;
  /** Stores a message and the first events of its turn; durable when it resolves. Rejects with `CONFLICT` when there is no room. */
  begin(turn: NewTurn, events: TurnEvent[]): Promise<StoredTurn>;
  /**
   * Appends events of a turn. `session` is what its agent calls the conversation. With `end` no more events come, and all of the
   * conversation is durable when it resolves.
   */
  append(turn: StoredTurn, events: TurnEvent[], more?: { session?: string; end?: TurnEnd }): Promise<void>;
  /** The stored events of a turn with ids over `after`, in order. */
  events(turn: StoredTurn, after: number): AsyncIterable<StoredEvent>;
  /** Nothing is called after it. */
  close(): Promise<void>;
}

/** A row of a conversation's history; `seq` counts from 1. Times are milliseconds since the epoch. */
export type HistoryRow = { seq: number; turnId: string; ts: number } & (
  | { kind: 'user'; text: string; state: TurnState; error?: { code: string; message: string } }
  | { kind: 'assistant'; text: string; reasoning?: string }
  | {
      kind: 'tool';
      toolCallId?: string;
      toolName: string;
      args?: unknown;
      sql?: string;
      /** Absent while it runs. */
      ok?: boolean;
      result?: unknown;
      errorText?: string;
      /** Of a question whether the tool may run; `ok` then says whether it was granted. */
      permission?: { requestId: string; detail: string; optionId?: string | null };
    }
);
