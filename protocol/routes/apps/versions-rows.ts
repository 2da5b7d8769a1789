/** The routes of an app's versions: they are uploaded, listed, read, compared and made live (specification, "Versions"). */
import { LIMITS } from '../../limits.ts';
import { count, flag, integer, listOf, object, text, textOrNull, words } from '../../shapes/schema.ts';
import { deleted, newestFirst, OF_APP, TIME } from '../pieces.ts';
import { resource, row } from '../row.ts';
import { ARCHIVE_ERRORS, FILE_DIFF, UPLOAD, UPLOAD_EXAMPLE, VERSION_ERRORS, WEBHOOKS } from './publications.ts';

const ONE = '/svc/_apps/:id/versions/:versionId';
const NAMED = { versionId: 'The id of the version; the `/` of a tag is `%2F` in the address' };
const STORED = { ...OF_APP, UNKNOWN_VERSION: '', STORE_DAMAGED: '' };

export const VERSION = object(
  {
    versionId: { ...text, says: 'On the git store the tag `<id>/v<n>`' },
    active: { ...flag, says: 'It is live' },
    sha256: text,
    version: { ...text, says: 'As its manifest says' },
    uploadedAt: TIME,
    files: count,
    bytes: count,
  },
  {
    message: { ...text, says: 'What was said of it when it was uploaded or published' },
    by: { ...text, says: 'The name of the person or program that did it, if it is known' },
    commit: { ...text, says: 'On the git store' },
  },
);
const ACTIVATED = object({
  id: text,
  activeVersion: text,
  previousVersion: textOrNull,
  migrationsAhead: {
    ...listOf(integer(1, Number.MAX_SAFE_INTEGER)),
    says: 'Numbers of applied migrations that this version does not have',
  },
  webhooks: WEBHOOKS,
});
const ACTIVATION_ERRORS = {
  ...OF_APP,
  UNKNOWN_VERSION: '',
  INVALID_AUTOMATION: 'another app has the address of a webhook now',
  MIGRATION_FAILED: '',
  STORAGE_FULL: '',
  STORE_DAMAGED: '',
};
const ACTIVATED_EXAMPLE = {
  id: 'shopping',
  activeVersion: 'shopping/v2',
  previousVersion: 'shopping/v3',
  migrationsAhead: [2],
  webhooks: [],
};

export const uploadVersion = row({
  method: 'POST',
  path: '/svc/_apps/:id/upload',
  needs: 'manage',
  title: 'Upload a version',
  does: 'Stores an archive as a version and makes it live. An app that is new is registered. A file `.svc-app` at the top of the archive, where `svc` notes what a folder came from, is left out. [Uploads](http-api.md#uploads) have limits.',
  query: object(
    {},
    {
      activate: { ...text, wanted: '0', says: 'Only stores the version' },
      message: { ...words(LIMITS.textChars), says: 'Says what is new' },
      ifLive: {
        ...text,
        says: 'Refuses if another version than this one is live, unless that has the same content',
      },
    },
  ),
  body: { media: 'application/gzip', says: 'A gzipped tar archive, or a zip archive' },
  answer: { status: 201, json: UPLOAD, also: { 200: 'the same content is stored already' } },
  errors: { INVALID_ID: '', RESERVED_ID: '', ...ARCHIVE_ERRORS, ...VERSION_ERRORS, WOULD_REPLACE: '' },
  example: UPLOAD_EXAMPLE,
});

export const listVersions = row({
  method: 'GET',
  path: '/svc/_apps/:id/versions',
  needs: 'manage',
  title: 'List the versions',
  does: 'Lists the versions, the newest first.',
  query: newestFirst('a `versionId`'),
  answer: { json: listOf(VERSION) },
  errors: { ...OF_APP, STORE_DAMAGED: '' },
  example: [
    {
      versionId: 'shopping/v3',
      active: true,
      sha256: '4f8b…',
      version: '1.2.0',
      uploadedAt: 1_767_225_600_000,
      files: 9,
      bytes: 18_204,
      message: 'Sort by shop',
      by: 'backup script',
      commit: '9c1d…',
    },
  ],
});

export const activateVersion = row({
  method: 'POST',
  path: '/svc/_apps/:id/activate',
  needs: 'manage',
  title: 'Make a version live',
  does: 'Makes a stored version live.',
  body: object({ versionId: { ...text, says: 'The id of a stored version' } }),
  answer: { json: ACTIVATED },
  errors: ACTIVATION_ERRORS,
  example: ACTIVATED_EXAMPLE,
});

