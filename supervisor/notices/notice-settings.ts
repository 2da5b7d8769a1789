/** Types of `mail` and `notify` in the configuration: the ways to people (specification, "Notices"). */

/** The mail server and the addresses of mails. `url` may have a user and a password. */
export type MailSettings = { url: string; from: string; to: string | string[] };

/** An address that takes notices by `POST`. */
export type WebhookEntry = { kind: 'ntfy' | 'slack' | 'json'; url: string; headers?: Record<string, string> };
export type NotifyEntry =
  | { kind: 'mail'; to?: string | string[] }
  | WebhookEntry
  /** `contact`, `mailto:` or `https:`, is for the services that pass messages on to browsers. */
  | { kind: 'push'; contact?: string };
