/** The conversations about an app: its windows and, on the git store, those that change its code. Lists them, and reads and sends alike. */
import type { TurnEvent } from '../../../protocol/agents/agents.ts';
import { type Request, requestOf } from '../../../protocol/http/client.ts';
import type { RowIn } from '../../../protocol/routes/api.ts';
import type { NamedPerson } from '../../../protocol/wire/handler-caller.ts';
import { gateway } from '../../gateway.ts';

/** What one request lists. */
const PAGE = 50;
/** Rows of a window, and turns of a conversation, that one request reads. */
const ROWS = 200;
const TURNS = 20;

/** Windows keep what is said about data, conversations of the git store what is said about code. */
export type Kind = 'window' | 'conversation';
export type Mode = 'data' | 'full';
export type ConversationName = { kind: Kind; id: string };
/** `adapter` is the agent that took its last turn; `updatedAt` in milliseconds since the epoch; `by` is whose it is. */
export type Conversation = ConversationName & {
  key: string;
  mode: Mode;
  title: string;
  adapter: string | null;
  updatedAt: number;
  by: NamedPerson | undefined;
};

export type AttachedFile = { sha256: string; name: string };

/** A row of a history: what several events of a turn add up to. */
export type HistoryRow = RowIn<'GET /svc/:id/_chat/windows/:wid/history'>;

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

  find({ kind, id }: ConversationName): Conversation | undefined {
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
      const isWhole = await this.#readPage(kind, last?.id);
      if (isWhole) this.#unfinished.delete(kind);
    }
  }

  /** Deletes it with its messages. */
  async remove(conversation: ConversationName): Promise<void> {
    const [id, one] = [this.#app, conversation.id];
    if (conversation.kind === 'window')
      await gateway.call('DELETE /svc/:id/_chat/windows/:wid', { params: { id, wid: one } });
    else await gateway.call('DELETE /_svc-conversations/apps/:id/sessions/:sid', { params: { id, sid: one } });
    this.#known.delete(`${conversation.kind}/${one}`);
  }

  /** The rows of its latest turns, or those before the row `before`, oldest first; the first of all has `seq` 1. */
  async history(conversation: ConversationName, before: HistoryRow | null): Promise<HistoryRow[]> {
    if (conversation.kind === 'window') {
      const params = { id: this.#app, wid: conversation.id };
      const query = { limit: ROWS, before: before?.seq };
      return await gateway.call('GET /svc/:id/_chat/windows/:wid/history', { params, query });
    }
    const params = { id: this.#app, sid: conversation.id };
    const query = { limit: TURNS, before: before?.turnId };
    return (await gateway.call('GET /_svc-conversations/apps/:id/sessions/:sid', { params, query })).messages;
  }

  /** Sends a message; resolves with the `assistant.start` of the turn that it began, which goes on by itself. */
  async send(
    { kind, id }: ConversationName,
    mode: Mode,
    { attachments, ...message }: Message,
  ): Promise<TurnStart | null> {
    const params = { id: this.#app };
    const order = { ...message, detach: true };
    return await startOf(
      kind === 'window'
        ? requestOf('POST /svc/:id/_chat', { params, body: { ...order, windowId: id, mode } })
        : requestOf('POST /svc/:id/_turn', { params, body: { ...order, conversationId: id, attachments } }),
    );
  }

  /** The request for the events of a turn. */
  eventsOf({ kind, id: one }: ConversationName, turnId: string): Request {
    const id = this.#app;
    return kind === 'window'
      ? requestOf('GET /svc/:id/_chat/windows/:wid/turns/:turnId/events', { params: { id, wid: one, turnId } })
      : requestOf('GET /_svc-conversations/apps/:id/sessions/:sid/turns/:turnId/events', {
          params: { id, sid: one, turnId },
        });
  }

  /** The `assistant.start` of a turn that is stored. */
  async start(conversation: ConversationName, turnId: string): Promise<TurnStart | null> {
    return await startOf(this.eventsOf(conversation, turnId));
  }

  /** Resolves when the turn has ended. */
  async stop({ kind, id: one }: ConversationName, turnId: string): Promise<void> {
    const id = this.#app;
    if (kind === 'window')
      await gateway.call('DELETE /svc/:id/_chat/windows/:wid/turns/:turnId', { params: { id, wid: one, turnId } });
    else
      await gateway.call('DELETE /_svc-conversations/apps/:id/sessions/:sid/turns/:turnId', {
        params: { id, sid: one, turnId },
      });
  }

  /** Answers a question of the agent. */
  async answer(
    { kind, id: one }: ConversationName,
    turnId: string,
    requestId: string,
    optionId: string,
  ): Promise<void> {
    const id = this.#app;
    const body = { optionId };
    if (kind === 'window')
      await gateway.call('POST /svc/:id/_chat/windows/:wid/turns/:turnId/permissions/:requestId', {
        params: { id, wid: one, turnId, requestId },
        body,
      });
    else
      await gateway.call('POST /_svc-conversations/apps/:id/sessions/:sid/turns/:turnId/permissions/:requestId', {
        params: { id, sid: one, turnId, requestId },
        body,
      });
  }

  /** Resolves with whether there are none after it. */
  async #readPage(kind: Kind, before?: string): Promise<boolean> {
    const sent = { params: { id: this.#app }, query: { limit: PAGE, before } };
    const rows =
      kind === 'window'
        ? (await gateway.call('GET /svc/:id/_chat/windows', sent)).map((row) => ({ ...row, id: row.windowId }))
        : (await gateway.call('GET /_svc-conversations/apps/:id/sessions', sent)).map((row) => {
            return { ...row, id: row.conversationId, mode: 'full' as const };
          });
    for (const { id, mode, title, adapter, updatedAt, by } of rows) {
      const key = `${kind}/${id}`;
      this.#known.set(key, { key, kind, id, mode, title: title ?? '', adapter, updatedAt, by });
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