export const rollBack = row({
  method: 'POST',
  path: '/svc/_apps/:id/rollback',
  needs: 'manage',
  title: 'Roll back to an earlier version',
  does: "Makes an earlier version live. The files are exactly that version's; the data does not change.",
  body: object(
    {},
    {
      version: {
        type: ['string', 'integer'],
        wanted: 'a number or a version id',
        says: 'Without it: the one before the live one',
      },
    },
  ),
  answer: { json: ACTIVATED },
  errors: { ...ACTIVATION_ERRORS, NO_ACTIVE_VERSION: '' },
  example: ACTIVATED_EXAMPLE,
});

export const listVersionFiles = row({
  method: 'GET',
  path: `${ONE}/files`,
  needs: 'manage',
  title: 'List the files of a version',
  does: 'Lists the files, sorted by path.',
  params: NAMED,
  answer: { json: listOf(object({ path: text, size: count, sha: { ...text, says: 'Its id in git' } })) },
  errors: STORED,
  example: [{ path: 'app.json', size: 812, sha: 'a3f1…' }],
});

export const readVersionFile = row({
  method: 'GET',
  path: `${ONE}/files/*`,
  needs: 'manage',
  title: 'Read a file of a version',
  does: "Answers with the file's bytes, as a download.",
  params: { ...NAMED, '*': 'The path of the file' },
  headers: { 'if-none-match': 'The ETag of the file that the client has' },
  answer: {
    media: 'application/octet-stream',
    headers: { etag: 'the id of the file in git, in quotes' },
    also: { 304: 'the client has this file' },
  },
  errors: { ...STORED, NOT_FOUND: '', ARCHIVE_PATH: '' },
});

export const downloadVersion = row({
  method: 'GET',
  path: `${ONE}/archive`,
  needs: 'manage',
  title: 'Download a version',
  does: 'Answers with all files as a gzipped tar archive, which an upload takes. A browser saves it as `<id>-<version>.tgz`. On the git store the automations are as their author sent them, on the tarball store with what the gateway wrote into them.',
  params: NAMED,
  answer: { media: 'application/gzip' },
  errors: { ...STORED, STORAGE_FULL: '' },
});

export const compareVersion = row({
  method: 'GET',
  path: `${ONE}/diff`,
  needs: 'manage',
  title: 'Compare a version',
  does: 'Says what changes if that version becomes live.',
  params: NAMED,
  query: object({}, { from: { ...text, says: 'Compares with this version instead of the live one' } }),
  answer: {
    json: object({
      from: { ...textOrNull, says: 'The version it is compared with; null where none is live' },
      to: text,
      files: listOf(FILE_DIFF),
    }),
  },
  errors: { ...STORED, STORAGE_FULL: '' },
  example: {
    from: 'shopping/v2',
    to: 'shopping/v3',
    files: [{ path: 'app.js', status: 'modified', additions: 1, deletions: 1, patch: '--- a/shopping/app.js\n…' }],
  },
});

export const deleteVersion = row({
  method: 'DELETE',
  path: ONE,
  needs: 'manage',
  title: 'Delete a version',
  does: 'Deletes a version that is not live.',
  params: NAMED,
  answer: { json: deleted({ id: text, versionId: text }) },
  errors: { ...OF_APP, UNKNOWN_VERSION: '', VERSION_ACTIVE: '' },
  example: { id: 'shopping', versionId: 'shopping/v1', deleted: true },
});

export const VERSIONS = resource({
  name: 'Versions',
  page: 'versions',
  about: `\`warnings\` in an answer lists, as \`{ path, keyword, message, line?, column? }\`, what does not keep the files from being published: violations of the [handler rules](handler-rules.md) (the git store refuses these), [probable mistakes](handler-rules.md#probable-mistakes), what is doubtful in a page [with a build](app-guide.md#pages-with-a-build) (keyword \`build\`), an \`icon.svg\` that [cannot be drawn](app-guide.md#on-a-home-screen) (keyword \`icon\`), and addresses that the page loads from and [its policy blocks](app-guide.md#page) (keyword \`origin\`).`,
  rows: [
    uploadVersion,
    listVersions,
    activateVersion,
    rollBack,
    listVersionFiles,
    readVersionFile,
    downloadVersion,
    compareVersion,
    deleteVersion,
  ],
});
