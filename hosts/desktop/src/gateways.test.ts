import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { addressOf, EntryError, Gateways, isOpenToNetwork } from './gateways.ts';

const folder = mkdtempSync(join(tmpdir(), 'svc-gateways-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const profileAt = (id: string) => JSON.parse(readFileSync(join(folder, 'gateways', id, 'profile.json'), 'utf8'));

test('each gateway has a folder with its profile; ours is the first', async () => {
  const gateways = new Gateways(folder);
  const { createdAt } = await gateways.local();
  assert.deepEqual(profileAt('local'), { id: 'local', kind: 'desktop', label: 'This computer', createdAt });
  await gateways.noteAddress('http://127.0.0.1:9999');
  assert.equal((await gateways.local()).url, 'http://127.0.0.1:9999');
  assert.equal((await gateways.local()).createdAt, createdAt);

  const added = [];
  for (const label of ['Office', 'Büro!', 'Office', 'local', '会社'])
    added.push(await gateways.add('https://gateway.example.org', label));
  assert.deepEqual(
    added.map(({ id }) => id),
    ['office', 'bu-ro', 'office-2', 'local-2', 'gateway'],
  );
  assert.deepEqual(profileAt('office'), added[0]);
  assert.deepEqual(
    (await gateways.list()).map(({ id }) => id),
    ['local', 'bu-ro', 'local-2', 'office', 'office-2', 'gateway'],
  );
  assert.equal(gateways.layout('office').token, join(folder, 'gateways/office/token.bin'));

  await gateways.remove('office');
  await gateways.remove('local');
  await gateways.remove('../gateways/office-2');
  assert.equal(existsSync(join(folder, 'gateways/office')), false);
  for (const id of ['local', 'office-2']) assert.equal(existsSync(join(folder, 'gateways', id, 'profile.json')), true);
});

test('what is damaged, or was put there by hand, is left out and left alone', async () => {
  const texts = { half: '{"id":', other: '{}', 'no-url': '{"label": "x", "createdAt": "x"}' };
  for (const [id, text] of Object.entries(texts)) {
    mkdirSync(join(folder, 'gateways', id));
    writeFileSync(join(folder, 'gateways', id, 'profile.json'), text);
  }
  mkdirSync(join(folder, 'gateways/Not an id'));
  const ids = (await new Gateways(folder).list()).map(({ id }) => id);
  for (const id of Object.keys(texts)) assert.ok(!ids.includes(id));
  assert.equal(readFileSync(join(folder, 'gateways/half/profile.json'), 'utf8'), '{"id":');
});

test('an address is that of a web server; its path is of no use', () => {
  assert.equal(addressOf('https://gateway.example.org/svc/'), 'https://gateway.example.org');
  for (const text of ['', 'gateway', 'ftp://x', 'file:///etc', 'javascript:1', 'https://a:b@c'])
    assert.throws(() => addressOf(text), EntryError, text);
});

test('plain HTTP to another machine can be read by others', () => {
  for (const url of ['http://gateway.lan:8787', 'http://10.0.0.1']) assert.equal(isOpenToNetwork(url), true, url);
  for (const url of ['https://gateway.lan', 'http://127.0.0.1:1', 'http://[::1]:1', 'http://svc.localhost'])
    assert.equal(isOpenToNetwork(url), false, url);
});
