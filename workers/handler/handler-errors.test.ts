import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SvcError } from '../../protocol/errors.ts';
import { LIMITS } from '../../protocol/limits.ts';
import { Redactor } from '../../protocol/text/redactor.ts';
import { DbError } from '../../protocol/wire/db-error.ts';
import { HandlerErrors } from './handler-errors.ts';
import { SourcePositions } from './source-positions.ts';

const redactor = new Redactor();
redactor.hide([['KEY', 'sk_live_51']]);
const failures = new HandlerErrors(['/srv/apps/notes'], redactor, new SourcePositions('/srv/apps/notes'));

const THROWN: [code: string, answered: string][] = [
  ['SQLITE_FULL', 'STORAGE_FULL'],
  ['SQLITE_IOERR_SHMSIZE', 'STORAGE_FULL'],
  ['SQLITE_IOERR_FSYNC', 'INTERNAL'],
  ['SQLITE_CANTOPEN', 'INTERNAL'],
  ['SQLITE_CORRUPT', 'DATA_DAMAGED'],
  ['SQLITE_CORRUPT_INDEX', 'DATA_DAMAGED'],
  ['SQLITE_NOTADB', 'DATA_DAMAGED'],
  ['DATA_LOST', 'DATA_LOST'],
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

test('a fault of the disk names no path, and a thrown value that cannot be read is the handler’s fault', () => {
  const error = new DbError({ code: 'SQLITE_IOERR', message: 'disk I/O error at /srv/apps/notes/data.sqlite' });
  assert.match(failures.toBody(error).message, /^The disk failed \(disk I\/O error at data\.sqlite\)/);
  const hostile = {
    get code(): string {
      throw new Error('no');
    },
  };
  assert.equal(failures.toBody(hostile).code, 'HANDLER_ERROR');
});

test('no part of a secret is left where a message is cut', () => {
  const secret = 'sk_live_51';
  const before = 'x'.repeat(LIMITS.errorMessageChars - secret.length / 2);
  const message = failures.message(new Error(before + secret));
  assert.ok(message.startsWith(`${before}[sec`), message.slice(-20));
  assert.doesNotMatch(message, /sk/);
  const { stack, cause } = failures.fields(new Error(`of ${secret}`, { cause: secret })).err;
  assert.equal(cause, '[secret KEY]');
  assert.match(String(stack), /of \[secret KEY\]/);
});

test('a secret with empty lines is found in a stack', () => {
  const hiding = new Redactor();
  hiding.hide([['KEY', 'abc\n\ndefg']]);
  const { stack } = new HandlerErrors([], hiding, new SourcePositions('/srv/apps/notes')).fields(
    new Error('no abc\n\ndefg'),
  ).err;
  assert.match(String(stack), /^Error: no \[secret KEY\]\n/);
});

test('the gateway’s own errors about an input contain no secrets either', () => {
  const issues = [{ path: '/sk_live_51', message: 'sk_live_51 is wrong', keyword: 'enum' }];
  const body = failures.toBody(new SvcError('INVALID_INPUT', 'no sk_live_51', { path: '/sk_live_51', issues }));
  assert.doesNotMatch(JSON.stringify(body), /sk_live/);
  assert.equal(body.issues?.[0]?.path, '/[secret KEY]');
});
