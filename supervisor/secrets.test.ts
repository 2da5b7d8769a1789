import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { draftKey, isDraftKey } from '../protocol/ids.ts';
import { LIMITS } from '../protocol/limits.ts';
import { unknownApp } from '../storage/apps/registry.ts';
import { Layout } from '../storage/layout.ts';
import { Secrets } from './secrets.ts';

let layout: Layout;
let registered: Set<string>;
let warnings: string[];
beforeEach(() => {
  layout = new Layout(mkdtempSync(join(tmpdir(), 'secrets-')));
  registered = new Set(['shop', 'blog']);
  warnings = [];
  for (const app of registered) mkdirSync(layout.app(app).dir, { recursive: true });
});
afterEach(() => rmSync(layout.dataDir, { recursive: true }));

async function open(): Promise<Secrets> {
  const log = { warn: (_: unknown, message: string) => warnings.push(message) };
  const demand = (key: string) => {
    if (!isDraftKey(key) && !registered.has(key)) throw unknownApp(key);
  };
  const secrets = await Secrets.open({ layout, demand, log: log as never, now: () => 17 });
  await secrets.serve(registered);
  return secrets;
}

const refusal = (code: string, message = /./) => ({ code, message });

test('Values survive a restart, sealed; files are for their owner alone', async () => {
  const secrets = await open();
  assert.equal(existsSync(layout.secretKey), false, 'nothing is made before it is needed');
  assert.deepEqual(await secrets.set('shop', 'STRIPE_KEY', 'sk_live_51'), {
    name: 'STRIPE_KEY',
    state: 'set',
    updatedAt: 17,
  });
  await secrets.set('shop', '__proto__', 'ö"\n😀');
  await secrets.set('blog', 'STRIPE_KEY', 'another');
  for (const file of [layout.secretKey, layout.app('shop').secrets]) {
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.doesNotMatch(readFileSync(file, 'latin1'), /sk_live|another/);
  }
  for (const opened of [secrets, await open()]) {
    assert.equal(opened.get('shop', 'STRIPE_KEY'), 'sk_live_51');
    assert.equal(opened.get('shop', '__proto__'), 'ö"\n😀');
    assert.equal(opened.get('blog', 'STRIPE_KEY'), 'another');
    assert.equal(opened.get('shop', 'toString'), undefined);
    assert.deepEqual(
      opened.list('shop').map(({ name, state }) => [name, state]),
      [
        ['STRIPE_KEY', 'set'],
        ['__proto__', 'set'],
      ],
    );
    assert.equal(opened.redactor('shop').text('a sk_live_51'), 'a [secret STRIPE_KEY]');
  }
  assert.deepEqual(warnings, []);
});

test('Names, values and their number have limits', async () => {
  const secrets = await open();
  for (const name of ['', '1A', 'A-B', 'A B', 'Ä', 'A'.repeat(65), '../x'])
    await assert.rejects(secrets.set('shop', name, 'value'), refusal('BAD_REQUEST'), name);
  for (const value of ['', 7, null, undefined, {}, 'half \ud83d'])
    await assert.rejects(secrets.set('shop', 'A', value), refusal('BAD_REQUEST'));
  await secrets.set('shop', 'A'.repeat(64), 'ö'.repeat(LIMITS.secretBytes / 2));
  await assert.rejects(
    secrets.set('shop', 'A', `${'ö'.repeat(LIMITS.secretBytes / 2)}.`),
    refusal('PAYLOAD_TOO_LARGE'),
  );
  await Promise.all(Array.from({ length: LIMITS.secrets - 1 }, (_, i) => secrets.set('shop', `S${i}`, 'value')));
  await assert.rejects(secrets.set('shop', 'MORE', 'value'), refusal('CONFLICT'));
  await secrets.set('shop', 'S7', 'replaced');
  await secrets.remove('shop', 'S8');
  await secrets.set('shop', 'MORE', 'value');
  assert.equal((await open()).list('shop').length, LIMITS.secrets);
});

test('Removing, forgetting, and apps that are gone', async () => {
  const secrets = await open();
  const changed: string[] = [];
  secrets.onChange((key) => changed.push(key));
  await secrets.set('shop', 'A', 'value of a');
  await assert.rejects(secrets.remove('shop', 'B'), refusal('UNKNOWN_SECRET', /svc secret set shop B$/));
  await secrets.remove('shop', 'A');
  assert.equal(existsSync(layout.app('shop').secrets), false);
  assert.equal(secrets.get('shop', 'A'), undefined);
  assert.equal(secrets.redactor('shop').text('value of a'), '[secret A]', 'code may still hold it');
  await secrets.set('shop', 'A', 'again, a value');
  assert.deepEqual(changed, ['shop', 'shop', 'shop']);
  rmSync(layout.app('shop').dir, { recursive: true });
  await assert.rejects(secrets.set('shop', 'B', 'value'), refusal('UNKNOWN_APP'), 'its folder goes first');
  registered.delete('shop');
  await secrets.forget('shop');
  await assert.rejects(secrets.set('shop', 'B', 'value'), refusal('UNKNOWN_APP'));
  assert.deepEqual([secrets.list('shop'), secrets.given('shop')], [[], null]);
});

