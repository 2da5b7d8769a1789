/** The routes of removed apps (specification, "Removal and trash"). */
import { DEFAULTS } from '../../limits.ts';
import { count, flag, listOf, matching, object, text, textOrNull } from '../../shapes/schema.ts';
import { deleted, limitOf, TIME } from '../pieces.ts';
import { resource, row } from '../row.ts';

const NAMED = { id: 'The `id` of the removed app, `<app>-<removedAt>`' };

export const TRASHED = object({
  id: { ...text, says: '`<app>-<removedAt>`' },
  app: text,
  name: { ...text, says: 'Like `version` of the version that was live' },
  version: text,
  removedAt: TIME,
  keptUntil: { ...TIME, says: 'It is deleted then, or a day later' },
  bytes: count,
});

export const listTrash = row({
  method: 'GET',
  path: '/svc/_trash',
  needs: 'admin',
  title: 'List the trash',
  does: 'Lists the removed apps, the newest first.',
  query: object(
    {},
    {
      limit: limitOf(),
      before: {
        ...matching(/^[a-z0-9][a-z0-9_-]{0,62}-\d{13,}$/, 'an id of the list'),
        says: 'Answers those that follow this one',
      },
    },
  ),
  answer: { json: listOf(TRASHED) },
  example: [
    {
      id: 'shopping-1767225600000',
      app: 'shopping',
      name: 'Shopping',
      version: '1.2.0',
      removedAt: 1_767_225_600_000,
      keptUntil: 1_767_830_400_000,
      bytes: 81_920,
    },
  ],
});

export const restoreApp = row({
  method: 'POST',
  path: '/svc/_trash/:id/restore',
  needs: 'admin',
  title: 'Restore an app',
  does: 'Makes the app live again: [what comes back](backup.md#removed-apps). After an error it stays in the trash.',
  params: NAMED,
  answer: { json: object({ id: { ...text, says: 'The app' }, restored: flag, activeVersion: textOrNull }) },
  errors: {
    UNKNOWN_TRASH: '',
    CONFLICT: 'an app has this id now, or this one was removed from the other store',
    INVALID_AUTOMATION: 'another app has the address of a webhook now',
    STORE_DAMAGED: '',
    STORAGE_FULL: '',
  },
  example: { id: 'shopping', restored: true, activeVersion: 'shopping/v3' },
});

export const deleteTrashed = row({
  method: 'DELETE',
  path: '/svc/_trash/:id',
  needs: 'admin',
  title: 'Delete an app permanently',
  does: 'Deletes a removed app with its data. It cannot be restored.',
  params: NAMED,
  answer: { json: deleted({ id: text }) },
  errors: { UNKNOWN_TRASH: '' },
  example: { id: 'shopping-1767225600000', deleted: true },
});

export const TRASH = resource({
  name: 'Trash',
  page: 'trash',
  about: `Removed apps are kept for \`trashDays\` (${DEFAULTS.trashDays}); the gateway deletes expired ones daily. [\`svc trash\`](cli.md#svc-trash-restoreempty-app) asks a person before it restores or deletes one.`,
  rows: [listTrash, restoreApp, deleteTrashed],
});
