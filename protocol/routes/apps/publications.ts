/** Pieces of rows about versions that are published, and about changes that are staged for it: members, answers and errors. */
import { ISSUE } from '../../errors.ts';
import { LIMITS } from '../../limits.ts';
import {
  count,
  flag,
  integer,
  listOf,
  object,
  oneOf,
  type Schema,
  text,
  textOrNull,
  words,
} from '../../shapes/schema.ts';
import { thousands } from '../pieces.ts';
import type { RowErrors } from '../row.ts';

const { gitDiffLines, gitDiffBytes } = LIMITS;
export const WARNINGS = {
  ...listOf(ISSUE),
  says: 'What is [doubtful](http-versions.md) in the files; absent when nothing is',
} as const;
export const PUBLIC = {
  ...listOf(text, 'a list of texts such as "page", "query list" or "action add"'),
  says: 'What [visitors](public-apps.md) may use, such as `["page", "action send"]`; absent when there is nothing',
} as const;
/** Those of a version that others ask for too. */
export const OF_MANIFEST = {
  network: { ...listOf(text), says: 'The hosts in `network` of the manifest' },
  uses: { ...listOf(text), says: 'The apps in `uses` of the manifest' },
  public: PUBLIC,
} as const satisfies Record<string, Schema>;

const ADDRESS = { webhookId: text, automationId: text, ownerApp: text, url: { ...text, says: 'Where to post' } };
export const MINTED_WEBHOOK = object({ secret: { ...text, says: 'Shown only in this answer' }, ...ADDRESS });
const CHECKED_WEBHOOK = object({
  secretName: {
    ...text,
    says: "In place of `secret`: the app's [secret](http-secrets.md) that its requests are checked with",
  },
  ...ADDRESS,
});
export const WEBHOOKS = {
  ...listOf({ anyOf: [MINTED_WEBHOOK, CHECKED_WEBHOOK] }),
  says: 'Those that are new',
} as const;
export const MIGRATIONS = {
  ...listOf(integer(1, Number.MAX_SAFE_INTEGER)),
  says: 'Numbers of the migrations that ran',
} as const;

/** The answer to an upload, and to what else stores a version of its own. */
export const UPLOAD = object(
  {
    id: text,
    versionId: text,
    activeVersion: { ...textOrNull, says: 'The live version now' },
    sha256: text,
    files: count,
    bytes: count,
    deduplicated: { ...flag, says: 'The same content was stored already' },
    migrationsApplied: MIGRATIONS,
    pruned: { ...listOf(text), says: 'Older versions that are no longer kept' },
    webhooks: WEBHOOKS,
  },
  {
    replaced: {
      ...object({ versionId: text, publishedAt: count }, { by: text }),
      says: 'The version that was live until now; absent when none was, or when the live one is the same',
    },
    ...OF_MANIFEST,
    warnings: WARNINGS,
  },
);
export const UPLOAD_EXAMPLE = {
  id: 'shopping',
  versionId: 'shopping/v3',
  activeVersion: 'shopping/v3',
  sha256: '4f8b…',
  files: 9,
  bytes: 18_204,
  deduplicated: false,
  replaced: { versionId: 'shopping/v2', publishedAt: 1_767_225_600_000, by: 'Ada' },
  migrationsApplied: [2],
  pruned: [],
  webhooks: [],
};

/** A file that two versions do not have alike. */
export const FILE_CHANGE = {
  path: text,
  status: { ...oneOf('added', 'modified', 'deleted'), says: '`added`, `modified` or `deleted`' },
  additions: { ...count, says: 'Lines; 0 in a binary file' },
  deletions: count,
  patch: { ...text, says: 'Empty with `binary` and with `truncated`' },
} as const satisfies Record<string, Schema>;
export const WITHOUT_PATCH = {
  binary: { const: true },
  truncated: {
    const: true,
    says: `Both versions of it have more than ${thousands(gitDiffLines)} lines together, or all patches more than ${gitDiffBytes / 2 ** 20} MiB: lines are counted as if all had changed`,
  },
} as const satisfies Record<string, Schema>;
/** A file of the difference between two versions. */
export const FILE_DIFF = object(FILE_CHANGE, WITHOUT_PATCH);

/** Members of a body: where a change is staged, and whether it is published. */
export const IN_WORKSPACE = {
  sessionId: { ...words(LIMITS.textChars), wanted: 'the id of a workspace', says: 'Without it: a new one' },
  publish: { ...flag, says: 'Publishes it at once' },
} as const satisfies Record<string, Schema>;
export const STAGED = {
  app: text,
  sessionId: { ...textOrNull, says: 'Null when a workspace was opened only for this' },
  staged: { ...flag, says: 'Not published yet' },
} as const satisfies Record<string, Schema>;
/** What a staged change has besides when it was published. */
export const PUBLISHED = {
  version: {
    type: ['integer', 'string'],
    says: 'Once it is published: the number of the version; on the tarball store its id',
  },
  tag: text,
  sha: { ...text, says: 'Its commit' },
  migrationsApplied: MIGRATIONS,
} as const satisfies Record<string, Schema>;
export const STAGED_EXAMPLE = { app: 'shopping', sessionId: 'draft-3', staged: true };

/** Of an archive that is sent. */
export const ARCHIVE_ERRORS: RowErrors = {
  INVALID_ARCHIVE: '',
  ARCHIVE_ENTRY_TYPE: '',
  ARCHIVE_PATH: '',
  ARCHIVE_EXTENSION: '',
  ARCHIVE_TOO_LARGE: '',
};
/** Of files that become a version. */
export const VERSION_ERRORS: RowErrors = {
  INVALID_MANIFEST: '',
  INVALID_HANDLER: '',
  INVALID_PAGE: '',
  INVALID_AUTOMATION: '',
  INVALID_MIGRATION: '',
  MIGRATION_FAILED: '',
  STORE_DAMAGED: '',
  STORAGE_FULL: '',
};
/** Of a change that is staged in a workspace, or published from one. */
export const STAGED_ERRORS: RowErrors = {
  NO_GIT_STORE: '',
  UNKNOWN_SESSION: '',
  SESSION_DAMAGED: '',
  NO_CHANGES: '',
  MERGE_CONFLICT: '',
  ...VERSION_ERRORS,
};
