/** Pieces that the rows about people share. */
import { LIMITS } from '../../limits.ts';
import {
  flag,
  integer,
  type Of,
  object,
  oneOf,
  orNull,
  type Schema,
  text,
  textOrNull,
  words,
} from '../../shapes/schema.ts';
import { TIME, TIME_OR_NULL } from '../pieces.ts';

/** Where the host authenticates callers. */
export const HOSTED = { NOT_FOUND: 'the host of this gateway authenticates callers' };

export const NAME = words(LIMITS.personNameChars);
export const EMAIL = {
  type: 'string',
  pattern: '^[^\\s@]+@[^\\s@]+$',
  maxLength: LIMITS.emailChars,
  wanted: 'an e-mail address',
} as const;
/** Longer ones would take long before anything is known of who sends them. */
export const TYPED_PASSWORD = {
  ...text,
  maxLength: LIMITS.passwordCharsMax,
  wanted: `a text of at most ${LIMITS.passwordCharsMax} characters`,
} as const;
export const PASSWORD = {
  ...TYPED_PASSWORD,
  says: `${LIMITS.passwordChars} to ${LIMITS.passwordCharsMax} characters`,
} as const;
export const ROLE = {
  ...oneOf('owner', 'author', 'member'),
  says: 'The role in the gateway: an `owner` may do everything, an `author` makes apps, a `member` uses what is shared',
} as const;
export const APP_ROLE = {
  ...text,
  maxLength: LIMITS.roleIdChars,
  wanted: 'the id of a role',
  says: 'The role in the app: a `viewer` sees, an `editor` changes data, a `manager` also changes the app and shares it; or one [of its manifest](people.md#roles-of-an-app)',
} as const;
export const GRANT = object(
  { app: { ...text, says: 'The id of an app' }, role: APP_ROLE },
  { days: { ...integer(1, LIMITS.shareDays), says: 'For how long, from when it is taken. Without it: for good' } },
);
/** Who did it, as versions and shares show it. */
export const BY = { ...orNull(text), says: 'Who made it. Null: the administrator' } as const;

/** What became of a link that was to be mailed. */
export const MAILED = {
  ...orNull(object({ to: text, problem: { ...textOrNull, says: 'Why it was not sent. Null: it was' } })),
  says: 'To whom the link was mailed. Null: the configuration has no `mail`, or nobody vouches for an address',
} as const;
export type Mailed = Of<typeof MAILED>;

export const PERSON = {
  id: text,
  name: text,
  email: { ...textOrNull, says: 'With a password it is what they sign in with' },
  vouched: { ...flag, says: 'An owner or an invitation of one named the address. Otherwise only the person did' },
  picture: {
    ...textOrNull,
    says: 'The path of their picture, which browsers that are signed in load at the console and at the origins of apps. Null: none',
  },
  role: ROLE,
  disabled: { ...flag, says: 'They may not sign in' },
  createdAt: TIME,
  lastSeenAt: TIME_OR_NULL,
  methods: {
    type: 'array',
    items: text,
    wanted: 'a list',
    says: 'How they can sign in: `passkey`, `password`, `provider:<name>`, or `proxy`. Empty: by a link only',
  },
} as const satisfies Record<string, Schema>;
export const PERSON_EXAMPLE = {
  id: 'p_3f9a1c0b7d42',
  name: 'Ada',
  email: 'ada@example.org',
  vouched: true,
  picture: null,
  role: 'member',
  disabled: false,
  createdAt: 1_767_225_600_000,
  lastSeenAt: 1_767_229_200_000,
  methods: ['passkey', 'password'],
};
