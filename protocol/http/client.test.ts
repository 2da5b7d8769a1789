import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../limits.ts';
import { addressOf, GatewayClient, requestOf, type Sending } from './client.ts';
import { errorIn, GatewayError, refusal } from './gateway-error.ts';
import { PAGE_ROWS } from './list-pages.ts';

type Told = { status?: number; text?: string; type?: string };

/** A client whose requests are answered in turn, and what it has sent. */
function clientOf(answers: Told[], checkSize?: (bytes: number) => void) {
  const sent: Sending[] = [];
  const send = async (request: Sending) => {
    sent.push(request);
    const { status = 200, text = '{}', type = 'application/json' } = answers.shift() ?? {};
    const headers = { get: (name: string) => (name === 'content-type' ? type : null) };
    return {
      status,
      headers,
      text: async () => text,
      chunks: async function* () {
        yield Buffer.from(text);
      },
    };
  };
  const client = new GatewayClient({ url: 'http://here', send, ...(checkSize && { checkSize }) });
  return { client, sent };
}

test('the request of a route has its values encoded, its query, and its body as JSON', () => {
  const name = 'A/B ?';
  assert.deepEqual(
    requestOf('PUT /svc/_apps/:id/secrets/:name', { params: { id: 'notes', name }, body: { value: 'x' } }),
    {
      method: 'PUT',
      path: '/svc/_apps/notes/secrets/A%2FB%20%3F',
      json: { value: 'x' },
    },
  );
  assert.equal(
    addressOf('GET /svc/_tokens', { query: { limit: 2, before: 'a&b' } }),
    '/svc/_tokens?limit=2&before=a%26b',
  );
});

test('a call with the id of a workspace is one of the draft', () => {
  const params = { id: 'notes', sid: 's1' };
  assert.equal(addressOf('GET /svc/_apps/:id/secrets', { params }), '/svc/_draft/s1/_apps/notes/secrets');
  assert.equal(
    addressOf('GET /svc/_apps/:id/secrets', { params: { id: 'notes', sid: undefined } }),
    '/svc/_apps/notes/secrets',
  );
});

test('a whole list is asked for page by page', async () => {
  const rows = (from: number, count: number) => Array.from({ length: count }, (_, n) => ({ id: `t${from + n}` }));
  const pages = [rows(0, PAGE_ROWS), rows(PAGE_ROWS, 2)];
  const { client, sent } = clientOf(pages.map((page) => ({ text: JSON.stringify(page) })));
  const all = await client.all('GET /svc/_tokens', {}, ({ id }) => ({ before: id }));
  assert.equal(all.length, PAGE_ROWS + 2);
  assert.deepEqual(
    sent.map(({ path }) => path),
    [`/svc/_tokens?limit=${PAGE_ROWS}`, `/svc/_tokens?limit=${PAGE_ROWS}&before=t${PAGE_ROWS - 1}`],
  );
});

test('an answer that is an error is thrown with all that it says', async () => {
  const error = {
    code: 'INVALID_INPUT',
    message: 'Wrong.',
    path: 'name',
    issues: [{ path: '', message: '', keyword: '' }],
  };
  const { client } = clientOf([{ status: 400, text: JSON.stringify({ isError: true, error }) }]);
  await assert.rejects(client.call('GET /svc/_tokens'), (thrown) => {
    assert.ok(thrown instanceof GatewayError);
    assert.deepEqual([thrown.status, thrown.path, thrown.issues.length, thrown.files], [400, 'name', 1, []]);
    assert.deepEqual(thrown.toBody(), error);
    return true;
  });
});

test('the path of a file never leaves its route', () => {
  const fileOf = (file: string) =>
    addressOf('GET /svc/_sessions/:sid/apps/:id/files/*', { params: { sid: 's1', id: 'notes', '*': file } });
  assert.equal(fileOf('docs/a b.md'), '/svc/_sessions/s1/apps/notes/files/docs/a%20b.md');
  assert.equal(fileOf('../../x'), '/svc/_sessions/s1/apps/notes/files/..%2F..%2Fx');
});

test('an answer without content is one, and a page of another program is none', async () => {
  const { client } = clientOf([{ status: 204, text: '' }, { text: '<html>' }, { text: '<html>', type: 'text/html' }]);
  assert.equal(await client.call('DELETE /svc/_session'), undefined);
  await assert.rejects(client.call('GET /svc/_tokens'), /http:\/\/here is not a gateway: its answer is not JSON/);
  await assert.rejects(client.follow('/x').next(), /its answer is not an event stream/);
});

test('an event that is larger than any answer is an error', async () => {
  const checkSize = (bytes: number) => assert.ok(bytes <= LIMITS.frameBytes, 'too large');
  const text = `data: ${'x'.repeat(LIMITS.frameBytes)}`;
  const { client } = clientOf([{ text, type: 'text/event-stream' }], checkSize);
  await assert.rejects(client.events({ method: 'POST', path: '/x' }).next(), /too large/);
});

test('only who is patient waits for the first connection, until the signal ends it', async () => {
  const impatient = clientOf([{ status: 503 }]);
  await assert.rejects(impatient.client.follow('/x').next(), { status: 503 });
  const leaving = new AbortController();
  const onLost = () => leaving.abort(new Error('left while it waited'));
  const patient = clientOf([{ status: 503 }]);
  const events = patient.client.follow('/x', { isPatient: true, signal: leaving.signal, onLost });
  await assert.rejects(events.next(), /left while it waited/);
});

test('an error is one of the gateway only if it has a code and a message', () => {
  const error = { code: 'NOT_FOUND', message: 'Nothing is here.' };
  assert.equal(errorIn({ error }), error);
  for (const answer of [
    undefined,
    null,
    'x',
    {},
    { error: 'x' },
    { error: { code: 'A' } },
    { error: { message: 'A' } },
  ]) {
    assert.equal(errorIn(answer), undefined);
    assert.match(refusal(502, answer).message, /status 502 and is not a gateway/);
  }
});
