// A reader that takes nothing is cut off. One that takes something is not.

import type { HttpResponse } from 'uWebSockets.js';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { UwsStream } from './uws-stream.ts';

test('a stream is closed when its socket takes nothing for the limit, and the time starts again when it does', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let writable: (offset: number) => boolean = () => true;
  let closed = 0;
  const res = {
    onWritable: (callback: typeof writable) => {
      writable = callback;
      return res;
    },
    cork: (callback: () => void) => {
      callback();
      return res;
    },
    write: () => false,
    pause: () => {},
    resume: () => {},
    close: () => {
      closed += 1;
      return res;
    },
  } as unknown as HttpResponse;
  const stream = new UwsStream(res, null, () => {});
  stream.write('first');
  stream.write('second');
  // The time passes in steps, because the mock starts a timer that another one sets when all of the time has passed.
  const pass = (ms: number): void => {
    for (let passed = 0; passed < ms; passed++) t.mock.timers.tick(1);
  };
  pass(LIMITS.stalledReaderMs - 1);
  writable(0);
  pass(LIMITS.stalledReaderMs - 1);
  assert.equal(closed, 0);
  t.mock.timers.tick(1);
  assert.equal(closed, 1);
});
