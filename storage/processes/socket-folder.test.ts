import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { identityOf, type ProcessIdentity } from './process-identity.ts';
import { makeSocketFolder } from './socket-folder.ts';

function setUp(t: TestContext) {
  const dir = mkdtempSync(join(tmpdir(), 'svc-test-'));
  const made: string[] = [];
  t.after(() => {
    for (const folder of [dir, ...made]) rmSync(folder, { recursive: true, force: true });
  });
  const note = join(dir, 'run', 'sockets.json');
  const make = () => {
    const folder = makeSocketFolder(note);
    made.push(folder);
    return folder;
  };
  /** As if the gateway that made the last folder were this process. */
  const ownedBy = (folder: string, owner: ProcessIdentity) => writeFileSync(note, JSON.stringify({ folder, owner }));
  return { dir, note, make, ownedBy };
}

const dead = (): ProcessIdentity => {
  const { pid } = spawnSync(process.execPath, ['-e', '0']);
  return { pid: pid as number, startedAs: 'another boot/1' };
};

test('the folder of a gateway that was killed goes when the next one makes its own', (t) => {
  const { make, ownedBy } = setUp(t);
  const first = make();
  assert.equal(statSync(first).mode & 0o777, 0o700);
  writeFileSync(join(first, 'supervisor'), '');
  ownedBy(first, dead());
  const second = make();
  assert.deepEqual([existsSync(first), existsSync(second)], [false, true]);
});

test('the folder of a gateway that runs stays, though a copy of its data directory names it', (t) => {
  const { make, ownedBy } = setUp(t);
  const first = make();
  ownedBy(first, identityOf(process.pid));
  make();
  assert.equal(existsSync(first), true);
});

test('a note that is damaged or names any other folder removes nothing', (t) => {
  const { dir, note, make, ownedBy } = setUp(t);
  const precious = join(dir, 'precious');
  mkdirSync(precious);
  make();
  ownedBy(precious, dead());
  make();
  assert.equal(existsSync(precious), true);
  writeFileSync(note, '{"folder":');
  assert.equal(existsSync(make()), true);
});
