/** What is right whatever was sent: one well-formed answer, errors in the one shape, prototypes as they were. */
import assert from 'node:assert/strict';
import { STATUS_CODES } from 'node:http';
import { ERROR_CODES, SvcError } from '../../protocol/errors.ts';

export type RawAnswer = { status: number; headers: Map<string, string>; body: Buffer };

const STATUS_LINE = /^HTTP\/1\.1 ([1-5]\d\d) ([ -~]+)$/;
const HEADER_LINE = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+): ?([\t -~]*)$/;

/**
 * The one answer in the bytes of a connection, or null for none. `head`: the request was a HEAD. Throws for anything that
 * is not exactly one whole answer.
 */
export function oneAnswer(bytes: Buffer, head: boolean): RawAnswer | null {
  if (bytes.length === 0) return null;
  const end = bytes.indexOf('\r\n\r\n');
  assert.ok(end > 0, `an answer without an end of its headers: ${shown(bytes)}`);
  const [first = '', ...lines] = bytes.toString('latin1', 0, end).split('\r\n');
  const status = Number(STATUS_LINE.exec(first)?.[1]);
  assert.ok(status >= 100, `not a status line: ${first}`);
  // "100 Continue" is followed by the answer proper.
  if (status === 100) return oneAnswer(bytes.subarray(end + 4), head);
  const headers = new Map<string, string>();
  for (const line of lines) {
    const [, name = '', value = ''] = HEADER_LINE.exec(line) ?? [];
    assert.ok(name !== '', `not a header: ${line}`);
    assert.ok(!headers.has(name.toLowerCase()), `${name} is there twice`);
    headers.set(name.toLowerCase(), value);
  }
  const body = bytes.subarray(end + 4);
  // A parser that could not read the request does not know that it was a HEAD; then the connection ends with the body.
  const isUnread = head && status === 400 && headers.get('connection') === 'close';
  const bodyless = status === 204 || status === 304 || (head && !isUnread);
  if (!bodyless || body.length > 0) {
    const length = bodyless ? 0 : Number(headers.get('content-length'));
    if (isUnread && body.length === 0) return { status, headers, body };
    assert.equal(
      body.length,
      length,
      `the body is not as long as it says, or is followed by something: ${shown(bytes)}`,
    );
  }
  return { status, headers, body };
}

/** 2xx and 3xx are fine; anything else has to be an error of the one shape, and not a fault of the gateway. */
export function assertNoFault({ status, headers, body }: RawAnswer, head: boolean): void {
  assert.ok(STATUS_CODES[status] !== undefined, `status ${status}`);
  if (status < 400) return;
  assert.equal(headers.get('content-type'), 'application/json; charset=utf-8', `the type of a ${status}`);
  if (head) return;
  const { isError, error } = JSON.parse(body.toString()) as { isError: unknown; error: { code: string } };
  assert.equal(isError, true);
  assertErrorBody(error);
  assert.notEqual(error.code, 'INTERNAL', 'the gateway failed');
  if (error.code !== 'INVALID_MANIFEST')
    assert.equal(ERROR_CODES[error.code as 'NOT_FOUND'].status, status, error.code);
}

/** An error as callers see it: a code of the table, a message without stacks and paths of this machine. */
export function assertErrorBody(error: unknown): void {
  const { code, message, path, issues } = error as { code: string; message: unknown; path?: unknown; issues?: unknown };
  assert.ok(Object.hasOwn(ERROR_CODES, code), `unknown code ${code}`);
  assert.ok(typeof message === 'string', 'an error without a message');
  assert.ok(!/\n\s+at |file:\/\/|\/node_modules\//.test(message), `a message with a stack or path: ${message}`);
  assert.ok(path === undefined || typeof path === 'string', 'a path that is no text');
  assert.ok(issues === undefined || Array.isArray(issues), 'issues that are no list');
}

/** Runs what may refuse its input: it must do so with an `SvcError`. Answers that error, or null. */
export async function refusalOf(run: () => unknown): Promise<SvcError | null> {
  try {
    await run();
    return null;
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    assertErrorBody(error.toBody());
    return error;
  }
}

const PROTOTYPES: [name: string, prototype: object, keys: readonly PropertyKey[]][] = [
  ['Object', Object.prototype, Reflect.ownKeys(Object.prototype)],
  ['Array', Array.prototype, Reflect.ownKeys(Array.prototype)],
  ['Function', Function.prototype, Reflect.ownKeys(Function.prototype)],
];

/** Nothing was added to what every object of this process inherits. */
export function assertPrototypesUntouched(): void {
  for (const [name, prototype, keys] of PROTOTYPES) {
    assert.deepEqual(Reflect.ownKeys(prototype), keys, `${name}.prototype was changed`);
  }
}

function shown(bytes: Buffer): string {
  return JSON.stringify(bytes.toString('latin1', 0, 300));
}
