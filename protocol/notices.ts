/**
 * Defines notices: what reaches people by mail, webhook or browser, and what is known of the ways there (specification,
 * "Notices").
 */

/** The one service worker: it shows notices, at the console's origin only. */
export const PUSH_WORKER = '/svc/_push.js';

/** What a notice is about: what an app sent, a failure of the gateway's, or a test. */
export const NOTICE_KINDS = ['app', 'run', 'backup', 'quarantine', 'test'] as const;
export type NoticeKind = (typeof NOTICE_KINDS)[number];

/** `at` in milliseconds since the epoch. `url` is absolute, null where there is none. */
export type Notice = {
  id: string;
  at: number;
  kind: NoticeKind;
  /** Null for one about the gateway. */
  app: { id: string; name: string } | null;
  title: string;
  text: string;
  url: string | null;
  /** It says that what had failed works again. */
  isWell: boolean;
};

export const CHANNEL_KINDS = ['mail', 'ntfy', 'slack', 'json', 'push'] as const;
export type ChannelKind = (typeof CHANNEL_KINDS)[number];

/** A way to people, without its address. Times in milliseconds since the epoch. */
export type ChannelStatus = {
  /** `mail`, `ntfy`, `ntfy 2`, …; of a browser, `push <id>`. */
  channel: string;
  kind: ChannelKind;
  /** `failing` from a failure until one is sent. */
  state: 'idle' | 'ok' | 'failing';
  /** Notices that are to be sent, or sent again. */
  waiting: number;
  /** Given up since the gateway started: their time was up, they were refused, or newer ones took their place. */
  dropped: number;
  lastSentAt: number | null;
  lastFailure: { at: number; message: string } | null;
  /** Of a browser that agreed. */
  browser?: { id: string; name: string; addedAt: number };
};

/** `message` says why a channel failed. */
export type TestResult = { channel: string; ok: boolean; message?: string };

/** The title as people read it, with the name of the app. */
export function heading({ app, title }: Notice): string {
  return app === null ? title : `${app.name}: ${title}`;
}
