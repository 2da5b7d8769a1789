/** The routes that take the code of all apps with its history from one gateway to another (specification, "Transfer of code"). */
import { ERROR } from '../../errors.ts';
import { listOf, object, text } from '../../shapes/schema.ts';
import { WARNINGS, WEBHOOKS } from '../apps/publications.ts';
import { elsewhere } from '../pieces.ts';
import { resource, row } from '../row.ts';

const BUNDLE = 'application/x-git-bundle';

export const exportCode = row({
  method: 'POST',
  path: '/svc/_code/export',
  needs: 'admin',
  title: 'Export the code',
  does: 'Sends a git bundle of `main` and every tag.',
  answer: { media: BUNDLE, says: 'Its length is announced.' },
  errors: { NO_GIT_STORE: '', STORE_DAMAGED: '', STORAGE_FULL: '', NOT_IN_CLUSTER: '' },
});

export const importCode = row({
  method: 'POST',
  path: '/svc/_code/import',
  needs: 'admin',
  title: 'Import code',
  does: 'Takes a git bundle into a gateway without apps. The apps are live then, without data.',
  body: { media: BUNDLE, says: 'A git bundle of at most 1 GiB' },
  answer: {
    status: 201,
    json: object({
      main: { ...text, says: 'The commit of `main`' },
      apps: listOf(
        object(
          { id: text, versionId: text },
          { warnings: elsewhere(WARNINGS, 'As for an [upload](http-api.md#uploads)') },
        ),
      ),
      failed: {
        ...listOf(object({ id: text, error: ERROR })),
        says: 'Apps that are not live, each with its [error](http-api.md#errors). They can be published from a workspace',
      },
      webhooks: elsewhere(WEBHOOKS, 'Those that were created, with their secrets'),
    }),
  },
  errors: {
    NO_GIT_STORE: '',
    INVALID_BACKUP:
      'also for a tag that is not on a commit, and for a version that is in the history of one with a lower number',
    BACKUP_TOO_LARGE: '',
    RESTORE_TARGET: 'the gateway has apps',
    STORAGE_FULL: 'nothing is live, and the same file can be sent again',
    NOT_IN_CLUSTER: '',
  },
  example: {
    main: 'f3a1c0d94b7e52865d0f1c3ab9e7d24c6b801e57',
    apps: [{ id: 'todos', versionId: 'todos/v3' }],
    failed: [],
    webhooks: [],
  },
});

export const CODE = resource({
  name: 'Code',
  page: 'code',
  about:
    'On the git store, the code of all apps with its history fits into one file, without data: see [`svc export`](cli.md#svc-export-filedir).',
  rows: [exportCode, importCode],
});
