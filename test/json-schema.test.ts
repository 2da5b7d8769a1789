/**
 * The official JSON Schema suite, draft 2020-12: every case takes the path of an app's contract, beside a second
 * implementation, and a sample goes through the real daemon. docs/json-schema.md is compared with the outcome;
 * `SVC_UPDATE_DOCS=1` writes it again.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import type { JsonSchema } from '../protocol/manifest.ts';
import { appOf } from '../testing/apps.ts';
import { root, startGateway } from '../testing/gateway.ts';
import { expected, type Judged, judgeSuite, suiteTables } from '../testing/json-schema-report.ts';
import { SUITE_PACKAGE, suiteIsInstalled } from '../testing/json-schema-suite.ts';

const DOCUMENT = join(root, 'docs/json-schema.md');
const MARKS = ['<!-- written by test/json-schema.test.ts: begin -->', '<!-- end -->'] as const;
/** One in this many accepted schemas goes to the real daemon too. */
const SAMPLE_EVERY = 5;

const missing = suiteIsInstalled() ? false : `Not run: the suite is not installed (apt-get install ${SUITE_PACKAGE}).`;

test('the suite is installed in CI', { skip: process.env.CI ? false : missing }, () => {
  assert.equal(missing, false);
});

describe('JSON Schema, draft 2020-12', { skip: missing }, () => {
  let judged: Judged[] = [];

  before(async () => {
    judged = await judgeSuite();
  });

  test('docs/json-schema.md states this outcome', () => {
    const text = readFileSync(DOCUMENT, 'utf8');
    const [before, rest = ''] = text.split(`${MARKS[0]}\n`);
    const [stated, after] = rest.split(`\n${MARKS[1]}`);
    assert.ok(before !== undefined && after !== undefined, 'the marks around the tables are gone');
    const tables = suiteTables(judged);
    if (process.env.SVC_UPDATE_DOCS) {
      writeFileSync(DOCUMENT, `${before}${MARKS[0]}\n${tables}\n${MARKS[1]}${after}`);
      return;
    }
    assert.equal(stated, tables, 'run it with SVC_UPDATE_DOCS=1, then judge what has changed');
  });

  test('a schema is refused with INVALID_MANIFEST, never with an error of another kind', () => {
    for (const { group, ours } of judged) {
      if (ours.reason !== null) assert.equal(ours.code, 'INVALID_MANIFEST', `${group.file}: ${ours.reason}`);
    }
  });

  test('the daemon agrees with the validators', async (t) => {
    const gateway = await startGateway(t);
    const sample = judged.filter(({ ours }) => ours.reason === null).filter((_, i) => i % SAMPLE_EVERY === 0);
    const queries = Object.fromEntries(
      sample.map(({ group }, i) => [
        `q${i}`,
        { run: '() => null', input: group.schema as Exclude<JsonSchema, boolean> },
      ]),
    );
    const uploaded = await gateway.upload('suite', appOf('suite', { queries }));
    assert.equal(uploaded.status, 201, uploaded.text);
    let asked = 0;
    for (const [i, { group, ours }] of sample.entries()) {
      for (const [n, { description, data }] of group.tests.entries()) {
        // A call without input, or with null, is one with {}.
        if (data === null) continue;
        const { status, json } = await gateway.read('suite', `q${i}`, data);
        const verdict = status === 200 ? 'valid' : json.error.code === 'INVALID_INPUT' ? 'invalid' : status;
        assert.equal(verdict, ours.verdicts[n], `${group.file}: ${group.description}: ${description}`);
        asked++;
      }
    }
    assert.ok(asked > 200, `only ${asked} cases were asked`);
  });

  test('the daemon refuses the schemas that the validators refuse', async (t) => {
    const gateway = await startGateway(t);
    const refused = judged.filter(({ ours }) => ours.reason !== null).filter((_, i) => i % SAMPLE_EVERY === 0);
    assert.ok(refused.length > 0, 'nothing is refused any more');
    for (const { group, ours } of refused) {
      const queries = { judge: { run: '() => null', input: group.schema } };
      const { status, json } = await gateway.upload('suite', appOf('suite', { queries }));
      assert.deepEqual([status, json.error.code], [400, 'INVALID_MANIFEST'], group.description);
      assert.equal(json.error.message, ours.reason);
    }
  });

  test('most required cases have the expected result', () => {
    const required = judged.filter(({ group }) => !group.file.startsWith('optional/'));
    const cases = required.flatMap(({ group, ours }) =>
      group.tests.map((one, i) => ours.verdicts[i] === expected(one)),
    );
    assert.ok(cases.length > 1000, `only ${cases.length} cases`);
    assert.ok(cases.filter(Boolean).length / cases.length > 0.9, 'less than nine in ten');
  });
});
