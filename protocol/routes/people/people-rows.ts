/** The routes of people, their sessions, invitations and groups (specification, "People"). */
import { LIMITS } from '../../limits.ts';
import { closed, count, flag, integer, listOf, object, text, textOrNull, words } from '../../shapes/schema.ts';
import { deleted, sortedBy, TIME } from '../pieces.ts';
import { resource, row } from '../row.ts';
import { BY, EMAIL, GRANT, HOSTED, MAILED, NAME, PERSON, PERSON_EXAMPLE, ROLE } from './pieces.ts';

const PID = { pid: 'The id of the person, or `me`' };
const NO_PERSON = { ...HOSTED, UNKNOWN_PERSON: '' };
const OWN = ' Of others, owners may.';

export const listPeople = row({
  method: 'GET',
  path: '/svc/_people',
  needs: 'admin',
  title: 'List the people',
  does: 'Lists the people of the gateway, sorted by id.',
  query: sortedBy('`id`'),
  answer: { json: listOf(object(PERSON)) },
  errors: HOSTED,
  example: [PERSON_EXAMPLE],
});

export const showPerson = row({
  method: 'GET',
  path: '/svc/_people/:pid',
  needs: 'account',
  title: 'Show a person',
  does: `Shows an account, one's own as \`me\`.${OWN}`,
  params: PID,
  answer: { json: object(PERSON) },
  errors: NO_PERSON,
  example: PERSON_EXAMPLE,
});

export const changePerson = row({
  method: 'PATCH',
  path: '/svc/_people/:pid',
  needs: 'account',
  title: 'Change a person',
  does: 'Changes an account. A person may change their own name; everything else is for owners. Who is disabled is signed out at once, and what goes on for them ends.',
  params: PID,
  body: closed(
    {},
    { name: NAME, email: EMAIL, role: ROLE, disabled: { ...flag, says: 'Whether they may not sign in' } },
  ),
  answer: { json: object(PERSON) },
  errors: {
    ...NO_PERSON,
    FRESH_SIGN_IN_NEEDED: "it is one's own e-mail address",
    CONFLICT: 'another person has this e-mail address',
    STORAGE_FULL: '',
  },
  example: { ...PERSON_EXAMPLE, name: 'Ada L.' },
});

export const removePerson = row({
  method: 'DELETE',
  path: '/svc/_people/:pid',
  needs: 'account',
  title: 'Remove a person',
  does: `Removes an account with what was shared with it. The person is signed out at once, and what goes on for them ends. The apps that they made stay.${OWN}`,
  params: PID,
  answer: { json: deleted({ id: text }) },
  errors: {
    ...NO_PERSON,
    FRESH_SIGN_IN_NEEDED: "it is one's own",
    CONFLICT: "it is one's own, and no other owner may sign in",
    STORAGE_FULL: '',
  },
  example: { id: PERSON_EXAMPLE.id, deleted: true },
});

export const setPicture = row({
  method: 'PUT',
  path: '/svc/_people/:pid/picture',
  needs: 'account',
  title: 'Set the picture of a person',
  does: `Gives a person a picture, in place of the one until now.${OWN}`,
  params: PID,
  body: { media: 'image/*', says: `PNG, JPEG or WebP, by its bytes, up to ${LIMITS.pictureBytes / 1024} KiB` },
  answer: { json: object(PERSON) },
  errors: { ...NO_PERSON, BAD_REQUEST: 'it is no such picture', PAYLOAD_TOO_LARGE: '', STORAGE_FULL: '' },
  example: PERSON_EXAMPLE,
});

export const removePicture = row({
  method: 'DELETE',
  path: '/svc/_people/:pid/picture',
  needs: 'account',
  title: 'Remove the picture of a person',
  does: `Takes the picture of a person away.${OWN}`,
  params: PID,
  answer: { json: object(PERSON) },
  errors: { ...NO_PERSON, STORAGE_FULL: '' },
  example: PERSON_EXAMPLE,
});

export const showPicture = row({
  method: 'GET',
  path: '/svc/_people/:pid/picture/:picture',
  needs: 'anyone',
  title: 'Get the picture of a person',
  does: 'Answers the picture of a person, to who is signed in: the cookie is enough, also at the origin of an app. The address is that of `picture`, which cannot be guessed, and another picture has another one.',
  params: { pid: 'The id of the person', picture: 'The id of the picture' },
  answer: { media: 'image/*' },
  errors: { NOT_FOUND: 'the person has another picture or none, or the host of this gateway authenticates callers' },
});

