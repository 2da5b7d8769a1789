/** An address is fetched only from where `egress` lets the gateway connect to, redirects included. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { WebClient } from './web-client.ts';

const server = createServer((request, response) => {
  const to = decodeURIComponent(request.url?.replace(/^\/to\?/, '') ?? '');
  if (request.url?.startsWith('/to?')) response.writeHead(302, { location: to }).end();
  else if (request.url === '/never') return;
  else response.writeHead(request.url === '/file' ? 200 : 404).end('the file');
});
let base: string;
before(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
});

const client = (more: { deny?: string[]; port?: number } = {}) =>
  new WebClient({ egress: { allow: [], deny: more.deny ?? [] }, port: () => more.port ?? null });

async function text(address: string, from = client()): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of await from.open(address, new AbortController().signal)) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

const leadTo = (address: string) => `${base}/to?${encodeURIComponent(address)}`;

test('a file is fetched, also where a redirect leads to it', async () => {
  assert.equal(await text(`${base}/file`), 'the file');
  assert.equal(await text(leadTo('/file')), 'the file');
  assert.equal(await text(`${base.replace('127.0.0.1', 'localhost')}/file`), 'the file');
});

test('where redirects are not to be followed, what leads on is refused', async () => {
  const { signal } = new AbortController();
  await assert.rejects(client().open(leadTo('/file'), signal, { follows: false }), { code: 'FETCH_FAILED' });
});

test('what the configuration refuses is not asked, by name, by address and behind a redirect', async () => {
  const refused = { code: 'BAD_REQUEST', path: 'url' };
  const { port } = server.address() as AddressInfo;
  for (const address of [
    'http://169.254.169.254/latest',
    leadTo('http://169.254.169.254/'),
    leadTo('file:///etc/passwd'),
  ])
    await assert.rejects(text(address), refused, address);
  await assert.rejects(text(`${base}/file`, client({ port })), refused, 'the gateway itself');
  await assert.rejects(text(`http://localhost:${port}/file`, client({ port })), refused, 'by its name');
  await assert.rejects(text(`${base}/file`, client({ deny: ['127.0.0.0/8'] })), refused);
  await assert.rejects(text(`http://localhost:${port}/file`, client({ deny: ['localhost'] })), refused);
  for (const address of ['nonsense', 'ftp://example.com/a', 'http://name:word@127.0.0.1/'])
    await assert.rejects(text(address), refused, address);
});

test('what is not there, leads in a circle or never answers is said', async () => {
  const failed = { code: 'FETCH_FAILED', path: 'url' };
  await assert.rejects(text(`${base}/nothing`), failed);
  // An address that is its own redirect, with the rest of the way in it.
  let circle = `${base}/file`;
  for (let hop = 0; hop < 6; hop++) circle = leadTo(circle);
  await assert.rejects(text(circle), failed);
  const given = new AbortController();
  const asked = client().open(`${base}/never`, given.signal);
  given.abort();
  await assert.rejects(asked, failed);
});
