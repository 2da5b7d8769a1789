import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { OWN_REASONS, type OwnReason } from '../../../protocol/wire/commons.ts';
import { Place } from './place.ts';

const QUIET: OwnReason[] = ['action', 'busy', 'processor', 'memory'];

test('an app is in the commons unless its version cannot be', () => {
  assert.equal(new Place(null).reason, null);
  const kept = new Place('state');
  assert.equal(kept.reason, 'state');
  kept.rested();
  assert.equal(kept.reason, 'state');
  kept.renew(null);
  assert.equal(kept.reason, null);
  kept.renew('modules');
  assert.equal(kept.reason, 'modules');
});

test('it leaves once, and goes back when it rests, where the reason ends with that', () => {
  for (const reason of OWN_REASONS) {
    const place = new Place(null);
    assert.equal(place.leave(reason), true);
    assert.equal(place.leave('busy'), false, 'it has left');
    assert.equal(place.reason, reason);
    place.rested();
    assert.equal(place.reason, QUIET.includes(reason) ? null : reason);
    place.renew(null);
    assert.equal(place.reason, null, 'another version, or a restart');
  }
});

test('one that is called often, or works long, has to leave within the window', () => {
  const often = new Place(null);
  for (let n = 0; n < LIMITS.commonsCalls; n++) assert.equal(often.called(n), null);
  assert.equal(often.called(LIMITS.commonsWindowMs - 1), 'busy');
  assert.equal(often.called(LIMITS.commonsWindowMs), null, 'a new window');

  const slow = new Place(null);
  assert.equal(slow.called(0), null);
  slow.worked(LIMITS.commonsWorkMs);
  assert.equal(slow.called(1), null);
  slow.worked(1);
  assert.equal(slow.called(2), 'processor');
  slow.rested();
  assert.equal(slow.called(LIMITS.commonsWindowMs), null);
});

test('what it did before it left does not count when it comes back', () => {
  const place = new Place(null);
  for (let n = 0; n < LIMITS.commonsCalls; n++) place.called(0);
  assert.equal(place.leave('busy'), true);
  place.rested();
  assert.equal(place.called(1), null);
});
