/**
 * The daemon packs the loose objects of its git store by itself, beside publications and after a kill; git finds no
 * errors.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { deflateSync } from 'node:zlib';
import { LIMITS } from '../protocol/limits.ts';
import { objectId, wrapObject } from '../storage/git/object.ts';
import { countLoose } from '../storage/git/packing.ts';
import { appOf } from '../testing/apps.ts';
import { startGateway } from '../testing/gateway.ts';

const PACKED_MS = 60_000;

test('loose objects are packed in the background, from 2,000 on', async (t) => {
  const gateway = await startGateway(t, { store: 'git' });
  const repository = join(gateway.dataDir, 'code-store/apps.git');
  const git = (...args: string[]) => execFileSync('git', ['-C', repository, ...args], { encoding: 'utf8' });
  const packs = () => readdirSync(join(repository, 'objects/pack')).filter((name) => name.endsWith('.pack'));
  let count = 0;
  const addLoose = async (objects: number): Promise<void> => {
    for (let n = 0; n < objects; n++) {
      const content = Buffer.from(`loose ${++count}`);
      const id = objectId('blob', content);
      const path = join(repository, 'objects', id.slice(0, 2), id.slice(2));
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, deflateSync(wrapObject('blob', content)));
      // Neither is the connection idle for so long that it is closed.
      if (n % 200 === 0) await gateway.call('GET', '/svc/_apps');
    }
  };
  const packed = async (): Promise<void> => {
    const isDone = () =>
      countLoose(repository) < LIMITS.gitLooseObjects &&
      !readdirSync(join(repository, 'objects/pack')).some((name) => name.endsWith('.keep'));
    for (const until = Date.now() + PACKED_MS; !isDone(); ) {
      assert.ok(Date.now() < until, `${countLoose(repository)} objects are loose`);
      await wait(50);
      // A connection that is idle for long would be closed.
      await gateway.call('GET', '/svc/_apps');
    }
  };
  let version = 0;
  const publish = async (): Promise<void> => {
    version++;
    const app = appOf('notes', { queries: { word: `() => ${version}` } });
    const answer = await gateway.upload('notes', app);
    assert.ok(answer.status === 200 || answer.status === 201, answer.text);
  };

  await publish();
  await addLoose(LIMITS.gitLooseObjects);
  assert.deepEqual(packs(), [], 'nothing is packed before it is looked');
  for (let n = 0; n < LIMITS.gitPackEvery; n++) await publish();
  await packed();
  assert.equal(packs().length, 1);
  git('fsck', '--strict', '--full', '--no-dangling');

  // A kill in the middle: the next start continues.
  await addLoose(LIMITS.gitPackObjects + LIMITS.gitLooseObjects);
  await gateway.kill();
  await gateway.start();
  await gateway.kill();
  await gateway.start();
  await packed();
  git('fsck', '--strict', '--full', '--no-dangling');
  assert.deepEqual(
    readdirSync(join(repository, 'objects/pack')).filter((name) => !/^pack-[0-9a-f]{40}\.(?:pack|idx)$/.test(name)),
    [],
  );

  // Old versions come out of packs, beside a garbage collection too.
  const back = await gateway.call('POST', '/svc/_apps/notes/activate', { body: { versionId: 'notes/v2' } });
  assert.equal(back.status, 200, back.text);
  assert.equal((await gateway.read('notes', 'word')).json.data, 2);
  git('gc', '-q', '--prune=now');
  await publish();
  assert.equal((await gateway.read('notes', 'word')).json.data, version);
  const versions = await gateway.call('GET', '/svc/_apps/notes/versions?limit=500');
  assert.equal(versions.json.length, version);
});
