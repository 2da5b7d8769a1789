/**
 * The conversations about an app: its windows and, on the git store, those that change its code. Lists, reads and deletes them, and
 * says what is sent to one.
 */
import { type Request, requestOf } from '../../protocol/http/client.ts';
import { GatewayError } from '../../protocol/http/gateway-error.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Received, RowIn, Sent } from '../../protocol/routes/api.ts';
import type { Client } from './client.ts';

/** The two kinds have separate ids; `--window` takes both. */
export type ConversationName = { kind: 'window' | 'conversation'; app: string; id: string };
export type ConversationRow = ConversationName &
  Pick<RowIn<'GET /svc/:id/_chat/windows'>, 'mode' | 'turns' | 'updatedAt' | 'by'> & { title: string | null };

/**
 * All of them, the most recently used first. `hasCode` is false without the git store. An app that was never published has no
 * windows, but conversations about the draft of it that a workspace has.
 */
export async function allConversations(
  client: Client,
  app: string,
): Promise<{ rows: ConversationRow[]; hasCode: boolean }> {
  const sent = { params: { id: app } };
  let unknown: GatewayError | null = null;
  const windows = await client
    .all('GET /svc/:id/_chat/windows', sent, ({ windowId }) => ({ before: windowId }))
    .catch((error) => {
      if (!(error instanceof GatewayError) || error.code !== 'UNKNOWN_APP') throw error;
      unknown = error;
      return [];
    });
  const aboutCode = await client
    .all('GET /_svc-conversations/apps/:id/sessions', sent, ({ conversationId }) => ({ before: conversationId }))
    .catch((error) => {
      if (unknown === null && error instanceof GatewayError && error.code === 'NO_GIT_STORE') return null;
      throw unknown ?? error;
    });
  const rows: ConversationRow[] = [
    ...windows.map(({ windowId: id, mode, title, turns, updatedAt, by }) => {
      return { kind: 'window' as const, app, id, mode, title, turns, updatedAt, ...(by && { by }) };
    }),
    ...(aboutCode ?? []).map(({ conversationId: id, title, counts: { turns }, updatedAt, by }) => {
      const used = { title, turns, updatedAt, ...(by && { by }) };
      return { kind: 'conversation' as const, app, id, mode: 'full' as const, ...used };
    }),
  ];
  return { rows: rows.sort((a, b) => b.updatedAt - a.updatedAt), hasCode: aboutCode !== null };
}

/** The member of a body that names it. */
export function nameIn({ kind, id }: ConversationName) {
  return kind === 'window' ? { windowId: id } : { conversationId: id };
}

type Message = Sent<'POST /svc/:id/_chat'>['body'] & Sent<'POST /svc/:id/_turn'>['body'];

/** The request that begins a turn. Only windows have a `mode`, and only the others `attachments`. */
export function messageTo(
  { kind, app, id }: ConversationName,
  { mode, attachments, ...message }: Omit<Message, 'windowId' | 'conversationId'>,
  signal: AbortSignal,
): Request {
  const params = { id: app };
  return kind === 'window'
    ? requestOf('POST /svc/:id/_chat', { params, body: { windowId: id, mode, ...message } }, { signal })
    : requestOf('POST /svc/:id/_turn', { params, body: { conversationId: id, attachments, ...message } }, { signal });
}

/** Resolves when the turn has ended. */
export function stopTurn(client: Client, { kind, app, id }: ConversationName, turnId: string): Promise<unknown> {
  return kind === 'window'
    ? client.call('DELETE /svc/:id/_chat/windows/:wid/turns/:turnId', { params: { id: app, wid: id, turnId } })
    : client.call('DELETE /_svc-conversations/apps/:id/sessions/:sid/turns/:turnId', {
        params: { id: app, sid: id, turnId },
      });
}

/** Answers a question of a turn. */
export function answerQuestion(
  client: Client,
  { kind, app, id }: ConversationName,
  { turnId, requestId, optionId }: { turnId: string; requestId: string; optionId: string },
): Promise<unknown> {
  const of = { id: app, turnId, requestId };
  const body = { optionId };
  return kind === 'window'
    ? client.call('POST /svc/:id/_chat/windows/:wid/turns/:turnId/permissions/:requestId', {
        params: { ...of, wid: id },
        body,
      })
    : client.call('POST /_svc-conversations/apps/:id/sessions/:sid/turns/:turnId/permissions/:requestId', {
        params: { ...of, sid: id },
        body,
      });
}

export function deleteConversation(client: Client, { kind, app, id }: ConversationName): Promise<unknown> {
  return kind === 'window'
    ? client.call('DELETE /svc/:id/_chat/windows/:wid', { params: { id: app, wid: id } })
    : client.call('DELETE /_svc-conversations/apps/:id/sessions/:sid', { params: { id: app, sid: id } });
}

/** The last rows, oldest first. The first of a conversation has `seq` 1. */
export async function readHistory(
  client: Client,
  { kind, app, id }: ConversationName,
): Promise<Received<'GET /svc/:id/_chat/windows/:wid/history'>> {
  const query = { limit: LIMITS.listRowsMax };
  if (kind === 'window')
    return client.call('GET /svc/:id/_chat/windows/:wid/history', { params: { id: app, wid: id }, query });
  const one = await client.call('GET /_svc-conversations/apps/:id/sessions/:sid', {
    params: { id: app, sid: id },
    query,
  });
  return one.messages;
}
