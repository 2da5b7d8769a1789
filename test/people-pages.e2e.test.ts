/** The page that a person sees in a browser instead of a program's error: an explanation and links. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { appOf } from '../testing/apps.ts';
import { onEachEdge } from '../testing/edges.ts';
import type { Answer } from '../testing/gateway.ts';
import { consoleHost, enter, Origin, signIn } from '../testing/origins.ts';

/** Asserts a page with these words, without scripts, and with the policy of pages. */
function isPage(answer: Answer, status: number, ...said: (string | RegExp)[]): void {
  assert.equal(answer.status, status, answer.text);
  assert.equal(answer.headers['content-type'], 'text/html; charset=utf-8');
  assert.match(String(answer.headers['content-security-policy']), /default-src 'self'.*frame-ancestors/);
  assert.equal(answer.headers['cache-control'], 'no-store');
  assert.doesNotMatch(answer.text, /<script/);
  assert.match(answer.text, /<link rel="icon"/);
  for (const text of said) assert.match(answer.text, new RegExp(text));
}

onEachEdge({}, (gateway) => {
  test('an unknown app, a missing file, a wrong address: an explanation and links', async () => {
    await gateway.upload('notes', appOf('notes', { files: { 'index.html': '<!doctype html><title>Notes</title>' } }));
    const console = await signIn(gateway);
    const all = `href="http://${consoleHost(gateway)}/svc/"`;
    const notes = await enter(gateway, console, { app: 'notes' });
    isPage(await notes.visit('/missing.html'), 404, 'There is nothing at this address', 'href="/"', all, 'NOT_FOUND');
    isPage(await notes.visit('/missing'), 404, 'There is nothing', all);
    isPage(await console.visit('/nope'), 404, 'There is nothing', all);
    const none = await enter(gateway, console, { app: 'nope' });
    isPage(await none.visit('/'), 404, 'There is no such app', 'No app .*nope', all, 'UNKNOWN_APP');
    isPage(await console.visit('/svc/_enter?to=%'), 400, 'This did not work', 'Correct what the message names', all);
    isPage(await console.visit('/svc/_apps'), 401, 'This address is for programs and pages', all, 'All apps');
    isPage(await console.visit('/svc/_tool/svc_read'), 405, 'one of the methods in the header <code>Allow</code>');
  });

  test('every origin has an icon: that of the app, else a tile, or that of the gateway', async () => {
    const page = { 'index.html': '<!doctype html><title>Page</title>' };
    await gateway.upload('plain', appOf('plain', { files: page }));
    await gateway.upload('drawn', appOf('drawn', { files: { ...page, 'icon.svg': '<svg>own</svg>' } }));
    await gateway.upload(
      'classic',
      appOf('classic', { files: { ...page, 'favicon.ico': 'ico', 'icon.svg': '<svg/>' } }),
    );
    const console = await signIn(gateway);
    const iconOf = async (app: string) => (await enter(gateway, console, { app })).call('GET', '/favicon.ico');
    const tile = await iconOf('plain');
    assert.deepEqual([tile.status, tile.headers['content-type']], [200, 'image/svg+xml']);
    assert.match(tile.text, /<title>P<\/title>/);
    assert.equal((await iconOf('drawn')).text, '<svg>own</svg>');
    const own = await iconOf('classic');
    assert.deepEqual([own.text, own.headers['content-type']], ['ico', 'image/x-icon']);
    const signedOut = new Origin(gateway, consoleHost(gateway), '');
    for (const origin of [console, signedOut]) {
      const icon = await origin.call('GET', '/favicon.ico');
      assert.deepEqual([icon.status, icon.headers['content-type']], [200, 'image/svg+xml']);
      assert.match(icon.text, /#e5683c/);
      const again = await origin.call('GET', '/favicon.ico', {
        headers: { 'if-none-match': String(icon.headers.etag) },
      });
      assert.equal(again.status, 304);
    }
    assert.equal((await gateway.call('HEAD', '/favicon.ico', { token: null })).status, 200);
    assert.equal((await gateway.call('POST', '/favicon.ico', { body: {} })).status, 405);
    assert.match((await gateway.call('GET', '/svc/plain/favicon.ico')).text, /<title>P<\/title>/);
  });

  test('programs, scripts and images get the error as JSON, as before', async () => {
    const console = await signIn(gateway);
    const notes = await enter(gateway, console, { app: 'notes' });
    for (const headers of [{}, { 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'image', accept: 'text/html' }])
      assert.equal((await notes.call('GET', '/missing.png', { headers })).json.error.code, 'NOT_FOUND');
    assert.equal((await gateway.call('GET', '/svc/nope/')).json.error.code, 'UNKNOWN_APP');
  });

  test('a signed-out browser is shown where to sign in; a foreign name appears as text', async () => {
    const stranger = new Origin(gateway, consoleHost(gateway), '');
    isPage(await stranger.visit('/svc/_apps'), 401, 'You are signed out', '>Sign in</a>', 'svc open');
    const foreign = new Origin(gateway, 'evil.example', '');
    isPage(await foreign.visit('/'), 421, 'does not lead here', '&#34;evil\\.example&#34;', 'allowedHosts');
  });
});
