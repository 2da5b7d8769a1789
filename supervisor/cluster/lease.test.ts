import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { Random } from '../../testing/random.ts';
import { Lease, SeenLeases } from './lease.ts';

test('a lease counts from when its renewal was sent, and ends before the others may take it as ended', () => {
  const lease = new Lease();
  assert.equal(lease.holds(0), false);
  lease.begin(1000);
  const end = 1000 + LIMITS.nodeLeaseMs - LIMITS.nodeLeaseMarginMs;
  assert.equal(lease.holds(end - 1), true);
  assert.equal(lease.holds(end), false);
  assert.equal(lease.renew(1500, 2000), true);
  assert.equal(lease.holds(end + 499), true);
  assert.equal(lease.holds(end + 500), false);
});

test('an answer that comes when the lease may have ended does not revive it', () => {
  const lease = new Lease();
  lease.begin(0);
  assert.equal(lease.renew(LIMITS.nodeLeaseMs - 500, LIMITS.nodeLeaseMs), false);
  assert.equal(lease.holds(LIMITS.nodeLeaseMs), false);
});

test('an earlier renewal that is answered later does not shorten the lease', () => {
  const lease = new Lease();
  lease.begin(0);
  lease.renew(1000, 1010);
  lease.renew(500, 1020);
  assert.equal(lease.until, 1000 + LIMITS.nodeLeaseMs - LIMITS.nodeLeaseMarginMs);
});

test('the lease of another is over when the database says so and a whole lease passed since it was seen to change', () => {
  const seen = new SeenLeases();
  const other = (mark: string, isLive: boolean) => [{ name: 'other', mark, isLive }];
  assert.equal(seen.isOver('other', 0), true, 'a node that has left');
  seen.see(other('a', true), 0);
  seen.see(other('a', true), 5000);
  assert.equal(seen.isOver('other', 5000), false, 'the database says that it is live');
  seen.see(other('b', false), 5100);
  assert.equal(
    seen.isOver('other', 5100 + LIMITS.nodeLeaseMs - 1),
    false,
    'the clock of the database may have been set',
  );
  seen.see(other('b', false), 6000);
  assert.equal(seen.isOver('other', 5100 + LIMITS.nodeLeaseMs), true);
});

test('whatever the delays, the speeds of the clocks and jumps of the database’s clock: nobody takes a lease that its node believes in', () => {
  for (let seed = 1; seed <= 100; seed++) {
    const random = new Random(seed);
    // Clocks of two nodes, 1 % apart at most.
    const ownerRate = 1 + (random.next() - 0.5) / 100;
    const watcherRate = 1 + (random.next() - 0.5) / 100;
    const lease = new Lease();
    const seen = new SeenLeases();
    let mark = 0;
    let until = 0;
    let jump = 0;
    const events: { at: number; run: () => void }[] = [];
    const later = (at: number, run: () => void): void => void events.push({ at, run });
    lease.begin(0);
    for (let at = 0; at < 20_000; at += random.between(200, 3000)) {
      const arrives = at + random.between(0, 1500);
      const answered = arrives + random.between(0, 1500);
      later(arrives, () => {
        mark++;
        until = arrives + jump + LIMITS.nodeLeaseMs;
      });
      later(answered, () => void lease.renew(at * ownerRate, answered * ownerRate));
    }
    for (let at = 0; at < 30_000; at += random.between(100, 1500)) {
      const answered = at + random.between(0, 1000);
      later(at, () => {
        const row = { name: 'owner', mark: `${mark}`, isLive: until > at + jump };
        later(answered, () => seen.see([row], answered * watcherRate));
      });
    }
    const isSet = random.next() < 0.5;
    later(random.between(0, 20_000), () => {
      if (isSet) jump = random.between(-10_000, 10_000);
    });
    for (let at = 0; at < 30_000; at += 50) later(at, () => {});
    let isKnown = false;
    while (events.length > 0) {
      events.sort((a, b) => a.at - b.at);
      const event = events.shift() as (typeof events)[number];
      event.run();
      isKnown ||= mark > 0;
      // A claim is refused if the lease was renewed since the watcher saw it, which the mark in the database tells.
      if (isKnown && seen.isOver('owner', event.at * watcherRate) && until <= event.at + jump)
        assert.equal(lease.holds(event.at * ownerRate), false, `seed ${seed} at ${event.at}`);
    }
  }
});
