import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { checkConfig, loadConfig, resolveConfig } from './config.ts';

test('later parts win over defaults, and folders become absolute', () => {
  const config = resolveConfig('data', { port: 1, appsDir: 'elsewhere' }, { port: 2, versionRetention: 3 });
  assert.equal(config.port, 2);
  assert.equal(config.versionRetention, 3);
  assert.equal(config.dataDir, join(process.cwd(), 'data'));
  assert.equal(config.appsDir, join(process.cwd(), 'data', 'elsewhere'));
});

for (const [name, value, message] of [
  ['an unknown key', { prot: 1 }, /unknown key "prot".*Known keys: .*port/],
  ['a port out of range', { port: 70_000 }, /"port" in f must be an integer from 0 to 65535/],
  ['a port as text', { port: '80' }, /"port" in f must be/],
  ['a retention below the minimum', { versionRetention: 1 }, /from 2 to/],
  ['an unknown edge', { edge: 'nginx' }, /one of "auto", "uws", "node"/],
  ['an origin with a path', { corsOrigins: ['https://a.example/x'] }, /list of origins/],
  ['a list', [], /must be a JSON object/],
  ['null', null, /must be a JSON object/],
] as const) {
  test(`${name} is refused with the key`, () => {
    assert.throws(() => checkConfig(value, 'f'), { name: 'ConfigError', message });
  });
}

test('a file that is missing or not JSON says so', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-config-'));
  t.after(() => rmSync(folder, { recursive: true }));
  assert.throws(() => loadConfig(join(folder, 'none.json')), /cannot be read \(ENOENT\)/);
  writeFileSync(join(folder, 'bad.json'), '{"port": 1,}');
  assert.throws(() => loadConfig(join(folder, 'bad.json')), /is not JSON/);
});
