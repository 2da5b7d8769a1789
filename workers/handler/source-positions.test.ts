import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { encode, type SourceMapMappings } from '@jridgewell/sourcemap-codec';
import { SourcePositions } from './source-positions.ts';

const temporary = mkdtempSync(join(tmpdir(), 'svc-positions-'));
const root = join(temporary, 'app');
after(() => rmSync(temporary, { recursive: true }));

function lay(file: string, map: string | { sources: unknown; mappings: SourceMapMappings }): SourcePositions {
  const path = join(root, `_packages/${file}.map`);
  mkdirSync(dirname(path), { recursive: true });
  const text = typeof map === 'string' ? map : JSON.stringify({ ...map, mappings: encode(map.mappings) });
  writeFileSync(path, text);
  return new SourcePositions(root);
}

const SOURCES = ['../../node_modules/@a/b/one.js', '../../node_modules/@a/b/two.js'];
const MAPPINGS: SourceMapMappings = [
  [],
  [[2, 0, 4, 7], [10, 1, 100_000, 0, 3], [20], [30, 0, 0, 1]],
  [],
  [[0, 1, 2, 3]],
];

test('a place is that of the last segment that begins before it', () => {
  const positions = lay('@a/b.js', { sources: SOURCES, mappings: MAPPINGS });
  const at = (place: string): string => positions.text(`at f (_packages/@a/b.js:${place})`);
  const cases: [place: string, found: string][] = [
    ['2:3', 'node_modules/@a/b/one.js:5:8'],
    ['2:10', 'node_modules/@a/b/one.js:5:8'],
    ['2:11', 'node_modules/@a/b/two.js:100001:1'],
    ['2:31', 'node_modules/@a/b/one.js:1:2'],
    ['2:999', 'node_modules/@a/b/one.js:1:2'],
    ['4:1', 'node_modules/@a/b/two.js:3:4'],
  ];
  for (const [place, found] of cases) assert.equal(at(place), `at f (${found})`);
  // Before every segment, in one without a source, on a line without any, behind the last line.
  for (const place of ['2:1', '2:21', '1:1', '3:1', '5:1', '99999999:1', '0:0'])
    assert.equal(at(place), `at f (_packages/@a/b.js:${place})`);
});

test('every position of a text is mapped, the rest stays', () => {
  const positions = lay('@a/b.js', { sources: SOURCES, mappings: MAPPINGS });
  const text = positions.text(
    'é _packages/@a/b.js:2:3\\n_packages/@a/b.js:4:1, _packages/none.js:1:1 queries/a.js:2:3',
  );
  assert.equal(
    text,
    'é node_modules/@a/b/one.js:5:8\\nnode_modules/@a/b/two.js:3:4, _packages/none.js:1:1 queries/a.js:2:3',
  );
});

test('a map that is damaged, or leads elsewhere, leaves the text alone', () => {
  const maps = [
    '',
    'null',
    '[]',
    '{"sources":1,"mappings":""}',
    '{"sources":["a"],"mappings":{}}',
    '{"sources":["a"],"mappings":"!!!!"}',
    '{"sources":["a"],"mappings":"gggggggggggggggg"}',
    '{"sources":[null],"mappings":"AAAA"}',
    '{"sources":["a\\"b\\nc"],"mappings":"AAAA"}',
    '{"sources":["a"],"mappings":"ACAA"}',
  ];
  for (const map of maps) assert.equal(lay('x.js', map).text('_packages/x.js:1:1'), '_packages/x.js:1:1', map);
  lay('../../elsewhere.js', '{"sources":["a"],"mappings":"AAAA"}');
  assert.equal(new SourcePositions(root).text('_packages/../../elsewhere.js:1:1'), '_packages/../../elsewhere.js:1:1');
});
