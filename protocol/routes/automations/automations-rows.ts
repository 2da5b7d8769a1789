/** The routes of automations and their webhooks (specification, "Automation files" and "Webhook requests"). */
import { WEBHOOK_ROUTE_PREFIX } from '../../automations/automation.ts';
import { LIMITS } from '../../limits.ts';
import { count, flag, integer, listOf, object, oneOf, type Schema, text, typed, words } from '../../shapes/schema.ts';
import { IN_WORKSPACE, PUBLISHED, STAGED, STAGED_ERRORS, STAGED_EXAMPLE, WEBHOOKS } from '../apps/publications.ts';
import { deleted, elsewhere, OF_APP, sortedBy, switched, TIME, thousands } from '../pieces.ts';
import { type RowErrors, resource, row } from '../row.ts';
import { RUN } from './runs-rows.ts';

/** Days that the calendar looks ahead, unless more are asked for. */
export const UPCOMING_DAYS = 7;
const WORDS = words(LIMITS.textChars);
const ANY = typed<unknown>({
  type: ['object', 'array', 'string', 'number', 'boolean', 'null'],
  wanted: 'any JSON value',
});

const CRON = object(
  { kind: { const: 'cron' }, expr: text },
  { tz: { ...text, says: 'A time zone; without it that of the gateway' }, catchUp: flag },
);
const VERIFY = {
  anyOf: [
    oneOf('bearer', 'standard', 'github', 'stripe', 'slack'),
    object(
      { header: text, algorithm: oneOf('sha1', 'sha256', 'sha512'), encoding: oneOf('hex', 'base64') },
      { prefix: text },
    ),
  ],
} as const satisfies Schema;
const PENDING = object(
  { kind: { const: 'webhook' }, pending: { const: true, says: 'It has no address yet' } },
  { signing: flag, verify: VERIFY, secret: text },
);
const WITH_ADDRESS = {
  kind: { const: 'webhook' },
  id: text,
  url: { ...text, says: 'Where to post: it begins with [`publicUrl`](configuration.md#configuration)' },
} as const;
const PROBLEM = { problem: { ...text, says: 'Why the webhook refuses every request, and what to do' } };
export const TRIGGER = {
  anyOf: [
    CRON,
    PENDING,
    object(WITH_ADDRESS, { signing: flag, ...PROBLEM }),
    object(
      {
        ...WITH_ADDRESS,
        verify: VERIFY,
        secret: {
          ...text,
          says: 'Of a [webhook of a service](automations.md#webhooks-of-services): the name of a secret of the app',
        },
      },
      { signing: { const: false }, ...PROBLEM },
    ),
  ],
} as const satisfies Schema;

const JSON_SCHEMA = { type: ['boolean', 'object'], wanted: 'a JSON Schema' } as const;
/** The content of a file, with every default filled in. */
const MANIFEST = object(
  {
    ...{ name: text, version: text, prompt: text, enabled: flag },
    triggers: listOf({
      anyOf: [
        CRON,
        PENDING,
        object({ kind: { const: 'webhook' }, id: text }, { signing: flag, verify: VERIFY, secret: text }),
      ],
    }),
    requires: object({}, { mcps: listOf(text), tools: listOf(text), model: text }),
    history: object({ keep: { anyOf: [object({ count }), object({ days: count }), oneOf('all', 'errors')] } }),
    generated: object({ by: text, at: text }),
  },
  {
    ...{ description: text, apps: listOf(text), onFailure: text, outputSchema: JSON_SCHEMA },
    costEstimate: object({}, { model: text, tokensPerFire: count }),
  },
);

const { input: _input, output: _output, by, ...LISTED } = RUN.properties;
/** Without input and output, which would make a list of many automations large. */
export const LISTED_RUN = object(LISTED, { by });

const NAME = { ref: { ...text, says: '`<app>/<id>`' }, app: text, id: text, name: text };
const ROW = { ...NAME, enabled: flag, triggers: { ...listOf(TRIGGER), says: 'Without hashes of secrets' } };
const ROW_MORE = {
  description: text,
  nextRunAt: TIME,
  lastRun: elsewhere(LISTED_RUN, 'Its latest [run](http-runs.md#list-the-runs), without `input` and `output`'),
};
export const AUTOMATION = object(ROW, ROW_MORE);
export const FAULT = object(
  {
    ref: text,
    code: {
      ...text,
      says: '`flat_file`: `automations/<name>.json`, which [the gateway ignores](automations.md#the-file)',
    },
    message: text,
  },
  { path: text },
);
export const UPCOMING = object({
  rows: listOf(
    object({
      ...NAME,
      fires: { ...listOf(TIME), says: `The first ${LIMITS.upcomingFires} times` },
      more: { ...flag, says: 'There are others' },
    }),
  ),
  more: {
    ...flag,
    says: `There are others: the whole answer has at most ${thousands(LIMITS.upcomingFiresTotal)} times`,
  },
});

