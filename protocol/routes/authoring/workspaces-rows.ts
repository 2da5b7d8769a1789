/** The routes of workspaces: opening, comparing, checking and publishing what is changed in them (specification, "Workspaces"). */
import { ERROR } from '../../errors.ts';
import { LIMITS } from '../../limits.ts';
import { count, flag, listOf, object, oneOf, orNull, text, textOrNull, words } from '../../shapes/schema.ts';
import {
  FILE_CHANGE,
  OF_MANIFEST,
  PUBLISHED,
  STAGED_ERRORS,
  WARNINGS,
  WEBHOOKS,
  WITHOUT_PATCH,
} from '../apps/publications.ts';
import { deleted, newestFirst, TIME, TIME_OR_NULL, thousands } from '../pieces.ts';
import { resource, row } from '../row.ts';
import {
  deleteWorkspaceFile,
  IN_WORKSPACE_ERRORS,
  listWorkspaceFiles,
  OF_DRAFT_ERRORS,
  readWorkspaceFile,
  showFolder,
  writeWorkspaceFile,
  writeWorkspaceFiles,
} from './workspace-files-rows.ts';

const NAME = words(LIMITS.workspaceNameChars);
const CHOSEN_ID = { sessionId: text };
const COMMIT = '9fceb02d0ae598e95dc970b74767f19372d61af8';
const AT = 1_767_225_600_000;

export const WORKSPACE_ROW = object(
  {
    ...CHOSEN_ID,
    name: text,
    base: { ...textOrNull, says: 'The commit of `main` that it was opened on' },
    createdAt: TIME_OR_NULL,
    touchedAt: { ...TIME, says: 'When its files were last changed' },
    apps: { ...listOf(text), says: 'Those that were taken into it' },
  },
  {
    damaged: {
      ...text,
      says: 'What is wrong with a workspace whose record cannot be read; its `base` and `createdAt` are null',
    },
  },
);

export const openWorkspace = row({
  method: 'POST',
  path: '/svc/_sessions',
  needs: 'manage',
  title: 'Open a workspace',
  does: 'Opens a workspace.',
  body: object(
    {},
    {
      sessionId: {
        ...text,
        says: 'Its id: 1 to 64 characters from `A-Z a-z 0-9 - _`, neither `-` nor `_` first. Without it the gateway makes one',
      },
      name: {
        ...NAME,
        says: 'For people. Without it the id is the name, and without an id too the next number, such as `Draft 3`',
      },
    },
  ),
  answer: {
    status: 201,
    json: object({ ...CHOSEN_ID, name: text, base: { ...text, says: 'The commit of `main`' } }),
  },
  errors: {
    NO_GIT_STORE: '',
    INVALID_ID: '',
    CONFLICT: `there is a workspace of this id, or there are ${thousands(LIMITS.workspaces)} workspaces`,
    STORE_DAMAGED: '',
    STORAGE_FULL: '',
  },
  example: { sessionId: 's5f0c27a91be84d30', name: 'Draft 3', base: COMMIT },
});

export const listWorkspaces = row({
  method: 'GET',
  path: '/svc/_sessions',
  needs: 'account',
  title: 'List the workspaces',
  does: 'Lists the open workspaces, the newest first: to a [person](people.md) who is no owner those with apps that they manage, and no others.',
  query: newestFirst('a `sessionId`'),
  answer: { json: listOf(WORKSPACE_ROW) },
  errors: { NO_GIT_STORE: '', UNKNOWN_SESSION: 'there is no workspace `before`' },
  example: [
    { sessionId: 'redesign', name: 'New look', base: COMMIT, createdAt: AT, touchedAt: AT + 90_000, apps: ['todos'] },
  ],
});

export const renameWorkspace = row({
  method: 'PATCH',
  path: '/svc/_sessions/:sid',
  needs: 'account',
  title: 'Rename a workspace',
  does: 'Gives a workspace another name. Who is no owner manages all apps in it.',
  body: object({ name: NAME }),
  answer: { json: object({ ...CHOSEN_ID, name: text }) },
  errors: { ...IN_WORKSPACE_ERRORS, STORAGE_FULL: '' },
  example: { sessionId: 'redesign', name: 'New look' },
});

