/** The routes of an app's secrets (specification, "Secrets"). */
import { LIMITS } from '../../limits.ts';
import { listOf, object, oneOf, type Schema, text } from '../../shapes/schema.ts';
import { deleted, OF_APP, TIME_OR_NULL } from '../pieces.ts';
import { resource, row } from '../row.ts';

const SECRET = object({
  name: text,
  state: {
    ...oneOf('set', 'unreadable', 'missing'),
    says: '`unreadable`: the value cannot be decrypted, as after a [restore](backup.md) without `secrets.key`; `missing`: only the live app has it, the draft has no value yet',
  },
  updatedAt: TIME_OR_NULL,
} as const satisfies Record<string, Schema>);
const EXAMPLE = { name: 'API_KEY', state: 'set', updatedAt: 1_767_225_600_000 };
const NAMED = { name: `The secret's name: letters, digits and \`_\`, no digit first, at most 64 characters` };
const SOME = { ...OF_APP, SECRET_UNREADABLE: '' };

export const listSecrets = row({
  method: 'GET',
  path: '/svc/_apps/:id/secrets',
  needs: 'manage',
  title: 'List the secrets',
  does: 'Lists the names of the secrets, sorted by name.',
  answer: { json: listOf(SECRET) },
  errors: SOME,
  example: [EXAMPLE],
  drafts: 'Names that only the live app has are in the list too, as `missing`.',
});

export const showSecret = row({
  method: 'GET',
  path: '/svc/_apps/:id/secrets/:name',
  needs: 'manage',
  title: 'Show a secret',
  does: 'Says whether an app has a secret. No answer contains its value.',
  params: NAMED,
  answer: { json: SECRET },
  errors: { ...SOME, UNKNOWN_SECRET: '' },
  example: EXAMPLE,
  drafts: true,
});

export const setSecret = row({
  method: 'PUT',
  path: '/svc/_apps/:id/secrets/:name',
  needs: 'manage',
  title: 'Set a secret',
  does: `Stores a value. Calls that begin after the answer get it. An app has at most ${LIMITS.secrets}.`,
  params: NAMED,
  body: object({ value: { ...text, wanted: 'a text of 1 byte to 64 KiB' } }),
  answer: { json: SECRET },
  errors: {
    ...SOME,
    CONFLICT: 'the app has too many',
    SECRET_UNREADABLE: 'the files are damaged; nothing is overwritten',
    STORAGE_FULL: '',
  },
  example: EXAMPLE,
  drafts: 'The value is for the draft only. It is deleted with the workspace, and is not published.',
});

export const removeSecret = row({
  method: 'DELETE',
  path: '/svc/_apps/:id/secrets/:name',
  needs: 'manage',
  title: 'Remove a secret',
  does: 'Deletes a secret.',
  params: NAMED,
  answer: { json: deleted({ name: text }) },
  errors: { ...SOME, UNKNOWN_SECRET: '' },
  example: { name: 'API_KEY', deleted: true },
  drafts: true,
});

export const SECRETS = resource({
  name: 'Secrets',
  page: 'secrets',
  about: 'Handlers get these values from [`ctx.secrets`](app-guide.md#secrets).',
  rows: [listSecrets, showSecret, setSecret, removeSecret],
});