const EXAMPLE = {
  ref: 'todos/report',
  app: 'todos',
  id: 'report',
  name: 'Weekly report',
  enabled: true,
  triggers: [{ kind: 'cron', expr: '0 7 * * 1' }],
  nextRunAt: 1_767_596_400_000,
};
const NAMED = { id: 'The id of the automation' };
const KNOWN: RowErrors = { ...OF_APP, UNKNOWN_AUTOMATION: '', INVALID_AUTOMATION: '' };
const OF_ONE = { app: { ...text, says: 'Only those of this app' } };
const BY_APP = { right: 'manage', of: 'app', without: 'admin' } as const;

export const listAutomations = row({
  method: 'GET',
  path: '/svc/_automations',
  needs: BY_APP,
  title: 'List the automations',
  does: 'Lists the automations of live versions, sorted by `ref`.',
  query: object({}, { ...OF_ONE, ...sortedBy('`ref`').properties }),
  answer: {
    json: object({
      rows: listOf(AUTOMATION),
      errors: { ...listOf(FAULT), says: 'Files that cannot be used' },
      total: { ...count, says: 'How many there are in all' },
    }),
  },
  errors: { UNKNOWN_APP: '' },
  example: { rows: [EXAMPLE], errors: [], total: 1 },
});

export const listUpcoming = row({
  method: 'GET',
  path: '/svc/_automations/_upcoming',
  needs: BY_APP,
  title: 'List the next fires',
  does: 'Says when schedules fire in the next days.',
  query: object(
    {},
    { ...OF_ONE, days: { ...integer(1, LIMITS.upcomingDays), says: `How many days; ${UPCOMING_DAYS} by default` } },
  ),
  answer: { json: UPCOMING },
  errors: { UNKNOWN_APP: '' },
  example: {
    rows: [
      {
        ref: 'todos/report',
        app: 'todos',
        id: 'report',
        name: 'Weekly report',
        fires: [1_767_596_400_000],
        more: false,
      },
    ],
    more: false,
  },
});

export const showAutomation = row({
  method: 'GET',
  path: '/svc/_automations/:app/:id',
  needs: 'manage',
  title: 'Show an automation',
  does: 'Shows an automation with its whole file.',
  params: NAMED,
  answer: {
    json: object(
      { ...ROW, manifest: elsewhere(MANIFEST, 'The content of `automation.json`, with defaults filled in') },
      ROW_MORE,
    ),
  },
  errors: KNOWN,
  example: {
    ...EXAMPLE,
    manifest: {
      name: 'Weekly report',
      version: '1',
      prompt: 'Count the open todos.',
      enabled: true,
      triggers: EXAMPLE.triggers,
      requires: {},
      history: { keep: { count: 50 } },
      generated: { by: 'hand', at: '2026-01-01T00:00:00.000Z' },
    },
  },
});

export const switchAutomation = row({
  method: 'POST',
  path: '/svc/_automations/:app/:id/enabled',
  needs: 'manage',
  title: 'Switch an automation',
  does: 'Switches an automation on or off.',
  params: NAMED,
  body: object({ enabled: flag }),
  answer: { json: AUTOMATION },
  errors: { ...KNOWN, STORAGE_FULL: '' },
  example: EXAMPLE,
});

export const runAutomation = row({
  method: 'POST',
  path: '/svc/_automations/:app/:id/run',
  needs: 'manage',
  title: 'Run an automation',
  does: 'Starts a run. If the client disconnects, the run continues.',
  params: NAMED,
  query: object({}, { wait: switched('Answers when the run has ended') }),
  body: object({}, { input: { ...ANY, says: 'What the handler gets as `input`' } }),
  answer: {
    status: 202,
    json: { anyOf: [elsewhere(RUN, 'Of a run that has ended'), object({ runId: text })] },
    says: 'The run is stored.',
    also: { 200: 'With `wait` the [run](http-runs.md#show-a-run), which succeeded' },
  },
  errors: {
    ...OF_APP,
    UNKNOWN_AUTOMATION: '',
    OVERLOADED: `${LIMITS.runsWaiting} of its runs wait`,
    STORAGE_FULL: '',
    RUN_ABORTED: 'with `wait`, like the code of any other failure of the run: status 500, with `runId` beside `error`',
  },
  runs: true,
  example: { runId: '019b7764-0c00-7a31-8f02-5d4e9a1c7b60' },
});

export const provisionWebhooks = row({
  method: 'POST',
  path: '/svc/_automations/_provision',
  needs: {
    right: 'manage',
    of: 'the app that `app` or `ref` names, without both of them the right `admin`',
  },
  title: 'Create webhooks',
  does: 'Creates the webhooks that are pending in live versions: all, those of an app, or that of one automation.',
  body: object(
    {},
    {
      app: { ...text, says: 'Only those of this app' },
      ref: { ...text, says: 'Only that of this automation, `<app>/<id>`' },
      renew: {
        ...flag,
        says: 'Gives the webhook of `ref` a new address and secret; the old address is 404 at once',
      },
    },
  ),
  answer: { json: object({ webhooks: WEBHOOKS }) },
  errors: {
    ...KNOWN,
    STORAGE_FULL: '',
    BAD_REQUEST: 'the automation has no webhook',
    NOT_IN_CLUSTER: 'without `app` and `ref`',
  },
  example: {
    webhooks: [
      {
        webhookId: '8f14e45fceea167a5a36dedd',
        automationId: 'report',
        ownerApp: 'todos',
        url: 'http://127.0.0.1:8787/_svc-hook/8f14e45fceea167a5a36dedd',
        secret: '3c59dc04…',
      },
    ],
  },
});

