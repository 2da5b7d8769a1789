import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { LIMITS } from '../limits.ts';
import { Redactor } from './redactor.ts';

function hiding(...values: [name: string, value: string][]): Redactor {
  const redactor = new Redactor();
  redactor.hide(values);
  return redactor;
}

function json(redactor: Redactor, value: unknown): unknown {
  return JSON.parse(Buffer.from(redactor.json(Buffer.from(JSON.stringify(value)))).toString());
}

const AWKWARD = 'p"a\\ss\'w`ö😀/rd %&\u0001end';

test('A value is replaced wherever it stands in a text', () => {
  const redactor = hiding(['KEY', 'sk_live_51']);
  assert.equal(redactor.text('xsk_live_51x, sk_live_51'), 'x[secret KEY]x, [secret KEY]');
  assert.equal(redactor.text('nothing'), 'nothing');
  assert.deepEqual(json(redactor, { sk_live_51: ['a sk_live_51 b', { deep: 'sk_live_51' }], n: 1.5e300 }), {
    '[secret KEY]': ['a [secret KEY] b', { deep: '[secret KEY]' }],
    n: 1.5e300,
  });
});

test('Quotes, escapes and characters of every kind do not hide a value', () => {
  const redactor = hiding(['KEY', AWKWARD]);
  const inJson = JSON.stringify({ key: AWKWARD });
  assert.deepEqual(json(redactor, { a: AWKWARD, [AWKWARD]: `<${AWKWARD}>`, inJson, again: JSON.stringify(inJson) }), {
    a: '[secret KEY]',
    '[secret KEY]': '<[secret KEY]>',
    inJson: '{"key":"[secret KEY]"}',
    again: '"{\\"key\\":\\"[secret KEY]\\"}"',
  });
  for (const text of [inJson, JSON.stringify(inJson), inspect({ key: AWKWARD }), encodeURIComponent(AWKWARD), AWKWARD])
    assert.match(redactor.text(text), /\[secret KEY\]/, text);
  // As another encoder would escape it.
  const ascii = AWKWARD.replace(/[\s\S]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  assert.equal(Buffer.from(redactor.json(Buffer.from(`{"a":"${ascii}"}`))).toString(), '{"a":"[secret KEY]"}');
});

test('A value of several lines is found in one piece, and line by line', () => {
  const pem = '-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQ\nx\n-----END KEY-----\n';
  const redactor = hiding(['PEM', pem]);
  assert.equal(redactor.text(`a ${pem}b`), 'a [secret PEM]b');
  assert.equal(redactor.text('at kqhkiG9w0BAQ'), 'at [secret PEM]');
  assert.equal(redactor.text('x'), 'x');
  const shown = redactor.text(inspect({ pem: { pem } }, { breakLength: 20 }));
  assert.doesNotMatch(shown, /MIIE|kqhk|BEGIN/);
});

test('Of values that contain each other, the longer one is named; what is put in place is not looked through', () => {
  const redactor = hiding(['SHORT', 'secret'], ['LONG', 'top-secret-value']);
  assert.equal(redactor.text('top-secret-value secret'), '[secret LONG] [secret SHORT]');
  assert.equal(redactor.text(redactor.text('top-secret-value')), '[[secret SHORT] LONG]');
});

test('JSON stays JSON: what stands outside of texts is only replaced as a whole number', () => {
  const redactor = hiding(['PIN', '482913'], ['WORD', 'false'], ['MARKS', '],[']);
  assert.deepEqual(json(redactor, [482913, 4829130, false, [[1], [2]], '],[', 'it is false', '482913']), [
    '[secret PIN]',
    4829130,
    false,
    [[1], [2]],
    '],[',
    'it is [secret WORD]',
    '[secret PIN]',
  ]);
  const big = '{"a":12345678901234567890,"b":1.0,"c":"482913"}';
  assert.equal(
    Buffer.from(redactor.json(Buffer.from(big))).toString(),
    '{"a":12345678901234567890,"b":1.0,"c":"[secret PIN]"}',
  );
});

test('Values that are too short are left', () => {
  const short = 'x'.repeat(LIMITS.secretHiddenChars - 1);
  const redactor = hiding(['SHORT', short], ['LONG', 'y'.repeat(LIMITS.secretHiddenChars)]);
  assert.equal(redactor.text(`${short} yyyy`), `${short} [secret LONG]`);
  assert.ok(hiding(['SHORT', short]).idle);
});

test('Replaced values are still taken out, up to a number', () => {
  const redactor = hiding(['KEY', 'value-0']);
  for (let i = 1; i <= LIMITS.secretsFormer; i++) redactor.hide([['KEY', `value-${i}.`]]);
  assert.equal(redactor.text('value-0'), '[secret KEY]');
  redactor.hide([['KEY', 'the last']]);
  assert.equal(redactor.text('value-0'), 'value-0');
  assert.equal(redactor.text('value-1. the last'), '[secret KEY] [secret KEY]');
});

test('Bytes without a value are handed on as they are; large ones too', () => {
  const redactor = hiding(['KEY', 'sk_live_51']);
  const bytes = Buffer.from(JSON.stringify({ a: '\\"'.repeat(100_000) }));
  assert.equal(redactor.json(bytes), bytes);
  const large = JSON.stringify({ a: '\\"'.repeat(2_000_000), b: 'sk_live_51' });
  assert.ok(
    Buffer.from(redactor.json(Buffer.from(large)))
      .toString()
      .endsWith('"b":"[secret KEY]"}'),
  );
});

test('A value is found without the space around it, and as far as console shows it', () => {
  const long = Array.from({ length: 4_000 }, (_, i) => `n${i}`).join('.');
  const redactor = hiding(['PADDED', ' sk live\n'], ['LONG', long]);
  assert.equal(redactor.text('(sk live)'), '([secret PADDED])');
  assert.doesNotMatch(redactor.text(inspect({ long })), /n1\.n2/);
});

test('Values of very many lines cost no more than some hundred lines, and are found as a whole', () => {
  const values = Array.from({ length: LIMITS.secrets }, (_, i): [string, string] => [
    `K${i}`,
    Array.from({ length: 5_000 }, (_, line) => `line-${i}-${line}`).join('\n'),
  ]);
  const redactor = hiding(...values);
  assert.equal(redactor.text(`<${values[0]?.[1]}>`), '<[secret K0]>');
  assert.equal(redactor.text(values.at(-1)?.[1].split('\n')[7] ?? ''), `[secret K${LIMITS.secrets - 1}]`);
});
