import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Script } from 'node:vm';
import { runCached, storeCaches } from './cached-code.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-cached-'));
after(() => rmSync(folder, { recursive: true }));
const entry = join(folder, 'part.cjs');
const cache = join(folder, 'part.one.cache');

/** What stands beside the entry; `value` is one digit, so that V8 takes all of them for the same text. */
function write(value: number): void {
  const text = `(function (exports, require, module, __filename, __dirname) { "use strict";
    const own = () => ${value};
    module.exports = { value: own(), sep: require('node:path').sep, file: __filename, folder: __dirname, stack: new Error().stack };
  })`;
  writeFileSync(join(folder, 'part.code.js'), text);
}

test('code runs as if it were in its entry, without a cache and with one', () => {
  write(1);
  const { stack, ...rest } = runCached(entry, 'one') as Record<string, string>;
  assert.deepEqual(rest, { value: 1, sep: '/', file: entry, folder });
  assert.match(String(stack), /file:\/\/.*part\.code\.js:3:/);
  storeCaches();
  // What was compiled of the first text is run, though it is another one: it came from the cache.
  write(2);
  assert.equal((runCached(entry, 'one') as { value: number }).value, 1);
  write(3);
  assert.equal((runCached(entry, 'two') as { value: number }).value, 3);
});

test('a cache that is damaged, cut short or of another V8 costs nothing but time', () => {
  const bytes = readFileSync(cache);
  const damaged = Buffer.from(bytes);
  damaged[bytes.length >> 1] = (damaged[bytes.length >> 1] as number) ^ 1;
  const other = Buffer.from('not of V8 at all, though whole');
  const digest = createHash('sha256').update(other).digest();
  write(4);
  for (const wrong of [damaged, bytes.subarray(0, -1), Buffer.alloc(0), Buffer.concat([digest, other])]) {
    writeFileSync(cache, wrong);
    assert.equal((runCached(entry, 'one') as { value: number }).value, 4);
  }
});

test('a cache is replaced only by one of more code', () => {
  rmSync(cache);
  storeCaches();
  const { length } = readFileSync(cache);
  const larger = Buffer.alloc(2 * length, 1);
  const whole = Buffer.concat([createHash('sha256').update(larger).digest(), larger]);
  writeFileSync(cache, whole);
  storeCaches();
  assert.deepEqual(readFileSync(cache), whole);
  writeFileSync(cache, larger);
  storeCaches();
  assert.equal(readFileSync(cache).length, length);
});

test('the caches of the build fit each of its processes and threads, none of which has flags of V8', () => {
  const dist = fileURLToPath(new URL('../../dist/', import.meta.url));
  const names = readdirSync(dist);
  const entries = names.filter((name) => name.endsWith('.code.js')).map((name) => name.slice(0, -'.code.js'.length));
  const kept = names.filter((name) => name.endsWith('.cache'));
  assert.deepEqual(kept.map((name) => name.split('.')[0]).sort(), entries.sort());
  for (const name of kept) {
    const source = readFileSync(join(dist, `${name.split('.')[0]}.code.js`), 'latin1');
    const script = new Script(source, { cachedData: readFileSync(join(dist, name)).subarray(32) });
    assert.equal(script.cachedDataRejected, false, name);
  }
});