export const linkPerson = row({
  method: 'POST',
  path: '/svc/_people/:pid/link',
  needs: 'admin',
  title: 'Make a link for a person',
  does: 'Makes a link that signs a person in, once, for who has lost their password. They choose a new one with it.',
  params: { pid: 'The id of the person' },
  body: object({}),
  answer: { status: 201, json: object({ url: { ...text, says: 'Shown only here' }, expiresAt: TIME, mailed: MAILED }) },
  errors: { ...NO_PERSON, CONFLICT: 'there are too many invitations', STORAGE_FULL: '' },
  example: { url: 'https://apps.example.org/svc/#invitation=5Jq0…', expiresAt: 1_767_312_000_000, mailed: null },
});

const SESSION = object({
  id: text,
  current: { ...flag, says: 'It is the one that asks' },
  device: { ...text, says: 'What the browser calls itself' },
  address: { ...text, says: 'Where they signed in from' },
  createdAt: TIME,
  lastUsedAt: TIME,
  expiresAt: { ...TIME, says: `${LIMITS.personSessionMs / LIMITS.dayMs} days from the last use` },
});

export const listPersonSessions = row({
  method: 'GET',
  path: '/svc/_people/:pid/sessions',
  needs: 'account',
  title: 'List the sessions of a person',
  does: `Lists the browsers in which a person is signed in, the one last used first.${OWN}`,
  params: PID,
  answer: { json: listOf(SESSION) },
  errors: NO_PERSON,
  example: [
    {
      id: 'p5f0c…',
      current: true,
      device: 'Mozilla/5.0 (X11; Linux x86_64) …',
      address: '192.0.2.7',
      createdAt: PERSON_EXAMPLE.createdAt,
      lastUsedAt: PERSON_EXAMPLE.lastSeenAt,
      expiresAt: PERSON_EXAMPLE.lastSeenAt + LIMITS.personSessionMs,
    },
  ],
});

const ENDED = object({ ended: { ...count, says: 'How many' } });

export const endPersonSessions = row({
  method: 'DELETE',
  path: '/svc/_people/:pid/sessions',
  needs: 'account',
  title: 'End all sessions of a person',
  does: `Signs a person out everywhere, but not in the browser that asks.${OWN}`,
  params: PID,
  answer: { json: ENDED },
  errors: { ...NO_PERSON, STORAGE_FULL: '' },
  example: { ended: 2 },
});

export const endPersonSession = row({
  method: 'DELETE',
  path: '/svc/_people/:pid/sessions/:session',
  needs: 'account',
  title: 'End a session of a person',
  does: `Signs a person out in one browser: at once, with its streams and turns.${OWN}`,
  params: { ...PID, session: 'The id of the session' },
  answer: { json: ENDED },
  errors: { ...NO_PERSON, STORAGE_FULL: '' },
  example: { ended: 1 },
});

export const PEOPLE = resource({
  name: 'People',
  page: 'people',
  about:
    'A person is an account of the gateway. What the roles may do is in [people](people.md). People come by an [invitation](http-invitations.md), and sign in as [accounts](http-accounts.md) say.',
  rows: [
    listPeople,
    showPerson,
    changePerson,
    removePerson,
    setPicture,
    removePicture,
    showPicture,
    linkPerson,
    listPersonSessions,
    endPersonSessions,
    endPersonSession,
  ],
});

const INVITATION = {
  id: text,
  name: textOrNull,
  email: { ...textOrNull, says: "It becomes the account's. Without it whoever takes the invitation says one" },
  role: ROLE,
  grants: listOf(GRANT, 'a list of apps with a role for each'),
  person: { ...textOrNull, says: 'The id of the person whom it signs in. Null: it makes an account' },
  uses: { ...count, says: 'How many may still use it' },
  createdAt: TIME,
  expiresAt: TIME,
  by: BY,
} as const;
const URL = { ...text, says: 'The link to send, shown only here' } as const;
const INVITATION_EXAMPLE = {
  id: 'i_9c41d2e07a55',
  name: 'Ada',
  email: null,
  role: 'member',
  grants: [{ app: 'todos', role: 'editor' }],
  person: null,
  uses: 1,
  createdAt: 1_767_225_600_000,
  expiresAt: 1_767_830_400_000,
  by: null,
};

