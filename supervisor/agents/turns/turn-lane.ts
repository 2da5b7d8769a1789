/** Keeps the running and waiting turns of an open conversation, and their stored events. */
import type { ChatMode, ThinkingLevel, TurnAttachment } from '../../../protocol/agents/agents.ts';
import { type SessionName, sessionKey } from '../../../protocol/agents/session-key.ts';
import type { OpenConversation, StoredTurn } from '../../../protocol/agents/turns.ts';
import { SvcError } from '../../../protocol/errors.ts';
import type { Asker } from '../../edge/edge.ts';
import type { TurnWork } from './turn-work.ts';

/** By name; `model` is absent where the runner decides. */
export type ChosenRunner = { runner: string; model?: string };

/** A message, and what its sender wants of the turn. */
export type TurnRequest = {
  message: string;
  /** By default the conversation's, else `data`. */
  mode?: ChatMode;
  runner?: string;
  model?: string;
  thinking?: ThinkingLevel;
  attachments?: TurnAttachment[];
  /** The session whose draft a turn of mode `full` works in; by default that of its conversation. */
  session?: string;
  idempotencyKey?: string;
  /** Its sender: the turn ends when what it presented does. */
  asker?: Asker;
  /**
   * Its sender does not manage the app, such as a page of it: the agent has the tools of the app alone, and may by SQL what the app
   * allows (specification, "Runners of pages").
   */
  limited?: boolean;
  /** Throws unless its sender may have a turn of this mode. */
  permit?(mode: ChatMode): void;
};

/** A turn that is new; `draft` is the session whose draft it works in, and `assistant.start` says it. */
export type BegunTurn = {
  turnId: string;
  name: SessionName;
  request: TurnRequest;
  mode: ChatMode;
  draft: string | undefined;
  limited: boolean;
} & ChosenRunner;

type Waiting = { work: TurnWork; begun: BegunTurn };

/** An open conversation: it has turns under way, or a reader. */
export class Lane {
  readonly name: SessionName;
  readonly key: string;
  users = 0;
  conversation!: OpenConversation;
  ready!: Promise<void>;
  /** In their order; the first one runs. */
  readonly turns: Waiting[] = [];
  /** It is about to be deleted. */
  isLeaving = false;
  #accepting: Promise<unknown> = Promise.resolve();

  constructor(name: SessionName) {
    this.name = name;
    this.key = sessionKey(name);
  }

  /** One after the other. */
  serial<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#accepting.then(work);
    this.#accepting = result.catch(() => {});
    return result;
  }

  get works(): TurnWork[] {
    return this.turns.map(({ work }) => work);
  }

  turn(turnId: string): TurnWork | undefined {
    return this.works.find(({ live }) => live.turnId === turnId);
  }

  /** A turn as it is stored. Throws `UNKNOWN_TURN`. */
  stored(turnId: string): StoredTurn {
    const turn = this.conversation.turns.find((one) => one.turnId === turnId);
    if (turn) return turn;
    throw new SvcError('UNKNOWN_TURN', `The conversation has no turn "${turnId.slice(0, 80)}".`);
  }
}

/** Ends turns, and waits until they have. With a reason they are `interrupted`, else `aborted`. */
export async function endAll(all: TurnWork[], reason: SvcError | null): Promise<void> {
  // The last one first: none of them is to begin meanwhile.
  for (const work of [...all].reverse()) work.abort(reason);
  await Promise.all(all.map((work) => work.ended));
}
