/** The routes of conversations, and of the files attached to their messages (specification, "Conversations"). */
import { LIMITS } from '../../limits.ts';
import { count, listOf, type Of, object, orNull, text, textOrNull, words } from '../../shapes/schema.ts';
import { FILE, FILE_EXAMPLE, NONE_MATCH, SHA256, UNCHANGED } from '../apps/files-rows.ts';
import { deleted, limitOf, NAMED_PERSON, newestFirst, OF_APP, TIME, thousands } from '../pieces.ts';
import { resource, row } from '../row.ts';
import { EVENTS, HISTORY_EXAMPLE, HISTORY_ROW, MESSAGE, OF_MESSAGE, OF_TURN, STATE, turnRows } from './turns-rows.ts';

const [MiB, GiB] = [1024 ** 2, 1024 ** 3];
const MOST = thousands(LIMITS.conversations);
const WORDS = words(LIMITS.textChars);
const CONVERSATION_ID = {
  ...WORDS,
  wanted: '1 to 64 of A-Z, a-z, 0-9, "-" and "_", not "-" or "_" first',
  says: 'Unique over all apps',
} as const;

const MEMBERS = {
  conversationId: text,
  app: text,
  title: { ...textOrNull, says: 'The beginning of the first message, unless a title was set' },
  adapter: { ...textOrNull, says: 'The runner that answered last' },
  counts: {
    ...object({ turns: count, messages: count }),
    says: 'Messages are those of people and agents, and the calls of tools',
  },
  state: { ...orNull(STATE), says: 'Of the latest turn; null before the first' },
  createdAt: TIME,
  updatedAt: TIME,
} as const;
const BEGUN = { by: { ...NAMED_PERSON, says: 'The person who began it' } } as const;
const CONVERSATION = object(MEMBERS, BEGUN);
export type ConversationRecord = Of<typeof CONVERSATION>;
const EXAMPLE = {
  conversationId: 'c2a7f0c41be84a0f',
  app: 'todos',
  title: 'What is left to do?',
  adapter: 'claude-code',
  counts: { turns: 1, messages: 3 },
  state: 'ok',
  createdAt: 1_767_225_600_000,
  updatedAt: 1_767_225_603_000,
};

/** The SHA-256 of a file that was uploaded, or that with the name of its file. */
export const ATTACHMENT = {
  anyOf: [text, object({ sha256: text }, { name: { ...words(LIMITS.archiveNameBytes), type: ['string', 'null'] } })],
  wanted: 'the sha256 of an uploaded file, or { sha256, name }',
} as const;

const NAMED = { sid: 'The id of the conversation' };
const OF_ALL = { ...OF_APP, NO_GIT_STORE: '' };
const OF_ONE = { ...OF_ALL, UNKNOWN_CONVERSATION: '' };
const list = '/_svc-conversations/apps/:id/sessions';
const one = `${list}/:sid` as const;
const files = '/_svc-conversations/apps/:id/blobs';

export const listConversations = row({
  method: 'GET',
  path: list,
  needs: 'manage',
  title: 'List the conversations',
  does: 'Lists the conversations about an app, the most recently used first.',
  query: newestFirst('the `conversationId` of a conversation'),
  answer: { json: listOf(CONVERSATION) },
  errors: { ...OF_ALL, UNKNOWN_CONVERSATION: 'there is no conversation `before`' },
  example: [EXAMPLE],
});

export const makeConversation = row({
  method: 'POST',
  path: list,
  needs: 'manage',
  title: 'Make a conversation',
  does: 'Makes a conversation without a message.',
  body: object(
    {},
    {
      conversationId: { ...CONVERSATION_ID, says: `${CONVERSATION_ID.says}; without it the gateway makes one` },
      title: { ...WORDS, says: 'Without it the beginning of the first message' },
    },
  ),
  answer: { status: 201, json: CONVERSATION },
  errors: { ...OF_ALL, CONFLICT: `the id is taken, or the app has ${MOST} conversations`, STORAGE_FULL: '' },
  example: { ...EXAMPLE, title: null, adapter: null, counts: { turns: 0, messages: 0 }, state: null },
});

export const sendToConversation = row({
  method: 'POST',
  path: '/svc/:id/_turn',
  needs: 'manage',
  title: 'Send a message',
  does: 'Begins a turn in mode `full` with a message to an agent. The first message opens the conversation.',
  body: object(
    { conversationId: CONVERSATION_ID, message: MESSAGE },
    {
      ...OF_TURN,
      attachments: {
        ...listOf(ATTACHMENT, `a list of at most ${LIMITS.chatAttachments} files`),
        maxItems: LIMITS.chatAttachments,
        says: 'Uploaded files, each by its sha256 or as `{ sha256, name }`: images (PNG, JPEG, GIF, WebP) or texts',
      },
    },
  ),
  answer: {
    ...EVENTS,
    says: `${EVENTS.says} \`assistant.start\` has the \`sessionId\`.`,
  },
  errors: {
    ...OF_ALL,
    ...OF_MESSAGE,
    UNKNOWN_BLOB: '',
    OVERLOADED: `${LIMITS.chatQueue} messages wait, or there are ${LIMITS.chatTurns} turns`,
    CONFLICT: `another app has this conversation, the app has ${MOST}, or it was not published and several workspaces have one of its id`,
  },
});