export const makeInvitation = row({
  method: 'POST',
  path: '/svc/_invitations',
  needs: 'admin',
  title: 'Invite somebody',
  does: 'Makes a link by which somebody makes an account, or adds what it shares to the one that they have.',
  body: closed(
    {},
    {
      name: NAME,
      email: EMAIL,
      role: { ...ROLE, says: '`member` where it is left out' },
      grants: { ...listOf(GRANT, 'a list of apps with a role for each'), maxItems: LIMITS.invitationGrants },
      expiresInDays: { ...integer(1, LIMITS.invitationDaysMax), says: `${LIMITS.invitationDays} where it is left out` },
      uses: { ...integer(1, LIMITS.invitationUses), says: 'How many may use it; 1 where it is left out' },
    },
  ),
  answer: { status: 201, json: object({ ...INVITATION, url: URL, mailed: MAILED }) },
  errors: {
    ...HOSTED,
    UNKNOWN_APP: '',
    CONFLICT: 'a person has this e-mail address, or there are too many invitations',
    STORAGE_FULL: '',
  },
  example: { ...INVITATION_EXAMPLE, url: 'https://apps.example.org/svc/#invitation=5Jq0…', mailed: null },
});

export const listInvitations = row({
  method: 'GET',
  path: '/svc/_invitations',
  needs: 'admin',
  title: 'List the invitations',
  does: 'Lists the invitations that may still be used, the newest first.',
  answer: { json: listOf(object(INVITATION)) },
  errors: HOSTED,
  example: [INVITATION_EXAMPLE],
});

export const withdrawInvitation = row({
  method: 'DELETE',
  path: '/svc/_invitations/:invitation',
  needs: 'admin',
  title: 'Withdraw an invitation',
  does: 'Takes an invitation back: its link works no more. Who has used it keeps their account.',
  params: { invitation: 'The id of the invitation' },
  answer: { json: deleted({ id: text }) },
  errors: { ...HOSTED, UNKNOWN_INVITATION: '', STORAGE_FULL: '' },
  example: { id: INVITATION_EXAMPLE.id, deleted: true },
});

export const INVITATIONS = resource({
  name: 'Invitations',
  page: 'invitations',
  about: 'An invitation is the way to an account; a [provider](sign-in.md) may let people in besides.',
  rows: [makeInvitation, listInvitations, withdrawInvitation],
});

const GROUP = object({ id: text, name: text, members: { ...listOf(text), says: 'Ids of people' } });
const MEMBERS = { ...listOf(text, 'a list of ids of people'), maxItems: LIMITS.groupMembers } as const;
const GROUP_NAME = words(LIMITS.personNameChars);
const GROUP_EXAMPLE = { id: 'g_51b0aa93c7d2', name: 'Family', members: [PERSON_EXAMPLE.id] };

export const listGroups = row({
  method: 'GET',
  path: '/svc/_groups',
  needs: 'admin',
  title: 'List the groups',
  does: 'Lists the groups of people.',
  answer: { json: listOf(GROUP) },
  errors: HOSTED,
  example: [GROUP_EXAMPLE],
});

export const makeGroup = row({
  method: 'POST',
  path: '/svc/_groups',
  needs: 'admin',
  title: 'Make a group',
  does: 'Makes a group of people, with which apps can be shared.',
  body: closed({ name: GROUP_NAME }, { members: MEMBERS }),
  answer: { status: 201, json: GROUP },
  errors: { ...HOSTED, UNKNOWN_PERSON: '', CONFLICT: 'another group has this name', STORAGE_FULL: '' },
  example: GROUP_EXAMPLE,
});

export const changeGroup = row({
  method: 'PATCH',
  path: '/svc/_groups/:gid',
  needs: 'admin',
  title: 'Change a group',
  does: 'Renames a group, or says anew who is in it. Who is in it no more loses at once what was shared with it.',
  params: { gid: 'The id of the group' },
  body: closed({}, { name: GROUP_NAME, members: MEMBERS }),
  answer: { json: GROUP },
  errors: {
    ...HOSTED,
    UNKNOWN_GROUP: '',
    UNKNOWN_PERSON: '',
    CONFLICT: 'another group has this name',
    STORAGE_FULL: '',
  },
  example: GROUP_EXAMPLE,
});

export const removeGroup = row({
  method: 'DELETE',
  path: '/svc/_groups/:gid',
  needs: 'admin',
  title: 'Remove a group',
  does: 'Removes a group, with what was shared with it.',
  params: { gid: 'The id of the group' },
  answer: { json: deleted({ id: text }) },
  errors: { ...HOSTED, UNKNOWN_GROUP: '', STORAGE_FULL: '' },
  example: { id: GROUP_EXAMPLE.id, deleted: true },
});

export const GROUPS = resource({
  name: 'Groups',
  page: 'groups',
  about: 'A group is several people with whom an app is shared at once.',
  rows: [listGroups, makeGroup, changeGroup, removeGroup],
});
