/** The routes that make apps: blank, of templates, of archives, and like another app (specification, "Changes without an editor"). */
import { LIMITS } from '../../limits.ts';
import { count, flag, listOf, object, oneOf, text, words } from '../../shapes/schema.ts';
import { OF_APP } from '../pieces.ts';
import { resource, row } from '../row.ts';
import {
  ARCHIVE_ERRORS,
  IN_WORKSPACE,
  PUBLISHED,
  STAGED,
  STAGED_ERRORS,
  STAGED_EXAMPLE,
  UPLOAD,
  UPLOAD_EXAMPLE,
  VERSION_ERRORS,
  WEBHOOKS,
} from './publications.ts';

const WORDS = words(LIMITS.textChars);
const ID = { ...WORDS, wanted: 'an id for the new app' } as const;
const NAME = { ...WORDS, says: 'Without it: as the files say' } as const;
const MAKES = { right: 'make', of: 'id' } as const;
const OF_NEW_APP = { INVALID_ID: '', RESERVED_ID: '', CONFLICT: 'there is an app of this id' };
const OF_ARCHIVE = { ...OF_NEW_APP, ...ARCHIVE_ERRORS, ...VERSION_ERRORS };
const MADE = { status: 201, json: UPLOAD } as const;
const MADE_STAGED = { status: 201, json: object({ ...STAGED, webhooks: WEBHOOKS }, PUBLISHED) } as const;
const { replaced: _, ...FIRST } = UPLOAD_EXAMPLE;
const EXAMPLE = { ...FIRST, versionId: 'shopping/v1', activeVersion: 'shopping/v1', migrationsApplied: [1] };

export const TEMPLATE = object({
  id: text,
  name: text,
  description: text,
  version: text,
  source: {
    ...oneOf('bundled', 'remote'),
    says: '`bundled`: it comes with the gateway; `remote`: from `templatesUrl`',
  },
  queries: { ...count, says: 'How many it has' },
  actions: count,
  automations: count,
});

export const makeApp = row({
  method: 'POST',
  path: '/svc/_apps',
  needs: MAKES,
  title: 'Make a blank app',
  does: 'Makes a small app to begin with, as a [staged change](http-apps.md).',
  body: object({ id: ID }, { name: { ...WORDS, says: 'Without it: made of the id' }, ...IN_WORKSPACE }),
  answer: MADE_STAGED,
  errors: { ...OF_NEW_APP, ...STAGED_ERRORS },
  example: { ...STAGED_EXAMPLE, webhooks: [] },
});

export const cloneTemplate = row({
  method: 'POST',
  path: '/svc/_apps/_clone',
  needs: MAKES,
  title: 'Make an app from a template',
  does: 'Makes an app with the files of a template, as a [staged change](http-apps.md). Without `id` and `name` the app gets those of the template, with a number appended where they are taken.',
  body: object(
    { templateId: { ...WORDS, says: 'The `id` of a [template](#list-the-templates)' } },
    { id: ID, name: WORDS, ...IN_WORKSPACE },
  ),
  answer: MADE_STAGED,
  errors: { UNKNOWN_TEMPLATE: '', TEMPLATE_FAILED: '', ...OF_NEW_APP, ...ARCHIVE_ERRORS, ...STAGED_ERRORS },
  example: { ...STAGED_EXAMPLE, webhooks: [] },
});

export const importApp = row({
  method: 'POST',
  path: '/svc/_apps/_import',
  needs: MAKES,
  title: 'Make an app from an archive',
  does: 'Makes an app of the archive that is sent. The app may be in a folder of the archive; what `svc push` leaves out is not taken.',
  query: object({ id: ID }, { name: NAME }),
  body: {
    media: 'application/gzip',
    says: 'A gzipped tar archive or a zip archive, as for an [upload](http-api.md#uploads)',
  },
  answer: MADE,
  errors: OF_ARCHIVE,
  example: EXAMPLE,
});

export const fetchApp = row({
  method: 'POST',
  path: '/svc/_apps/_fetch',
  needs: MAKES,
  title: 'Make an app from an address',
  does: `The gateway fetches an archive, and makes an app of it as of [one that is sent](#make-an-app-from-an-archive). The archive has at most ${LIMITS.uploadBodyBytes / 2 ** 20} MiB, and arrives within ${LIMITS.appFetchMs / 60_000} minutes.`,
  body: object(
    {
      id: ID,
      url: {
        ...WORDS,
        says: 'The address of the archive, one that [`egress`](configuration.md) lets the gateway connect to',
      },
    },
    { name: NAME },
  ),
  answer: MADE,
  errors: { BAD_REQUEST: 'no address of the web, or refused by `egress`', FETCH_FAILED: '', ...OF_ARCHIVE },
  example: EXAMPLE,
});

export const duplicateApp = row({
  method: 'POST',
  path: '/svc/_apps/:id/duplicate',
  needs: 'manage',
  title: 'Duplicate an app',
  does: 'Makes a new app with the code of this one. Its automations are off, and its webhooks have addresses of their own; secrets are not copied. For the new app it needs the right `make`.',
  body: object(
    { id: ID },
    {
      name: { ...WORDS, says: 'Without it: that of the other app with a number' },
      data: { ...flag, says: 'Copies its database, files and settings too' },
    },
  ),
  answer: MADE,
  errors: { ...OF_APP, CONFLICT: OF_NEW_APP.CONFLICT, NO_ACTIVE_VERSION: '', ...VERSION_ERRORS },
  example: { ...EXAMPLE, id: 'groceries', versionId: 'groceries/v1', activeVersion: 'groceries/v1' },
});

export const listTemplates = row({
  method: 'GET',
  path: '/svc/_templates',
  needs: 'make',
  title: 'List the templates',
  does: 'Lists the templates that come with the gateway, and those of `templatesUrl`.',
  answer: { json: listOf(TEMPLATE) },
  example: [
    {
      id: 'todos',
      name: 'Todos',
      description: 'A shared todo list with live updates.',
      version: '1.0.0',
      source: 'bundled',
      queries: 2,
      actions: 4,
      automations: 1,
    },
  ],
});

export const NEW_APPS = resource({
  name: 'New apps',
  page: 'new-apps',
  about: 'An app can also be made by [uploading](http-versions.md#upload-a-version) its first version.',
  rows: [makeApp, cloneTemplate, importApp, fetchApp, duplicateApp, listTemplates],
});
