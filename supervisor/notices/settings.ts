/** Checks `mail` and `notify` of the configuration: the ways to people (decisions, section 19). Pure. */
import {
  type EntryFault,
  isObject,
  type MemberCheck,
  membersFault,
  oneOf,
  strings,
  webAddress,
} from '../../protocol/entry-checks.ts';
import { CHANNEL_KINDS } from '../../protocol/notices.ts';

/** The mail server and the addresses of mails. `url` may have a user and a password. */
export type MailSettings = { url: string; from: string; to: string | string[] };

/** An address that takes notices by `POST`. */
export type WebhookEntry = { kind: 'ntfy' | 'slack' | 'json'; url: string; headers?: Record<string, string> };
export type NotifyEntry =
  | { kind: 'mail'; to?: string | string[] }
  | WebhookEntry
  /** `contact`, `mailto:` or `https:`, is for the services that pass messages on to browsers. */
  | { kind: 'push'; contact?: string };

const MAX_ENTRIES = 20;
/** `a@b.example` or `Name <a@b.example>`, on one line. */
const MAIL_ADDRESS = /^(?:[^\p{Cc}<>]*<[^\s\p{Cc}<>@,;]+@[^\s\p{Cc}<>@,;]+>|[^\s\p{Cc}<>@,;]+@[^\s\p{Cc}<>@,;]+)$/u;
/** As the servers of ntfy take them. */
const TOPIC = /^\/[-_A-Za-z0-9]{1,64}$/;
const CONTACT = /^(?:mailto:[^\s@]+@[^\s@]+|https:\/\/\S+)$/;

const matching =
  (isRight: (value: string) => boolean, wanted: string): MemberCheck =>
  (value) =>
    typeof value === 'string' && isRight(value) ? null : { at: '', wanted };

const mailServer = matching((value) => {
  const { protocol, hostname } = URL.canParse(value) ? new URL(value) : { protocol: '', hostname: '' };
  return (protocol === 'smtp:' || protocol === 'smtps:') && hostname !== '';
}, 'the address of a mail server, such as "smtps://user:password@mail.example.org"');

const sender = matching((value) => MAIL_ADDRESS.test(value), 'a mail address, such as "svc <svc@example.org>"');

const recipients: MemberCheck = (value) => {
  const all: unknown[] = Array.isArray(value) ? value : [value];
  const isRight = all.length > 0 && all.length <= MAX_ENTRIES && all.every((one) => sender(one) === null);
  return isRight ? null : { at: '', wanted: `a mail address, or a list of 1 to ${MAX_ENTRIES} of them` };
};

const HEADERS = strings(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, /^[\t\x20-\x7e]*$/, 'a header name with a string of one line');
const address = webAddress('give those in "headers"');
const ntfyAddress: MemberCheck = (value) => {
  if (address(value) === null && TOPIC.test(new URL(value as string).pathname)) return null;
  return { at: '', wanted: 'the address of a topic, such as "https://ntfy.sh/my-topic"; give a token in "headers"' };
};

const kind = oneOf(CHANNEL_KINDS);
const MEMBERS: Record<NotifyEntry['kind'], Record<string, MemberCheck>> = {
  mail: { kind, to: recipients },
  ntfy: { kind, url: ntfyAddress, headers: HEADERS },
  slack: { kind, url: address, headers: HEADERS },
  json: { kind, url: address, headers: HEADERS },
  push: { kind, contact: matching((value) => CONTACT.test(value), 'a mailto: or https: address') },
};

/** The first fault of a value for `mail`, or null. */
export function mailFault(value: unknown): EntryFault | null {
  const wanted = '{ "url", "from", "to" }';
  if (!isObject(value)) return { at: '', wanted };
  const fault = membersFault(value, { url: mailServer, from: sender, to: recipients });
  return fault ?? (['url', 'from', 'to'].every((member) => member in value) ? null : { at: '', wanted });
}

/** The first fault of a value for `notify`, or null; `at` is the path below that key, such as `0.url`. */
export function notifyFault(value: unknown): EntryFault | null {
  if (!Array.isArray(value) || value.length > MAX_ENTRIES)
    return { at: '', wanted: `a list of at most ${MAX_ENTRIES} channels` };
  for (const [i, entry] of value.entries()) {
    const fault = entryFault(entry);
    if (fault !== null) return { at: fault.at === '' ? `${i}` : `${i}.${fault.at}`, wanted: fault.wanted };
  }
  return null;
}

function entryFault(entry: unknown): EntryFault | null {
  if (!isObject(entry) || kind(entry.kind) !== null)
    return { at: '', wanted: `an object whose "kind" is ${CHANNEL_KINDS.join(', ')}` };
  const members = MEMBERS[entry.kind as NotifyEntry['kind']];
  if ('url' in members && !('url' in entry)) return { at: '', wanted: 'an object with "url"' };
  return membersFault(entry, members);
}
