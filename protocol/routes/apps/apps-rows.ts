/** The routes of registered apps: their records, names, activity and data (specification, "Registry"). */
import { LIMITS } from '../../limits.ts';
import type { Manifest } from '../../manifest.ts';
import {
  count,
  flag,
  integer,
  listOf,
  number,
  object,
  oneOf,
  orNull,
  type Schema,
  text,
  textOrNull,
  typed,
  words,
} from '../../shapes/schema.ts';
import { deleted, OF_APP, sortedBy, switched, TIME, thousands } from '../pieces.ts';
import { resource, row } from '../row.ts';
import { IN_WORKSPACE, MIGRATIONS, PUBLIC, PUBLISHED, STAGED, STAGED_ERRORS } from './publications.ts';

const { textChars, iconBytes, commitMessageChars, sqlRows, sqlRowsMax, sqlMs, backups, activityApps } = LIMITS;
const WORDS = words(textChars);
const NOT_LIVE = { ...OF_APP, NO_ACTIVE_VERSION: '' };

const TOOLS = { anyOf: [{ const: '*', wanted: '"*"' }, listOf(text)], wanted: '"*" or a list of names' } as const;

const RECORD = {
  id: text,
  name: text,
  version: { ...text, says: 'As its manifest says' },
  kind: { ...oneOf('app', 'automation'), says: '`app` or `automation`' },
  backend: { ...oneOf('tarball', 'git'), says: 'The store of its code: `tarball` or `git`' },
  /** `quarantined` comes from the supervisor's actors and is added to the rest. */
  status: {
    ...oneOf('active', 'no_active_version', 'quarantined', 'damaged'),
    says: '`active`, `no_active_version`, `quarantined` or `damaged`',
  },
  activeVersion: { ...textOrNull, says: 'The id of the live version' },
  registeredAt: TIME,
  updatedAt: TIME,
  queries: { ...count, says: 'How many it has' },
  actions: count,
  automations: count,
} as const satisfies Record<string, Schema>;
export const DEFINED_ROLE = object({ id: text, name: text, queries: TOOLS, actions: TOOLS }, { description: text });
const RECORD_PARTS = {
  description: text,
  damage: { ...text, says: "With `status` `damaged`: what is wrong with the app's data, and what to do" },
  public: PUBLIC,
  roles: {
    ...listOf(DEFINED_ROLE),
    says: 'The [roles](people.md#roles-of-an-app) of its manifest, with the tools that each may call; absent when there are none',
  },
  role: { ...text, says: 'In the list of a person who is no owner: their role in the app' },
  icon: { const: true, says: 'It has a [picture](#get-the-icon-of-an-app)' },
} as const satisfies Record<string, Schema>;
export const APP = object(RECORD, RECORD_PARTS);
const EXAMPLE = {
  id: 'todos',
  name: 'Todos',
  version: '1.0.0',
  description: 'A shared todo list with live updates.',
  kind: 'app',
  backend: 'git',
  status: 'active',
  activeVersion: 'todos/v1',
  registeredAt: 1_767_225_600_000,
  updatedAt: 1_767_225_600_000,
  queries: 1,
  actions: 1,
  automations: 0,
  icon: true,
};

/** One minute that began at `at`. */
export const ACTIVITY_POINT = object({
  at: { ...TIME, says: 'When the time of this point began' },
  calls: { ...count, says: 'Those that ended' },
  refused: { ...count, says: 'Of these, with an error below 500' },
  failed: { ...count, says: 'Of these, with another error' },
  kept: { ...count, says: 'Of these, with a [kept result](architecture.md#a-call)' },
  p50: {
    ...orNull(number),
    says: 'Milliseconds of the calls that ran, waiting included: an estimate; null if none ran',
  },
  p99: orNull(number),
  dataBytes: { ...orNull(count), says: 'Size of the database at the end; null without one' },
  subscribers: { ...count, says: 'Open streams at the end' },
});
export const ACTIVITY = object({
  id: text,
  state: { ...text, says: 'That of its [actor](architecture.md#supervision)' },
  reason: { ...textOrNull, says: 'Why it is quarantined' },
  lastExit: { ...textOrNull, says: 'Why its last thread ended' },
  restarts: count,
  everyMs: { ...count, says: 'The time that a point covers, in milliseconds' },
  points: { ...listOf(ACTIVITY_POINT), says: 'The oldest first; the last one ends now' },
  files: { ...object({ files: count, bytes: count, quota: count }), says: 'The [files](files.md) that it keeps' },
});

