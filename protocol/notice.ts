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

/** The title as people read it, with the name of the app. */
export function heading({ app, title }: Notice): string {
  return app === null ? title : `${app.name}: ${title}`;
}