const OF_FILES = {
  manifest: { type: 'object', wanted: 'an object: members of automation.json' },
  handler: { type: 'string', minLength: 1, wanted: 'the text of handler.js' },
} as const;
const CHANGED = object(
  { ...STAGED, id: text },
  { ...PUBLISHED, webhook: { ...WEBHOOKS.items, says: 'The one that it created' } },
);
const CHANGED_EXAMPLE = { ...STAGED_EXAMPLE, app: 'todos', id: 'report' };
const CHANGE_ERRORS: RowErrors = { ...OF_APP, NO_ACTIVE_VERSION: '', ...STAGED_ERRORS };

export const makeAutomation = row({
  method: 'POST',
  path: '/svc/_automations',
  needs: { right: 'manage', of: 'app' },
  title: 'Make an automation',
  does: 'Adds an automation to an app, as a staged change.',
  body: object(
    { app: { ...WORDS, says: 'The app' }, id: { ...WORDS, says: 'The id of the new automation' } },
    { ...OF_FILES, ...IN_WORKSPACE },
  ),
  answer: { status: 201, json: CHANGED },
  errors: { ...CHANGE_ERRORS, CONFLICT: 'there is one of this id' },
  example: CHANGED_EXAMPLE,
});

export const changeAutomation = row({
  method: 'PATCH',
  path: '/svc/_automations/:app/:id',
  needs: 'manage',
  title: 'Change an automation',
  does: 'Changes the files of an automation, as a staged change.',
  params: NAMED,
  body: object(
    {},
    {
      ...OF_FILES,
      manifest: { ...OF_FILES.manifest, says: 'They replace those of the file; null removes a member' },
      ...IN_WORKSPACE,
    },
  ),
  answer: { json: CHANGED },
  errors: { ...CHANGE_ERRORS, UNKNOWN_AUTOMATION: '' },
  example: CHANGED_EXAMPLE,
});

export const removeAutomation = row({
  method: 'DELETE',
  path: '/svc/_automations/:app/:id',
  needs: 'manage',
  title: 'Remove an automation',
  does: 'Removes an automation from an app, as a staged change.',
  params: NAMED,
  body: object({}, IN_WORKSPACE),
  answer: { json: object({ ...STAGED, ...deleted({ id: text }).properties }, PUBLISHED) },
  errors: { ...CHANGE_ERRORS, UNKNOWN_AUTOMATION: '' },
  example: { ...CHANGED_EXAMPLE, deleted: true },
});

export const receiveWebhook = row({
  method: 'POST',
  path: `${WEBHOOK_ROUTE_PREFIX}*`,
  needs: 'anyone',
  title: 'Post to a webhook',
  does: "Runs the automation of a webhook. The request needs the webhook's secret or signature.",
  params: { '*': 'The slug of the webhook' },
  query: object({}, { async: switched('Answers as soon as the run is stored') }),
  body: { media: '*/*', says: `Any body up to ${LIMITS.webhookBodyBytes / 1024} KiB` },
  answer: {
    json: object(
      { ok: flag },
      {
        runId: { ...text, says: 'The run, which succeeded; with `async` it was only stored' },
        skipped: { ...text, says: 'Why none ran: the automation is disabled' },
        duplicate: { const: true, says: 'Of a [delivery that ran](automations.md#webhooks-of-services) already' },
      },
    ),
    says: 'A handler may give another [`response`](automations.md#what-a-handler-gets-and-answers).',
    also: { 202: 'With `async`' },
  },
  errors: {
    UNAUTHORIZED: 'the secret or signature is missing or wrong',
    NOT_FOUND: '',
    RATE_LIMITED: '',
    CONFLICT: '',
    HANDLER_ERROR: 'the run failed; `runId` is beside `error`',
    STORAGE_FULL: '',
  },
  runs: true,
  example: { ok: true, runId: '019b7764-0c00-7a31-8f02-5d4e9a1c7b60' },
});

export const AUTOMATIONS = resource({
  name: 'Automations',
  page: 'automations',
  about:
    'The guide to [automations](automations.md) says what they are. Each has one run at a time: later runs wait, except those by cron or `onFailure`, which are `skipped`. Routes that change files need the git store, and answer with a [staged change](http-apps.md).',
  rows: [
    listAutomations,
    listUpcoming,
    showAutomation,
    makeAutomation,
    changeAutomation,
    removeAutomation,
    switchAutomation,
    runAutomation,
    provisionWebhooks,
    receiveWebhook,
  ],
});