const TABLES = orNull(listOf(text));
const CELL = { type: ['string', 'number', 'null'] } as const;
const ROWS = { columns: listOf(text), rows: listOf(listOf(CELL)), truncated: { ...flag, says: 'There are more rows' } };
const SQL_ANSWER = {
  anyOf: [
    object(ROWS, { tables: TABLES }),
    object({
      changes: count,
      lastInsertRowid: { type: ['integer', 'string'], says: 'A text where it is no safe integer' },
      tables: {
        ...TABLES,
        says: 'After a write: those that it wrote, triggers and cascades included; null if unknown',
      },
    }),
  ],
} as const satisfies Schema;

export const listApps = row({
  method: 'GET',
  path: '/svc/_apps',
  needs: 'account',
  title: 'List the apps',
  does: 'Lists the apps, sorted by id: to a [person](people.md) who is no owner those that they have.',
  query: sortedBy('id'),
  answer: { json: listOf(APP) },
  example: [EXAMPLE],
});

export const showApp = row({
  method: 'GET',
  path: '/svc/_apps/:id',
  needs: 'manage',
  title: 'Show an app',
  does: 'Answers with the record of an app and its manifest.',
  answer: {
    json: object(
      {
        ...RECORD,
        manifest: typed<Manifest | null>({
          type: ['object', 'null'],
          says: 'The [manifest](app-guide.md#manifest) of the live version; null without one',
        }),
      },
      { ...RECORD_PARTS, page: { ...text, says: 'The address of its page, if it has one' } },
    ),
  },
  errors: { ...OF_APP, INVALID_MANIFEST: '' },
  example: {
    ...EXAMPLE,
    manifest: { id: 'todos', name: 'Todos', version: '1.0.0', queries: [{ name: 'list' }], actions: [{ name: 'add' }] },
    page: 'http://todos.svc.localhost:8787/',
  },
});

export const showIcon = row({
  method: 'GET',
  path: '/svc/_apps/:id/icon',
  needs: 'read',
  title: 'Get the icon of an app',
  does: "Answers with the app's icon for lists of apps, 192 by 192 pixels. The address may be [signed](http-api.md#the-page-key) in place of the page key.",
  query: object({}, { version: { ...text, says: 'With the `activeVersion` of the app browsers keep the icon' } }),
  answer: { media: 'image/png', also: { 304: 'it is the one in `If-None-Match`' } },
  errors: { ...NOT_LIVE, NOT_FOUND: 'the app has no page' },
  isFile: true,
});

export const changeApp = row({
  method: 'POST',
  path: '/svc/_apps/:id/meta',
  needs: 'manage',
  title: 'Change what an app says of itself',
  does: 'Changes the name, description, icon or public parts of an app, as a [staged change](#http-apps). On the tarball store it needs `publish: true`, and stores a new version.',
  body: object(
    {},
    {
      name: WORDS,
      description: {
        ...WORDS,
        pattern: '^$|\\S',
        wanted: `a text of up to ${textChars} characters`,
        says: 'An empty one removes it',
      },
      icon: { ...words(iconBytes), type: ['string', 'null'], says: 'The text of `icon.svg`; null for none' },
      public: { ...PUBLIC, says: 'All that visitors may use, as in the record of the app' },
      message: { ...words(commitMessageChars), says: 'Says what is new; without it: what changed' },
      ...IN_WORKSPACE,
    },
  ),
  answer: { json: object(STAGED, PUBLISHED) },
  errors: { BAD_REQUEST: 'also for a part in `public` that the app does not have', ...NOT_LIVE, ...STAGED_ERRORS },
  example: {
    app: 'todos',
    sessionId: null,
    staged: false,
    version: 2,
    tag: 'todos/v2',
    sha: '9c1d…',
    migrationsApplied: [],
  },
});

export const removeApp = row({
  method: 'DELETE',
  path: '/svc/_apps/:id',
  needs: 'manage',
  title: 'Remove an app',
  does: 'Removes an app. Its files and data move to the [trash](http-trash.md); its runs are deleted. On the git store the code stays in the history of the repository, its versions as `refs/deleted/<id>/v<n>`.',
  query: object({}, { purge: switched('Deletes files and data at once') }),
  answer: { json: deleted({ id: text }) },
  errors: OF_APP,
  example: { id: 'todos', deleted: true },
});

export const restartApp = row({
  method: 'POST',
  path: '/svc/_apps/:id/restart',
  needs: 'manage',
  title: 'Restart an app',
  does: 'Replaces the threads of the app and its automations, and ends their quarantines.',
  answer: { json: object({ id: text, restarted: flag }) },
  errors: NOT_LIVE,
  example: { id: 'todos', restarted: true },
});

