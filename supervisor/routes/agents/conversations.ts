/** Serves conversations over HTTP, with the files attached to their messages (specification, "Conversations"). */

import type { SessionName } from '../../../protocol/agents/session-key.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { checkAppId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { listOf, type Of, object, text, words } from '../../../protocol/shapes/schema.ts';
import { shape } from '../../../protocol/shapes/shape.ts';
import { unknownApp } from '../../../storage/apps/registry.ts';
import { checkConversationId, nameOf } from '../../agents/conversations/chat-store.ts';
import { sessionOf } from '../../agents/turns/turn-drafts.ts';
import { gitStoreOf } from '../../authoring/open-authoring.ts';
import { arrayText } from '../../dispatch/kept-array.ts';
import { type Exchange, PRIVATE } from '../../edge/edge.ts';
import { demand } from '../../http/access/grants.ts';
import { answerJson, JSON_HEADERS, NO_STORE } from '../../http/answers.ts';
import { noneMatch } from '../../http/assets.ts';
import { type Params, type Route, route } from '../../http/router.ts';
import { sendStream } from '../../http/send-stream.ts';
import type { Services } from '../../services.ts';
import { integerOf, queryOf, readBody, refuse } from '../requests.ts';
import { answerTurn, checkMessage, MESSAGE, OF_TURN, turnRoutes } from './turns.ts';

const WORDS = words(LIMITS.textChars);
/** The SHA-256 of a file that was uploaded, or that with the name of its file. */
const ATTACHMENT_OF_TURN = {
  anyOf: [text, object({ sha256: text }, { name: { ...words(LIMITS.archiveNameBytes), type: ['string', 'null'] } })],
  wanted: 'the sha256 of an uploaded file, or { sha256, name }',
} as const;
const ATTACHMENTS = {
  ...listOf(ATTACHMENT_OF_TURN, `a list of at most ${LIMITS.chatAttachments} files`),
  maxItems: LIMITS.chatAttachments,
};
const TURN = shape(object({ conversationId: WORDS, message: MESSAGE }, { ...OF_TURN, attachments: ATTACHMENTS }));
const CONVERSATION = shape(object({}, { title: WORDS, conversationId: WORDS }));
const TITLE = shape(object({ title: WORDS }));

