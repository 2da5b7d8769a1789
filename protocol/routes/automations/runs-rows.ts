/** The routes of runs: their history, their events, and what they cost (specification, "Runs"). */
import { RUN_STATES } from '../../automations/run-states.ts';
import { ERROR } from '../../errors.ts';
import { LIMITS } from '../../limits.ts';
import {
  count,
  flag,
  formatted,
  integer,
  listOf,
  matching,
  object,
  oneOf,
  orNull,
  text,
  textOrNull,
} from '../../shapes/schema.ts';
import { elsewhere, limitOf, NAMED_PERSON, TIME, TIME_OR_NULL, thousands } from '../pieces.ts';
import { type RowErrors, resource, row } from '../row.ts';

export const RUN_ID = matching(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, 'the id of a run');
const COST = { type: ['number', 'null'], says: 'In US dollars; null where no agent reported a price' } as const;
export const USAGE = object({
  inputTokens: count,
  outputTokens: count,
  cacheReadTokens: count,
  cacheWriteTokens: count,
  costUsd: COST,
});

const RUN_MEMBERS = {
  runId: text,
  kind: { ...oneOf('automation', 'chat'), says: '`chat`: a [turn](http-api.md#turns-and-their-events) of an agent' },
  ref: { ...text, says: '`<app>/<automation>`; of a turn `<app>/_chat`' },
  app: text,
  automation: text,
  trigger: {
    ...object({
      kind: oneOf('cron', 'webhook', 'manual', 'failure', 'chat'),
      origin: {
        type: ['string', 'number', 'null'],
        says: 'Which fire it was: of `cron` the scheduled time, of `webhook` its slug, of `failure` the id of the run that failed, of `chat` the window or conversation; else null',
      },
    }),
    says: 'What fired it',
  },
  parentRunId: { ...textOrNull, says: 'The run that led to this one' },
  state: {
    ...oneOf(...RUN_STATES),
    says: '`interrupted`: the gateway stopped during the run; `skipped`: an earlier run had not ended',
  },
  input: { says: 'Any JSON value' },
  output: { says: 'Any JSON value' },
  summary: textOrNull,
  error: orNull(ERROR),
  queuedAt: TIME,
  startedAt: TIME_OR_NULL,
  endedAt: TIME_OR_NULL,
  usage: { ...USAGE, says: 'What its agents used' },
  pinned: { ...flag, says: 'It stays regardless of `history.keep`' },
} as const;
const CAUSE = { by: { ...NAMED_PERSON, says: 'The person who ran it, or sent the message' } } as const;
export const RUN = object(RUN_MEMBERS, CAUSE);

export const NODE = object({
  runId: text,
  ordinal: { ...count, says: 'From 1, without a gap' },
  batchId: { ...count, says: 'Calls that ran at the same time have the same' },
  kind: {
    ...oneOf('tool', 'agent', 'fetch', 'permission'),
    says: 'A call of `ctx.tool` or `ctx.agent`, a request of `ctx.fetch`, or a permission that an agent asked for',
  },
  name: {
    ...text,
    says: 'Of a request its method and address without the query, such as `GET https://api.example.com/v1/feed`',
  },
  args: { says: 'Any JSON value' },
  output: { says: 'Any JSON value; of a request, which ends with the headers of the answer, `{ status }`' },
  ok: flag,
  error: orNull(ERROR),
  startedAt: TIME,
  endedAt: TIME,
  usage: USAGE,
});

const { runId, ordinal, batchId, kind, name, args, startedAt } = NODE.properties;
/** The events that followers of a run get, in this order; `run.end` is the last, and `missed` says how many are left out. */
export const RUN_EVENTS = {
  'run.start': object({ type: { const: 'run.start' }, run: RUN }),
  'node.start': object({ type: { const: 'node.start' }, runId, ordinal, batchId, kind, name, args, startedAt }),
  'node.delta': object({ type: { const: 'node.delta' }, runId, ordinal, delta: text }),
  'node.end': object({ type: { const: 'node.end' }, node: NODE }),
  log: object({ type: { const: 'log' }, runId, line: {} }),
  'run.end': object({ type: { const: 'run.end' }, run: RUN }),
  missed: object({ type: { const: 'missed' }, events: count }),
} as const;

