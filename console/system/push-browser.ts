/** Lets this browser show the gateway's notices, through the one service worker of the console (specification, "Notices"). */
import { PUSH_WORKER } from '../../protocol/notice.ts';
import { gateway } from '../gateway.ts';

/** `impossible` with the reason: the browser cannot, or must not here. */
export type Agreement =
  | { state: 'on'; id: string }
  | { state: 'off' | 'denied' }
  | { state: 'impossible'; why: string };

/** Whether this browser agreed, as far as it knows; `id` is its id in the gateway's list. */
export async function readAgreement(): Promise<Agreement> {
  if (!isSecureContext)
    return { state: 'impossible', why: 'Browsers show notices only for addresses with https, and on this machine.' };
  if (!('serviceWorker' in navigator && 'PushManager' in window && 'Notification' in window)) {
    const why = 'This browser takes no messages. On an iPhone or iPad, add the console to the home screen first.';
    return { state: 'impossible', why };
  }
  const registration = await navigator.serviceWorker.getRegistration(PUSH_WORKER);
  const subscription = await registration?.pushManager.getSubscription();
  if (subscription) return { state: 'on', id: await idOf(subscription) };
  return { state: Notification.permission === 'denied' ? 'denied' : 'off' };
}

/** Asks the person, then tells the gateway. Rejects with what the browser says, or the gateway. */
export async function agree(): Promise<void> {
  if ((await Notification.requestPermission()) !== 'granted')
    throw new Error('The browser was not allowed to show notices. Its settings for this site can change that.');
  const { publicKey } = await gateway.call('POST /svc/_notices/push-key');
  await navigator.serviceWorker.register(PUSH_WORKER).catch((cause: unknown) => {
    // The gateway serves it at the console's own address only.
    throw new Error('Notices are not possible at this address. Open the console at its own one.', { cause });
  });
  const { pushManager } = await navigator.serviceWorker.ready;
  // One that was made with an earlier key of the gateway gets nothing.
  await (await pushManager.getSubscription())?.unsubscribe();
  const subscription = await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: publicKey });
  const body = { subscription: { ...subscription.toJSON() }, name: nameOfBrowser() };
  await gateway.call('POST /svc/_notices/browsers', { body });
}

/** Ends the agreement of a browser in the gateway's list; `isThis`, and here. */
export async function endAgreement(id: string, isThis: boolean): Promise<void> {
  await gateway.call('DELETE /svc/_notices/browsers/:id', { params: { id } });
  if (!isThis) return;
  const registration = await navigator.serviceWorker.getRegistration(PUSH_WORKER);
  await (await registration?.pushManager.getSubscription())?.unsubscribe();
  await registration?.unregister();
}

/** As the gateway makes it. */
async function idOf({ endpoint }: PushSubscription): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(endpoint));
  return [...new Uint8Array(digest).slice(0, 8)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

const BROWSERS = { Edg: 'Edge', OPR: 'Opera', Firefox: 'Firefox', Chrome: 'Chrome', Safari: 'Safari' };
const SYSTEMS = {
  iPhone: 'iPhone',
  iPad: 'iPad',
  Android: 'Android',
  Windows: 'Windows',
  'Mac OS': 'Mac',
  CrOS: 'ChromeOS',
  Linux: 'Linux',
};

/** `Chrome on Linux`, for the list. */
function nameOfBrowser(agent: string = navigator.userAgent): string {
  const found = (names: Record<string, string>) => Object.entries(names).find(([sign]) => agent.includes(sign))?.[1];
  return `${found(BROWSERS) ?? 'A browser'} on ${found(SYSTEMS) ?? 'a device'}`;
}
