import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SvcError } from '../../protocol/errors.ts';
import type { HandlerCaller } from '../../protocol/wire/handler-caller.ts';
import { STATE_BYTES } from '../../storage/wal-index.ts';
import { Commits } from '../results/commits.ts';
import { Results } from '../results/results.ts';
import type { CallReply } from '../tree/actor/call.ts';
import { CachedReads } from './cached-reads.ts';
import type { Target } from './request.ts';

const TARGET = { app: { key: 'notes' }, kind: 'query', tool: { name: 'list' } } as unknown as Target;

/** Runs wait in `runs` until the test ends them. */
function setUp() {
  const commits = new Commits({
    file: () => '',
    reader: () => ({ read: () => new Uint8Array(STATE_BYTES), close: () => {} }),
  });
  const reads = new CachedReads(new Results(commits));
  const runs: CallReply[] = [];
  const told: string[] = [];
  const read = (caller: HandlerCaller) =>
    reads.submit(
      TARGET,
      'v1',
      { body: new Uint8Array(), input: {}, traceId: () => '', source: 'handler', caller },
      {
        answered: (_status, body) => told.push(`${caller.name ?? caller.kind}: ${Buffer.from(body)}`),
        failed: ({ message }) => told.push(`${caller.name ?? caller.kind}: ${message}`),
        faulted: assert.fail,
      },
      (_request, reply) => {
        runs.push(reply);
        return () => {};
      },
      { keptHits: 0, keptMisses: 0 },
    );
  const fail = (message: string, started: boolean) =>
    runs.shift()?.failed(new SvcError('HANDLER_ERROR', message), { queueMs: 0, handlerMs: 0, started });
  return { read, runs, told, fail };
}

test('the error of a run goes to the caller it ran for; waiting callers get separate runs', () => {
  const { read, runs, told, fail } = setUp();
  read({ kind: 'admin' });
  read({ kind: 'token', name: 'bob' });
  assert.equal(runs.length, 1);
  fail('about the administrator', true);
  assert.deepEqual([told, runs.length], [['admin: about the administrator'], 1]);
  fail('about bob', true);
  assert.deepEqual(told, ['admin: about the administrator', 'bob: about bob']);
});

test('a call that could not begin fails for all who waited for it', () => {
  const { read, runs, told, fail } = setUp();
  read({ kind: 'admin' });
  read({ kind: 'token', name: 'bob' });
  fail('too many', false);
  assert.deepEqual([told, runs.length], [['admin: too many', 'bob: too many'], 0]);
});

test('once the first caller has left, no one gets the error of its run', () => {
  const { read, runs, told, fail } = setUp();
  const leave = read({ kind: 'admin' });
  read({ kind: 'token', name: 'bob' });
  leave();
  fail('about the administrator', true);
  assert.deepEqual([told, runs.length], [[], 1]);
});
