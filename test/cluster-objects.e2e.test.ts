// Large files of a cluster in an S3-compatible store: another node has them when theirs is killed, and what is wrong with the store is told.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { Database } from '../storage/cluster/database.ts';
import { appOf } from '../testing/apps.ts';
import { idAt, nodeIn, nodesOf, patient, start, testFolder } from '../testing/cluster-gateways.ts';
import type { TestGateway } from '../testing/gateway.ts';
import { TestObjectStore } from '../testing/object-store.ts';
import { database, whyNoPostgres } from '../testing/postgres.ts';

test('a large file outlives its node, and a store that is away or another one is told', {
  skip: whyNoPostgres() ?? false,
}, async (t) => {
  const url = await database();
  const store = await TestObjectStore.start(t);
  const [one, two] = nodesOf(t, url, ['one', 'two'], 'tarball', store) as [TestGateway, TestGateway];
  await start(one, two);
  const id = await idAt(url, 'one', 'files');
  const path = `/svc/${id}/_blobs`;
  await patient(one).install(id, appOf(id));
  const bytes = randomBytes(3 * 2 ** 20);
  const put = await patient(one).call('PUT', path, { body: bytes });
  assert.equal(put.status, 201, put.text);
  const { sha256 } = put.json;
  const ofFile = store.keys.filter((key) => key.startsWith(`${sha256}/`));
  assert.equal(ofFile.length, 1, 'it is an object before the answer');

  await store.stop();
  const refused = await one.call('PUT', path, { body: randomBytes(2 * 2 ** 20) });
  assert.equal(refused.status, 503, refused.text);
  assert.match(refused.text, /STORAGE_UNAVAILABLE.*\\"blobs\.s3\.endpoint\\" \(http:.*does not answer/);
  const other = await idAt(url, 'one', 'small');
  await patient(one).install(other, appOf(other));
  assert.equal(
    (await patient(two).call('PUT', `/svc/${other}/_blobs`, { body: 'Small.' })).status,
    201,
    'it needs no store',
  );
  await store.start();
  assert.equal((await patient(one).call('PUT', path, { body: randomBytes(2 * 2 ** 20) })).status, 201);

  await one.kill();
  const heir = patient(two);
  const range = await heir.call('GET', `${path}/${sha256}`, { headers: { range: 'bytes=1000000-1000009' } });
  assert.deepEqual([range.status, range.bytes.equals(bytes.subarray(1_000_000, 1_000_010))], [206, true]);
  assert.ok((await heir.call('GET', `${path}/${sha256}`)).bytes.equals(bytes));
  assert.equal((await heir.call('DELETE', `${path}/${sha256}`)).status, 200);
  const db = new Database([url]);
  t.after(() => db.close());
  const named = await db.rows(`SELECT FROM svc.entries WHERE encode(hash, 'hex') = $1`, [sha256]);
  assert.equal(named.length, 0, 'a sweep takes it');

  const three = (objects: TestObjectStore | null) => nodeIn(testFolder(t), url, 'three', 'tarball', objects);
  await assert.rejects(start(three(null)), /Files of this cluster are in an S3-compatible store.*Set ..blobs\.s3/);
  await assert.rejects(
    start(three(await TestObjectStore.start(t))),
    /lacks the object cluster\/.*copy all objects there/,
  );
  await store.stop();
  await assert.rejects(start(three(store)), /The S3-compatible store of ..blobs\.s3\.endpoint.*does not answer/);
  await store.start();
});
