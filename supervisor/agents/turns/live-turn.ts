/**
 * Stores the events of a turn, in order and in groups, and shows them to its followers once they are stored. Whoever adds
 * events waits for `room`, so that few are not stored yet. The turn never waits for its followers.
 */
import type { Logger } from 'pino';
import type { TurnEvent } from '../../../protocol/agents/agents.ts';
import type { OpenConversation, StoredTurn, TurnEnd } from '../../../protocol/agents/stored-turns.ts';
import { eventText } from '../../../protocol/http/event-stream.ts';
import { LIMITS } from '../../../protocol/limits.ts';

/** Events as they are sent, one behind the other; `id` is that of the last one. */
export type SentEvents = { id: number; bytes: Buffer };

/** A turn that can be read, while it runs and afterwards. */
export type ReadableTurn = {
  readonly turnId: string;
  /** No more events come. */
  readonly isOver: boolean;
  readonly lastId: number;
  /** The events with ids over `after` that there are now; an array when they are at hand. */
  after(after: number): SentEvents[] | AsyncIterable<SentEvents>;
  /** Resolves when there may be more. */
  changed(): Promise<void>;
};

/** A turn that has ended, as it is stored. */
export function endedTurn(conversation: OpenConversation, stored: StoredTurn): ReadableTurn {
  return {
    turnId: stored.turnId,
    isOver: true,
    lastId: stored.lastId,
    after: (after) => sent(conversation, stored, after),
    changed: () => Promise.resolve(),
  };
}

export class LiveTurn implements ReadableTurn {
  readonly turnId: string;
  isOver = false;
  lastId: number;
  readonly #conversation: OpenConversation;
  readonly #stored: StoredTurn;
  readonly #pace: StorePace;
  readonly #log: Logger;
  /** The latest events, for followers that read fast enough. */
  readonly #tail: SentEvents[] = [];
  /** The id of the event before them. */
  #tailAfter: number;
  #tailBytes = 0;
  #waiting: TurnEvent[] = [];
  #waitingBytes = 0;
  #turnBytes = 0;
  #resumeId: string | undefined;
  #end: TurnEnd | undefined;
  #writing: Promise<void> | null = null;
  /** Why events cannot be stored any more; they are then shown to those who follow, and lost with the process. */
  #failure: unknown = null;
  #wake: (() => void)[] = [];
  #onRoom: (() => void) | null = null;

  /** `first` are the events that were stored with its message. */
  constructor(conversation: OpenConversation, stored: StoredTurn, first: TurnEvent[], pace: StorePace, log: Logger) {
    this.turnId = stored.turnId;
    this.#conversation = conversation;
    this.#stored = stored;
    this.#pace = pace;
    this.#log = log;
    this.lastId = stored.lastId - first.length;
    this.#tailAfter = this.lastId;
    this.#show(first);
  }

  /** Why its events are not stored, or null. */
  get failure(): unknown {
    return this.#failure;
  }

  /** It has more events than may be stored of one turn. */
  get isFull(): boolean {
    return this.#turnBytes > LIMITS.chatTurnBytes;
  }

  /** Pieces of text that wait to be stored become one event: of many windows that stream, each has fewer and larger ones. */
  add(events: TurnEvent[]): void {
    if (events.length === 0) return;
    for (const event of events) {
      this.#waitingBytes += sizeOf(event);
      const last = this.#waiting.at(-1);
      if (last && 'delta' in last && 'delta' in event && last.type === event.type) last.delta += event.delta;
      // A copy: whoever else has the event does not see it grow.
      else this.#waiting.push('delta' in event ? { ...event } : event);
    }
    this.#writing ??= this.#write();
  }

  /** The id of the agent's session; stored with the next events. */
  named(resumeId: string): void {
    this.#resumeId = resumeId;
  }

