import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { WebClient } from '../../web-client.ts';
import { ClientDocuments, isDocumentAddress } from './client-documents.ts';

const ID = 'https://client.example/metadata.json';
const OPEN = { allow: [], deny: [] };

/** The web, in which each address answers a text. */
function setUp(answers: Record<string, string>) {
  const asked: string[] = [];
  const clock = { now: 1000 };
  const open: WebClient['open'] = async (address) => {
    asked.push(address);
    const answer = answers[address];
    if (answer === undefined) throw new SvcError('FETCH_FAILED', 'not there');
    return Readable.from([Buffer.from(answer)]) as never;
  };
  return {
    asked,
    clock,
    documents: new ClientDocuments(
      OPEN,
      () => null,
      { open },
      () => clock.now,
    ),
  };
}

test('a program is what the document at its address says, which is read again after a while', async () => {
  const document = { client_id: ID, client_name: 'Editor', redirect_uris: ['http://127.0.0.1/cb'] };
  const { documents, asked, clock } = setUp({ [ID]: JSON.stringify(document) });
  const { id, name, redirects } = await documents.find(ID);
  assert.deepEqual([id, name, redirects], [ID, 'Editor', ['http://127.0.0.1/cb']]);
  await documents.find(ID);
  assert.equal(asked.length, 1);
  clock.now += LIMITS.clientDocumentMs;
  await documents.find(ID);
  assert.equal(asked.length, 2);
});

test('a document about another program, that is none, or is too large is refused, and asked for anew', async () => {
  const good = { client_id: ID, redirect_uris: ['https://client.example/cb'] };
  for (const [what, document] of Object.entries({
    other: JSON.stringify({ ...good, client_id: 'https://other.example/metadata.json' }),
    script: JSON.stringify({ ...good, redirect_uris: ['javascript:alert(1)'] }),
    text: 'nothing',
    large: JSON.stringify({ ...good, more: 'x'.repeat(LIMITS.oauthBodyBytes) }),
  })) {
    const { documents, asked } = setUp({ [ID]: document });
    for (let n = 0; n < 2; n++)
      await assert.rejects(documents.find(ID), { code: 'BAD_REQUEST', path: 'client_id' }, what);
    assert.equal(asked.length, 2, what);
  }
});

test('addresses of private networks and of this machine are not read, and none where the gateway may connect to nothing', async () => {
  const documents = new ClientDocuments(OPEN, () => null);
  for (const host of [
    '127.0.0.1',
    'localhost',
    '10.0.0.1',
    '192.168.1.1',
    '172.16.9.9',
    '169.254.169.254',
    '[::1]',
    '[fd00::1]',
    '[::ffff:10.0.0.1]',
  ])
    await assert.rejects(documents.find(new URL(`https://${host}/client.json`).href), { code: 'BAD_REQUEST' }, host);
  const closed = new ClientDocuments({ allow: [], deny: ['*'] }, () => null);
  assert.equal(closed.areRead, false);
  await assert.rejects(closed.find(ID), { code: 'BAD_REQUEST' });
  for (const id of [
    'http://client.example/a',
    'https://client.example/',
    'https://client.example/a#b',
    'https://client.example/a/../b',
    'https://u@client.example/a',
    'client_1',
  ])
    assert.equal(isDocumentAddress(id), false, id);
});