/** A browser does not run it, whatever its type. */
const ATTACHMENT = {
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
  const list = '/_svc-conversations/apps/:id/sessions';
  const blobs = '/_svc-conversations/apps/:id/blobs';
  /** For an app that was published, or that a session has. Rejects with `NO_GIT_STORE`, `INVALID_ID`, `UNKNOWN_APP`. */
  const check = async (id: string): Promise<void> => {
    const { sessions } = gitStoreOf(services);
    checkAppId(id);
    if (!registry.has(id) && (await sessions.holders(id)).length === 0) throw unknownApp(id);
    await chat.open();
  };
  /**
   * The session in which a conversation works about an app that was not published: the one that has it. Undefined otherwise: its
   * own. Rejects with `CONFLICT` when there are several.
   */
  const draftOf = async (name: SessionName): Promise<{ session?: string }> => {
    if (registry.has(name.app)) return {};
    const holders = await gitStoreOf(services).sessions.holders(name.app);
    const [only, ...others] = holders;
    if (only === undefined || holders.includes(sessionOf(name))) return {};
    if (others.length === 0) return { session: only };
    const message =
      `The app "${name.app}" was not published, and several sessions have one of this id: ${holders.slice(0, 20).join(', ')}. ` +
      `Publish one of them, or talk about one: POST /svc/_draft/<session>/${name.app}/_chat with the mode "full".`;
    throw new SvcError('CONFLICT', message);
  };
  const existing = async ({ id = '', sid = '' }: Params): Promise<SessionName> => {
    await check(id);
    await chat.store.get(id, sid);
    return nameOf(id, sid);
  };
  return [
    route('POST', '/svc/:id/_turn', 'manage', async (exchange, { id = '' }, caller) => {
      const { conversationId, attachments: named = [], detach = false, ...request } = await readBody(exchange, TURN);
      checkMessage(request.message);
      await check(id);
      checkConversationId(conversationId);
      const name = nameOf(id, conversationId);
      const held = await chat.turns.accept(name, {
        ...request,
        asker: caller,
        ...(await draftOf(name)),
        mode: 'full',
        attachments: await attachments.take(id, named.map(attachmentOf)),
      });
      await answerTurn(changes.readers, exchange, held, detach);
    }),
    route('GET', list, 'manage', async (exchange, { id = '' }) => {
      const query = queryOf(exchange);
      const limit = integerOf(query, 'limit', LIMITS.listRows, LIMITS.listRowsMax);
      await check(id);
      answerJson(exchange, 200, await chat.store.list(id, limit, query.get('before')), NO_STORE);
    }),
    route('POST', list, 'manage', async (exchange, { id = '' }) => {
      const { title = null, conversationId } = await readBody(exchange, CONVERSATION);
      await check(id);
      const wanted = { title, ...(conversationId === undefined ? {} : { id: conversationId }) };
      answerJson(exchange, 201, await chat.store.create(id, wanted));
    }),
    route('GET', `${list}/:sid`, 'manage', async (exchange, { id = '', sid = '' }) => {
      const query = queryOf(exchange);
      const limit = integerOf(query, 'limit', LIMITS.listRows, LIMITS.listRowsMax);
      await check(id);
      const conversation = await chat.store.get(id, sid);
      const messages = await chat.store.messages(id, sid, limit, query.get('before'));
      const answer = `${JSON.stringify(conversation).slice(0, -1)},"messages":${await arrayText(messages)}}`;
      exchange.send(200, NO_STORE, answer, JSON_HEADERS);
    }),
    route('PATCH', `${list}/:sid`, 'manage', async (exchange, { id = '', sid = '' }) => {
      const { title } = await readBody(exchange, TITLE);
      await check(id);
      answerJson(exchange, 200, await chat.store.rename(id, sid, title));
    }),
    route('DELETE', `${list}/:sid`, 'manage', async (exchange, { id = '', sid = '' }) => {
      await check(id);
      await chat.remove(nameOf(id, sid));
      answerJson(exchange, 200, { conversationId: sid, deleted: true });
    }),
    ...turnRoutes(services, `${list}/:sid`, 'manage', existing),
    route('POST', blobs, 'manage', async (exchange, { id = '' }, caller) => {
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
    {
      ...route('GET', `${blobs}/:sha256`, 'manage', async (exchange, { id = '', sha256 = '' }) => {
        await check(id);
        const etag = `"${sha256}"`;
        const { record, file } = await attachments.read(id, sha256);
        try {
          const headers = { ...ATTACHMENT, 'content-type': record.type, etag };
          if (noneMatch(exchange.header('if-none-match'), etag)) exchange.send(304, { ...ATTACHMENT, etag }, '');
          else await sendStream(exchange, file.createReadStream({ autoClose: false }), headers, log);
        } finally {
          await file.close();
        }
      }),
      isFile: true,
    },
    route('DELETE', `${blobs}/:sha256`, 'manage', async (exchange, { id = '', sha256 = '' }) => {
      await check(id);
      await attachments.remove(id, sha256);
      answerJson(exchange, 200, { sha256, deleted: true });
    }),
  ];
}

function attachmentOf(given: Of<typeof ATTACHMENT_OF_TURN>): { sha256: string; name?: string } {
  if (typeof given === 'string') return { sha256: given };
  return { sha256: given.sha256, ...(given.name == null ? {} : { name: given.name }) };
}

/** Throws `BAD_REQUEST` for a type that is none. */
function typeOf(exchange: Exchange): string {
  const type = exchange.header('content-type') ?? UNTYPED;
  if (!MEDIA_TYPE.test(type)) refuse('content-type', 'The content-type must be a media type, such as image/png.');
  return type;
}
