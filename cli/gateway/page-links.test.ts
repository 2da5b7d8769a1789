import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Routes, startGateway, TOKEN, temporaryFolder } from '../../testing/command-line.ts';
import { CommandError } from '../failure.ts';
import { Client } from './client.ts';
import { findPages, forwardingPage, openBrowser } from './page-links.ts';
import { linkForPhone, networkAddresses } from './phone.ts';

const NOTES = { app: 'notes' };
const DRAFT = { app: 'notes', workspace: 's1' };

const clientOf = (url: string): Client => new Client({ url, urlFrom: 'the test', token: TOKEN, tokenFrom: 'the test' });

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
    const addressOf = await findPages(clientOf(url));
    assert.equal(addressOf(NOTES), notes.replace('<url>', url));
    assert.equal(addressOf(DRAFT), draft.replace('<url>', url));
  });
}

const LINK = 'http://svc.localhost:8787/svc/#link=abc&open=todos';

test('a browser is started with a private file that contains the link', {
  timeout: 60_000,
}, async (t) => {
  const folder = temporaryFolder(t);
  const [commands, temporary, heard] = ['bin', 'tmp', 'heard'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  for (const made of [commands, temporary]) mkdirSync(made);
  writeFileSync(
    join(commands, 'xdg-open'),
    `#!/bin/sh\nprintf %s "$*" > '${heard}.new' && mv '${heard}.new' '${heard}'\n`,
  );
  chmodSync(join(commands, 'xdg-open'), 0o755);
  const { PATH, TMPDIR } = process.env;
  t.after(() => Object.assign(process.env, { PATH, TMPDIR: TMPDIR ?? '/tmp' }));
  Object.assign(process.env, { PATH: `${commands}:${PATH}`, TMPDIR: temporary });
  openBrowser(LINK, clientOf('http://127.0.0.1:8787'), 'linux');
  while (!existsSync(heard)) await sleep(10);
  const file = readFileSync(heard, 'utf8');
  assert.equal(dirname(dirname(file)), temporary);
  assert.deepEqual([statSync(dirname(file)).mode & 0o777, statSync(file).mode & 0o777], [0o700, 0o600]);
  assert.equal(readFileSync(file, 'utf8'), forwardingPage(LINK));
  process.emit('exit', 0);
  assert.deepEqual(readdirSync(temporary), [], 'it goes with the process');
});

test('an address cannot break out of its place in the page', () => {
  const page = forwardingPage('http://x/#"</script><script>alert(1)</script>&amp;<b>');
  assert.equal(page.match(/<script>/g)?.length, 1);
  assert.ok(
    page.includes(
      'location.replace("http://x/#\\"\\u003c/script>\\u003cscript>alert(1)\\u003c/script>&amp;\\u003cb>")',
    ),
    page,
  );
  assert.ok(page.includes('href="http://x/#&quot;&lt;/script>&lt;script>alert(1)&lt;/script>&amp;amp;&lt;b>"'), page);
});

test('a phone gets a link at the domain of the gateway; else it is told what to set', async (t) => {
  const link = { url: 'https://apps.example.com/svc/#link=c0de', expiresAt: 0 };
  const routes = { ...session('loopback', 'https://apps.example.com'), 'POST /svc/_session/links': { json: link } };
  const behindProxy = await startGateway(t, routes);
  assert.deepEqual(await linkForPhone(clientOf(behindProxy.url), NOTES, 'svc serve'), link);
  const isolated = await startGateway(t, session('loopback', null));
  // A machine without a network has no address for it.
  const hint = networkAddresses().length > 0 ? /"pageOrigins".*"auto"/ : /svc serve --host 0\.0\.0\.0/;
  await assert.rejects(
    linkForPhone(clientOf(isolated.url), NOTES, 'svc serve'),
    (error) => error instanceof CommandError && hint.test(String(error.hint)),
  );
});
