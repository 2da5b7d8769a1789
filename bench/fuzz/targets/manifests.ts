/** Manifests: whatever an `app.json` holds, it is taken, or refused with a list of fields; never anything else. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { LIMITS } from '../../../protocol/limits.ts';
import { checkManifest } from '../../../protocol/rules/manifest-check.ts';
import { deepJson, jsonObject, jsonValue, mutated, wideJson } from '../arbitraries.ts';
import { refusalOf } from '../oracle.ts';
import { check, type Target } from '../target.ts';
import words from '../words.json' with { type: 'json' };

const APP = 'notes';
/** Far more than any manifest needs on any machine; an algorithm that explodes needs more. */
const CHECK_MS = 5000;

const name = fc.constantFrom('list', 'add', 'List', 'x', '__proto__', 'constructor', '', 'a b', 'x'.repeat(65));
const schema = fc.constantFrom({}, true, false, { type: 'object' }, { $ref: '#' }, null, 'x');
const tool = jsonObject(
  fc.oneof(jsonValue, name, schema, fc.constantFrom(1, 0, -1, 600_001, ['t'], ['']) as fc.Arbitrary<unknown>),
  fc.constantFrom(...words.toolFields),
);
const field = fc.oneof(
  jsonValue,
  fc.constantFrom(APP, '', ' ', 'app', 'automation', 1),
  fc.array(fc.oneof(tool, jsonValue), { maxLength: 4 }),
);
const nearly = jsonObject(field, fc.constantFrom(...words.manifestFields)).map((more) =>
  Object.assign(Object.create(null) as object, { id: APP, name: 'N', version: '1' }, more),
);
const SOUND = Buffer.from(
  JSON.stringify({
    id: APP,
    name: 'Notes',
    version: '1.0.0',
    manifestVersion: 1,
    queries: [{ name: 'list', input: { type: 'object', properties: { n: { type: 'integer' } } }, reads: ['notes'] }],
    actions: [{ name: 'add', confirmation: 'required', writes: ['notes'], timeoutMs: 100 }],
    knobs: [{ key: 'size', label: 'Size', type: 'segmented', default: 'm', options: [{ value: 'm', label: 'M' }] }],
  }),
);

const anyJson = fc.oneof(jsonValue, nearly).map((value) => JSON.stringify(value));
const changed = mutated(fc.constant(SOUND)).map((bytes) => bytes.toString());
/** As deep, or with as many members, as a manifest of the largest size can be. */
const huge = fc.oneof(
  deepJson(200_000).map((value) => `{"id":"${APP}","name":"n","version":"1","x":${value}}`),
  wideJson(['1', '{"name":"a"}', '"x"', '[]']).map(
    (list) => `{"id":"${APP}","name":"n","version":"1","queries":${list}}`,
  ),
);

async function judge(text: string): Promise<void> {
  const refusal = await refusalOf(() => {
    const manifest = checkManifest(text, APP);
    assert.equal(manifest.id, APP);
    assert.ok(Array.isArray(manifest.queries) && Array.isArray(manifest.actions), 'a manifest without its lists');
    const names = manifest.queries.map((query) => query.name);
    assert.equal(new Set(names).size, names.length, 'two queries of one name');
  });
  if (refusal === null) return;
  assert.equal(refusal.code, 'INVALID_MANIFEST');
  const issues = refusal.issues ?? [];
  assert.ok(issues.length > 0 && issues.length <= LIMITS.inputIssues, `${issues.length} issues`);
  for (const issue of issues) {
    assert.deepEqual([typeof issue.path, typeof issue.message, typeof issue.keyword], ['string', 'string', 'string']);
  }
  assert.equal(refusal.path, issues[0]?.path);
  assert.ok(refusal.message.length < 64 * 1024, `a message of ${refusal.message.length} characters`);
}

export const manifests: Target = {
  name: 'manifests',
  claim: 'A manifest is taken, or refused with a list of typed issues, in bounded time.',
  open: () => [
    check('JSON values', 100_000, anyJson, judge, CHECK_MS),
    check('changed text', 100_000, changed, judge, CHECK_MS),
    check('deep and wide', 2000, huge, judge, CHECK_MS),
  ],
};
