import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { freePort } from '../../testing/free-port.ts';
import { TestObjectStore } from '../../testing/object-store.ts';
import { type ObjectBody, S3, type S3Settings } from './s3.ts';

function bodyOf(bytes: Buffer, size = bytes.length): ObjectBody {
  return {
    size,
    hash: createHash('sha256').update(bytes).digest('hex'),
    async *read() {
      for (let at = 0; at < bytes.length; at += 100_000) yield bytes.subarray(at, at + 100_000);
    },
  };
}

async function bytesOf(object: AsyncIterable<Buffer> | null): Promise<Buffer | null> {
  if (object === null) return null;
  const pieces: Buffer[] = [];
  for await (const piece of object) pieces.push(piece);
  return Buffer.concat(pieces);
}

test('an object is given back as it was put, until it is deleted', async (t) => {
  const store = await TestObjectStore.start(t);
  const s3 = new S3(store.settings);
  assert.equal(await s3.get('a/b'), null);
  const bytes = randomBytes(3_000_001);
  await s3.put('a/b', bodyOf(bytes));
  assert.deepEqual(store.keys, ['a/b'], 'below the prefix');
  assert.ok((await bytesOf(await s3.get('a/b')))?.equals(bytes));
  await s3.put('empty', bodyOf(Buffer.alloc(0)));
  assert.equal((await bytesOf(await s3.get('empty')))?.length, 0);
  await s3.delete('a/b');
  await s3.delete('a/b');
  assert.equal(await s3.get('a/b'), null);
});

test('what is wrong is told with the setting and its value', async (t) => {
  const store = await TestObjectStore.start(t);
  const away = `http://127.0.0.1:${await freePort()}`;
  const wrong: [settings: Partial<S3Settings>, message: RegExp][] = [
    [{ endpoint: away }, /"blobs\.s3\.endpoint" \(http:\/\/127\.0\.0\.1:\d+\) does not answer: .*ECONNREFUSED/],
    [{ bucket: 'other' }, /has no bucket "other": correct "blobs\.s3\.bucket"/],
    [{ accessKey: 'nobody' }, /does not know the access key of the variable AWS_ACCESS_KEY_ID/],
    [{ region: 'eu-test-2' }, /in another region than "eu-test-2": set "blobs\.s3\.region"/],
    [{ secretKey: 'wrong' }, /the secret key of the variable AWS_SECRET_ACCESS_KEY does not belong to the access key/],
  ];
  for (const [settings, message] of wrong) {
    const s3 = new S3({ ...store.settings, ...settings });
    for (const asked of [() => s3.put('a', bodyOf(Buffer.from('a'))), () => s3.get('a'), () => s3.delete('a')])
      await assert.rejects(asked, { name: 'SvcError', code: 'STORAGE_UNAVAILABLE', message });
  }
});

test('a clock that is apart is told', async (t) => {
  const store = await TestObjectStore.start(t);
  store.clockMs = 3_600_000;
  await assert.rejects(new S3(store.settings).get('a'), /its clock and that of this machine are 3(?:599|60\d) s apart/);
});

/** A server that answers as it is told, request by request, and what it was asked. */
async function scripted(
  t: TestContext,
  ...answers: [status: number, body: string, headers?: Record<string, string>][]
) {
  const asked: string[] = [];
  const server = createServer(async (request, response) => {
    let bytes = 0;
    for await (const piece of request) bytes += piece.length;
    asked.push(`${request.method} ${request.url} ${bytes}`);
    const [status, body, headers] = answers.shift() ?? [500, ''];
    response.writeHead(status, headers).write(body, () => {
      if (headers?.['content-length'] === undefined) response.end();
      else response.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}/s3/`;
  const keys = { accessKeyEnv: 'A', secretKeyEnv: 'B', accessKey: 'a', secretKey: 'b' };
  return { asked, s3: new S3({ endpoint, bucket: 'files', region: 'eu-test-1', prefix: '', ...keys }) };
}

test('a busy store is asked again, with the whole body, and not for ever', async (t) => {
  const busy: [number, string] = [503, '<Error><Code>SlowDown</Code></Error>'];
  const { asked, s3 } = await scripted(t, busy, busy, [200, ''], busy, busy, busy);
  await s3.put('a', bodyOf(randomBytes(250_000)));
  assert.deepEqual(asked, Array(3).fill('PUT /s3/files/a 250000'));
  await assert.rejects(s3.get('a'), /does not answer: status 503 SlowDown\.$/);
});

test('another region and a right that is missing are told', async (t) => {
  const { s3 } = await scripted(
    t,
    [301, '<Error><Code>PermanentRedirect</Code></Error>', { 'x-amz-bucket-region': 'eu-test-2' }],
    [403, '<Error><Code>AccessDenied</Code></Error>'],
    [400, 'no XML'],
  );
  await assert.rejects(s3.get('a'), /another region than "eu-test-1": set "blobs\.s3\.region" to "eu-test-2"/);
  await assert.rejects(s3.delete('a'), /refuses DELETE in the bucket "files" \(AccessDenied\): let the access key of/);
  await assert.rejects(s3.get('a'), /answers GET in the bucket "files" with status 400\.$/);
});

test('a body that is not what its hash says is refused', async (t) => {
  const store = await TestObjectStore.start(t);
  const body = { ...bodyOf(Buffer.from('one')), hash: bodyOf(Buffer.from('two')).hash };
  await assert.rejects(new S3(store.settings).put('a', body), /status 400 XAmzContentSHA256Mismatch/);
  assert.deepEqual(store.keys, []);
});

test('a body that fails while it is sent leaves no object, and its error is told', async (t) => {
  const store = await TestObjectStore.start(t);
  const s3 = new S3(store.settings);
  const failing = {
    ...bodyOf(randomBytes(1000), 2_000_000),
    async *read() {
      yield randomBytes(1_000_000);
      throw new RangeError('the file has changed');
    },
  };
  await assert.rejects(s3.put('a', failing), { name: 'RangeError' });
  assert.deepEqual(store.keys, []);
});

test('an answer that is broken off is an error', async (t) => {
  const { s3 } = await scripted(t, [200, 'short', { 'content-length': '100' }]);
  const object = await s3.get('a');
  await assert.rejects(bytesOf(object), { code: 'STORAGE_UNAVAILABLE', message: /broke its answer off/ });
});
