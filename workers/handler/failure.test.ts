import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DbError } from '../../protocol/wire/db-client.ts';
import { Failures } from './failure.ts';

const failures = new Failures(['/srv/apps/notes']);

const THROWN: [code: string, answered: string][] = [
  ['SQLITE_FULL', 'STORAGE_FULL'],
  ['SQLITE_IOERR_SHMSIZE', 'STORAGE_FULL'],
  ['SQLITE_IOERR_FSYNC', 'INTERNAL'],
  ['SQLITE_CANTOPEN', 'INTERNAL'],
  ['SQLITE_CORRUPT', 'INTERNAL'],
  // An index of its own that an app let go stale.
  ['SQLITE_CORRUPT_VTAB', 'HANDLER_ERROR'],
  ['SQLITE_CONSTRAINT_UNIQUE', 'HANDLER_ERROR'],
  ['WRITER_LOST', 'HANDLER_ERROR'],
];
for (const [code, answered] of THROWN) {
  test(`${code} from the database is answered as ${answered}`, () => {
    assert.equal(failures.toBody(new DbError({ code, message: 'as SQLite says' })).code, answered);
  });
}

test('a fault of the disk names no path, and what cannot be looked at is the fault of the handler', () => {
  const error = new DbError({ code: 'SQLITE_IOERR', message: 'disk I/O error at /srv/apps/notes/data.sqlite' });
  assert.match(failures.toBody(error).message, /^The disk failed \(disk I\/O error at data\.sqlite\)/);
  const hostile = {
    get code(): string {
      throw new Error('no');
    },
  };
  assert.equal(failures.toBody(hostile).code, 'HANDLER_ERROR');
});
