import assert from 'node:assert/strict';
import { test } from 'node:test';
import { place } from './placement.ts';

const hosts = ['host-1', 'host-2', 'host-3', 'host-4'].map((name) => ({ name }));
const apps = Array.from({ length: 400 }, (_, n) => `app-${n}`);

test('an app is always placed on the same host', () => {
  for (const app of apps) assert.equal(place(app, hosts), place(app, [...hosts].reverse()));
});

test('apps spread over the hosts', () => {
  const counts = new Map<string, number>();
  for (const app of apps) counts.set(place(app, hosts).name, (counts.get(place(app, hosts).name) ?? 0) + 1);
  for (const host of hosts) assert.ok((counts.get(host.name) ?? 0) > 50, JSON.stringify([...counts]));
});

test('when a host goes, only its apps move', () => {
  const rest = hosts.slice(1);
  for (const app of apps) {
    const before = place(app, hosts);
    if (before !== hosts[0]) assert.equal(place(app, rest), before);
  }
});