export const readConversation = row({
  method: 'GET',
  path: one,
  needs: 'manage',
  title: 'Read a conversation',
  does: `Answers a conversation with the messages of its latest turns, oldest first; their \`seq\` counts through the conversation. They are fewer if they are over ${LIMITS.conversationPageBytes / MiB} MiB.`,
  params: NAMED,
  query: object(
    {},
    {
      limit: { ...limitOf(), says: `Turns to answer; ${LIMITS.listRows} by default` },
      before: { ...text, says: 'The id of a turn: answers those before it. The first page is the one with `seq` 1' },
    },
  ),
  answer: { json: object({ ...MEMBERS, messages: listOf(HISTORY_ROW) }, BEGUN) },
  errors: OF_ONE,
  example: { ...EXAMPLE, messages: HISTORY_EXAMPLE },
});

export const renameConversation = row({
  method: 'PATCH',
  path: one,
  needs: 'manage',
  title: 'Rename a conversation',
  does: 'Sets the title of a conversation.',
  params: NAMED,
  body: object({ title: WORDS }),
  answer: { json: CONVERSATION },
  errors: OF_ONE,
  example: { ...EXAMPLE, title: 'Todos of this week' },
});

export const deleteConversation = row({
  method: 'DELETE',
  path: one,
  needs: 'manage',
  title: 'Delete a conversation',
  does: 'Ends the turns of a conversation, closes its workspace, and deletes it.',
  params: NAMED,
  answer: { json: deleted({ conversationId: text }) },
  errors: OF_ONE,
  example: { conversationId: EXAMPLE.conversationId, deleted: true },
});

export const conversationTurns = turnRows(one, { needs: 'manage', params: NAMED, errors: OF_ONE });

export const uploadAttachment = row({
  method: 'POST',
  path: files,
  needs: 'manage',
  title: 'Upload an attachment',
  does: `Stores a file for the \`attachments\` of a message. It stays while a message refers to it, and for a day after its last upload. All such files of an app have at most ${LIMITS.attachmentsBytes / GiB} GiB; each counts as at least ${LIMITS.attachmentCountedBytes / 1024} KiB.`,
  headers: { 'content-type': 'The type of the file; `application/octet-stream` by default' },
  body: { media: '*/*', says: `Any bytes, up to ${LIMITS.attachmentBytes / MiB} MiB` },
  answer: { status: 201, json: FILE, also: { 200: 'The file was there' } },
  errors: { ...OF_ALL, CONFLICT: 'there are too many', STORAGE_FULL: '' },
  example: FILE_EXAMPLE,
});

export const downloadAttachment = row({
  method: 'GET',
  path: `${files}/:sha256`,
  needs: 'manage',
  title: 'Download an attachment',
  does: 'Sends a file, which a browser saves.',
  params: SHA256,
  headers: NONE_MATCH,
  answer: { media: '*/*', also: UNCHANGED, headers: { etag: 'the SHA-256 in quotes' } },
  errors: { ...OF_ALL, UNKNOWN_BLOB: '' },
  isFile: true,
});

export const deleteAttachment = row({
  method: 'DELETE',
  path: `${files}/:sha256`,
  needs: 'manage',
  title: 'Delete an attachment',
  does: 'Deletes a file that no message refers to.',
  params: SHA256,
  answer: { json: deleted({ sha256: text }) },
  errors: { ...OF_ALL, UNKNOWN_BLOB: '', CONFLICT: 'a message refers to it' },
  example: { sha256: FILE_EXAMPLE.sha256, deleted: true },
});

export const CONVERSATIONS = resource({
  name: 'Conversations',
  page: 'conversations',
  about: `In a conversation an agent edits the draft of an app, on the git store. It works in the workspace \`conversation-<conversationId>\`, which opens on first use and closes with the conversation. You publish, compare and preview it like [any other](http-workspaces.md). If the id is too long for that name, it ends with a hash; \`assistant.start\` has it.

An app that was never published can be talked about too: make a blank one with \`POST /svc/_apps\` without \`publish\`, and let an agent build it. As long as it is not published, its conversations work in the workspace that has it: their own, or the only one that does. With its publication each gets its own workspace like any other. Files can be attached once it is published.`,
  rows: [
    listConversations,
    makeConversation,
    sendToConversation,
    readConversation,
    renameConversation,
    deleteConversation,
    conversationTurns.follow,
    conversationTurns.abort,
    conversationTurns.choose,
    uploadAttachment,
    downloadAttachment,
    deleteAttachment,
  ],
});
