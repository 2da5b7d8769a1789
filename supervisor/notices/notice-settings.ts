/** Types of `mail` and `notify` in the configuration: the ways to people (specification, "Notices"). */

/** A mail server, and the address that mails come from. `url` may have a user and a password. */
export type MailServer = { url: string; from: string };
/** The same with the addresses of notices, where they have any. */
export type MailSettings = MailServer & { to?: string | string[] };

/** An address that takes notices by `POST`. */
export type WebhookEntry = { kind: 'ntfy' | 'slack' | 'json'; url: string; headers?: Record<string, string> };
export type NotifyEntry =
  | { kind: 'mail'; to?: string | string[] }
  | WebhookEntry
  /** `contact`, `mailto:` or `https:`, is for the services that pass messages on to browsers. */
  | { kind: 'push'; contact?: string };
