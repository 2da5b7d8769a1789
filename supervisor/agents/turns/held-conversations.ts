/** Keeps a conversation open while it has turns under way, or a reader. */
import { type SessionName, sessionKey } from '../../../protocol/agents/session-key.ts';
import type { OpenConversation, StoredTurn } from '../../../protocol/agents/turns.ts';
import { SvcError } from '../../../protocol/errors.ts';

export class HeldConversation {
  readonly name: SessionName;
  readonly key: string;
  users = 0;
  conversation!: OpenConversation;
  ready!: Promise<void>;
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

  /** A turn as it is stored. Throws `UNKNOWN_TURN`. */
  stored(turnId: string): StoredTurn {
    const turn = this.conversation.turns.find((one) => one.turnId === turnId);
    if (turn) return turn;
    throw new SvcError('UNKNOWN_TURN', `The conversation has no turn "${turnId.slice(0, 80)}".`);
  }
}
