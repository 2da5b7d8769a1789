/** Buckets are the same on every node of every release, and spread the apps. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BUCKETS, bucketOf, bucketOfPart, runtimeOfBucket } from './buckets.ts';
import { draftKey, isOwnDatabase, workspacePart } from './ids.ts';

test('a bucket is the first twelve bits of the SHA-256 of the id', () => {
  // printf todos | sha256sum: c8f7…
  assert.equal(bucketOf('todos'), 0xc8f);
  assert.equal(bucketOf('_identity'), bucketOf('_identity'));
});

test('a draft is in the bucket of its app', () => {
  assert.equal(bucketOf(draftKey('s1', 'todos')), bucketOf('todos'));
});

test('the database with the gateway’s rows of a bucket is in that bucket, and no app’s', () => {
  for (const bucket of [0, 0xc8f, BUCKETS - 1]) {
    assert.equal(bucketOf(runtimeOfBucket(bucket)), bucket);
    assert.ok(isOwnDatabase(runtimeOfBucket(bucket)));
  }
});

test('what a workspace has of an app is in the bucket of the app, as the database of that draft', () => {
  assert.equal(bucketOfPart(workspacePart('redesign', 'todos')), bucketOf('todos'));
  assert.equal(bucketOf(draftKey('redesign', 'todos')), bucketOf('todos'));
});

test('many apps are spread over all buckets', () => {
  const counts = new Array<number>(BUCKETS).fill(0);
  for (let n = 0; n < 100_000; n++) (counts[bucketOf(`app-${n}`)] as number)++;
  assert.ok(Math.min(...counts) > 0);
  assert.ok(Math.max(...counts) < 60, `one has ${Math.max(...counts)}`);
});