export const closeWorkspace = row({
  method: 'DELETE',
  path: '/svc/_sessions/:sid',
  needs: 'account',
  title: 'Close a workspace',
  does: 'Closes a workspace. Its drafts and their data are deleted. Who is no owner manages all apps in it.',
  answer: { json: deleted(CHOSEN_ID) },
  errors: { NO_GIT_STORE: '', UNKNOWN_SESSION: '' },
  example: { sessionId: 'redesign', deleted: true },
});

const BASE_VERSION = {
  version: {
    ...textOrNull,
    says: 'The version that the files came from, and that publishing merges from. Null: it is not known, or the app was made in the workspace',
  },
};

export const showBase = row({
  method: 'GET',
  path: '/svc/_sessions/:sid/apps/:id/base',
  needs: 'manage',
  title: 'Show the base',
  does: "Names the version that the workspace's files of an app came from.",
  answer: { json: object(BASE_VERSION) },
  errors: OF_DRAFT_ERRORS,
  example: { version: 'todos/v3' },
});

export const setBase = row({
  method: 'PUT',
  path: '/svc/_sessions/:sid/apps/:id/base',
  needs: 'manage',
  title: 'Set the base',
  does: 'Says which version the files came from, for a client that replaces all files of the app by those of a folder.',
  body: object(
    { version: { ...words(LIMITS.textChars), says: 'The version that the folder came from' } },
    {
      folder: {
        ...words(LIMITS.textChars),
        says: 'Any name of the folder. If the workspace has published the files of this folder and no others since it said the same, the later version counts, and is answered',
      },
    },
  ),
  answer: { json: object({ version: text }) },
  errors: { ...OF_DRAFT_ERRORS, UNKNOWN_VERSION: '' },
  example: { version: 'todos/v3' },
});

const LIST = orNull(listOf(text));
const CHANGED_LIST = listOf(object({ app: text, before: LIST, after: LIST }));

export const WORKSPACE_DIFF = object({
  base: { ...text, says: 'The commit of `main` that is compared with' },
  head: { ...text, says: 'The commit that the workspace was opened on' },
  files: listOf(object({ app: text, ...FILE_CHANGE }, WITHOUT_PATCH)),
  behind: {
    ...listOf(text),
    says: 'The apps that were published since the workspace got them. `files` shows those changes in reverse, and publishing keeps them',
  },
  network: {
    ...CHANGED_LIST,
    says: 'The apps whose manifest names [other hosts](app-guide.md#reaching-other-hosts) than before',
  },
  uses: { ...CHANGED_LIST, says: 'Those whose pages may call the tools of other apps than before' },
  public: { ...CHANGED_LIST, says: 'Those that open other things to visitors' },
});

/** A webhook that publishing creates. */
export const PENDING_WEBHOOK = object({ automationId: text, ownerApp: text });

export const compareWorkspace = row({
  method: 'GET',
  path: '/svc/_sessions/:sid/diff',
  needs: { right: 'manage', of: 'app', without: 'admin' },
  title: 'Compare a workspace',
  does: 'Shows what publishing would change.',
  query: object({}, { app: { ...text, says: 'Only this app; it is taken into the workspace' } }),
  answer: {
    json: object({
      ...WORKSPACE_DIFF.properties,
      webhooks: { ...listOf(PENDING_WEBHOOK), says: 'Those that publishing creates' },
    }),
  },
  errors: OF_DRAFT_ERRORS,
  example: {
    base: COMMIT,
    head: COMMIT,
    files: [
      {
        app: 'todos',
        path: 'queries/list.js',
        status: 'modified',
        additions: 1,
        deletions: 0,
        patch: 'diff --git a/apps/todos/queries/list.js …',
      },
    ],
    behind: [],
    network: [],
    uses: [],
    public: [],
    webhooks: [{ automationId: 'report', ownerApp: 'todos' }],
  },
});

export const updateWorkspace = row({
  method: 'POST',
  path: '/svc/_sessions/:sid/apps/:id/update',
  needs: 'manage',
  title: 'Update a workspace',
  does: 'Merges later publications of the app into the workspace. Where both changed the same lines, both stay, between `<<<<<<< workspace`, `=======` and `>>>>>>> published`; files with such marks cannot be published. Other conflicting files stay as in the workspace.',
  answer: {
    json: object({
      base: text,
      merged: { ...listOf(text), says: 'Paths of files that changed or went' },
      conflicts: { ...listOf(text), says: 'Paths of files that both changed' },
    }),
  },
  errors: OF_DRAFT_ERRORS,
  example: { base: COMMIT, merged: ['app.json'], conflicts: ['index.html'] },
});