const SUMS = {
  runs: { ...count, says: 'All that ended, also those aborted and skipped' },
  ok: count,
  failed: { ...count, says: 'Those in `error` or `interrupted`' },
  inputTokens: count,
  outputTokens: count,
  costUsd: { ...COST, says: 'What agents reported, added up; null where none did' },
};
export const RUN_SUMS = object(SUMS);
export const INSIGHTS = object({
  totals: { ...RUN_SUMS, says: 'Each of the following lists has the same members' },
  byDay: elsewhere(listOf(object({ ...SUMS, day: text })), 'By days in UTC'),
  byAutomation: elsewhere(listOf(object({ ...SUMS, ref: text })), 'Those with most runs first'),
  byModel: elsewhere(listOf(object({ ...SUMS, model: text })), 'Those with most runs first'),
  recent: elsewhere(listOf(RUN), `The latest ${LIMITS.insightsRecent}, as in [List the runs](#list-the-runs)`),
});

const NO_USAGE = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, costUsd: null };
const ID = '019b7764-0c00-7a31-8f02-5d4e9a1c7b60';
const AT = 1_767_225_600_000;
const EXAMPLE = {
  runId: ID,
  kind: 'automation',
  ref: 'todos/report',
  app: 'todos',
  automation: 'report',
  trigger: { kind: 'cron', origin: AT },
  parentRunId: null,
  state: 'ok',
  input: null,
  output: { open: 3 },
  summary: '3 open todos',
  error: null,
  queuedAt: AT,
  startedAt: AT + 2,
  endedAt: AT + 40,
  usage: NO_USAGE,
  pinned: false,
};
const SUMS_EXAMPLE = { runs: 31, ok: 30, failed: 1, inputTokens: 52_000, outputTokens: 4100, costUsd: 0.21 };
/** Of routes of runs of apps that the query names. */
const OF_FILTER = {
  right: 'manage',
  of: 'the apps that `ref` and `app` name, without both of them the right `admin`',
} as const;
const OF_RUN = { right: 'manage', of: 'the app of the run' } as const;
const NAMED = { runId: 'The id of the run' };
const KNOWN: RowErrors = { UNKNOWN_RUN: '' };
const FILTER = {
  ref: { ...text, says: 'Those of `<app>/<automation>`, or with `<app>/_chat` of the chats of an app' },
  app: { ...formatted('app id', 'the id of an app'), says: 'Those of this app' },
} as const;

export const listRuns = row({
  method: 'GET',
  path: '/svc/_runs',
  needs: OF_FILTER,
  title: 'List the runs',
  does: `Lists runs, the newest first. Inputs and outputs over ${LIMITS.runListedBytes / 1024} KiB are cut.`,
  query: object(
    {},
    {
      ...FILTER,
      state: { ...oneOf(...RUN_STATES), says: 'Those in this state' },
      failing: {
        const: '1',
        wanted: '1',
        says: 'The failed runs of the last 24 hours whose automation has not succeeded since',
      },
      limit: limitOf(),
      before: { ...RUN_ID, says: 'Answers those that follow this one' },
    },
  ),
  answer: { json: listOf(RUN) },
  example: [EXAMPLE],
});

export const followRuns = row({
  method: 'GET',
  path: '/svc/_runs/_events',
  needs: OF_FILTER,
  title: 'Follow all runs',
  does: 'Streams the events of all runs from now on.',
  query: object({}, FILTER),
  answer: {
    media: 'text/event-stream',
    events: RUN_EVENTS,
    says: 'The events are those of [a run](#follow-a-run). A reader that was more than 256 KiB behind gets `missed`.',
  },
  errors: { OVERLOADED: 'there are too many streams' },
});

export const showRun = row({
  method: 'GET',
  path: '/svc/_runs/:runId',
  needs: OF_RUN,
  title: 'Show a run',
  does: 'Shows a run with its whole record.',
  params: NAMED,
  answer: { json: RUN },
  errors: KNOWN,
  example: EXAMPLE,
});

const ORDINAL = { ...integer(1, Number.MAX_SAFE_INTEGER), wanted: 'the ordinal of a node' } as const;

