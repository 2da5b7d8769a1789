/** The routes that only drafts have (specification, "Drafts"). Those of live apps that exist for drafts too are on their pages. */
import { LIMITS } from '../../limits.ts';
import { count, flag, listOf, object, oneOf, text } from '../../shapes/schema.ts';
import { DRAFT_FAULTS } from '../refusals.ts';
import { resource, row } from '../row.ts';
import { OF_DRAFT_ERRORS } from './workspace-files-rows.ts';

const PAGE_ERROR = object(
  {
    kind: oneOf('console', 'error', 'rejection', 'request', 'csp'),
    message: { ...text, cut: LIMITS.pageErrorChars },
  },
  { file: { ...text, cut: LIMITS.pageFileChars }, line: count, column: count },
);
/** What a page tells of its errors. `Shape.part` cuts long texts. */
export const PAGE_REPORT = object(
  {
    errors: {
      ...listOf(PAGE_ERROR, 'a list of errors'),
      says: "Each is `{ kind, message, file?, line?, column? }`. `kind` is `console`, `error`, `rejection`, `request` or `csp`: `console.error`, an uncaught error or rejection, a failed request, or a violation of the page's policy. `file` is relative to the app's folder, or the address of a file elsewhere; `line` and `column` count from 1",
    },
  },
  { more: { ...count, says: 'How many others were left out' } },
);

export const openDraft = row({
  method: 'GET',
  path: '/svc/_draft/:sid/:id/*',
  needs: 'page',
  title: 'Open the page of a draft',
  does: "Sends the draft's page and [files](http-api.md#static-files). A browser gets a page that shows the error of a draft that cannot be prepared.",
  params: { '*': 'The path of the file; empty for the page' },
  answer: { media: '*/*', says: 'A file.', also: { 304: 'The client has it', 206: 'The range that was asked for' } },
  errors: {
    ...OF_DRAFT_ERRORS,
    NOT_FOUND: '',
    RANGE_NOT_SATISFIABLE: '',
    ...DRAFT_FAULTS,
  },
});

export const reportErrors = row({
  method: 'POST',
  path: '/svc/_draft/:sid/:id/_errors',
  needs: { right: 'page', of: 'the draft, from a page of it at its own origin' },
  title: 'Report errors of a page',
  does: `Puts errors of a page into the draft's log, as entries with \`page\`: up to ${LIMITS.pageErrors} in ${LIMITS.pageErrorsMs / 1000} seconds, then one line with the number of further ones. The body has at most ${LIMITS.pageErrorsBytes / 1024} KiB.`,
  body: PAGE_REPORT,
  answer: { status: 204 },
  errors: { FORBIDDEN: 'all other callers', NO_GIT_STORE: '', UNKNOWN_SESSION: '', UNKNOWN_APP: '' },
});

export const resetDraft = row({
  method: 'POST',
  path: '/svc/_sessions/:sid/apps/:id/reset-data',
  needs: 'manage',
  title: 'Reset the data of a draft',
  does: "Copies the live data again, and applies the draft's migrations.",
  answer: {
    json: object({
      seeded: flag,
      migrationsApplied: { ...listOf(count), says: 'Numbers of the migrations that ran' },
    }),
  },
  errors: { ...OF_DRAFT_ERRORS, ...DRAFT_FAULTS },
  example: { seeded: true, migrationsApplied: [4] },
});

export const DRAFTS = resource({
  name: 'Drafts',
  page: 'drafts',
  about:
    "Drafts are previews of a workspace's apps, on the git store: [what a draft is](http-api.md#what-a-draft-is). Routes of live apps that exist for drafts too say so on their pages.",
  rows: [openDraft, reportErrors, resetDraft],
});
