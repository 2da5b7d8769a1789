// The process keeps descriptors for itself, however many connections come.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { connectionLimit, DescriptorGuard, descriptorLimit } from './descriptors.ts';

test('connections leave descriptors over, half of them where there are few', () => {
  assert.equal(connectionLimit(1024), 512);
  assert.equal(connectionLimit(20_000), 20_000 - LIMITS.descriptorReserve);
  assert.equal(connectionLimit(1_000_000), LIMITS.connections);
  assert.equal(connectionLimit(Number.POSITIVE_INFINITY), LIMITS.connections);
  assert.ok(descriptorLimit() > 0, 'this process may have files open');
});

/** Descriptors 0 to `size - 1`. */
function table(size: number) {
  const used = new Set<number>();
  const lowest = () => Array.from({ length: size }, (_, i) => i).find((i) => !used.has(i)) ?? null;
  return {
    used,
    take: (): number | null => {
      const free = lowest();
      if (free !== null) used.add(free);
      return free;
    },
    release: (descriptor: number): void => {
      assert.ok(used.delete(descriptor), `${descriptor} was in use`);
    },
  };
}

test('the guard reports once when too many are open, releases the spare ones, and reports when there is room again', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const told: boolean[] = [];
  const system = table(400);
  const guard = new DescriptorGuard((isFull) => told.push(isFull), 200, system);
  guard.start();
  const pass = () => t.mock.timers.tick(LIMITS.descriptorCheckMs);
  pass();
  assert.deepEqual([told, system.used.size], [[], LIMITS.spareDescriptors]);

  const connections: (number | null)[] = [];
  while (system.used.size < 199) connections.push(system.take());
  pass();
  assert.deepEqual(told, []);
  // They come all at once, before the guard can look.
  while (system.used.size < 400) connections.push(system.take());
  pass();
  assert.deepEqual([told, system.used.size], [[true], 400 - LIMITS.spareDescriptors]);
  pass();
  assert.deepEqual([told, system.used.size], [[true], 400 - LIMITS.spareDescriptors]);

  for (const connection of connections) system.release(connection as number);
  pass();
  assert.deepEqual([told, system.used.size], [[true, false], LIMITS.spareDescriptors]);
  guard.stop();
  assert.equal(system.used.size, 0);
});
