/** Serves conversations over HTTP, with the files attached to their messages (specification, "Conversations"). */

import type { ConversationName } from '../../../protocol/agents/session-key.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { checkAppId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import {
  type ATTACHMENT,
  conversationTurns,
  deleteAttachment,
  deleteConversation,
  downloadAttachment,
  listConversations,
  makeConversation,
  readConversation,
  renameConversation,
  sendToConversation,
  uploadAttachment,
} from '../../../protocol/routes/agents/conversations-rows.ts';
import type { Of } from '../../../protocol/shapes/schema.ts';
import { causeOf } from '../../../protocol/wire/handler-caller.ts';
import { unknownApp } from '../../../storage/apps/registry.ts';
import { checkConversationId, nameOf } from '../../agents/conversations/chat-store.ts';
import { workspaceOf } from '../../agents/turns/turn-drafts.ts';
import { gitStoreOf } from '../../authoring/open-authoring.ts';
import { arrayText } from '../../dispatch/kept-array.ts';
import { type Exchange, PRIVATE } from '../../edge/edge.ts';
import { demand } from '../../http/access/grants.ts';
import { answerJson, JSON_HEADERS, NO_STORE } from '../../http/answers.ts';
import { noneMatch } from '../../http/assets.ts';
import type { Params, Route } from '../../http/router.ts';
import { sendStream } from '../../http/send-stream.ts';
import type { Services } from '../../services.ts';
import { refuse } from '../requests.ts';
import { ANSWERED, serve, serveRaw } from '../serve-row.ts';
import { answerTurn, checkMessage, isLimitedPerson, turnRoutes } from './turns-routes.ts';

/** A browser does not run it, whatever its type. */
const ATTACHMENT_HEADERS = {
  'content-disposition': 'attachment',
  'x-content-type-options': 'nosniff',
  'content-security-policy': "default-src 'none'; sandbox",
  'cache-control': 'private, no-cache',
  ...PRIVATE,
};
const MEDIA_TYPE = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}(?:;[\x20-\x7e]{0,200})?$/i;
const UNTYPED = 'application/octet-stream';

