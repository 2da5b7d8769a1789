import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TurnEvent } from '../../../protocol/agents/agents.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import { type PermissionResult, Permissions } from './permissions.ts';

type Question = Extract<TurnEvent, { type: 'permission' }>;

const question = (requestId: string): Question => ({
  type: 'permission',
  requestId,
  toolName: 'shell',
  detail: 'ls',
  options: [
    { optionId: 'yes', kind: 'allow_always', label: 'Yes' },
    { optionId: 'no', kind: 'reject_once', label: 'No' },
  ],
});

function made(waitMs: number = LIMITS.permissionMs): { permissions: Permissions; results: PermissionResult[] } {
  const results: PermissionResult[] = [];
  return { permissions: new Permissions(waitMs, (_question, result) => results.push(result)), results };
}

test('a person grants or refuses once, whoever came first', async () => {
  const { permissions, results } = made();
  const early = permissions.answer('a');
  for (const id of ['a', 'b']) permissions.ask(question(id));
  permissions.ask(question('a'));
  assert.throws(() => permissions.choose('c', 'yes'), { code: 'NOT_FOUND' });
  assert.throws(() => permissions.choose('a', 'maybe'), { code: 'BAD_REQUEST', path: 'optionId' });
  assert.equal(permissions.choose('a', 'yes').kind, 'allow_always');
  assert.throws(() => permissions.choose('a', 'no'), { code: 'CONFLICT' });
  permissions.choose('b', 'no');
  assert.deepEqual([await early, await permissions.answer('b')], ['yes', 'no']);
  assert.deepEqual(results, [
    { type: 'permission.result', requestId: 'a', optionId: 'yes', ok: true },
    { type: 'permission.result', requestId: 'b', optionId: 'no', ok: false },
  ]);
});

test('a question without an answer in time is denied', async () => {
  const { permissions, results } = made(1);
  permissions.ask(question('a'));
  // The timer alone keeps no process.
  const keep = setInterval(() => {}, 1000);
  assert.equal(await permissions.answer('a'), null);
  clearInterval(keep);
  assert.deepEqual(results, [{ type: 'permission.result', requestId: 'a', optionId: null, ok: false }]);
  assert.throws(() => permissions.choose('a', 'yes'), { code: 'CONFLICT' });
});

test('a question that is withdrawn is denied, unless it was answered before', async () => {
  const { permissions, results } = made();
  for (const id of ['a', 'b']) permissions.ask(question(id));
  permissions.choose('a', 'yes');
  for (const id of ['a', 'b']) permissions.withdraw(id);
  assert.deepEqual([await permissions.answer('a'), await permissions.answer('b')], ['yes', null]);
  assert.throws(() => permissions.choose('b', 'yes'), { code: 'CONFLICT' });
  assert.deepEqual(
    results.map(({ requestId, ok }) => [requestId, ok]),
    [
      ['a', true],
      ['b', false],
    ],
  );
});

test('a permission that the runner’s policy has answered asks no one', async () => {
  const { permissions, results } = made();
  for (const [id, optionId] of Object.entries({ a: 'yes', b: 'no', c: null, d: 'unknown' }))
    permissions.ask({ ...question(id), optionId });
  assert.throws(() => permissions.choose('a', 'no'), { code: 'CONFLICT' });
  permissions.close();
  assert.deepEqual(results, [
    { type: 'permission.result', requestId: 'a', optionId: 'yes', ok: true },
    { type: 'permission.result', requestId: 'b', optionId: 'no', ok: false },
    { type: 'permission.result', requestId: 'c', optionId: null, ok: false },
    { type: 'permission.result', requestId: 'd', optionId: null, ok: false },
  ]);
});

test('the end of the turn denies all questions, also later ones', async () => {
  const { permissions, results } = made();
  permissions.ask(question('a'));
  const never = permissions.answer('never asked');
  permissions.close();
  assert.deepEqual([await permissions.answer('a'), await never, await permissions.answer('late')], [null, null, null]);
  permissions.ask(question('late'));
  permissions.ask({ ...question('granted'), optionId: 'yes' });
  assert.deepEqual(
    results.map(({ requestId, ok }) => [requestId, ok]),
    [
      ['a', false],
      ['late', false],
      ['granted', true],
    ],
  );
});
