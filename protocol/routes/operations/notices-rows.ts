/** The routes of notices: the ways by which they reach people, a test, browsers (specification, "Notices"). */
import { LIMITS } from '../../limits.ts';
import { CHANNEL_KINDS } from '../../notice.ts';
import { count, flag, listOf, type Of, object, oneOf, orNull, text, words } from '../../shapes/schema.ts';
import { deleted, TIME, TIME_OR_NULL } from '../pieces.ts';
import { resource, row } from '../row.ts';

const BROWSER = object({
  id: { ...text, says: 'Made from the address, so that a browser finds itself in the list' },
  name: text,
  addedAt: TIME,
});

/** A way to people, without its address. */
export const CHANNEL = object(
  {
    channel: { ...text, says: 'Its name: `mail`, `ntfy`, `ntfy 2`, …; of a browser `push <id>`' },
    kind: { enum: CHANNEL_KINDS, wanted: `one of ${CHANNEL_KINDS.join(', ')}` },
    state: {
      ...oneOf('idle', 'ok', 'failing'),
      says: '`idle`: nothing was sent yet; `failing`: from a failure until a notice is sent',
    },
    waiting: { ...count, says: 'Notices that are to be sent' },
    dropped: { ...count, says: 'Notices that were given up since the gateway started' },
    lastSentAt: TIME_OR_NULL,
    lastFailure: orNull(object({ at: TIME, message: text })),
  },
  { browser: { ...BROWSER, says: 'The browser that agreed' } },
);
const RESULT = object({ channel: text, ok: flag }, { message: { ...text, says: 'Why it failed' } });

export type ChannelStatus = Of<typeof CHANNEL>;
export type TestResult = Of<typeof RESULT>;

const BROWSER_EXAMPLE = { id: '5d1f0c6b3a9e4720', name: 'Firefox on the laptop', addedAt: 1_767_225_600_000 };
export const CHANNEL_EXAMPLE = {
  channel: `push ${BROWSER_EXAMPLE.id}`,
  kind: 'push',
  state: 'ok',
  waiting: 0,
  dropped: 0,
  lastSentAt: 1_767_229_200_000,
  lastFailure: null,
  browser: BROWSER_EXAMPLE,
};

export const listChannels = row({
  method: 'GET',
  path: '/svc/_notices',
  needs: 'admin',
  title: 'List the channels',
  does: 'Lists the ways by which notices reach people, without their addresses. Those of the configuration come first.',
  answer: { json: object({ channels: listOf(CHANNEL) }) },
  example: { channels: [CHANNEL_EXAMPLE] },
});

export const testChannels = row({
  method: 'POST',
  path: '/svc/_notices/test',
  needs: 'admin',
  title: 'Send a test',
  does: `Sends a test to one channel, or to all, and answers how each went, after ${LIMITS.noticeSendMs / 1000} s at most.`,
  body: object({}, { channel: { ...words(LIMITS.textChars), says: 'Without it: all' } }),
  answer: { json: object({ results: listOf(RESULT) }) },
  errors: { NOT_FOUND: 'there is no such channel' },
  example: { results: [{ channel: 'mail', ok: true }] },
});

export const makePushKey = row({
  method: 'POST',
  path: '/svc/_notices/push-key',
  needs: 'admin',
  title: 'Get the key for browsers',
  does: "Answers the `applicationServerKey` of a browser's subscription. The first request makes it.",
  answer: { json: object({ publicKey: text }) },
  errors: { STORAGE_FULL: '' },
  example: { publicKey: 'BIPUL12DLfytvTajnryr2PRdAgXS3HGKiLqndGcJGabyhHheJYlNGCeXl1dn18gSJ1WAkAPIxr4gK0_dQds4yiI' },
});

export const addBrowser = row({
  method: 'POST',
  path: '/svc/_notices/browsers',
  needs: 'admin',
  title: 'Add a browser',
  does: 'Adds a browser that agreed. One that is there already gets the new name.',
  body: object(
    { subscription: { type: 'object', wanted: 'the `PushSubscription` of a browser, as JSON' } },
    { name: words(LIMITS.noticeTitleChars) },
  ),
  answer: { status: 201, json: BROWSER },
  errors: { CONFLICT: `${LIMITS.noticeBrowsers} browsers agreed`, STORAGE_FULL: '' },
  example: BROWSER_EXAMPLE,
});

export const removeBrowser = row({
  method: 'DELETE',
  path: '/svc/_notices/browsers/:id',
  needs: 'admin',
  title: 'Remove a browser',
  does: 'Removes a browser. It gets no more notices.',
  params: { id: 'The `id` of the browser' },
  answer: { json: deleted({ id: text }) },
  errors: { NOT_FOUND: 'there is no such browser' },
  example: { id: BROWSER_EXAMPLE.id, deleted: true },
});

export const NOTICES = resource({
  name: 'Notices',
  page: 'notices',
  about: 'What the gateway tells people, and by which ways, is in [notices](notices.md).',
  rows: [listChannels, testChannels, makePushKey, addBrowser, removeBrowser],
});
