/** Serves conversations over HTTP, with the files attached to their messages (decisions, sections 8 and 12). */

import type { SessionName } from '../../../protocol/agents/session-key.ts';
import { SvcError } from '../../../protocol/errors.ts';
import { checkAppId } from '../../../protocol/ids.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { unknownApp } from '../../../storage/apps/registry.ts';
import { isRecord } from '../../../storage/files/atomic-file.ts';
import { checkConversationId, nameOf } from '../../agents/conversations/conversations.ts';
import { sessionOf } from '../../agents/turns/turn-drafts.ts';
import { arrayText } from '../../dispatch/kept-array.ts';
import { type Exchange, PRIVATE } from '../../edge/edge.ts';
import { demand } from '../../http/access/access.ts';
import { answerJson, JSON_HEADERS, NO_STORE } from '../../http/answers.ts';
import { noneMatch } from '../../http/assets.ts';
import { type Params, type Route, route } from '../../http/router.ts';
import { sendStream } from '../../http/send-stream.ts';
import type { Services } from '../../services.ts';
import { gitStoreOf } from '../authoring/drafts.ts';
import { type Body, integerOf, optionalText, queryOf, readJson, refuse, requiredText } from '../requests.ts';
import { answerTurn, flagOf, requestOf, turnRoutes } from './turns.ts';

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
  const { apps, registry, chat, conversations, attachments, changes, log } = services;
  const list = '/_svc-conversations/apps/:id/sessions';
  const blobs = '/_svc-conversations/apps/:id/blobs';
  /** For an app that was published, or that a session has. Rejects with `NO_GIT_STORE`, `INVALID_ID`, `UNKNOWN_APP`. */
  const check = async (id: string): Promise<void> => {
    const { sessions } = gitStoreOf(services);
    checkAppId(id);
    if (!registry.has(id) && (await sessions.holders(id)).length === 0) throw unknownApp(id);
    await conversations.open();
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
    await conversations.get(id, sid);
    return nameOf(id, sid);
  };
  return [
    route('POST', '/svc/:id/_turn', 'manage', async (exchange, { id = '' }, caller) => {
      const body = await readJson(exchange);
      const conversationId = requiredText(body, 'conversationId');
      const isDetached = flagOf(body, 'detach');
      const request = requestOf(body);
      const named = attachmentsOf(body);
      await check(id);
      checkConversationId(conversationId);
      const name = nameOf(id, conversationId);
      const held = await chat.turns.accept(name, {
        ...request,
        asker: caller,
        ...(await draftOf(name)),
        mode: 'full',
        attachments: await attachments.take(id, named),
      });
      await answerTurn(changes.readers, exchange, held, isDetached);
    }),
    route('GET', list, 'manage', async (exchange, { id = '' }) => {
      const query = queryOf(exchange);
      const limit = integerOf(query, 'limit', LIMITS.listRows, LIMITS.listRowsMax);
      await check(id);
      answerJson(exchange, 200, await conversations.list(id, limit, query.get('before')), NO_STORE);
    }),
    route('POST', list, 'manage', async (exchange, { id = '' }) => {
      const body = await readJson(exchange);
      const title = optionalText(body, 'title') ?? null;
      const conversationId = optionalText(body, 'conversationId');
      await check(id);
      const wanted = { title, ...(conversationId === undefined ? {} : { id: conversationId }) };
      answerJson(exchange, 201, await conversations.create(id, wanted));
    }),
    route('GET', `${list}/:sid`, 'manage', async (exchange, { id = '', sid = '' }) => {
      const query = queryOf(exchange);
      const limit = integerOf(query, 'limit', LIMITS.listRows, LIMITS.listRowsMax);
      await check(id);
      const conversation = await conversations.get(id, sid);
      const messages = await conversations.messages(id, sid, limit, query.get('before'));
      const text = `${JSON.stringify(conversation).slice(0, -1)},"messages":${await arrayText(messages)}}`;
      exchange.send(200, NO_STORE, text, JSON_HEADERS);
    }),
    route('PATCH', `${list}/:sid`, 'manage', async (exchange, { id = '', sid = '' }) => {
      const title = optionalText(await readJson(exchange), 'title') ?? refuse('title', '"title" must be a text.');
      await check(id);
      answerJson(exchange, 200, await conversations.rename(id, sid, title));
    }),
    route('DELETE', `${list}/:sid`, 'manage', async (exchange, { id = '', sid = '' }) => {
      await check(id);
      await conversations.remove(id, sid);
      answerJson(exchange, 200, { conversationId: sid, deleted: true });
    }),
    ...turnRoutes(services, `${list}/:sid`, 'manage', existing),
    route('POST', blobs, 'manage', async (exchange, { id = '' }, caller) => {
      const body = exchange.streamBody(LIMITS.attachmentBytes, LIMITS.uploadTimeoutMs);
      try {
        const type = typeOf(exchange);
        await check(id);
        // They are kept in the folder of the app.
        await apps.registered(id);
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

/** Each is the SHA-256 of one that was uploaded, or that with the name of its file. Throws `BAD_REQUEST`. */
function attachmentsOf({ attachments = [] }: Body): { sha256: string; name?: string }[] {
  const most = LIMITS.chatAttachments;
  if (!Array.isArray(attachments) || attachments.length > most)
    return refuse('attachments', `"attachments" must be a list of at most ${most} files.`);
  return attachments.map((attachment: unknown, at) => {
    const path = `attachments[${at}]`;
    const named = typeof attachment === 'string' ? { sha256: attachment } : attachment;
    if (!isRecord(named) || typeof named.sha256 !== 'string')
      return refuse(path, `"${path}" must be the sha256 of an uploaded file, or { sha256, name }.`);
    const name = optionalText(named, 'name', LIMITS.archiveNameBytes);
    return { sha256: named.sha256, ...(name === undefined ? {} : { name }) };
  });
}

/** Throws `BAD_REQUEST` for a type that is none. */
function typeOf(exchange: Exchange): string {
  const type = exchange.header('content-type') ?? UNTYPED;
  if (!MEDIA_TYPE.test(type)) refuse('content-type', 'The content-type must be a media type, such as image/png.');
  return type;
}
