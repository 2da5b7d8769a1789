/** The routes of the files of an app in a workspace (specification, "Workspaces"). */
import { LIMITS } from '../../limits.ts';
import { count, listOf, object, text, textOrNull } from '../../shapes/schema.ts';
import { ARCHIVE_ERRORS } from '../apps/publications.ts';
import { deleted, OF_APP } from '../pieces.ts';
import { type RowErrors, row } from '../row.ts';

/** Of routes of one workspace. */
export const IN_WORKSPACE_ERRORS: RowErrors = { NO_GIT_STORE: '', UNKNOWN_SESSION: '', SESSION_DAMAGED: '' };
/** Of routes of one app in a workspace. */
export const OF_DRAFT_ERRORS: RowErrors = {
  ...IN_WORKSPACE_ERRORS,
  ...OF_APP,
  NO_ACTIVE_VERSION: 'activate a version first',
  STORE_DAMAGED: '',
  STORAGE_FULL: '',
};

const FILE = object({
  path: text,
  size: { ...count, says: 'Bytes' },
  sha: { ...text, says: 'Its git blob id; in quotes it is the `ETag`' },
});
const EXAMPLE = { path: 'queries/list.js', size: 184, sha: '3b18e512dba79e4c8300dd08aeb37f8e728b8dad' };
const PATH = { '*': 'The path of the file inside the app; it follows the [rules of archives](http-api.md#uploads)' };
const IF_MATCH = { 'if-match': 'Changes the file only if it still has this `ETag`' };
const CHANGED: RowErrors = { ...OF_DRAFT_ERRORS, ARCHIVE_PATH: '', ARCHIVE_ENTRY_TYPE: '', PRECONDITION_FAILED: '' };

export const listWorkspaceFiles = row({
  method: 'GET',
  path: '/svc/_sessions/:sid/apps/:id/files',
  needs: 'manage',
  title: 'List the files',
  does: 'Lists the files of an app, sorted by path.',
  answer: { json: listOf(FILE) },
  errors: OF_DRAFT_ERRORS,
  example: [EXAMPLE],
});

export const writeWorkspaceFiles = row({
  method: 'POST',
  path: '/svc/_sessions/:sid/apps/:id/files',
  needs: 'manage',
  title: 'Write many files',
  does: 'Writes the files of an archive in one change; if one is refused, none is written. Files that are not in the archive stay. For many files this is much faster than writing each.',
  body: { media: 'application/gzip', says: 'A gzipped tar archive, as for an [upload](http-api.md#uploads)' },
  answer: { json: listOf(FILE), says: 'The list has the files in the archive.' },
  errors: { ...OF_DRAFT_ERRORS, ...ARCHIVE_ERRORS },
  example: [EXAMPLE],
});

export const readWorkspaceFile = row({
  method: 'GET',
  path: '/svc/_sessions/:sid/apps/:id/files/*',
  needs: 'manage',
  title: 'Read a file',
  does: 'Sends a file, as a download.',
  params: PATH,
  headers: { 'if-none-match': 'The `ETag` of the file that the client has' },
  answer: {
    media: 'application/octet-stream',
    says: 'The bytes of the file.',
    also: { 304: 'The client has it' },
    headers: { etag: 'the `ETag` of the file' },
  },
  errors: { ...OF_DRAFT_ERRORS, NOT_FOUND: '', ARCHIVE_ENTRY_TYPE: '', ARCHIVE_PATH: '' },
});

export const writeWorkspaceFile = row({
  method: 'PUT',
  path: '/svc/_sessions/:sid/apps/:id/files/*',
  needs: 'manage',
  title: 'Write a file',
  does: 'Writes a file.',
  params: PATH,
  headers: { ...IF_MATCH, 'if-none-match': '`*` writes the file only if it is new' },
  body: {
    media: 'application/octet-stream',
    says: `The bytes of the file, ${LIMITS.archiveFileBytes / 1024 ** 2} MiB at most`,
  },
  answer: {
    json: FILE,
    also: { 201: 'The file is new' },
    headers: { etag: 'the `ETag` of the file' },
  },
  errors: { ...CHANGED, ARCHIVE_EXTENSION: '', ARCHIVE_TOO_LARGE: '' },
  example: EXAMPLE,
});

export const deleteWorkspaceFile = row({
  method: 'DELETE',
  path: '/svc/_sessions/:sid/apps/:id/files/*',
  needs: 'manage',
  title: 'Delete a file',
  does: 'Deletes a file.',
  params: PATH,
  headers: { ...IF_MATCH, 'if-none-match': 'Deletes the file only if it has another `ETag`' },
  answer: { json: deleted({ path: text }) },
  errors: { ...CHANGED, NOT_FOUND: '' },
  example: { path: 'queries/list.js', deleted: true },
});

export const showFolder = row({
  method: 'GET',
  path: '/svc/_sessions/:sid/apps/:id/folder',
  needs: 'admin',
  title: 'Show the folder',
  does: "Says where the draft's files are, for an editor. What is saved there is in the draft.",
  answer: {
    json: object({
      folder: {
        ...textOrNull,
        says: "Null unless the request comes from the gateway's machine, to `localhost` or a name below it",
      },
    }),
  },
  errors: OF_DRAFT_ERRORS,
  example: { folder: '/home/ada/svc/code/sessions/redesign/apps/todos' },
});