export const FINDING = object(
  { code: text, path: { ...text, says: 'A file, or a member of one' }, message: text, keyword: text },
  { line: count, column: count },
);

export const checkWorkspace = row({
  method: 'POST',
  path: '/svc/_sessions/:sid/apps/:id/check',
  needs: 'manage',
  title: 'Check a draft',
  does: "Checks the app as publishing would, without publishing it, and whether the draft runs. Migrations run on the draft's copy of the data; on the live data only when it is published.",
  answer: {
    json: object({
      app: text,
      findings: { ...listOf(FINDING), says: `The first ${LIMITS.inputIssues}; none: its files can go live` },
      warnings: WARNINGS,
    }),
  },
  errors: OF_DRAFT_ERRORS,
  example: {
    app: 'todos',
    findings: [
      {
        code: 'INVALID_HANDLER',
        path: 'queries/list.js',
        message: 'Unexpected token',
        keyword: 'syntax',
        line: 3,
        column: 7,
      },
    ],
    warnings: [],
  },
});

export const APP_TEST = object(
  {
    name: text,
    file: textOrNull,
    line: orNull(count),
    state: oneOf('passed', 'failed', 'skipped'),
    ms: count,
  },
  { error: { ...text, says: 'The error of the test' } },
);
const HINT = { hint: { ...text, says: 'What to do, as the command line says it' } };
export const APP_TESTS = object(
  { app: text, passed: flag, tests: { ...listOf(APP_TEST), says: 'Empty without test files' } },
  {
    error: {
      ...ERROR,
      properties: { ...ERROR.properties, ...HINT },
      says: 'Why no test ran, or why they were ended: after 2 minutes, or when one of their processes used 1 GiB of memory',
    },
  },
);

export const testWorkspace = row({
  method: 'POST',
  path: '/svc/_sessions/:sid/apps/:id/tests',
  needs: 'admin',
  title: 'Run the tests of a draft',
  does: "Runs the app's [tests](testing-apps.md) on a copy of the draft. They end with the request.",
  answer: { json: APP_TESTS },
  errors: { ...OF_DRAFT_ERRORS, CONFLICT: 'tests of a draft are running' },
  example: {
    app: 'todos',
    passed: true,
    tests: [{ name: 'adds a todo', file: 'actions/add.test.js', line: 4, state: 'passed', ms: 12 }],
  },
});

export const publishWorkspace = row({
  method: 'POST',
  path: '/svc/_sessions/:sid/publish',
  needs: { right: 'manage', of: 'app', without: 'admin' },
  title: 'Publish an app of a workspace',
  does: 'Publishes the changes of one app. It waits for [turns](http-api.md#turns-and-their-events) in the workspace that are being stopped, not for those that go on. An app that was removed meanwhile is published again with all its files, under its next number and with empty data.',
  body: object(
    {},
    {
      app: { ...text, says: 'Without it: the only app that the workspace changes' },
      message: { ...words(LIMITS.commitMessageChars), says: 'What is new' },
    },
  ),
  answer: {
    status: 201,
    json: object(
      { id: text, ...PUBLISHED, version: { ...count, says: 'The number of the version' }, webhooks: WEBHOOKS },
      { ...OF_MANIFEST, warnings: WARNINGS },
    ),
  },
  errors: { ...IN_WORKSPACE_ERRORS, NO_ACTIVE_VERSION: '', ...STAGED_ERRORS },
  example: { id: 'todos', version: 4, tag: 'todos/v4', sha: COMMIT, migrationsApplied: [], webhooks: [] },
});

export const WORKSPACES = resource({
  name: 'Workspaces',
  page: 'workspaces',
  about:
    "On the git store you change an app in a workspace, and then publish it; see the [author's guide](authoring.md). The first use of an app in a workspace takes it into the workspace. Addresses, members and error codes call a workspace a session.",
  rows: [
    openWorkspace,
    listWorkspaces,
    renameWorkspace,
    closeWorkspace,
    listWorkspaceFiles,
    writeWorkspaceFiles,
    readWorkspaceFile,
    writeWorkspaceFile,
    deleteWorkspaceFile,
    showFolder,
    showBase,
    setBase,
    compareWorkspace,
    updateWorkspace,
    checkWorkspace,
    testWorkspace,
    publishWorkspace,
  ],
});
