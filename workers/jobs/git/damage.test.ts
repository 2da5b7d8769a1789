import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { GitFixture, NEEDS_GIT } from '../../../testing/git-fixture.ts';
import { git } from './operations.ts';

let store: GitFixture;
beforeEach(async () => {
  store = new GitFixture();
  await store.open();
  await publish('todos', 'todos');
  await publish('notes', 'notes');
});
afterEach(() => store.remove());

async function publish(app: string, text: string): Promise<string> {
  const folder = store.folder({ 'app.json': text, 'web/a.md': text });
  const { commit } = await git.commitApp({ ...store.by, app, folder, message: 'x' });
  const { number } = await git.nextNumber({ repository: store.repository, app });
  await git.settle({ ...store.by, app, commit, tag: { name: `${app}/v${number}`, message: 'x' } });
  return commit;
}

function objectPath(id: string): string {
  return join(store.repository, 'objects', id.slice(0, 2), id.slice(2));
}

async function blobOf(app: string): Promise<string> {
  const { files } = await git.treeOf({ repository: store.repository, app, from: 'main' });
  return files?.[0]?.sha ?? '';
}

function checkout(app: string, from = 'main') {
  return git.checkout({ repository: store.repository, app, from, to: store.fresh() });
}

describe('a damaged object', () => {
  const ways: [string, (path: string) => void][] = [
    ['that is missing', (path) => rmSync(path)],
    ['that is cut off', (path) => truncateSync(path, 12)],
    ['that is empty', (path) => truncateSync(path, 0)],
    ['that is another', (path) => writeFileSync(path, readFileSync(objectPath(other)))],
    ['of garbage', (path) => writeFileSync(path, 'garbage')],
  ];
  let other = '';
  for (const [name, damage] of ways) {
    test(`${name} is named, and only what needs it fails`, async () => {
      const blob = await blobOf('todos');
      other = await blobOf('notes');
      chmodSync(objectPath(blob), 0o600);
      damage(objectPath(blob));
      await assert.rejects(checkout('todos'), { code: 'STORE_DAMAGED', message: new RegExp(blob) });
      assert.equal((await checkout('notes')).files.length, 2);
      await publish('notes', 'changed');
      assert.equal(
        (await git.listVersions({ repository: store.repository, app: 'todos', limit: 9, before: null })).total,
        1,
      );
    });
  }

  test('is put back by the next upload of the same file', async () => {
    const blob = await blobOf('todos');
    rmSync(objectPath(blob));
    await publish('todos', 'todos');
    assert.equal((await checkout('todos')).files.length, 2);
  });

  test('in a pack is named', NEEDS_GIT, async () => {
    const folder = store.folder({ 'noise.txt': Array.from({ length: 4000 }, (_, n) => `${n * 7919}`).join('\n') });
    const { commit } = await git.commitApp({ ...store.by, app: 'big', folder, message: 'x' });
    await git.settle({ ...store.by, app: 'big', commit, tag: null });
    const blob = await blobOf('big');
    store.git('gc', '-q', '--prune=now');
    const dir = join(store.repository, 'objects', 'pack');
    const pack = join(dir, readdirSync(dir).find((name) => name.endsWith('.pack')) ?? '');
    const line =
      store
        .git('verify-pack', '-v', pack)
        .split('\n')
        .find((text) => text.startsWith(blob)) ?? '';
    const [, , , bytes, offset] = line.split(/ +/).map(Number);
    chmodSync(pack, 0o600);
    const content = readFileSync(pack);
    content.fill(0x55, (offset ?? 0) + 20, (offset ?? 0) + (bytes ?? 0) - 8);
    writeFileSync(pack, content);
    await assert.rejects(checkout('big'), { code: 'STORE_DAMAGED', message: new RegExp(blob) });
    assert.equal((await checkout('todos')).files.length, 2);
  });

  test('in an index of a pack is no reason for reading something else', NEEDS_GIT, async () => {
    store.git('gc', '-q', '--prune=now');
    const dir = join(store.repository, 'objects', 'pack');
    const index = join(dir, readdirSync(dir).find((name) => name.endsWith('.idx')) ?? '');
    const whole = readFileSync(index);
    chmodSync(index, 0o600);
    // The last entry of the table of counts: how many objects there are.
    whole.writeUInt32BE(0xffff_ff00, 8 + 255 * 4);
    writeFileSync(index, whole);
    await assert.rejects(checkout('todos'), { code: 'STORE_DAMAGED' });
    await publish('todos', 'new').catch((error: unknown) => assert.match(String(error), /damaged/));
  });

  test('never makes git jobs hang or crash, with any damage to a pack', NEEDS_GIT, async () => {
    store.git('gc', '-q', '--prune=now');
    const dir = join(store.repository, 'objects', 'pack');
    for (const ending of ['.pack', '.idx']) {
      const file = join(dir, readdirSync(dir).find((name) => name.endsWith(ending)) ?? '');
      const whole = readFileSync(file);
      chmodSync(file, 0o600);
      for (let at = 0; at < whole.length; at += 13) {
        const bad = Buffer.from(whole);
        bad[at] = 0xff - (bad[at] ?? 0);
        writeFileSync(file, at % 2 === 0 ? bad : bad.subarray(0, at));
        for (const app of ['todos', 'notes']) {
          await checkout(app).then(
            ({ files }) => assert.ok(files.length === 2, 'whole'),
            (error: unknown) =>
              assert.equal((error as { code?: unknown }).code, 'STORE_DAMAGED', String((error as Error).stack)),
          );
        }
      }
      writeFileSync(file, whole);
    }
    assert.equal((await checkout('todos')).files.length, 2);
  });
});

describe('damaged names', () => {
  test('of main are named', async () => {
    writeFileSync(join(store.repository, 'refs/heads/main'), '\0\0\0');
    await assert.rejects(checkout('todos'), { code: 'STORE_DAMAGED', message: /refs\/heads\/main/ });
    assert.equal((await checkout('todos', 'todos/v1')).files.length, 2);
    rmSync(join(store.repository, 'refs/heads/main'));
    await assert.rejects(store.open(), { code: 'STORE_DAMAGED', message: /refs\/heads\/main/ });
    rmSync(join(store.repository, 'HEAD'));
    await assert.rejects(store.open(), { code: 'STORE_DAMAGED', message: /HEAD/ });
  });

  test('a lock of a gateway that is gone is taken over at once', async () => {
    const gone = spawnSync(process.execPath, ['-e', '']).pid;
    const lock = join(store.repository, 'refs/heads/main.lock');
    writeFileSync(lock, `svc ${hostname()} ${gone}\n`);
    await publish('todos', 'new');
    assert.equal(existsSync(lock), false, 'the lock is gone');
    assert.equal(readFileSync(join(store.repository, 'refs/heads/main'), 'utf8').length, 41);
  });

  test('a lock that a crash left is taken over', async () => {
    const lock = join(store.repository, 'refs/heads/main.lock');
    writeFileSync(lock, '');
    utimesSync(lock, new Date(0), new Date(0));
    await publish('todos', 'new');
    assert.equal(existsSync(lock), false, 'the lock is gone');
  });
});