export const showActivity = row({
  method: 'GET',
  path: '/svc/_apps/:id/activity',
  needs: 'manage',
  title: 'Show the activity of an app',
  does: `Answers with the app's state and its last hour. The points begin at the start of the gateway, and are kept for ${thousands(activityApps)} apps.`,
  answer: { json: ACTIVITY },
  errors: OF_APP,
  example: {
    id: 'todos',
    state: 'live',
    reason: null,
    lastExit: null,
    restarts: 0,
    everyMs: 60_000,
    points: [
      {
        at: 1_767_225_600_000,
        calls: 12,
        refused: 1,
        failed: 0,
        kept: 4,
        p50: 0.4,
        p99: 2.1,
        dataBytes: 40_960,
        subscribers: 2,
      },
    ],
    files: { files: 3, bytes: 51_200, quota: 1_073_741_824 },
  },
});

export const copyData = row({
  method: 'POST',
  path: '/svc/_apps/:id/copies',
  needs: 'manage',
  title: 'Copy the data of an app',
  does: `Copies the app's data into its \`backups/\`, which keeps the last ${backups} copies, those made before migrations included.`,
  answer: {
    status: 201,
    json: object({ id: text, copy: { ...textOrNull, says: 'The name of the file; null if the app has no data' } }),
  },
  errors: { ...OF_APP, STORE_DAMAGED: '', STORAGE_FULL: '' },
  example: { id: 'todos', copy: '20260101T000000000Z_1.sqlite' },
});

export const repairApp = row({
  method: 'POST',
  path: '/svc/_apps/:id/repair',
  needs: 'admin',
  title: 'Repair the data of an app',
  does: 'Gives an app whose database is lost or damaged the data of a backup, or new data, with all migrations of the live version. The body has either `restore` or `newData`.',
  body: object(
    {},
    {
      restore: {
        ...text,
        says: "The name of a [kept backup](backup.md#on-schedule), or the absolute path of another one on the gateway's machine",
      },
      newData: { const: true, wanted: 'true' },
    },
  ),
  answer: {
    json: object({
      id: text,
      activeVersion: text,
      migrationsApplied: MIGRATIONS,
      aside: { ...textOrNull, says: "The name of what was there, beside it in the app's folder" },
    }),
  },
  errors: {
    ...NOT_LIVE,
    CONFLICT: 'the data is whole',
    NOT_FOUND: "no such backup, or none of this app's data in it",
    INVALID_BACKUP: '',
    MIGRATION_FAILED: '',
    STORAGE_FULL: '',
  },
  example: {
    id: 'todos',
    activeVersion: 'todos/v1',
    migrationsApplied: [],
    aside: 'data.sqlite.damaged-1767225600000',
  },
});

export const runSql = row({
  method: 'POST',
  path: '/svc/_apps/:id/sql',
  needs: 'manage',
  title: 'Run SQL',
  does: `Runs one statement on the app's database, for at most ${sqlMs / 1000} seconds. Each table that it wrote gets a [change event](http-api.md#change-stream) with source \`external\`.`,
  body: object(
    { sql: { ...text, wanted: 'a statement' } },
    {
      params: {
        type: ['array', 'object'],
        wanted: 'a list, or an object',
        says: 'The values of `?` in their order, or of `:name` by name',
      },
      rows: {
        ...integer(1, sqlRowsMax),
        says: `Rows to answer at most, for a statement that only reads; ${sqlRows} by default`,
      },
    },
  ),
  answer: {
    json: SQL_ANSWER,
    says: 'A statement with rows answers `columns`, `rows` (as arrays) and `truncated`, another one `changes` and `lastInsertRowid`.',
  },
  errors: {
    BAD_REQUEST: 'also where SQLite refuses the statement',
    ...NOT_LIVE,
    HANDLER_ERROR: 'it took too long or too much memory',
    OUTCOME_UNKNOWN: 'of writes only',
    QUARANTINED: '',
    OVERLOADED: '',
    STORAGE_FULL: '',
  },
  example: { columns: ['id', 'text'], rows: [[1, 'Milk']], truncated: false },
});

export const APPS = resource({
  name: 'Apps',
  page: 'apps',
  about: `Other pages have the routes that [make apps](http-new-apps.md), those of their [versions](http-versions.md), and those of [removed apps](http-trash.md).

Some routes that make or change apps and automations answer with a *staged change*, which needs the git store. It is made in the workspace \`sessionId\` of the body, or in a new one, and waits there until it is [published](authoring.md). With \`publish: true\` it is published at once. A workspace that was opened for a change is removed again when the change is refused.`,
  rows: [listApps, showApp, showIcon, changeApp, removeApp, restartApp, showActivity, copyData, repairApp, runSql],
});
