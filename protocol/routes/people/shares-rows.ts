/** The routes by which an app is shared with people (specification, "People"). */
import { LIMITS } from '../../limits.ts';
import { closed, flag, integer, listOf, type Of, object, oneOf, text } from '../../shapes/schema.ts';
import { deleted, OF_APP, TIME, TIME_OR_NULL } from '../pieces.ts';
import { resource, row } from '../row.ts';
import { APP_ROLE, BY, EMAIL, HOSTED, MAILED } from './pieces.ts';

const SHARE = {
  id: text,
  with: {
    ...oneOf('person', 'group', 'everyone', 'link', 'invitation'),
    says: '`everyone` are all who are signed in. A `link` is for whoever has it. An `invitation` was not taken yet',
  },
  name: {
    ...text,
    says: 'Of the person or group; of an invitation its name or e-mail address. Of a link it says that it is one',
  },
  role: APP_ROLE,
  createdAt: TIME,
  expiresAt: { ...TIME_OR_NULL, says: 'Null: it does not end by itself' },
  by: BY,
} as const;
const MORE = {
  person: { ...text, says: 'The id of the person' },
  group: { ...text, says: 'The id of the group' },
  email: { ...text, says: 'Of the person or invitation, where there is one' },
  openedAt: { ...TIME_OR_NULL, says: 'Of a link: when it was last opened, to the minute' },
  void: { ...flag, says: 'Of a link: it opens nothing, because who made it may no more share the app' },
} as const;
export const SHARE_ROW = object(SHARE, MORE);
export type ShareRow = Of<typeof SHARE_ROW>;
const EXAMPLE = {
  id: 's_2b7e94c01f68',
  with: 'person',
  name: 'Ada',
  person: 'p_3f9a1c0b7d42',
  email: 'ada@example.org',
  role: 'editor',
  createdAt: 1_767_225_600_000,
  expiresAt: null,
  by: null,
};
const OF_ONE = { ...HOSTED, ...OF_APP };

export const listShares = row({
  method: 'GET',
  path: '/svc/_apps/:id/shares',
  needs: 'manage',
  title: 'List who has an app',
  does: 'Lists with whom an app is shared, and who is invited to it. Owners of the gateway, and the author who made the app, have it without a share.',
  answer: { json: listOf(SHARE_ROW) },
  errors: OF_ONE,
  example: [EXAMPLE],
});

export const shareApp = row({
  method: 'POST',
  path: '/svc/_apps/:id/shares',
  needs: 'manage',
  title: 'Share an app',
  does: "Gives somebody a role in an app. Name exactly one of `person`, `email`, `group`, `everyone` and `link`. Where it is shared with them already, their role and its end change. An e-mail address that is nobody's makes an invitation. Each `link` is another one.",
  body: closed(
    { role: APP_ROLE },
    {
      person: { ...text, says: 'The id of a person' },
      email: { ...EMAIL, says: 'Of a person, or of somebody to invite' },
      group: { ...text, says: 'The id of a group' },
      everyone: { ...flag, says: '`true`: all who are signed in' },
      link: { ...flag, says: '`true`: whoever has the link, [without an account](people.md#links); not as `manager`' },
      expiresInDays: { ...integer(1, LIMITS.shareDays), says: 'Without it the share does not end by itself' },
    },
  ),
  answer: {
    status: 201,
    json: object(SHARE, {
      ...MORE,
      url: { ...text, says: 'Of an invitation or a link: what to send, shown only here' },
      mailed: MAILED,
    }),
  },
  errors: {
    ...OF_ONE,
    UNKNOWN_PERSON: '',
    UNKNOWN_GROUP: '',
    CONFLICT: 'there are too many shares or invitations',
    STORAGE_FULL: '',
  },
  example: EXAMPLE,
});

export const unshareApp = row({
  method: 'DELETE',
  path: '/svc/_apps/:id/shares/:share',
  needs: 'manage',
  title: 'End a share',
  does: 'Takes a role in an app away, ends a link, or withdraws an invitation to it. Pages, streams and turns that it allowed end at once.',
  params: { share: 'The id of the share, or of the invitation' },
  answer: { json: deleted({ id: text }) },
  errors: { ...OF_ONE, UNKNOWN_SHARE: '', STORAGE_FULL: '' },
  example: { id: EXAMPLE.id, deleted: true },
});

export const openLink = row({
  method: 'POST',
  path: '/svc/_auth/link',
  needs: 'anyone',
  title: 'Open a link to an app',
  does: 'Leads a browser at the console or a shared address to the app of a link: as a guest, or as who is signed in there where they have the app. Opening a link does not use it up.',
  body: object({ code: { ...text, says: 'What follows `#guest=` in the link' } }),
  answer: {
    json: object(
      {
        url: {
          ...text,
          says: 'Where the app is. At an origin of its own with a ticket, as `POST /svc/_enter` gives it',
        },
        guest: { ...flag, says: 'Not as somebody who is signed in' },
      },
      { pageKey: { ...text, says: 'Of a guest at a shared address, who is let in at once' } },
    ),
    headers: { 'set-cookie': 'the session cookie, where there is a `pageKey`' },
  },
  errors: {
    ...HOSTED,
    LINK_ENDED: '',
    FORBIDDEN: 'another page asks, or no app is entered from this address',
    CONFLICT: 'somebody is signed in at an address that all apps share, and does not have the app',
    RATE_LIMITED: 'too many of this address opened links that there are not',
  },
  example: { url: 'http://todos.svc.localhost:8787/svc/_enter#ticket=5d0c…', guest: true },
});

export const SHARES = resource({
  name: 'Shares',
  page: 'shares',
  about:
    'A share is one role on one app, for a person, a group, everyone, or whoever has a link. Of several the strongest counts. What the roles may do is in [people](people.md).',
  rows: [listShares, shareApp, unshareApp, openLink],
});
