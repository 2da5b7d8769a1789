/**
 * Keeps the sessions of MCP clients of 2025: their subscriptions, and the stream that gets the changes, those of their lists too.
 * Other requests need no session (specification, "MCP server").
 */
import { randomUUID } from 'node:crypto';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { ChangeStreams } from '../dispatch/change-streams.ts';
import type { Exchange } from '../edge/edge.ts';
import { type EventReader, type EventReaders, opening } from '../http/event-streams.ts';
import type { LiveQueries } from '../live/live-queries.ts';
import { digestsOf, type ListDigests, type ListSource, ListWatch } from './lists.ts';
import { type FollowedResource, LISTS, messageEvent, Subscriptions } from './subscriptions.ts';

/** Whose session it is: a client (`Caller.client`) at one address. `app` is null at the address of all apps. */
export type SessionOwner = { client: string; path: string; app: string | null };

type McpSessionsOptions = {
  live: LiveQueries;
  /** At the address of all apps. */
  liveOfAll: Pick<LiveQueries, 'follow'>;
  readers: EventReaders;
  changes: ChangeStreams;
};

/** The listening request of a client of 2026. */
export type Listener = { endRefused(): void; end(): void };

/** What a client can do: ask its person, show pages of apps. */
type Abilities = { asks?: boolean; pages?: boolean };

/** Parts of the ids of sessions: so it is known of a session that was forgotten, too. */
const ASKS = 'asks';
const PAGES = 'pages';

const OPENING = opening('mcp');

export class McpSessions {
  readonly options: McpSessionsOptions;
  /** For clients of 2026, whose subscriptions last as long as their listening request. */
  readonly listening = new Set<Listener>();
  /** By id, oldest first. Those that have ended are remembered for as long as there is room. */
  readonly #sessions = new Map<string, McpSession>();

  constructor(options: McpSessionsOptions) {
    this.options = options;
  }

  /** Sessions that are remembered, and those of them with a stream or subscriptions. */
  get counts(): { known: number; used: number } {
    const all = [...this.#sessions.values()];
    return { known: all.length, used: all.filter(({ used }) => used).length };
  }

  /**
   * The id of a new session, whose client sees these lists, and says what it can do; undefined when all that there may be are in
   * use.
   */
  begin(owner: SessionOwner, lists: ListSource, abilities: Abilities = {}): string | undefined {
    if (this.#sessions.size >= LIMITS.mcpSessions) {
      const [unused] = [...this.#sessions].find(([, session]) => !session.used) ?? [];
      if (unused === undefined) return undefined;
      this.#sessions.delete(unused);
    }
    const { asks = false, pages = false } = abilities;
    const id = `${randomUUID()}${asks ? `-${ASKS}` : ''}${pages ? `-${PAGES}` : ''}`;
    this.#sessions.set(id, new McpSession(owner, digestsOf(lists), this.options));
    return id;
  }

  /** Undefined for an unknown session or another caller's. Throws `NOT_FOUND` for an ended one. */
  find(id: string | undefined, { client, path }: SessionOwner): McpSession | undefined {
    const session = id === undefined ? undefined : this.#sessions.get(id);
    if (session?.owner.client !== client || session.owner.path !== path) return undefined;
    if (session.ended) throw endedSession();
    return session;
  }

  /** Ends the streams of clients that may not read any more what they subscribed to: a token or a turn has ended. */
  endRefused(): void {
    for (const { subscriptions } of this.#sessions.values()) subscriptions.endRefused();
    for (const listener of [...this.listening]) listener.endRefused();
  }

  /** Ends them all. */
  close(): void {
    for (const session of this.#sessions.values()) session.end();
    for (const listener of [...this.listening]) listener.end();
  }
}

export class McpSession {
  readonly owner: SessionOwner;
  readonly #options: McpSessionsOptions;
  readonly subscriptions: Subscriptions;
  #reader: EventReader | null = null;
  /** The lists that its client knows of. */
  #known: Promise<ListDigests>;
  /** While it has a stream. */
  #lists: ListWatch | null = null;
  /** Ends it when its client does not come back. */
  #away: NodeJS.Timeout | undefined;
  ended = false;

  constructor(owner: SessionOwner, known: Promise<ListDigests>, options: McpSessionsOptions) {
    this.owner = owner;
    this.#known = known;
    this.#options = options;
    this.subscriptions = new Subscriptions(owner.app === null ? options.liveOfAll : options.live, {
      lost: () => this.end(),
      closed: () => {
        if (owner.app !== null) this.#appGone();
      },
    });
  }

  get used(): boolean {
    return this.#reader !== null || this.subscriptions.size > 0;
  }

  /** Resolves once changes of the resource are told; rejects as `Subscriptions.add` does. */
  async subscribe(uri: string, resource: FollowedResource): Promise<void> {
    const opening = this.subscriptions.add(uri, resource);
    this.#expectBack();
    await opening;
  }

  unsubscribe(uri: string): void {
    this.subscriptions.delete(uri);
  }

  /**
   * Answers with the stream of the session, in place of the one that it had. `lastId` is that of the last event that the client
   * has. Throws `OVERLOADED` when too many streams are open.
   */
  open(exchange: Exchange, lastId: string | undefined, source: ListSource): void {
    const { readers, changes } = this.#options;
    const reader = readers.open(exchange);
    if (reader === null) return;
    clearTimeout(this.#away);
    const before = this.#reader;
    this.#reader = reader;
    before?.end();
    this.#leaveLists();
    this.#lists = new ListWatch({
      source,
      known: this.#known,
      changes,
      changed: (lists) => this.subscriptions.listsChanged(lists),
      gone: () => this.#appGone(),
    });
    reader.write(OPENING);
    const lastChange = Number(lastId);
    this.subscriptions.tell(
      reader,
      Number.isSafeInteger(lastChange) && lastChange <= this.subscriptions.latest ? lastChange : 0,
      (notification, change) => `id: ${change}\n${messageEvent(notification)}`,
    );
    reader.onEnd(() => {
      if (this.#reader !== reader) return;
      this.#reader = null;
      this.#leaveLists();
      this.#expectBack();
    });
  }

  /** Ends its subscriptions and its stream; it is not known any more. */
  end(): void {
    this.ended = true;
    clearTimeout(this.#away);
    this.#leaveLists();
    this.subscriptions.close();
  }

  /** There is nothing left to list. */
  #appGone(): void {
    if (this.ended) return;
    this.subscriptions.listsChanged(LISTS);
    this.end();
  }

  #leaveLists(): void {
    if (this.#lists === null) return;
    this.#known = this.#lists.known;
    this.#lists.close();
    this.#lists = null;
  }

  #expectBack(): void {
    if (this.#reader !== null || this.subscriptions.size === 0 || this.ended) return;
    clearTimeout(this.#away);
    this.#away = setTimeout(() => {
      if (this.subscriptions.size > 0) this.end();
    }, LIMITS.mcpAwayMs).unref();
  }
}

/** Whether the client of the session that is named so can ask its person. */
export function sessionAsks(id: string | undefined): boolean {
  return id?.split('-').includes(ASKS) === true;
}

/** Whether the client of the session that is named so shows pages of apps. */
export function sessionShowsPages(id: string | undefined): boolean {
  return id?.split('-').includes(PAGES) === true;
}

export function endedSession(): SvcError {
  return new SvcError('NOT_FOUND', 'This MCP session has ended: begin another one with "initialize".');
}
