/** Posts notices to addresses: topics of ntfy, incoming webhooks of Slack, and JSON for programs (specification, "Notices"). */
import { heading, type Notice } from '../../protocol/notice.ts';
import { DeliveryError, type Send } from './delivery.ts';
import type { WebhookEntry } from './notice-settings.ts';

/** Answers that say that the content is wrong, and would be the next time. */
const REFUSALS = new Set([400, 413, 415, 422]);
const HIGH = 4;

/** The sender of an entry of `notify`. */
export function webhookSender(entry: WebhookEntry): Send {
  const { url, body } = FORMS[entry.kind](entry.url);
  const headers = { 'content-type': 'application/json', ...entry.headers };
  return (notice, signal) =>
    postTo(url, { headers, body: JSON.stringify(body(notice)), signal }, (status) => REFUSALS.has(status));
}

type Form = { url: string; body(notice: Notice): object };

const FORMS: Record<WebhookEntry['kind'], (url: string) => Form> = {
  // Its JSON goes to the server and names the topic: unlike headers, it takes every character.
  ntfy: (address) => {
    const { origin, pathname } = new URL(address);
    return {
      url: `${origin}/`,
      body: (notice) => ({
        topic: pathname.slice(1),
        title: heading(notice),
        message: notice.text,
        ...(notice.url !== null && { click: notice.url }),
        ...(isFailure(notice) && { priority: HIGH, tags: ['warning'] }),
        ...(notice.isWell && { tags: ['white_check_mark'] }),
      }),
    };
  },
  slack: (url) => ({
    url,
    body: (notice) => {
      const link = notice.url === null ? '' : `\n<${escaped(notice.url).replaceAll('|', '%7C')}|Open>`;
      return { text: `*${escaped(heading(notice))}*\n${escaped(notice.text)}${link}` };
    },
  }),
  json: (url) => ({ url, body: (notice) => notice }),
};

export function isFailure({ kind, isWell }: Notice): boolean {
  return !isWell && (kind === 'run' || kind === 'backup' || kind === 'quarantine');
}

/** As Slack wants texts. */
function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

type Post = { headers: Record<string, string>; body: string | Uint8Array<ArrayBuffer>; signal: AbortSignal };

/** Resolves for a status of 200 to 299. A redirect is not followed: it would take what is secret in the request elsewhere. */
export async function postTo(url: string, post: Post, isRefused: (status: number) => boolean): Promise<void> {
  const { status, ok, body } = await fetch(url, { method: 'POST', redirect: 'manual', ...post });
  // It is not read, and would hold the connection.
  await body?.cancel();
  if (ok) return;
  if (status >= 300 && status < 400)
    throw new DeliveryError(`It answered with ${status}, a redirect: configure the address that it leads to.`);
  throw new DeliveryError(`It answered with ${status}.`, { status, isRefused: isRefused(status) });
}
