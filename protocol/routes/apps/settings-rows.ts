/** The routes of the settings of pages, and of the preferences of the user (specification, "Settings of pages"). */
import { LIMITS } from '../../limits.ts';
import { flag, listOf, type Of, object, oneOf, text } from '../../shapes/schema.ts';
import { OF_APP } from '../pieces.ts';
import { resource, row } from '../row.ts';

const KiB = 1024;
const SIZE = `at most ${LIMITS.settingsBytes / KiB} KiB`;

const KNOB = object({
  key: text,
  label: text,
  type: oneOf('segmented', 'swatch'),
  default: text,
  options: listOf(object({ value: text, label: text })),
});
/** Any JSON by names. */
const VALUES = { type: 'object', additionalProperties: {} } as const;
const PREFERENCES = object({ prefs: VALUES });

const SETTINGS = object(
  {
    knobs: { ...listOf(KNOB), says: 'What can be set, from the [manifest](app-guide.md#settings)' },
    settings: { ...VALUES, says: 'What was set; the default of a knob holds where it has no member' },
  },
  {
    prefs: { ...VALUES, says: 'The preferences of the person who asks, or of the user of the gateway' },
    versionId: { ...text, says: 'The live version; drafts have none' },
    user: {
      ...object({ id: text, name: text, role: text }, { email: text }),
      says: 'The person who asks, where one does, with their role in the app',
    },
    guest: { ...flag, says: 'True for who came by a [link](people.md#links)' },
    visitor: {
      ...flag,
      says: 'For visitors of a [public page](public-apps.md) it is true, and `prefs` and `versionId` are missing',
    },
  },
);
export type SettingsAnswer = Of<typeof SETTINGS>;

const EXAMPLE = {
  knobs: [
    {
      key: 'theme',
      label: 'Theme',
      type: 'segmented',
      default: 'light',
      options: [
        { value: 'light', label: 'Light' },
        { value: 'dark', label: 'Dark' },
      ],
    },
  ],
  settings: { theme: 'dark' },
  prefs: {},
  versionId: 'todos/v3',
};

export const showSettings = row({
  method: 'GET',
  path: '/svc/_apps/:id/settings',
  needs: 'read',
  title: 'Show the settings of an app',
  does: 'Answers what can be set in the page of an app, and what was set.',
  answer: { json: SETTINGS },
  errors: { ...OF_APP, NO_ACTIVE_VERSION: '', STORE_DAMAGED: '' },
  example: EXAMPLE,
  visitors: 'page',
  drafts: "The settings of the draft are at first a copy of the live app's.",
});

export const storeSettings = row({
  method: 'PUT',
  path: '/svc/_apps/:id/settings',
  needs: 'settings',
  title: 'Store the settings of an app',
  does: 'Replaces what was set.',
  body: { ...VALUES, wanted: `the settings, ${SIZE}` },
  answer: { json: SETTINGS },
  errors: { ...OF_APP, NO_ACTIVE_VERSION: '', STORAGE_FULL: '' },
  example: EXAMPLE,
  drafts: true,
});

export const showUser = row({
  method: 'GET',
  path: '/_svc-user/id',
  needs: 'settings',
  title: 'Show the user',
  does: 'Answers the id of the person who asks, or of the user of this gateway.',
  answer: { json: object({ id: text }) },
  example: { id: 'c3b9f1d2-6a47-4c55-9e0b-2f8d7a41e603' },
});

export const showPreferences = row({
  method: 'GET',
  path: '/_svc-user/prefs',
  needs: 'settings',
  title: 'Show the preferences',
  does: 'Answers the preferences of the person who asks, or of the user of this gateway. They hold for all apps.',
  answer: { json: PREFERENCES },
  example: { prefs: { theme: 'dark' } },
});

export const changePreferences = row({
  method: 'PUT',
  path: '/_svc-user/prefs',
  needs: 'account',
  title: 'Change the preferences',
  does: `Sets the preferences that \`patch\` names, of the person who asks, or of the user of this gateway. All of them take ${SIZE}.`,
  body: object({ patch: { ...VALUES, wanted: 'an object', says: 'Any values by name; null removes one' } }),
  answer: { json: PREFERENCES },
  errors: { STORAGE_FULL: '' },
  example: { prefs: { theme: 'dark' } },
});

export const SETTINGS_AND_PREFERENCES = resource({
  name: 'Settings and preferences',
  page: 'settings',
  about: 'How a page gets them is in the [guide](app-guide.md#settings).',
  rows: [showSettings, storeSettings, showUser, showPreferences, changePreferences],
});
