/** Makes the channels that the configuration names (specification, "Notices"). */
import type { ChannelKind } from '../../protocol/notice.ts';
import type { Config } from '../config.ts';
import type { Send } from './delivery.ts';
import { mailSender } from './mail.ts';
import type { NotifyEntry } from './notice-settings.ts';
import { webhookSender } from './webhook.ts';

type Configured = { name: string; kind: ChannelKind; send: Send };
type NoticeConfig = Config;

/** For services of browsers, where the configuration tells nobody whom they could ask. */
const NOBODY = 'mailto:nobody@example.org';

/** `mail` with addresses is a channel; entries of kind `mail` take its place. A second one of a kind is `<kind> 2`. */
export function configuredChannels({ mail, notify }: NoticeConfig): Configured[] {
  const isNamed = notify.some(({ kind }) => kind === 'mail');
  const entries: NotifyEntry[] = mail?.to !== undefined && !isNamed ? [{ kind: 'mail' }, ...notify] : notify;
  const counts = new Map<string, number>();
  return entries.flatMap((entry): Configured[] => {
    const { kind } = entry;
    if (kind === 'push') return [];
    const count = (counts.get(kind) ?? 0) + 1;
    counts.set(kind, count);
    const name = count === 1 ? kind : `${kind} ${count}`;
    if (kind !== 'mail') return [{ name, kind, send: webhookSender(entry) }];
    const to = entry.to ?? mail?.to;
    return mail === null || to === undefined ? [] : [{ name, kind, send: mailSender({ ...mail, to }) }];
  });
}

/** Whom the services of browsers may ask about the messages of this gateway. */
export function contactOf({ mail, notify, publicUrl }: NoticeConfig): string {
  const named = notify.find((entry) => entry.kind === 'push' && entry.contact !== undefined);
  if (named?.kind === 'push' && named.contact !== undefined) return named.contact;
  if (publicUrl?.startsWith('https://')) return publicUrl;
  const address = mail && /[^\s<]+@[^\s>]+/.exec(mail.from)?.[0];
  return address ? `mailto:${address}` : NOBODY;
}
