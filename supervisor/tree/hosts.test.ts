import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import type { Child } from './child.ts';
import { Hosts, place } from './hosts.ts';

/** A host that is only looked at. */
type Double = { name: string; solitaryFor: string | null; state: string; startedAt: number; did: string[] };

function hostsWithClock(count = 2): { hosts: Hosts; clock: { now: number }; doubles: Map<string, Double> } {
  const clock = { now: 0 };
  const doubles = new Map<string, Double>();
  const create = (name: string, solitaryFor: string | null): Child => {
    const did: string[] = [];
    const double = {
      name,
      solitaryFor,
      state: 'running',
      startedAt: clock.now,
      did,
      start: () => did.push('start'),
      stop: () => did.push('stop'),
      revive: () => did.push('revive'),
    };
    doubles.set(name, double);
    return double as unknown as Child;
  };
  return { hosts: new Hosts({ count, create, now: () => clock.now }), clock, doubles };
}

test('when a host keeps dying, the apps that were busy more than once move to separate hosts', () => {
  const { hosts, doubles } = hostsWithClock(1);
  const [shared] = hosts.all as [Child];
  for (const busy of [['a', 'b'], ['a'], [], ['a', 'c'], ['c']]) hosts.noteSuspects(shared, busy);
  assert.deepEqual(hosts.moveSuspects(shared), ['a', 'c']);
  assert.deepEqual([hosts.hostOf('a').name, hosts.hostOf('b').name], ['host-for-a', 'host-1']);
  assert.deepEqual(doubles.get('host-for-a')?.did, ['start']);
  assert.deepEqual(doubles.get('host-1')?.did, ['revive']);
  assert.deepEqual(hosts.moveSuspects(shared), [], 'what was held against apps is forgotten');
});

test('only a few apps have separate hosts; the likeliest causes come first', () => {
  const { hosts } = hostsWithClock(1);
  const [shared] = hosts.all as [Child];
  hosts.noteSuspects(shared, ['a', 'b', 'c', 'd', 'e', 'f']);
  hosts.noteSuspects(shared, ['a', 'b', 'c', 'd', 'e', 'f']);
  hosts.noteSuspects(shared, ['f']);
  const moved = hosts.moveSuspects(shared);
  assert.equal(moved.length, 4);
  assert.equal(moved[0], 'f');
  assert.deepEqual([hosts.isolate('a'), hosts.isolate('g')], [true, false]);
  assert.equal(hosts.hostOf('g').name, 'host-1');
});

test('an app gets one separate host, and goes back when that has run long enough without dying', async () => {
  const { hosts, clock, doubles } = hostsWithClock();
  hosts.isolate('a');
  hosts.isolate('a');
  assert.equal(hosts.all.length, 3);
  const own = doubles.get('host-for-a') as Double;
  clock.now = 2 * LIMITS.restartWindowMs + 1;
  own.state = 'backoff';
  assert.deepEqual(hosts.steadyApps(), []);
  own.state = 'running';
  own.startedAt = clock.now;
  assert.deepEqual(hosts.steadyApps(), []);
  clock.now *= 3;
  assert.deepEqual(hosts.steadyApps(), ['a']);
  await hosts.release('a');
  assert.deepEqual(own.did, ['start', 'stop']);
  assert.notEqual(hosts.hostOf('a').name, 'host-for-a');
});

const some = ['host-1', 'host-2', 'host-3', 'host-4'].map((name) => ({ name }));
const apps = Array.from({ length: 400 }, (_, n) => `app-${n}`);

test('an app is always placed on the same host', () => {
  for (const app of apps) assert.equal(place(app, some), place(app, [...some].reverse()));
});

test('apps spread over the hosts', () => {
  const counts = new Map<string, number>();
  for (const app of apps) counts.set(place(app, some).name, (counts.get(place(app, some).name) ?? 0) + 1);
  for (const host of some) assert.ok((counts.get(host.name) ?? 0) > 50, JSON.stringify([...counts]));
});

test('when a host goes, only its apps move', () => {
  const rest = some.slice(1);
  for (const app of apps) {
    const before = place(app, some);
    if (before !== some[0]) assert.equal(place(app, rest), before);
  }
});