export function conversationRoutes(services: Services): Route[] {
  const { apps, registry, chat, attachments, changes, log } = services;
  /** For an app that was published, or that a workspace has. Rejects with `NO_GIT_STORE`, `INVALID_ID`, `UNKNOWN_APP`. */
  const check = async (id: string): Promise<void> => {
    const { workspaces } = gitStoreOf(services);
    checkAppId(id);
    if (!registry.has(id) && (await workspaces.holders(id)).length === 0) throw unknownApp(id);
    await chat.open(id);
  };
  /**
   * The workspace in which a conversation works about an app that was not published: the one that has it. Undefined otherwise: its
   * own. Rejects with `CONFLICT` when there are several.
   */
  const draftOf = async (name: ConversationName): Promise<{ workspace?: string }> => {
    if (registry.has(name.app)) return {};
    const holders = await gitStoreOf(services).workspaces.holders(name.app);
    const [only, ...others] = holders;
    if (only === undefined || holders.includes(workspaceOf(name))) return {};
    if (others.length === 0) return { workspace: only };
    const message =
      `The app "${name.app}" was not published, and several workspaces have one of this id: ${holders.slice(0, 20).join(', ')}. ` +
      `Publish one of them, or talk about one: POST /svc/_draft/<workspace>/${name.app}/_chat with the mode "full".`;
    throw new SvcError('CONFLICT', message);
  };
  const existing = async ({ id = '', sid = '' }: Params): Promise<ConversationName> => {
    await check(id);
    await chat.store.get(id, sid);
    return nameOf(id, sid);
  };
  return [
    ...serve(sendToConversation, async ({ params: { id }, body, caller, exchange }) => {
      const { conversationId, attachments: named = [], detach = false, ...request } = body;
      checkMessage(request.message);
      await check(id);
      checkConversationId(conversationId);
      const name = nameOf(id, conversationId);
      const held = await chat.turns.accept(name, {
        ...request,
        asker: caller,
        user: caller.shown(id).user,
        ...(await draftOf(name)),
        mode: 'full',
        limited: isLimitedPerson(caller),
        attachments: await attachments.ofMessage(id, named.map(attachmentOf)),
      });
      return await answerTurn(changes.readers, exchange, held, detach);
    }),
    ...serve(listConversations, async ({ params: { id }, query: { limit = LIMITS.listRows, before = null } }) => {
      await check(id);
      return await chat.store.list(id, limit, before);
    }),
    ...serve(makeConversation, async ({ params: { id }, body: { title = null, conversationId }, caller }) => {
      await check(id);
      const named = conversationId === undefined ? {} : { id: conversationId };
      return await chat.store.create(id, { title, ...named, ...causeOf(caller.shown(id)) });
    }),
    ...serve(readConversation, async ({ params: { id, sid }, query, exchange }) => {
      const { limit = LIMITS.listRows, before = null } = query;
      await check(id);
      const conversation = await chat.store.get(id, sid);
      const messages = await chat.store.messages(id, sid, limit, before);
      const answer = `${JSON.stringify(conversation).slice(0, -1)},"messages":${await arrayText(messages)}}`;
      exchange.send(200, NO_STORE, answer, JSON_HEADERS);
      return ANSWERED;
    }),
    ...serve(renameConversation, async ({ params: { id, sid }, body: { title } }) => {
      await check(id);
      return await chat.store.rename(id, sid, title);
    }),
    ...serve(deleteConversation, async ({ params: { id, sid } }) => {
      await check(id);
      await chat.remove(nameOf(id, sid));
      return { conversationId: sid, deleted: true };
    }),
    ...turnRoutes(services, conversationTurns, existing),
    ...serveRaw(uploadAttachment, async (exchange, { id = '' }, caller) => {
      const body = exchange.streamBody(LIMITS.attachmentBytes, LIMITS.uploadTimeoutMs);
      try {
        const type = typeOf(exchange);
        await check(id);
        // They are kept in the folder of the app.
        await apps.of(id).exists();
        const { created, ...record } = await attachments.store(id, body, type);
        // It may take minutes to arrive, and what it was begun with may have ended meanwhile.
        demand(caller, 'manage', id);
        answerJson(exchange, created ? 201 : 200, record);
      } finally {
        body.destroy();
      }
    }),
    ...serve(downloadAttachment, async ({ params: { id, sha256 }, headers: sent, exchange }) => {
      await check(id);
      const etag = `"${sha256}"`;
      const { record, file } = await attachments.read(id, sha256);
      try {
        const headers = { ...ATTACHMENT_HEADERS, 'content-type': record.type, etag };
        if (noneMatch(sent['if-none-match'], etag)) exchange.send(304, { ...ATTACHMENT_HEADERS, etag }, '');
        else await sendStream(exchange, file.createReadStream({ autoClose: false }), headers, log);
      } finally {
        await file.close();
      }
      return ANSWERED;
    }),
    ...serve(deleteAttachment, async ({ params: { id, sha256 } }) => {
      await check(id);
      await attachments.remove(id, sha256);
      return { sha256, deleted: true };
    }),
  ];
}

function attachmentOf(given: Of<typeof ATTACHMENT>): { sha256: string; name?: string } {
  if (typeof given === 'string') return { sha256: given };
  return { sha256: given.sha256, ...(given.name == null ? {} : { name: given.name }) };
}

/** Throws `BAD_REQUEST` for a type that is none. */
function typeOf(exchange: Exchange): string {
  const type = exchange.header('content-type') ?? UNTYPED;
  if (!MEDIA_TYPE.test(type)) refuse('content-type', 'The content-type must be a media type, such as image/png.');
  return type;
}
