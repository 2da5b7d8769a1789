import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { type Store, safeStorageOf } from '../testing/shell.ts';
import { TokenLockedError, Tokens } from './tokens.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-tokens-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const TOKEN = 'ab'.repeat(32);
let files = 0;
const newFile = () => join(folder, `${++files}.bin`);
const stored = (path: string) => readFileSync(path, 'utf8');
const kept = (store: Store, platform: NodeJS.Platform = 'linux') => new Tokens(safeStorageOf(store), platform);

for (const [store, platform, isProtected] of [
  ['present', 'linux', true],
  ['present', 'darwin', true],
  ['basic_text', 'linux', false],
  // Only Linux has backends.
  ['basic_text', 'darwin', true],
  ['absent', 'linux', false],
  ['absent', 'darwin', false],
] as const)
  test(`safeStorage ${store} on ${platform}: the token is ${isProtected ? 'encrypted' : 'a file of mode 0600'}`, async () => {
    const path = newFile();
    const tokens = kept(store, platform);
    const token = await tokens.readOrMake(path);
    assert.match(token, /^[0-9a-f]{64}$/);
    assert.equal(await tokens.isProtected(), isProtected);
    assert.equal(stored(path).startsWith('safeStorage:'), isProtected);
    assert.equal(stored(path).includes(token), !isProtected);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    assert.equal(await kept(store, platform).readOrMake(path), token);
  });

test('a token from a plain file is moved into the key store, and is the same', async () => {
  const path = newFile();
  writeFileSync(path, `${TOKEN}\n`);
  assert.equal(await kept('basic_text').read(path), TOKEN);
  assert.equal(stored(path), `${TOKEN}\n`);
  assert.equal(await kept('present').read(path), TOKEN);
  assert.match(stored(path), /^safeStorage:[\w+/=]+\n$/);
  assert.equal(await kept('present').read(path), TOKEN);
});

test('a key store that is locked costs no token', async () => {
  const path = newFile();
  await kept('present').write(path, TOKEN);
  const before = stored(path);
  await assert.rejects(kept('locked').readOrMake(path), TokenLockedError);
  assert.equal(stored(path), before);
});

test('a token is encrypted again when the system has a new key', async () => {
  const path = newFile();
  const tokens = new Tokens(safeStorageOf('present', { reEncrypt: true }), 'linux');
  await tokens.write(path, TOKEN);
  const { ino } = statSync(path);
  assert.equal(await tokens.read(path), TOKEN);
  assert.notEqual(statSync(path).ino, ino);
  assert.equal(await kept('present').read(path), TOKEN);
});

test('a damaged file has no token; ours gets a new one', async () => {
  const path = newFile();
  for (const text of ['', 'short', 'two words that are no token at all']) {
    writeFileSync(path, text);
    assert.equal(await kept('present').read(path), null);
  }
  assert.match(await kept('present').readOrMake(path), /^[0-9a-f]{64}$/);
});
