import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { LIMITS } from '../../protocol/limits.ts';
import { checkPassword, hashOf, isPassword } from './passwords.ts';

test('a password is checked by its hash alone, which differs each time', async () => {
  const hash = await hashOf('correct horse battery');
  assert.notEqual(hash, await hashOf('correct horse battery'));
  assert.match(hash, /^(scrypt|argon2id)\$1\$[\w-]{22}\$[\w-]{43}$/);
  assert.equal(await isPassword('correct horse battery', hash), true);
  assert.equal(await isPassword('correct horse batterz', hash), false);
  assert.equal(await isPassword('correct horse battery', null), false);
});

test('a person who is not there takes as long as one who is: both wait for their turn to be hashed', async () => {
  const hash = await hashOf('correct horse battery');
  const order: string[] = [];
  const asked = async (who: string, stored: string | null) => {
    const checked = isPassword('a wrong password', stored).then(() => order.push(who));
    // So that each has its place in the queue before the next is asked.
    await setImmediate();
    return { checked };
  };
  const all = [await asked('Ada', hash), await asked('nobody', null), await asked('Bob', hash)];
  await Promise.all(all.map(({ checked }) => checked));
  assert.deepEqual(order, ['Ada', 'nobody', 'Bob']);
});

test('a password that is typed on another system is the same', async () => {
  const hash = await hashOf('gr\u00fcn ist die Hoffnung');
  assert.equal(await isPassword('gru\u0308n ist die Hoffnung', hash), true);
});

test('a password is neither short nor endless', () => {
  const { passwordChars, passwordCharsMax } = LIMITS;
  for (const length of [passwordChars, passwordCharsMax]) checkPassword('x'.repeat(length));
  for (const length of [0, passwordChars - 1, passwordCharsMax + 1])
    assert.throws(() => checkPassword('x'.repeat(length)), { code: 'BAD_REQUEST', path: 'password' });
});
