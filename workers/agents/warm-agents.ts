/**
 * Keeps the agents of conversations between turns, for `idleMs` and at most `maxAgents` at a time. A turn without a place waits
 * in line; the least recently used idle agent makes room.
 */
import type { AgentScope, TurnOrder } from '../../protocol/agents/agents.ts';
import { SvcError } from '../../protocol/errors.ts';
import type { HostedAgent } from './runner.ts';

/**
 *   taken ─give→ idle ─take→ taken
 *     └── must end, dead ┴─ idle for too long, in the way, another runner → ending → (gone)
 *     └── its conversation is over ─┴─→ ending
 */
type Place = Required<AgentScope> & {
  /** The parameters of an agent: if one differs, another agent is needed. */
  readonly key: string;
  state: 'taken' | 'idle' | 'ending';
  /** Its conversation has ended. */
  isOver: boolean;
  agent: HostedAgent | null;
  idle: NodeJS.Timeout | undefined;
};

type WarmAgentsOptions = { maxAgents: number; idleMs: number };

type Waiter = { order: TurnOrder; resolve(place: Place): void };

export class WarmAgents {
  readonly #options: WarmAgentsOptions;
  /** By conversation, the least recently used first. */
  readonly #places = new Map<string, Place>();
  readonly #waiting = new Set<Waiter>();

  constructor(options: WarmAgentsOptions) {
    this.#options = options;
  }

  get counters(): { agents: number; waiting: number } {
    return { agents: this.#places.size, waiting: this.#waiting.size };
  }

  /**
   * A place for a turn of the conversation, with its agent if that is alive and has the same parameters. Calls `waits` with the
   * reason when other turns have all places. Rejects when `signal` aborts first.
   */
  async take(order: TurnOrder, signal: AbortSignal, waits: (why: string) => void): Promise<Place> {
    signal.throwIfAborted();
    let abort = () => {};
    try {
      return await new Promise<Place>((resolve, reject) => {
        const waiter = { order, resolve };
        this.#waiting.add(waiter);
        this.#advance();
        if (!this.#waiting.has(waiter)) return;
        abort = () => {
          // At once: a place granted now would never be given back.
          this.#waiting.delete(waiter);
          reject(new SvcError('AGENT_FAILED', 'The turn was cancelled while it waited.'));
        };
        signal.addEventListener('abort', abort, { once: true });
        const why = this.#why(order);
        if (why !== null) waits(why);
      });
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }

  /** The turn has ended. A reusable agent stays for a while; resolves when any other has ended. */
  give(place: Place, keep: boolean): Promise<void> {
    let ended = Promise.resolve();
    if (!keep || place.isOver || !place.agent?.isAlive) ended = this.#end(place);
    else {
      place.state = 'idle';
      // Last in the order of use.
      this.#places.delete(place.conversation);
      this.#places.set(place.conversation, place);
      place.idle = setTimeout(() => void this.#end(place), this.#options.idleMs).unref();
    }
    this.#advance();
    return ended;
  }

  /** Ends the agents of conversations that are over. A later turn belongs to another one, even under the same name. */
  endAgentsOf(over: AgentScope): void {
    const members = Object.entries(over) as [keyof AgentScope, string][];
    for (const place of [...this.#places.values()]) {
      if (!members.every(([member, value]) => place[member] === value)) continue;
      place.isOver = true;
      if (place.state === 'idle') void this.#end(place);
    }
  }

  /** Gives places to waiting turns, in the order of their arrival. */
  #advance(): void {
    /** Places that will become free for earlier turns. */
    let promised = 0;
    for (const waiter of this.#waiting) {
      const { order } = waiter;
      const own = this.#places.get(order.conversation);
      if (own) {
        if (own.state !== 'idle') continue;
        if (own.agent?.isAlive && own.key === keyOf(order) && !order.begins) this.#assign(waiter, own);
        else void this.#end(own);
      } else if (this.#places.size < this.#options.maxAgents) {
        const { conversation, app, draft = '' } = order;
        const names = { conversation, app, draft };
        const place: Place = {
          ...names,
          key: keyOf(order),
          state: 'taken',
          isOver: false,
          agent: null,
          idle: undefined,
        };
        this.#places.set(conversation, place);
        this.#assign(waiter, place);
      } else {
        promised++;
        const all = [...this.#places.values()];
        const idle = all.find(({ state }) => state === 'idle');
        if (idle && all.filter(({ state }) => state === 'ending').length < promised) void this.#end(idle);
      }
    }
  }

  #assign(waiter: Waiter, place: Place): void {
    clearTimeout(place.idle);
    place.state = 'taken';
    this.#waiting.delete(waiter);
    waiter.resolve(place);
  }

  async #end(place: Place): Promise<void> {
    clearTimeout(place.idle);
    place.state = 'ending';
    await place.agent?.end().catch(() => {});
    this.#places.delete(place.conversation);
    this.#advance();
  }

  /** Null when its place is only being made free: an agent that nobody needs any more is about to end. */
  #why({ conversation }: TurnOrder): string | null {
    const own = this.#places.get(conversation);
    if (own) return own.state === 'taken' ? 'The turn before this one is not over.' : null;
    const ending = [...this.#places.values()].filter(({ state }) => state === 'ending').length;
    if (ending >= this.#waiting.size) return null;
    return `${this.#options.maxAgents} agents are at work already. The turn waits until one of them has ended.`;
  }
}

/**
 * The folder is where its program runs. Its instructions name the app's tools and tables: an agent with old instructions does not
 * know new ones. Each turn has a token of its own, which only Codex cannot be given while it runs: it takes it from its environment.
 */
function keyOf({ runner, mode, app, folder, gateway: { url, token }, instructions }: TurnOrder): string {
  return JSON.stringify([runner, mode, app, folder, url, runner.kind === 'codex' ? token : '', instructions]);
}
