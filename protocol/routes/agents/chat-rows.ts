/** The routes of chat windows (specification, "Chat windows"). */
import { CHAT_MODES } from '../../agents/agents.ts';
import { LIMITS } from '../../limits.ts';
import { count, formatted, integer, listOf, type Of, object, oneOf, text, textOrNull } from '../../shapes/schema.ts';
import { deleted, limitOf, NAMED_PERSON, newestFirst, OF_APP, TIME, thousands } from '../pieces.ts';
import { resource, row } from '../row.ts';
import {
  EVENTS,
  HISTORY_EXAMPLE,
  HISTORY_ROW,
  MESSAGE,
  OF_MESSAGE,
  OF_TURN,
  STATE,
  TURN_EXAMPLE,
  turnRows,
} from './turns-rows.ts';

const WINDOW = object(
  {
    windowId: text,
    mode: oneOf(...CHAT_MODES),
    title: { ...text, says: 'The beginning of its first message' },
    turns: count,
    adapter: { ...textOrNull, says: 'The runner of the last turn' },
    lastTurn: object({ turnId: text, state: STATE }),
    createdAt: TIME,
    updatedAt: TIME,
  },
  { by: { ...NAMED_PERSON, says: 'The person whose it is, who sent its first message' } },
);
/** A window as it is listed. */
export type ChatWindow = Of<typeof WINDOW>;

const NAMED = { wid: 'The id of the window' };
const OF_WINDOW = { ...OF_APP, UNKNOWN_WINDOW: '' };
const at = '/svc/:id/_chat/windows/:wid';

export const sendMessage = row({
  method: 'POST',
  path: '/svc/:id/_chat',
  needs: 'chat',
  title: 'Send a message',
  does: 'Begins a turn with a message to an agent. The answer begins once the message is stored. The first message makes the window.',
  body: object(
    {
      windowId: {
        ...formatted('chosen id', '1 to 64 of A-Z, a-z, 0-9, "-" and "_"'),
        says: 'The window; the client chooses the id of a new one',
      },
      message: MESSAGE,
    },
    {
      mode: {
        ...oneOf(...CHAT_MODES),
        wanted: '"data" or "full"',
        says: 'By default that of the window, of a new one `data`. The first message sets it. `full` is for callers that may manage the app: the window gets a workspace, which `assistant.start` names and which closes with the window',
      },
      ...OF_TURN,
    },
  ),
  answer: EVENTS,
  errors: {
    ...OF_APP,
    ...OF_MESSAGE,
    FORBIDDEN: 'with the `path` `runner`: it is not for pages',
    MODE_UNAVAILABLE: '',
    OVERLOADED: `${LIMITS.chatQueue} messages wait in this window, or there are ${LIMITS.chatTurns} turns`,
    CONFLICT: `the window is full or somebody else's, or there are ${thousands(LIMITS.chatWindows)} windows`,
    WINDOW_DAMAGED: '',
  },
  drafts: 'The agent has the tools and the data of the draft.',
});

export const listWindows = row({
  method: 'GET',
  path: '/svc/:id/_chat/windows',
  needs: 'chat',
  title: 'List the windows',
  does: "Lists the caller's windows, for callers that may manage the app those of everybody, the most recently used first. Those in mode `full` are listed for callers that may manage the app.",
  query: newestFirst('the `windowId` of a window'),
  answer: { json: listOf(WINDOW) },
  errors: OF_APP,
  example: [
    {
      windowId: 'w1',
      mode: 'data',
      title: 'What is left to do?',
      turns: 1,
      adapter: 'claude-code',
      lastTurn: TURN_EXAMPLE,
      createdAt: 1_767_225_600_000,
      updatedAt: 1_767_225_603_000,
    },
  ],
  drafts: true,
});

export const readWindow = row({
  method: 'GET',
  path: `${at}/history`,
  needs: 'chat',
  title: 'Read the history of a window',
  does: 'Lists the last rows of the history, oldest first: one for each message, each part of an answer, and each tool. `seq` counts them from 1.',
  params: NAMED,
  query: object(
    {},
    {
      limit: limitOf(LIMITS.listRowsMax),
      before: {
        ...integer(1, Number.MAX_SAFE_INTEGER),
        wanted: 'the `seq` of a row',
        says: 'Answers those before it',
      },
    },
  ),
  answer: { json: listOf(HISTORY_ROW) },
  errors: { ...OF_WINDOW, WINDOW_DAMAGED: '' },
  example: HISTORY_EXAMPLE,
  drafts: true,
});

export const deleteWindow = row({
  method: 'DELETE',
  path: at,
  needs: 'chat',
  title: 'Delete a window',
  does: 'Aborts the turns of a window, then deletes it.',
  params: NAMED,
  answer: { json: deleted({ windowId: text }) },
  errors: OF_WINDOW,
  example: { windowId: 'w1', deleted: true },
  drafts: true,
});

export const windowTurns = turnRows(at, { needs: 'chat', params: NAMED, errors: OF_WINDOW, drafts: true });

export const CHAT = resource({
  name: 'Chat',
  page: 'chat',
  about: `Windows are chats about an app's data. Callers that do not manage the app, such as its pages, use its windows in mode \`data\`, and reach only [runners that enforce it](agents.md#chats-of-pages). Of the agent's questions pages can answer those for a [confirmation](mcp.md#confirmations) of one of the app's actions only; the others need the right \`manage\`. A token for programs needs \`all\` for the app.

A window belongs to the person who sent its first message. Others get \`UNKNOWN_WINDOW\` for it, unless they may manage the app. Those that nobody with an account began, such as the administrator, a program or a page without a person, belong to all such callers.

A draft has windows of its own.`,
  rows: [sendMessage, listWindows, readWindow, deleteWindow, windowTurns.follow, windowTurns.abort, windowTurns.choose],
});
