import assert from 'node:assert/strict';
import { test } from 'node:test';
import { filesFor, placesIn, threadsBeforeShort } from './places.ts';

test('memory gives places: three quarters of it to threads of 12 MiB, the rest to quiet apps of 1 MiB', () => {
  const places = (appMemoryMb: number, maxLiveActors: number | null = null, handlerHosts = 1) =>
    placesIn({ appMemoryMb, maxLiveActors, handlerHosts });
  assert.deepEqual(places(1600), { threads: 100, quiet: 400 });
  assert.deepEqual(places(64), { threads: 16, quiet: 50 }, 'a gateway with little memory has some of each');
  assert.deepEqual(places(100_000), { threads: 512, quiet: 500 }, 'and no more than it was measured with');
  assert.deepEqual(places(100_000, null, 3), { threads: 512, quiet: 1500 });
  assert.deepEqual(places(1600, 7), { threads: 7, quiet: 400 }, 'the number of threads may be set');
});

test('memory for threads is short once it has no room for one more in a host', () => {
  assert.equal(threadsBeforeShort({ appMemoryMb: 1600, handlerHosts: 1 }), 100);
  assert.equal(threadsBeforeShort({ appMemoryMb: 1600, handlerHosts: 3 }), 33);
  assert.equal(threadsBeforeShort({ appMemoryMb: 8, handlerHosts: 1 }), 0);
});

test('the open files that places need: ten of each thread, three of each open database, and those of the process', () => {
  assert.equal(filesFor({ threads: 16, quiet: 50 }), 2048);
  assert.equal(filesFor({ threads: 512, quiet: 500 }), 7168);
});
