import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { LIMITS } from '../../protocol/limits.ts';
import { EventLoopMonitor } from './event-loop.ts';

const BLOCK_MS = 200;

test('a loop that was blocked shows it, once', async () => {
  const monitor = new EventLoopMonitor();
  monitor.start();
  try {
    // A sample must be due before the block for the one after it to be late.
    await wait(3 * LIMITS.eventLoopSampleMs);
    monitor.take();
    await wait(3 * LIMITS.eventLoopSampleMs);
    const until = performance.now() + BLOCK_MS;
    while (performance.now() < until);
    await wait(3 * LIMITS.eventLoopSampleMs);
    const { max, p99, p50, forMs } = monitor.take();
    assert.ok(max >= BLOCK_MS - 2 * LIMITS.eventLoopSampleMs, `max ${max} ms`);
    assert.ok(p99 <= max && p50 <= p99, `${p50}, ${p99}, ${max}`);
    assert.ok(forMs >= BLOCK_MS, `gathered for ${forMs} ms`);
    const fresh = monitor.take();
    assert.equal(fresh.max, 0, 'what was taken is not shown again');
  } finally {
    monitor.stop();
  }
});