export const listNodes = row({
  method: 'GET',
  path: '/svc/_runs/:runId/nodes',
  needs: OF_RUN,
  title: 'List the nodes of a run',
  does: 'Lists what a run called, in order.',
  params: NAMED,
  query: object(
    {},
    {
      limit: limitOf(LIMITS.listRowsMax),
      after: { ...ORDINAL, says: 'Answers those after this one' },
      before: { ...ORDINAL, says: 'Answers the last ones before this one' },
    },
  ),
  answer: { json: listOf(NODE) },
  errors: KNOWN,
  example: [
    {
      runId: ID,
      ordinal: 1,
      batchId: 1,
      kind: 'tool',
      name: 'svc_read',
      args: { app: 'todos', query: 'list' },
      output: [],
      ok: true,
      error: null,
      startedAt: AT + 5,
      endedAt: AT + 9,
      usage: NO_USAGE,
    },
  ],
});

export const followRun = row({
  method: 'GET',
  path: '/svc/_runs/:runId/events',
  needs: OF_RUN,
  title: 'Follow a run',
  does: 'Streams the events of a run: past ones, then live ones. The stream ends after `run.end`. Events of a run that has ended come from the history, without deltas and log lines.',
  params: NAMED,
  answer: {
    media: 'text/event-stream',
    events: RUN_EVENTS,
    says: `The stream opens with \`retry: 2000\`; a comment every 15 seconds keeps it alive. A client that opens it again when it ends must stop at \`run.end\`. The data of each event has its name as \`type\`:

| \`event\` | Members of \`data\` |
|---|---|
| \`run.start\` | \`run\` |
| \`node.start\` | \`runId\`, \`ordinal\`, \`batchId\`, \`kind\`, \`name\`, \`args\`, \`startedAt\` |
| \`node.delta\` | \`runId\`, \`ordinal\`, \`delta\`: text of an agent as it comes |
| \`node.end\` | \`node\` |
| \`log\` | \`runId\`, \`line\`: an entry of the app's log, as in \`GET /svc/_logs\` |
| \`run.end\` | \`run\`; the only event of a run that was skipped, or stopped before it started |
| \`missed\` | \`events\`: the number of those that are left out, because of a current run only ${thousands(LIMITS.runEvents)} events and ${LIMITS.runEventsBytes / 1024 ** 2} MiB are kept. See the nodes for calls that have ended |`,
  },
  errors: { ...KNOWN, OVERLOADED: 'there are too many streams' },
});

export const pinRun = row({
  method: 'POST',
  path: '/svc/_runs/:runId/pin',
  needs: OF_RUN,
  title: 'Pin a run',
  does: 'Keeps a run, or no longer.',
  params: NAMED,
  body: object({ pinned: flag }),
  answer: { json: RUN },
  errors: { ...KNOWN, STORAGE_FULL: '' },
  example: { ...EXAMPLE, pinned: true },
});

export const cancelRun = row({
  method: 'POST',
  path: '/svc/_runs/:runId/cancel',
  needs: OF_RUN,
  title: 'Cancel a run',
  does: 'Stops a run. A run that has ended stays as it is.',
  params: NAMED,
  answer: { json: RUN, says: 'The run has ended.' },
  errors: { ...KNOWN, STORAGE_FULL: '' },
  example: { ...EXAMPLE, state: 'aborted', output: null, summary: null },
});

export const showInsights = row({
  method: 'GET',
  path: '/svc/_insights',
  needs: 'admin',
  title: 'Sum up the runs',
  does: 'Adds up the runs of the last days. Runs that left the history and runs of removed apps count too.',
  query: object(
    {},
    { days: { ...integer(1, LIMITS.insightsDaysMax), says: `How many days; ${LIMITS.insightsDays} by default` } },
  ),
  answer: { json: INSIGHTS },
  example: {
    totals: SUMS_EXAMPLE,
    byDay: [{ ...SUMS_EXAMPLE, day: '2026-01-31' }],
    byAutomation: [{ ...SUMS_EXAMPLE, ref: 'todos/report' }],
    byModel: [],
    recent: [EXAMPLE],
  },
});

export const RUNS = resource({
  name: 'Runs',
  page: 'runs',
  about: `A run is the record of one fire of an [automation](automations.md), or of one turn of an agent. Its nodes are the steps in it. Inputs, arguments and outputs over ${LIMITS.runValueBytes / 1024} KiB are stored as \`{ "cut": true, "bytes": <length of all of it>, "head": "<its beginning, as JSON text>" }\`; once the nodes of one run take ${LIMITS.runNodesBytes / 1024 ** 2} MiB, this applies from ${LIMITS.runValueLeftBytes} bytes on.`,
  rows: [listRuns, followRuns, showRun, listNodes, followRun, pinRun, cancelRun, showInsights],
});
