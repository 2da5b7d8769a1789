// The examples of docs/handler-rules.md break the rule that they stand for, and no other; its waivers waive.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { SvcError } from '../../errors.ts';
import { checkHandlers, invalidHandler, type ReadHandler } from './check-handlers.ts';
import { FIXED_RULES, QUERY_RULE, WAIVABLE_RULES } from './rules.ts';

const text = readFileSync(join(dirname(fileURLToPath(import.meta.url)), '../../../docs/handler-rules.md'), 'utf8');

/** The error of an app with this one handler. */
function check(file: string, source: string): SvcError | null {
  const read: ReadHandler = (asked) => (asked === file ? { text: source } : { refused: 'does not exist' });
  const isQuery = file.startsWith('queries/');
  const manifest = { queries: isQuery ? [{ name: 'list' }] : [], actions: [] };
  const found = checkHandlers(read, manifest, isQuery ? [] : ['digest']);
  return found.length === 0 ? null : invalidHandler(found);
}

const rows = [...text.matchAll(/^\| `([a-z-]+)` \|[^|]*\| `([^|]+)` \|/gm)].map(([, rule = '', example = '']) => ({
  rule,
  example,
}));

test('every rule has a row', () => {
  assert.deepEqual(rows.map(({ rule }) => rule).sort(), [...FIXED_RULES, ...WAIVABLE_RULES].sort());
});

for (const { rule, example } of rows) {
  test(`${rule}: ${example}`, () => {
    const file = rule === QUERY_RULE ? 'queries/list.js' : 'automations/digest/handler.js';
    const handler = rule === 'default-export' ? '' : 'export default async () => {};\n';
    assert.deepEqual(
      check(file, `${handler}${example}`)?.issues?.map(({ keyword }) => keyword),
      [rule],
    );
  });
}

test('the message that is shown', () => {
  const shown = /^(automations\/digest\/handler\.js:3:11: .*)$/m.exec(text)?.[1];
  const error = check(
    'automations/digest/handler.js',
    'export default async () => {\n  // Now.\n  let t = Date.now();\n};',
  );
  assert.equal(error?.message, shown);
});

test('the documented query has the findings that the document marks', () => {
  const source = /^```js notes\/queries\/list\.js\n([\s\S]*?)^```$/m.exec(text)?.[1] ?? '';
  const said = source.split('\n').flatMap((line, i) => (line.endsWith('// found') ? [i + 1] : []));
  assert.ok(said.length > 0, 'there is no such query');
  assert.deepEqual(
    check('queries/list.js', source)?.issues?.map(({ line }) => line),
    said,
  );
});

for (const [, file = '', source = ''] of text.matchAll(/^```js journal\/(\S+)\n([\s\S]*?)^```$/gm)) {
  test(`the waivers of ${file}`, () => {
    assert.equal(check(file, source), null);
    assert.notEqual(check(file, source.replaceAll(/\/\/.*/g, '')), null, 'nothing was waived');
  });
}
