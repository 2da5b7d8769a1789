/** The routes of tokens for programs (specification, "Tokens for programs"). */
import { LIMITS } from '../../limits.ts';
import { closed, integer, listOf, object, oneOf, orNull, type Schema, text, words } from '../../shapes/schema.ts';
import { deleted, newestFirst, TIME, TIME_OR_NULL, thousands } from '../pieces.ts';
import { resource, row } from '../row.ts';

const { programTokenNameChars, programTokenApps, programTokenDays } = LIMITS;
const NAME = words(programTokenNameChars);
const APPS = listOf(
  { ...text, wanted: 'the id of an app' },
  `an array of 1 to ${programTokenApps} app ids; leave it out for every app`,
);
const DAYS = integer(1, programTokenDays);
const TOOLS = oneOf('read', 'write', 'all');

const ROW = {
  id: text,
  name: text,
  apps: { ...orNull(listOf(text, 'a list of app ids')), says: 'Null: for every app' },
  tools: TOOLS,
  createdAt: TIME,
  expiresAt: { ...TIME_OR_NULL, says: 'Null: it never expires' },
  lastUsedAt: TIME_OR_NULL,
} as const satisfies Record<string, Schema>;
const EXAMPLE = {
  id: 'c2a7f0c41be84a0f',
  name: 'backup script',
  apps: ['todos'],
  tools: 'read',
  createdAt: 1_767_225_600_000,
  expiresAt: null,
  lastUsedAt: null,
};
/** Where the host authenticates callers. */
const HOSTED = { NOT_FOUND: 'the host of this gateway authenticates callers' };

export const makeToken = row({
  method: 'POST',
  path: '/svc/_tokens',
  needs: 'admin',
  title: 'Make a token',
  does: 'Makes a token for a program. Its text is shown only in this answer.',
  // A limit under another name would be no limit.
  body: closed(
    {
      name: { ...NAME, wanted: `${NAME.wanted} that says who uses it`, says: 'Need not be unique' },
      tools: {
        ...TOOLS,
        wanted: '"read", "write" or "all"',
        says: 'What it may do, see [tokens](http-api.md#tokens-for-programs)',
      },
    },
    {
      apps: { ...APPS, minItems: 1, maxItems: programTokenApps, says: 'Without it: every app, later ones included' },
      expiresInDays: { ...DAYS, wanted: `${DAYS.wanted}; leave it out for never` },
    },
  ),
  answer: { status: 201, json: object({ ...ROW, token: { ...text, says: 'Its text' } }) },
  errors: {
    ...HOSTED,
    UNKNOWN_APP: '',
    INVALID_ID: '',
    RESERVED_ID: '',
    CONFLICT: `there are ${thousands(LIMITS.programTokens)} tokens`,
    STORAGE_FULL: '',
  },
  example: { ...EXAMPLE, token: 'svct_5Jq0…' },
});

export const listTokens = row({
  method: 'GET',
  path: '/svc/_tokens',
  needs: 'admin',
  title: 'List the tokens',
  does: 'Lists the tokens, the newest first, expired ones included.',
  query: newestFirst('the `id` of a token'),
  answer: { json: listOf(object(ROW)) },
  errors: { ...HOSTED, UNKNOWN_TOKEN: 'there is no token `before`' },
  example: [EXAMPLE],
});

export const revokeToken = row({
  method: 'DELETE',
  path: '/svc/_tokens/:id',
  needs: 'admin',
  title: 'Revoke a token',
  does: 'Revokes a token. It is refused at once, and event streams and turns that were begun with it end.',
  params: { id: 'The `id` of the token' },
  answer: { json: deleted({ id: text }) },
  errors: {
    ...HOSTED,
    UNKNOWN_TOKEN: '',
    STORAGE_FULL: 'it is refused until the gateway stops; revoke it again',
  },
  example: { id: 'c2a7f0c41be84a0f', deleted: true },
});

export const TOKENS = resource({
  name: 'Tokens',
  page: 'tokens',
  about:
    'What tokens may do is said in [tokens for programs](http-api.md#tokens-for-programs). Only the administrator makes and revokes them.',
  rows: [makeToken, listTokens, revokeToken],
});
