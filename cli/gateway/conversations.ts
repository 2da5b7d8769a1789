/**
 * The conversations about an app: its windows and, on the git store, those that change its code. Lists them, reads one,
 * and builds its addresses.
 */
import { route, withQuery } from '../../protocol/http/addresses.ts';
import { GatewayError } from '../../protocol/http/gateway-error.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Client } from './client.ts';
import type { ChatWindow } from './route-paths.ts';

type Kind = 'window' | 'conversation';
/** The members of a row that the command line needs. */
type CodeConversation = { conversationId: string; title: string; counts: { turns: number }; updatedAt: number };

/** The two kinds have separate ids; `--window` takes both. */
export type ConversationName = { kind: Kind; app: string; id: string };
export type ConversationRow = ConversationName & {
  mode: string;
  title: string;
  turns: number;
  updatedAt: number;
};

/**
 * All of them, the most recently used first. `hasCode` is false without the git store. An app that was never published has no
 * windows, but conversations about the draft of it that a session has.
 */
export async function allConversations(
  client: Client,
  app: string,
): Promise<{ rows: ConversationRow[]; hasCode: boolean }> {
  const limit = LIMITS.listRowsMax;
  let unknown: GatewayError | null = null;
  const windows = await client
    .pages<ChatWindow>((last) =>
      client.get(withQuery(route`/svc/${app}/_chat/windows`, { limit, before: last?.windowId })),
    )
    .catch((error): ChatWindow[] => {
      if (!(error instanceof GatewayError) || error.code !== 'UNKNOWN_APP') throw error;
      unknown = error;
      return [];
    });
  const aboutCode = await client
    .pages<CodeConversation>((last) =>
      client.get(withQuery(conversationsPath(app), { limit, before: last?.conversationId })),
    )
    .catch((error) => {
      if (unknown === null && error instanceof GatewayError && error.code === 'NO_GIT_STORE') return null;
      throw unknown ?? error;
    });
  const rows: ConversationRow[] = [
    ...windows.map(({ windowId: id, mode, title, turns, updatedAt }) => {
      return { kind: 'window' as const, app, id, mode, title, turns, updatedAt };
    }),
    ...(aboutCode ?? []).map(({ conversationId: id, title, counts, updatedAt }) => {
      return { kind: 'conversation' as const, app, id, mode: 'full', title, turns: counts.turns, updatedAt };
    }),
  ];
  return { rows: rows.sort((a, b) => b.updatedAt - a.updatedAt), hasCode: aboutCode !== null };
}

/** Where its messages are sent, with the member of the body that names it. */
export function sendingTo({ kind, app, id }: ConversationName): { path: string; body: Record<string, string> } {
  if (kind === 'window') return { path: route`/svc/${app}/_chat`, body: { windowId: id } };
  return { path: route`/svc/${app}/_turn`, body: { conversationId: id } };
}

/** Of those about code. */
function conversationsPath(app: string): string {
  return route`/_svc-conversations/apps/${app}/sessions`;
}

export function conversationPath({ kind, app, id }: ConversationName): string {
  if (kind === 'window') return route`/svc/${app}/_chat/windows/${id}`;
  return conversationsPath(app) + route`/${id}`;
}

export function turnPath(name: ConversationName, turnId: string): string {
  return conversationPath(name) + route`/turns/${turnId}`;
}

/** A row of the history: a message, a part of an answer, or a tool. The first of a conversation has `seq` 1. */
type HistoryRow = {
  seq: number;
  kind: 'user' | 'assistant' | 'tool';
  text?: string;
  toolName?: string;
  ok?: boolean;
  errorText?: string;
};

/** The last rows, oldest first. */
export async function readHistory(client: Client, name: ConversationName): Promise<HistoryRow[]> {
  const [path, limit] = [conversationPath(name), LIMITS.listRowsMax];
  if (name.kind === 'window') return client.get(withQuery(`${path}/history`, { limit }));
  return (await client.get<{ messages: HistoryRow[] }>(withQuery(path, { limit }))).messages;
}
