import assert from 'node:assert/strict';
import { test } from 'node:test';
import { harness } from 'svc/test';

test('a photo needs a file that was uploaded', async (t) => {
  const app = await harness(t);
  const photo = { file: '0'.repeat(64), name: 'lighthouse.jpg' };
  await assert.rejects(app.action('add', photo), { status: 422, code: 'UNKNOWN_FILE' });
  assert.deepEqual(await app.query('list'), { total: 0, photos: [] });
});

test('a caption of a photo that is not there', async (t) => {
  const app = await harness(t);
  await assert.rejects(app.action('update', { id: 1, caption: 'x' }), { status: 404, code: 'UNKNOWN_PHOTO' });
  await assert.rejects(app.action('remove', { id: 1 }), { status: 404, code: 'UNKNOWN_PHOTO' });
});
