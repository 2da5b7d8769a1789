/** What chat windows and conversations have in common: the members of a message, their histories, the routes of their turns. */
import { THINKING_LEVELS, TURN_EVENTS } from '../../agents/agents.ts';
import { TURN_STATES } from '../../agents/stored-turns.ts';
import { LIMITS } from '../../limits.ts';
import {
  count,
  flag,
  listOf,
  matching,
  type Of,
  object,
  oneOf,
  type Schema,
  text,
  textOrNull,
  words,
} from '../../shapes/schema.ts';
import { NAMED_PERSON, TIME } from '../pieces.ts';
import { type RouteRow, type RowErrors, row } from '../row.ts';

export const EVENTS = {
  media: 'text/event-stream',
  events: TURN_EVENTS,
  says: 'The events are listed under [turns and their events](http-api.md#turns-and-their-events).',
} as const;
export const STATE = oneOf(...TURN_STATES);
const WORDS = words(LIMITS.textChars);

/** Members of a message, in the body that begins a turn. */
export const MESSAGE = {
  ...matching(/\S/, 'a text'),
  says: `Up to ${LIMITS.chatMessageBytes / 1024} KiB`,
} as const;
export const OF_TURN = {
  runner: {
    ...WORDS,
    says: 'Who answers; by default the runner of the last turn, and of the first turn the default runner',
  },
  model: { ...WORDS, says: 'One of the models of the runner' },
  thinking: { ...oneOf(...THINKING_LEVELS), says: "The model's effort" },
  idempotencyKey: {
    ...words(LIMITS.idempotencyKeyBytes),
    says: 'A message with a key that was used before begins no turn: the answer has the events of the first one, which goes on until all its senders have disconnected',
  },
  detach: {
    ...flag,
    says: 'True: the turn goes on when this client disconnects. Else that aborts it. It ends in any case with the token or session that began it',
  },
} as const satisfies Record<string, Schema>;

/** What a message may be refused for; the meanings differ. */
export const OF_MESSAGE: RowErrors = {
  NO_RUNNER: '',
  IDEMPOTENCY_MISMATCH: '',
  PAYLOAD_TOO_LARGE: 'the message is too long',
  NO_ACTIVE_VERSION: '',
  STORAGE_FULL: '',
};

const PLACED = { seq: count, turnId: text, ts: TIME } as const;
const ATTACHED = object({ sha256: text, name: text, type: text });
/** A row of a history: a message, a part of an answer, or a tool. */
export const HISTORY_ROW = {
  anyOf: [
    object(
      {
        kind: { const: 'user' },
        ...PLACED,
        text,
        state: { ...STATE, says: 'Of the turn; `interrupted` if the gateway stopped during it' },
      },
      {
        error: object({ code: text, message: text }),
        by: { ...NAMED_PERSON, says: 'The person who wrote it' },
        attachments: { ...listOf(ATTACHED), says: 'In conversations: the files that went with the message' },
      },
    ),
    object({ kind: { const: 'assistant' }, ...PLACED, text }, { reasoning: text }),
    object(
      { kind: { const: 'tool' }, ...PLACED, toolName: text },
      {
        toolCallId: text,
        args: {},
        sql: text,
        ok: { ...flag, says: 'Absent while the tool runs' },
        result: { says: 'What the tool answered, if `ok`' },
        errorText: { ...text, says: 'What went wrong, if not `ok`' },
        permission: {
          ...object({ requestId: text, detail: text }, { optionId: textOrNull }),
          says: 'What the agent asked for; `ok` if it was granted',
        },
      },
    ),
  ],
  wanted: 'a row of a history',
} as const;
export type HistoryRow = Of<typeof HISTORY_ROW>;

const TURN_ID = '019ac1de-7c00-7000-8000-5e1f0a3b9c42';
export const HISTORY_EXAMPLE = [
  { seq: 1, turnId: TURN_ID, ts: 1_767_225_600_000, kind: 'user', text: 'What is left to do?', state: 'ok' },
  {
    seq: 2,
    turnId: TURN_ID,
    ts: 1_767_225_602_000,
    kind: 'tool',
    toolCallId: 'call_1',
    toolName: 'list',
    args: {},
    ok: true,
    result: '[{"id":1,"title":"Milk"}]',
  },
  { seq: 3, turnId: TURN_ID, ts: 1_767_225_603_000, kind: 'assistant', text: 'Only the milk.' },
];
export const TURN_EXAMPLE = { turnId: TURN_ID, state: 'ok' };

/** The routes of the turns of what is at `path`. */
export function turnRows<
  const Path extends string,
  const Common extends Pick<RouteRow, 'needs' | 'drafts'> & {
    readonly params: Readonly<Record<string, string>>;
    readonly errors: RowErrors;
  },
>(path: Path, common: Common) {
  const errors = { ...common.errors, UNKNOWN_TURN: '' };
  const params = { ...common.params, turnId: 'The id of the turn' };
  const turn = `${path}/turns/:turnId` as const;
  return {
    follow: row({
      ...common,
      method: 'GET',
      path: `${turn}/events`,
      title: 'Follow a turn',
      does: 'Sends the events of a turn: those that were, then the others as they come, up to `end`.',
      params,
      headers: { 'last-event-id': 'The id of the last event that the client has: sends those after it' },
      answer: EVENTS,
      errors,
    }),
    abort: row({
      ...common,
      method: 'DELETE',
      path: turn,
      title: 'Abort a turn',
      does: 'Aborts a turn and answers when it has ended. A turn that has ended stays as it is.',
      params,
      answer: { json: object({ turnId: text, state: text }) },
      errors,
      example: { ...TURN_EXAMPLE, state: 'aborted' },
    }),
    choose: row({
      ...common,
      method: 'POST',
      path: `${turn}/permissions/:requestId`,
      title: 'Answer a question of the agent',
      does: 'Grants or denies what the agent asks for.',
      params: { ...params, requestId: 'The `requestId` of the `permission` event' },
      body: object({ optionId: { ...WORDS, wanted: 'one of the options of the permission' } }),
      answer: {
        json: object({
          turnId: text,
          requestId: text,
          optionId: text,
          ok: { ...flag, says: 'Whether the option grants it' },
        }),
      },
      errors: { ...errors, NOT_FOUND: 'no such question', CONFLICT: 'it was answered already, or it is too late' },
      example: { turnId: TURN_ID, requestId: 'r1', optionId: 'allow_once', ok: true },
    }),
  };
}
export type TurnRows = ReturnType<typeof turnRows>;
