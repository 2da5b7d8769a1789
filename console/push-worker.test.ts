import assert from 'node:assert/strict';
import { test } from 'node:test';

type Listener = (event: Record<string, unknown>) => void;

test('a message is shown, a damaged one too, and a click opens its address in the window that has it', async () => {
  const listeners: Record<string, Listener> = {};
  const [shown, opened, focused]: unknown[][] = [[], [], []];
  const open = [{ url: 'http://svc.localhost/svc/#/runs/1', focus: async () => focused?.push('runs/1') }];
  Object.assign(globalThis, {
    addEventListener: (type: string, listener: Listener) => (listeners[type] = listener),
    registration: { showNotification: async (title: string, options: object) => shown?.push([title, options]) },
    clients: { matchAll: async () => open, openWindow: async (url: string) => opened?.push(url) },
  });
  await import('./push-worker.ts');
  const raise = async (type: string, event: object) => {
    let work: Promise<unknown> = Promise.resolve();
    listeners[type]?.({ waitUntil: (promise: Promise<unknown>) => (work = promise), ...event });
    await work;
  };
  await raise('push', {
    data: { json: () => ({ id: 'a', title: 'Shop: Sold', text: 'A lamp', url: 'https://x.example/' }) },
  });
  await raise('push', { data: { json: () => JSON.parse('{') } });
  await raise('push', { data: null });
  assert.deepEqual(shown, [
    ['Shop: Sold', { body: 'A lamp', data: 'https://x.example/', tag: 'a' }],
    ['svc', { body: '', data: null }],
    ['svc', { body: '', data: null }],
  ]);
  for (const data of ['https://x.example/', 'http://svc.localhost/svc/#/runs/1', null])
    await raise('notificationclick', { notification: { data, close: () => {} } });
  assert.deepEqual([opened, focused], [['https://x.example/'], ['runs/1']]);
});
