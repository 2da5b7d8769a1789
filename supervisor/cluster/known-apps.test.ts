import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ListedApp } from '../../storage/cluster/app-directory.ts';
import { signal } from '../../testing/cluster-nodes.ts';
import { KnownApps } from './known-apps.ts';

const app = (id: string): ListedApp => ({ id, registeredAt: 1, maker: null });

/** A directory whose answers the test gives, in order. */
function scripted(answers: (ListedApp[] | Promise<ListedApp[]> | Error)[]) {
  const asked: (string | null)[] = [];
  const since = async (horizon: string | null) => {
    asked.push(horizon);
    const answer = answers.shift() ?? [];
    if (answer instanceof Error) throw answer;
    return { apps: await answer, horizon: String(asked.length) };
  };
  return { asked, directory: { since } };
}

test('it reads on from what it has, and leaves those of its own buckets out', async () => {
  const { asked, directory } = scripted([[app('notes'), app('own')], [app('todos')]]);
  const learned: string[] = [];
  const learn = async (apps: ListedApp[]) => void learned.push(...apps.map(({ id }) => id));
  const known = new KnownApps({ directory, isOwn: (id) => id === 'own', learn });
  await known.catchUp();
  await known.catchUp();
  known.forget();
  await known.catchUp();
  assert.deepEqual(
    [learned, asked],
    [
      ['notes', 'todos'],
      [null, '1', null],
    ],
  );
});

test('who asks while it reads waits for a reading that began after that, and all of them for one', async () => {
  const first = signal<ListedApp[]>();
  const { asked, directory } = scripted([first.fired('the first answer'), [app('todos')]]);
  const learned: string[] = [];
  const learn = async (apps: ListedApp[]) => void learned.push(...apps.map(({ id }) => id));
  const known = new KnownApps({ directory, isOwn: () => false, learn });
  const all = [known.catchUp(), known.catchUp(), known.catchUp()];
  first.fire([]);
  await all[0];
  assert.deepEqual(learned, []);
  await all[1];
  assert.deepEqual([learned, asked.length], [['todos'], 2]);
  await all[2];
  assert.equal(asked.length, 2);
});

test('what could not be read or kept is read again', async () => {
  const { asked, directory } = scripted([new Error('away'), [app('notes')], [app('notes')]]);
  let isFull = true;
  const learn = async () => {
    if (isFull) throw new Error('full');
  };
  const known = new KnownApps({ directory, isOwn: () => false, learn });
  await assert.rejects(known.catchUp(), /away/);
  await assert.rejects(known.catchUp(), /full/);
  isFull = false;
  await known.catchUp();
  assert.deepEqual(asked, [null, null, null]);
});
