import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../../protocol/limits.ts';
import { reportOf } from './drafts-routes.ts';

const read = (body: object) => reportOf(Buffer.from(JSON.stringify(body)));

test('a report of a page is cut to its limits, and an invalid one is refused', () => {
  const long = 'x'.repeat(10_000);
  const { errors } = read({ errors: [{ kind: 'csp', message: long, file: long, line: 1, other: 1 }] });
  const [only] = errors;
  assert.deepEqual([only?.message.length, only?.file?.length], [LIMITS.pageErrorChars, LIMITS.pageFileChars]);
  assert.deepEqual(Object.keys(only ?? {}), ['kind', 'message', 'file', 'line']);
  for (const [body, path] of [
    [{}, 'errors'],
    [{ errors: 'x' }, 'errors'],
    [{ errors: [null] }, 'errors[0]'],
    [{ errors: [{ kind: 'more', message: 'x' }] }, 'errors[0].kind'],
    [{ errors: [{ kind: 'csp' }] }, 'errors[0].message'],
    [{ errors: [{ kind: 'csp', message: 'x', line: -1 }] }, 'errors[0].line'],
    [{ errors: [], more: -1 }, 'more'],
    [{ errors: [], more: 1e300 }, 'more'],
  ] as const) {
    assert.throws(() => read(body), { code: 'BAD_REQUEST', path });
  }
});