test('A draft has separate values', async () => {
  const secrets = await open();
  const key = draftKey('s1', 'shop');
  mkdirSync(layout.app(key).dir, { recursive: true });
  await secrets.set('shop', 'A', 'the live one');
  await secrets.load(key);
  assert.deepEqual(secrets.list(key), []);
  await secrets.set(key, 'A', 'that of the draft');
  assert.deepEqual([secrets.get(key, 'A'), secrets.get('shop', 'A')], ['that of the draft', 'the live one']);
  await assert.rejects(secrets.remove(key, 'B'), refusal('UNKNOWN_SECRET', /svc secret set shop B --workspace s1$/));
  const again = await open();
  assert.equal(again.get(key, 'A'), undefined);
  await again.load(key);
  assert.equal(again.get(key, 'A'), 'that of the draft');
});

test('A sealed value is one of this app and name only', async () => {
  const secrets = await open();
  await secrets.set('shop', 'A', 'value of a');
  const file = JSON.parse(readFileSync(layout.app('shop').secrets, 'utf8'));
  writeFileSync(layout.app('shop').secrets, JSON.stringify({ secrets: { B: file.secrets.A } }));
  writeFileSync(layout.app('blog').secrets, JSON.stringify(file));
  const moved = await open();
  assert.throws(() => moved.get('shop', 'B'), refusal('SECRET_UNREADABLE'));
  assert.throws(() => moved.get('blog', 'A'), refusal('SECRET_UNREADABLE'));
});

test('Without its key a secret keeps its name and can be set again; with the key back it is as before', async () => {
  await (await open()).set('shop', 'A', 'value of a');
  const key = readFileSync(layout.secretKey);
  const other = Buffer.from(`${'7'.repeat(64)}\n`);
  for (const [put, why] of [
    [() => rmSync(layout.secretKey), /secrets\.key, is missing.*restart/],
    [() => writeFileSync(layout.secretKey, other), /stored with another key/],
    [() => writeFileSync(layout.secretKey, 'no key'), /must be 64 hex characters/],
  ] as const) {
    put();
    const secrets = await open();
    assert.deepEqual(secrets.list('shop'), [{ name: 'A', state: 'unreadable', updatedAt: 17 }]);
    assert.throws(() => secrets.get('shop', 'A'), refusal('SECRET_UNREADABLE', why));
    assert.match(warnings.pop() ?? '', why);
    assert.deepEqual(secrets.given('shop')?.unreadable, ['A']);
  }
  await assert.rejects((await open()).set('shop', 'B', 'value'), refusal('SECRET_UNREADABLE', /64 hex/));
  assert.equal(readFileSync(layout.secretKey, 'utf8'), 'no key', 'it may be mended by hand');
  rmSync(layout.secretKey);
  const secrets = await open();
  await secrets.set('shop', 'B', 'value of b');
  assert.deepEqual(
    (await open()).list('shop').map(({ state }) => state),
    ['unreadable', 'set'],
  );
  writeFileSync(layout.secretKey, key);
  assert.equal((await open()).get('shop', 'A'), 'value of a', 'nothing was lost');
});

test('A key that is taken away while the gateway runs is put back with the next value', async () => {
  const secrets = await open();
  await secrets.set('shop', 'A', 'value of a');
  rmSync(layout.secretKey);
  await secrets.set('blog', 'B', 'value of b');
  const again = await open();
  assert.deepEqual([again.get('shop', 'A'), again.get('blog', 'B')], ['value of a', 'value of b']);
});

test('A damaged file of secrets stays unchanged, and is reported', async () => {
  for (const text of ['{"secrets":', '[]', '{"secrets":{"A":{"sealed":7,"updatedAt":1}}}', '']) {
    writeFileSync(layout.app('shop').secrets, text);
    const secrets = await open();
    assert.throws(
      () => secrets.get('shop', 'ANY'),
      refusal('SECRET_UNREADABLE', /secrets\.json of the app is damaged/),
    );
    assert.throws(() => secrets.list('shop'), refusal('SECRET_UNREADABLE'));
    await assert.rejects(secrets.set('shop', 'A', 'value'), refusal('SECRET_UNREADABLE'));
    assert.equal(secrets.given('shop')?.unreadable, null);
    assert.equal(readFileSync(layout.app('shop').secrets, 'utf8'), text);
    await secrets.set('blog', 'A', 'value');
  }
});
