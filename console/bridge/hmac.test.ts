import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { hmac } from './hmac.ts';

test('it is what Node makes, for texts on either side of a block', () => {
  for (const key of ['', 'k', 'f'.repeat(64)]) {
    for (const length of [0, 1, 54, 55, 56, 63, 64, 65, 119, 120, 200, 5000]) {
      const text = 'ü/'.repeat(length).slice(0, length);
      assert.equal(hmac(key, text), createHmac('sha256', key).update(text).digest('hex'), `${key} ${length}`);
    }
  }
});
