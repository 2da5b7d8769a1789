// Runs against a gateway that has this app, or against a draft of it. It calls the app as every other program does:
//   SVC_URL=http://127.0.0.1:8787 SVC_TOKEN="$(svc token)" node --test tests/
// With SVC_DRAFT=<session> it is the draft that is called, whose data is a copy: try things there.
import assert from 'node:assert/strict';
import { test } from 'node:test';

const { SVC_URL: url, SVC_TOKEN: token, SVC_DRAFT: draft } = process.env;
const skip = url ? false : 'set SVC_URL and SVC_TOKEN to the gateway that has this app';
const base = draft ? `${url}/svc/_draft/${draft}/_tool` : `${url}/svc/_tool`;

async function call(tool, request) {
  const response = await fetch(`${base}/${tool}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ app: '__ID__', ...request }),
  });
  return await response.json();
}

test('a note that is added is listed first, until it is removed', { skip }, async () => {
  const text = `Written by a test, ${new Date().toISOString()}`;
  const added = await call('svc_write', { action: 'add', input: { text } });
  assert.equal(added.data?.status, 201, JSON.stringify(added));
  const { id } = added.data.body;

  const [newest] = (await call('svc_read', { query: 'list', input: { limit: 1 } })).data;
  assert.deepEqual([newest.id, newest.text], [id, text]);

  await call('svc_write', { action: 'remove', input: { id } });
  const notes = (await call('svc_read', { query: 'list' })).data;
  assert.ok(!notes.some((note) => note.id === id), 'it is still listed');
});

test('a note without text is refused', { skip }, async () => {
  const { error } = await call('svc_write', { action: 'add', input: { text: '' } });
  assert.equal(error?.code, 'INVALID_INPUT');
});
