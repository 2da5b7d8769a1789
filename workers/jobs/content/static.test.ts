import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { brotliCompressSync, brotliDecompressSync, constants, gunzipSync, gzipSync } from 'node:zlib';
import { VersionPaths } from '../../../storage/layout.ts';
import { CompressedCopies, type CompressedSizes } from './static.ts';

const BYTES = Buffer.from('body { margin: 0 }\n'.repeat(500));
const FILE = { path: 'a.css', etag: '"1"', bytes: BYTES };
const OTHER = { ...FILE, etag: '"2"', bytes: Buffer.from('p { margin: 1px }\n'.repeat(500)) };

/** A version with copies of `FILE` that nobody would make now, and what a version after it gets. */
function setUp(t: TestContext) {
  const root = mkdtempSync(join(tmpdir(), 'compressed-'));
  t.after(() => rmSync(root, { recursive: true }));
  const before = new VersionPaths(join(root, 'code'), join(root, 'prepared'));
  mkdirSync(before.staticDir, { recursive: true });
  const br = brotliCompressSync(BYTES, { params: { [constants.BROTLI_PARAM_QUALITY]: 0 } });
  const gzip = gzipSync(BYTES, { level: 1 });
  writeFileSync(join(before.staticDir, 'a.css.br'), br);
  writeFileSync(join(before.staticDir, 'a.css.gz'), gzip);
  const entry = { type: 'text/css', etag: FILE.etag, bytes: BYTES.length, br: br.length, gzip: gzip.length };
  writeFileSync(before.static, JSON.stringify({ 'a.css': entry }));
  let written = 0;
  const write = (file: typeof FILE, from: VersionPaths | null = before) => {
    const dir = join(root, `next-${written++}`);
    const sizes: CompressedSizes = new CompressedCopies(from).write(dir, file);
    const copies = { br: readFileSync(join(dir, 'a.css.br')), gzip: readFileSync(join(dir, 'a.css.gz')) };
    assert.deepEqual(sizes, { br: copies.br.length, gzip: copies.gzip.length });
    assert.deepEqual(brotliDecompressSync(copies.br), file.bytes);
    assert.deepEqual(gunzipSync(copies.gzip), file.bytes);
    return copies;
  };
  return { before, br, gzip, write };
}

test('the copies of an unchanged file are those of the previous version', (t) => {
  const { br, gzip, write } = setUp(t);
  assert.deepEqual(write(FILE), { br, gzip });
  assert.notDeepEqual(write(FILE, null), { br, gzip });
  write(OTHER);
});

test('copies that are damaged, missing or of other bytes are made again', (t) => {
  const { before, br, write } = setUp(t);
  const fresh = write(FILE, null);
  writeFileSync(join(before.staticDir, 'a.css.br'), br.subarray(0, -1));
  rmSync(join(before.staticDir, 'a.css.gz'));
  assert.deepEqual(write(FILE), fresh);
  writeFileSync(join(before.staticDir, 'a.css.br'), brotliCompressSync(OTHER.bytes));
  assert.deepEqual(write(FILE), fresh);
  writeFileSync(before.static, '{');
  assert.deepEqual(write(FILE), fresh);
});
