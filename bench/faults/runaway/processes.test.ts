/** Which processes count as ended. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ended, type Listed } from './processes.ts';

const host: Listed = { name: 'host-1', pid: 7, restarts: 0, lastExit: null };

test('a process that is still there has not ended, whatever is new beside it', () => {
  assert.deepEqual(ended([host], [host, { ...host, name: 'host-for-a', pid: 8 }]), []);
});

test('a process that was replaced, or is being replaced, is named with why it ended', () => {
  for (const pid of [8, null])
    assert.deepEqual(ended([host], [{ ...host, pid, restarts: 1, lastExit: 'unresponsive: no heartbeat' }]), [
      'host-1 (process 7) ended: unresponsive: no heartbeat',
    ]);
});

test('a process that is not there any more has ended', () => {
  assert.deepEqual(ended([host], []), ['host-1 (process 7) ended: it was not replaced']);
});
