import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { DbError } from '../../protocol/wire/db-error.ts';
import { toSvcError } from './answers.ts';

const log = pino({ enabled: false });

test('a request that lost its writer may be repeated soon', () => {
  for (const code of ['WRITER_LOST', 'WRITER_UNAVAILABLE']) {
    const error = toSvcError(new DbError({ code, message: 'The connection to the database was lost.' }), log);
    assert.deepEqual([error.code, error.status, error.headers], ['OVERLOADED', 503, { 'retry-after': '1' }]);
    assert.equal(error.message, 'The connection to the database was lost. Try again in a moment.');
  }
});

test('an error that was not written for callers does not reach them', () => {
  for (const thrown of [
    new DbError({ code: 'SQLITE_CORRUPT', message: 'at /secret' }),
    new Error('at /secret'),
    'secret',
  ]) {
    const error = toSvcError(thrown, log);
    assert.deepEqual([error.code, error.status], ['INTERNAL', 500]);
    assert.doesNotMatch(error.message, /secret/);
  }
});
