/** The conversations about an app: its windows and, on the git store, those that change its code. Lists them, and reads and sends alike. */
import type { TurnEvent } from '../../../protocol/agents/agents.ts';
import type { TurnState } from '../../../protocol/agents/turn.ts';
import { route } from '../../../protocol/http/addresses.ts';
import type { Request } from '../../../protocol/http/client.ts';
import { gateway, get } from '../../gateway.ts';

/** What one request lists. */
const PAGE = 50;
/** Rows of a window, and turns of a conversation, that one request reads. */
const ROWS = 200;
const TURNS = 20;

/** Windows keep what is said about data, conversations of the git store what is said about code. */
export type Kind = 'window' | 'conversation';
export type Mode = 'data' | 'full';
export type Talk = { kind: Kind; id: string };
/** `adapter` is the agent that took its last turn; `updatedAt` in milliseconds since the epoch. */
export type Conversation = Talk & { key: string; mode: Mode; title: string; adapter: string | null; updatedAt: number };

export type AttachedFile = { sha256: string; name: string };

/** A row of a history: what several events of a turn add up to. */
export type HistoryRow = { seq: number; turnId: string } & (
  | {
      kind: 'user';
      text: string;
      state?: TurnState;
      attachments?: AttachedFile[];
      error?: { code: string; message: string };
    }
  | { kind: 'assistant'; text?: string; reasoning?: string }
  | ({ kind: 'tool'; permission?: { detail: string } } & Partial<ToolCall>)
);

export type ToolCall = {
  toolCallId: string;
  toolName: string;
  args: unknown;
  sql: string;
  ok: boolean;
  result: unknown;
  errorText: string;
};

type Listed = Pick<Conversation, 'title' | 'adapter' | 'updatedAt'> &
  Partial<Record<'windowId' | 'conversationId', string>> & { mode?: Mode };

export type Message = {
  message: string;
  runner: string | undefined;
  model: string | undefined;
  attachments: AttachedFile[];
  idempotencyKey: string;
};

export class Conversations {
  readonly #app: string;
  readonly #hasCode: boolean;
  readonly #known = new Map<string, Conversation>();
  /** The kinds of which there are earlier ones than those that are known. */
  readonly #unfinished = new Set<Kind>();

  constructor(app: string, hasCode: boolean) {
    this.#app = app;
    this.#hasCode = hasCode;
  }

  /** Those that are known, the one that was used last first. */
  get all(): Conversation[] {
    return [...this.#known.values()].sort((a, b) => b.updatedAt - a.updatedAt);
  }

  /** Whether there are earlier ones to list. */
  get hasMore(): boolean {
    return this.#unfinished.size > 0;
  }

  find({ kind, id }: Talk): Conversation | undefined {
    return this.#known.get(`${kind}/${id}`);
  }

  /** The latest ones; those that were listed stay. */
  async read(): Promise<void> {
    const isFirst = this.#known.size === 0;
    const kinds: Kind[] = this.#hasCode ? ['window', 'conversation'] : ['window'];
    await Promise.all(
      kinds.map(async (kind) => {
        const isWhole = await this.#readPage(kind);
        if (isFirst && !isWhole) this.#unfinished.add(kind);
      }),
    );
  }

  /** Earlier ones. */
  async readMore(): Promise<void> {
    for (const kind of [...this.#unfinished]) {
      const last = this.all.filter((one) => one.kind === kind).at(-1);
      const isWhole = await this.#readPage(kind, last && `&before=${encodeURIComponent(last.id)}`);
      if (isWhole) this.#unfinished.delete(kind);
    }
  }

  forget({ kind, id }: Talk): void {
    this.#known.delete(`${kind}/${id}`);
  }

  /** Where its turns are. */
  path({ kind, id }: Talk): string {
    return kind === 'window' ? route`/svc/${this.#app}/_chat/windows/${id}` : `${this.#list}/${encodeURIComponent(id)}`;
  }

  /** The rows of its latest turns, or those before the row `before`, oldest first; the first of all has `seq` 1. */
  async history(talk: Talk, before: HistoryRow | null): Promise<HistoryRow[]> {
    if (talk.kind === 'window') {
      return await get(`${this.path(talk)}/history?limit=${ROWS}${before ? `&before=${before.seq}` : ''}`);
    }
    const { messages } = await get<{ messages: HistoryRow[] }>(
      `${this.path(talk)}?limit=${TURNS}${before ? `&before=${encodeURIComponent(before.turnId)}` : ''}`,
    );
    return messages;
  }

  /** Sends a message; resolves with the `assistant.start` of the turn that it began, which goes on by itself. */
  async send({ kind, id }: Talk, mode: Mode, message: Message): Promise<TurnStart | null> {
    const [last, more] =
      kind === 'window' ? ['_chat', { windowId: id, mode, attachments: undefined }] : ['_turn', { conversationId: id }];
    const json = { ...message, detach: true, ...more };
    return await startOf({ method: 'POST', path: route`/svc/${this.#app}/${last as string}`, json });
  }

  /** The `assistant.start` of a turn that is stored. */
  async start(talk: Talk, turnId: string): Promise<TurnStart | null> {
    return await startOf({ method: 'GET', path: this.path(talk) + route`/turns/${turnId}/events` });
  }

  get #list(): string {
    return route`/_svc-conversations/apps/${this.#app}/sessions`;
  }

  /** Resolves with whether there are none after it. */
  async #readPage(kind: Kind, before = ''): Promise<boolean> {
    const list = kind === 'window' ? route`/svc/${this.#app}/_chat/windows` : this.#list;
    const rows = await get<Listed[]>(`${list}?limit=${PAGE}${before}`);
    for (const { windowId, conversationId, mode = 'full', title, adapter, updatedAt } of rows) {
      const id = windowId ?? conversationId ?? '';
      const key = `${kind}/${id}`;
      this.#known.set(key, { key, kind, id, mode, title, adapter, updatedAt });
    }
    return rows.length < PAGE;
  }
}

type TurnStart = Extract<TurnEvent, { type: 'assistant.start' }>;

/** The first event of a turn's stream, which is then left; null when it never came. */
async function startOf(request: Request): Promise<TurnStart | null> {
  for await (const { event, data } of gateway.events(request)) if (event === 'assistant.start') return JSON.parse(data);
  return null;
}
