/** Sends notices to browsers that agreed, by Web Push (RFC 8030; specification, "Notices"). */
import { LIMITS } from '../../protocol/limits.ts';
import { heading } from '../../protocol/notice.ts';
import type { PushKey } from '../../storage/push-key.ts';
import { DeliveryError, type Send } from './delivery.ts';
import { authorizationFor, type Subscription, sealedFor } from './push-message.ts';
import { isFailure, postTo } from './webhook.ts';

/** How long a service keeps a message for a browser that is off, and a signature is valid, in seconds. */
const KEPT_S = LIMITS.noticeKeptMs / 2000;
const GONE = new Set([404, 410]);
const REFUSALS = new Set([400, 413]);

/** `contact` tells the service whom to ask about these messages. */
export function pushSender(subscription: Subscription, key: PushKey, contact: string): Send {
  const { endpoint } = subscription;
  return async (notice, signal) => {
    const { id, kind, url } = notice;
    const text = JSON.stringify({ id, kind, title: heading(notice), text: cut(notice.text), url });
    const headers = {
      authorization: authorizationFor(endpoint, key, contact, Math.floor(Date.now() / 1000) + KEPT_S),
      'content-type': 'application/octet-stream',
      'content-encoding': 'aes128gcm',
      ttl: String(KEPT_S),
      urgency: isFailure(notice) ? 'high' : 'normal',
    };
    const post = { headers, body: sealedFor(subscription, Buffer.from(text)), signal };
    try {
      await postTo(endpoint, post, (status) => REFUSALS.has(status));
    } catch (error) {
      const isGone = error instanceof DeliveryError && error.status !== undefined && GONE.has(error.status);
      throw isGone ? new DeliveryError('The browser takes no more notices.', { isGone }) : error;
    }
  };
}

/** To as many bytes of UTF-8 as a message has room for. */
function cut(text: string): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= LIMITS.noticePushBytes) return text;
  return `${bytes.subarray(0, LIMITS.noticePushBytes).toString().replace(/�+$/, '')}…`;
}
