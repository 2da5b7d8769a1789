/** The event streams of apps: what changes, and the results of queries (specification, "Change stream", "Live queries"). */
import { ERROR } from '../../errors.ts';
import { LIMITS } from '../../limits.ts';
import { count, listOf, object, oneOf, text, textOrNull } from '../../shapes/schema.ts';
import { NAMED_PERSON, TIME } from '../pieces.ts';
import { resource, row } from '../row.ts';

const media = 'text/event-stream';
const VERSION = {
  ...text,
  says: 'The version that the page shows, its `data-version` in a draft. If it is no longer the one that is served, `event: reload` comes at once',
} as const;
const TABLES = { ...text, says: 'Names of tables, separated by commas: sends only their changes' } as const;

const OF_APP = { app: text, ts: TIME } as const;
/** Of a handler of a draft: `name` is that of the error, `stack` has the frames of the app, and the first of them is parsed. */
export const HANDLER_FAULT = object(
  { tool: textOrNull, name: textOrNull, message: text, stack: listOf(text) },
  { file: text, line: count, column: count },
);
const CHANGE_EVENTS = {
  change: object(
    {
      ...OF_APP,
      table: text,
      tables: listOf(text),
      action: text,
      source: oneOf('handler', 'agent', 'external', 'automation'),
      seq: count,
    },
    { by: NAMED_PERSON },
  ),
  reset: object({ ...OF_APP, seq: count }),
  reload: object(OF_APP),
  fault: HANDLER_FAULT,
} as const;
/** Of several queries: the place of the query that the event is about. */
const PLACED = { index: count } as const;
const QUERY_EVENTS = {
  data: object({ data: {}, seq: count }, PLACED),
  error: object({ isError: { const: true }, error: ERROR }, PLACED),
} as const;

export const followChanges = row({
  method: 'GET',
  path: '/svc/:id/_changes',
  needs: 'stream',
  title: 'Follow the changes of an app',
  does: 'Sends an event for each table that an action changed. See [the change stream](http-api.md#change-stream).',
  query: object({}, { tables: TABLES, version: VERSION }),
  headers: { 'last-event-id': 'The id of the last event that the client has: sends those after it' },
  answer: { media, events: CHANGE_EVENTS },
  errors: { UNKNOWN_APP: '', OVERLOADED: 'too many streams' },
  drafts:
    'It also has `event: reload` when the files changed, and `event: fault` for an error of a handler: `{ tool, name, message, stack, file?, line?, column? }`.',
});

export const followQueries = row({
  method: 'GET',
  path: '/svc/:id/_live',
  needs: { right: 'read', of: 'the app, with `changes` also `stream`' },
  title: 'Follow queries',
  does: `Sends the result of a query, and again whenever it differs. See [live queries](http-api.md#live-queries).`,
  query: object(
    {
      query: {
        ...text,
        says: `The name of the query. Repeat it with an \`input\` each for up to ${LIMITS.liveQueriesOfStream} queries`,
      },
    },
    {
      input: { ...text, says: 'JSON; `{}` by default' },
      changes: { ...text, says: 'Given: the stream also has the changes of the app' },
      tables: { ...TABLES, says: `${TABLES.says}; beside \`changes\`` },
      version: { ...VERSION, says: 'As for the changes of an app; beside `changes`' },
      lastEventId: { ...text, says: 'In place of the header, which browsers cannot set' },
    },
  ),
  headers: { 'last-event-id': 'The id of the last event that the client has: sends what differs from it' },
  answer: { media, events: { ...QUERY_EVENTS, ...CHANGE_EVENTS } },
  errors: {
    UNKNOWN_APP: '',
    NO_ACTIVE_VERSION: '',
    UNKNOWN_QUERY: '',
    WRONG_KIND: '',
    INVALID_INPUT: '',
    INVALID_MANIFEST: '',
    HANDLER_ERROR: '',
    QUARANTINED: '',
    MIGRATION_FAILED: 'of a draft',
    OVERLOADED: 'too many streams or subscriptions',
  },
  drafts: true,
});

export const STREAMS = resource({
  name: 'Streams',
  page: 'streams',
  about: `Pages and programs follow an app with server-sent events.`,
  rows: [followChanges, followQueries],
});
