/** Keeps conversations open while they have turns under way, or readers, and ends the turns that an earlier gateway left in them. */
import type { Logger } from 'pino';
import type { TurnEvent } from '../../../protocol/agents/agents.ts';
import { type ConversationName, sessionKey } from '../../../protocol/agents/session-key.ts';
import type { OpenConversation, StoredTurn } from '../../../protocol/agents/stored-turns.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { OpenTools } from './turn-contract.ts';

const INTERRUPTED: TurnEvent[] = [
  {
    type: 'error',
    code: 'RUN_ABORTED',
    message: 'The gateway stopped before the turn had ended; what was done until then stays done.',
  },
  { type: 'end' },
];

export class HeldConversation {
  readonly name: ConversationName;
  readonly key: string;
  users = 0;
  conversation!: OpenConversation;
  ready!: Promise<void>;
  /** Why it takes no messages: it is about to be deleted, or another node has it. */
  refusal: SvcError | null = null;
  #accepting: Promise<unknown> = Promise.resolve();

  constructor(name: ConversationName) {
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

type HeldConversationsOptions = { open(name: ConversationName): Promise<OpenConversation>; log: Pick<Logger, 'warn'> };

export class HeldConversations {
  readonly #options: HeldConversationsOptions;
  readonly #held = new Map<string, HeldConversation>();

  constructor(options: HeldConversationsOptions) {
    this.#options = options;
  }

  /** Those of an app, or of a draft of it. */
  of(app: string, draft: string | undefined): HeldConversation[] {
    return this.all.filter(({ name }) => name.app === app && name.draft === draft);
  }

  get all(): HeldConversation[] {
    return [...this.#held.values()];
  }

  async use<T>(name: ConversationName, work: (held: HeldConversation) => Promise<T>): Promise<T> {
    const held = await this.#enter(name);
    try {
      return await work(held);
    } finally {
      this.leave(held);
    }
  }

  /** Does the same, but holds the conversation until `leave` is called, unless `work` rejects. */
  async hold<T>(name: ConversationName, work: (held: HeldConversation) => Promise<T>): Promise<T> {
    const held = await this.#enter(name);
    try {
      return await work(held);
    } catch (error) {
      this.leave(held);
      throw error;
    }
  }

  leave(held: HeldConversation): void {
    if (--held.users > 0) return;
    this.forget(held);
    held.conversation.close().catch((error: unknown) => {
      this.#options.log.warn({ err: error }, 'A conversation could not be closed.');
    });
  }

  /** Whoever enters it from now on opens it anew. */
  forget(held: HeldConversation): void {
    if (this.#held.get(held.key) === held) this.#held.delete(held.key);
  }

  async #enter(name: ConversationName): Promise<HeldConversation> {
    const held = this.#held.get(sessionKey(name)) ?? this.#begin(name);
    held.users++;
    try {
      await held.ready;
    } catch (error) {
      this.forget(held);
      throw error;
    }
    return held;
  }

  #begin(name: ConversationName): HeldConversation {
    const held = new HeldConversation(name);
    this.#held.set(held.key, held);
    held.ready = this.#open(held);
    return held;
  }

  /** The runs of those turns are ended by the ledger, which opens first. */
  async #open(held: HeldConversation): Promise<void> {
    const conversation = await this.#options.open(held.name);
    held.conversation = conversation;
    for (const turn of conversation.turns) {
      if (turn.state !== 'running') continue;
      const tools = new OpenTools();
      for await (const { event } of conversation.events(turn, 0))
        if (event.type === 'tool.start' || event.type === 'tool.result') tools.admit(event);
      const results = tools.missing('The gateway stopped before the tool had a result.');
      await conversation.append(turn, [...results, ...INTERRUPTED], { end: 'interrupted' });
    }
  }
}
