// An update of a draft starts over where that helps, and ends.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { failure, type Routes, startGateway, TOKEN, temporaryFolder } from '../../testing/command-line.ts';
import { Client } from '../gateway/client.ts';
import { type DraftEvent, DraftFollower } from './draft-follower.ts';

/** More often than any update may. */
const TOO_OFTEN = 1000;

async function follower(t: TestContext, routes: Routes, onSync: () => void) {
  const folder = join(temporaryFolder(t), 'notes');
  mkdirSync(folder);
  writeFileSync(join(folder, 'app.json'), '{"id": "notes", "name": "Notes", "version": "1"}');
  const { url } = await startGateway(t, routes);
  const told: DraftEvent[] = [];
  let [syncs, clients] = [0, 0];
  const draft = new DraftFollower({
    connect: () => new Client({ url, urlFrom: 'the test', token: `${clients++}${TOKEN}`, tokenFrom: 'the test' }),
    workspace: 's1',
    app: 'notes',
    folder,
    tell: (event) => void told.push(event),
    startSync: () => {
      if (++syncs > TOO_OFTEN) throw new Error('It starts over for ever.');
      onSync();
      return { update: () => {}, end: () => {} };
    },
  });
  return { draft, told, syncs: () => syncs };
}

function vanish(): never {
  throw Object.assign(new Error('a.js vanished'), { code: 'ENOENT' });
}

test('an update starts over when files vanish while they are read, but not for ever', async (t) => {
  const { draft, told, syncs } = await follower(t, {}, vanish);
  assert.equal(await draft.update(), false);
  assert.ok(syncs() > 1 && syncs() < TOO_OFTEN, `${syncs()} times`);
  assert.deepEqual([told.length, told[0]?.event, draft.settled], [1, 'broken', false], 'the next update tries again');
  assert.match(JSON.stringify(told), /a\.js vanished/);
});

test('an update ends when each new token is refused too', async (t) => {
  const routes = { 'GET /svc/_sessions/s1/apps/notes/files': failure(401, 'UNAUTHORIZED', 'Wrong.') };
  const { draft, told, syncs } = await follower(t, routes, () => {});
  await assert.rejects(draft.update(), { status: 401 });
  assert.ok(syncs() > 1 && syncs() < TOO_OFTEN, `${syncs()} times`);
  assert.deepEqual(told, []);
});
