/** The routes of the files that apps keep (specification, "Files of apps"). */
import { LIMITS } from '../../limits.ts';
import { count, listOf, matching, object, oneOf, text, textOrNull } from '../../shapes/schema.ts';
import { deleted, limitOf, OF_APP, TIME } from '../pieces.ts';
import { resource, row } from '../row.ts';

const MiB = 1024 * 1024;
const MEMBERS = { sha256: text, size: count, type: text } as const;
/** A file that is stored by its content, of an app or of a conversation. */
export const FILE = object(MEMBERS);
export const FILE_ROW = object({ ...MEMBERS, storedAt: { ...TIME, says: 'When the content was last stored' } });

export const FILE_EXAMPLE = {
  sha256: '2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae',
  size: 20_480,
  type: 'image/png',
};
export const SHA256 = { sha256: 'The SHA-256 of the content, in lower-case hex' };
export const NONE_MATCH = { 'if-none-match': 'The `ETag` that the client has' };
export const UNCHANGED = { 304: 'The client has it' };

export const listFiles = row({
  method: 'GET',
  path: '/svc/:id/_blobs',
  needs: 'manage',
  title: 'List the files',
  does: 'Lists the files of an app, and how much of its quota they use.',
  query: object(
    {},
    {
      limit: limitOf(),
      sort: {
        ...oneOf('newest', 'largest'),
        wanted: 'newest or largest',
        says: 'Which come first; by default the last stored',
      },
      prefix: {
        ...matching(/^[0-9a-f]{0,64}$/, 'the beginning of a SHA-256 in lower-case hex'),
        says: 'Answers only these',
      },
      after: { ...text, says: 'The `next` of the page before' },
    },
  ),
  answer: {
    json: object({
      files: listOf(FILE_ROW),
      next: { ...textOrNull, says: 'The `after` of the following page; null at the end' },
      usage: object({ files: count, bytes: count, quota: { ...count, says: 'In bytes' } }),
    }),
  },
  errors: OF_APP,
  example: {
    files: [{ ...FILE_EXAMPLE, storedAt: 1_767_225_600_000 }],
    next: null,
    usage: { files: 1, bytes: 20_480, quota: 1_073_741_824 },
  },
});

export const storeFile = row({
  method: 'PUT',
  path: '/svc/:id/_blobs',
  needs: 'write',
  title: 'Store a file',
  does: 'Stores a file and answers when it is on disk. The same content is stored once, with the latest type.',
  headers: { 'content-type': 'The type of the file; `application/octet-stream` by default' },
  body: { media: '*/*', says: `Any bytes, up to ${LIMITS.blobBytes / MiB} MiB` },
  answer: { status: 201, json: FILE },
  errors: { ...OF_APP, QUOTA_EXCEEDED: '', STORAGE_FULL: '' },
  example: FILE_EXAMPLE,
  drafts: 'The file is stored for the draft only.',
});

export const downloadFile = row({
  method: 'GET',
  path: '/svc/:id/_blobs/:sha256',
  needs: 'read',
  title: 'Download a file',
  does: 'Sends a file. Browsers show images (except SVG), audio, video, PDF and text (except HTML and XML), and download the rest. JavaScript has the type `text/plain`.',
  params: SHA256,
  headers: {
    ...NONE_MATCH,
    range: 'The part that is wanted',
    'if-range': 'The `ETag` of the parts that the client has',
  },
  answer: {
    media: '*/*',
    says: 'It has `cache-control: private, no-cache`, and a policy that allows no script.',
    also: { 206: 'The part that `range` names', ...UNCHANGED },
    headers: { etag: 'the SHA-256 in quotes' },
  },
  errors: { ...OF_APP, UNKNOWN_BLOB: '', RANGE_NOT_SATISFIABLE: '' },
  drafts: 'It may be a file of the draft, or of the live app.',
  isFile: true,
});

export const deleteFile = row({
  method: 'DELETE',
  path: '/svc/:id/_blobs/:sha256',
  needs: 'write',
  title: 'Delete a file',
  does: 'Deletes a file.',
  params: SHA256,
  answer: { json: deleted({ sha256: text }) },
  errors: { ...OF_APP, UNKNOWN_BLOB: '' },
  example: { sha256: FILE_EXAMPLE.sha256, deleted: true },
  drafts: 'A file of the live app is deleted for the draft only.',
});

export const FILES = resource({
  name: 'Files',
  page: 'files',
  about: `These are the [files that an app keeps](files.md).`,
  rows: [listFiles, storeFile, downloadFile, deleteFile],
});
