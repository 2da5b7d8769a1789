import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Routes, startGateway, TOKEN } from '../../testing/command-line.ts';
import { Client } from './client.ts';
import { findPages } from './pages.ts';

const NOTES = { app: 'notes' };
const DRAFT = { app: 'notes', session: 's1' };

const session = (place: string, base: string | null): Routes => ({
  'GET /svc/_session': { json: { signedIn: false, place, console: base } },
});

for (const [name, routes, notes, draft] of [
  [
    'isolated on this machine',
    session('loopback', 'http://svc.localhost:8787/svc/'),
    'http://notes.svc.localhost:8787/',
    'http://s1--notes.draft.svc.localhost:8787/',
  ],
  [
    'isolated behind a proxy',
    session('console', 'https://apps.example.com/svc/'),
    'https://notes.apps.example.com/',
    'https://s1--notes.draft.apps.example.com/',
  ],
  // Of the machine that it runs on, which need not be this one.
  ['shared', session('shared', 'http://svc.localhost:8787/svc/'), '<url>/svc/notes/', '<url>/svc/_draft/s1/notes/'],
  ['all shared', session('shared', null), '<url>/svc/notes/', '<url>/svc/_draft/s1/notes/'],
  ['a host of its own', {}, '<url>/svc/notes/', '<url>/svc/_draft/s1/notes/'],
] as [string, Routes, string, string][]) {
  test(`where pages are: ${name}`, async (t) => {
    const { url } = await startGateway(t, routes);
    const addressOf = await findPages(new Client({ url, urlFrom: 'the test', token: TOKEN, tokenFrom: 'the test' }));
    assert.equal(addressOf(NOTES), notes.replace('<url>', url));
    assert.equal(addressOf(DRAFT), draft.replace('<url>', url));
  });
}
