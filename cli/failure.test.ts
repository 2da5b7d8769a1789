import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommandError, exitCodeOf, GatewayError, UnreachableError, UsageError } from './failure.ts';

const answered = (status: number) => new GatewayError(status, { code: 'X', message: 'x' });
const CODES: [what: string, error: unknown, code: number][] = [
  ['a wrong command line', new UsageError('x'), 2],
  ['no gateway', new UnreachableError('x'), 3],
  ['401: the token is missing or wrong', answered(401), 64],
  ['403: the token may not do that', answered(403), 64],
  ['any other refusal', answered(404), 1],
  ['a failure of the gateway', answered(500), 1],
  ['a failure on this side', new CommandError('x'), 1],
  ['anything else', 'x', 1],
];

for (const [what, error, code] of CODES) test(`${what} ends with ${code}`, () => assert.equal(exitCodeOf(error), code));
