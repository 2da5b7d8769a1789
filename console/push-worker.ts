/** Shows the gateway's notices in a browser that agreed, also while no page of it is open: the service worker of the console. */

/** What this script uses of a service worker; the other scripts here run in pages. */
type Worker = {
  addEventListener(type: 'push', listener: (event: PushEvent) => void): void;
  addEventListener(type: 'notificationclick', listener: (event: ClickEvent) => void): void;
  registration: { showNotification(title: string, options: NotificationOptions): Promise<void> };
  clients: {
    matchAll(filter: { type: 'window' }): Promise<Window[]>;
    openWindow(url: string): Promise<unknown>;
  };
};
type Extended = { waitUntil(work: Promise<unknown>): void };
type PushEvent = Extended & { data: { json(): unknown } | null };
type ClickEvent = Extended & { notification: { data: unknown; close(): void } };
type Window = { url: string; focus(): Promise<unknown> };
type Message = { id?: string; title?: string; text?: string; url?: string | null };

const worker = globalThis as unknown as Worker;

worker.addEventListener('push', (event) => {
  const { id, title = 'svc', text = '', url = null } = messageOf(event.data);
  const options = { body: text, data: url, ...(id !== undefined && { tag: id }) };
  event.waitUntil(worker.registration.showNotification(title, options));
});

worker.addEventListener('notificationclick', (event) => {
  const { data: url } = event.notification;
  event.notification.close();
  if (typeof url === 'string') event.waitUntil(show(url));
});

/** A browser ends an agreement whose messages show nothing, so a damaged one shows something too. */
function messageOf(data: PushEvent['data']): Message {
  try {
    return Object(data?.json()) as Message;
  } catch {
    return {};
  }
}

/** In the window that shows it already, or a new one. */
async function show(url: string): Promise<unknown> {
  const windows = await worker.clients.matchAll({ type: 'window' });
  const shown = windows.find((window) => window.url === url);
  return shown === undefined ? worker.clients.openWindow(url) : shown.focus();
}