  /** Resolves when more may be added, at once unless the disk is behind. */
  room(): Promise<void> | undefined {
    if (this.#waitingBytes < LIMITS.agentUntakenBytes) return undefined;
    return new Promise((resolve) => {
      this.#onRoom = resolve;
    });
  }

  /** Adds its last events; resolves once all of it is durable, or could not be stored. */
  async end(state: TurnEnd, events: TurnEvent[]): Promise<void> {
    // Stored with the group of these events, the last one.
    this.#end = state;
    this.add(events);
    await this.#writing;
  }

  after(after: number): SentEvents[] | AsyncIterable<SentEvents> {
    if (after < this.#tailAfter) return sent(this.#conversation, this.#stored, after);
    const at = this.#tail.findIndex(({ id }) => id > after);
    if (at < 0) return [];
    const [group, ...rest] = this.#tail.slice(at) as [SentEvents, ...SentEvents[]];
    const before = at === 0 ? this.#tailAfter : (this.#tail[at - 1] as SentEvents).id;
    return [{ id: group.id, bytes: withoutFirst(group.bytes, after - before) }, ...rest];
  }

  changed(): Promise<void> {
    return new Promise((resolve) => this.#wake.push(resolve));
  }

  /** One group at a time: events added meanwhile form the next one. */
  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      await this.#pace.turn();
      const events = this.#waiting;
      this.#waiting = [];
      this.#turnBytes += this.#waitingBytes;
      this.#waitingBytes = 0;
      await this.#store(events);
      this.#show(events);
      this.#onRoom?.();
      this.#onRoom = null;
    }
    this.#writing = null;
  }

  async #store(events: TurnEvent[]): Promise<void> {
    if (this.#failure !== null) return;
    const resumeId = this.#resumeId;
    this.#resumeId = undefined;
    try {
      await this.#conversation.append(this.#stored, events, {
        ...(resumeId === undefined ? {} : { session: resumeId }),
        ...(this.#end === undefined ? {} : { end: this.#end }),
      });
    } catch (error) {
      this.#failure = error;
      this.#log.error({ err: error, turn: this.turnId }, 'What an agent said could not be stored.');
    }
  }

  #show(events: TurnEvent[]): void {
    const bytes = Buffer.from(events.map((event) => wireOf(++this.lastId, event)).join(''));
    this.#tail.push({ id: this.lastId, bytes });
    this.#tailBytes += bytes.length;
    if (events.at(-1)?.type === 'end') this.isOver = true;
    // Events that are not stored exist only here.
    while (this.#failure === null && this.#tail.length > 1 && this.#tailBytes > LIMITS.chatTailBytes) {
      const { id, bytes } = this.#tail.shift() as SentEvents;
      this.#tailAfter = id;
      this.#tailBytes -= bytes.length;
    }
    const wake = this.#wake;
    this.#wake = [];
    for (const one of wake) one();
  }
}

/** Without its first `count` events. */
function withoutFirst(bytes: Buffer, count: number): Buffer {
  let at = 0;
  for (let i = 0; i < count; i++) at = bytes.indexOf(EVENT_END, at) + EVENT_END.length;
  return bytes.subarray(at);
}

async function* sent(conversation: OpenConversation, stored: StoredTurn, after: number): AsyncGenerator<SentEvents> {
  for await (const { id, event } of conversation.events(stored, after))
    yield { id, bytes: Buffer.from(wireOf(id, event)) };
}

const EVENT_END = '\n\n';

/** The event as it is sent. JSON has no line breaks, so it always stays one event. */
function wireOf(id: number, event: TurnEvent): string {
  return eventText(event.type, JSON.stringify(event), id);
}

/** Approximately, in bytes. */
function sizeOf(event: TurnEvent): number {
  return 'delta' in event ? event.delta.length + 64 : JSON.stringify(event).length;
}

/**
 * Paces the stores of all turns together: a store, with the work that it causes for followers, takes about as long for one
 * event as for ten. When many turns run, each stores less often and more at a time, so that other calls are not slowed down.
 */
export class StorePace {
  /** When the next group may be stored, on the clock of `performance.now`. */
  #next = 0;

  /** Resolves when a turn may store what it has, in the order of the calls: at once, or behind what else happens now. */
  turn(): Promise<void> {
    const now = performance.now();
    const at = Math.max(this.#next, now - LIMITS.chatStoreBurst * LIMITS.chatStoreEveryMs);
    this.#next = at + LIMITS.chatStoreEveryMs;
    return new Promise((resolve) => {
      // One piece of an agent's text arrives as several events, which should form one group.
      if (at <= now) setImmediate(resolve);
      else setTimeout(resolve, at - now);
    });
  }
}
